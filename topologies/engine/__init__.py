"""The micro-batch: ingest, tick, fire, compact, sinks, commit. The same code runs in one process and on Spark."""
