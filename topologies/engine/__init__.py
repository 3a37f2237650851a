"""The micro-batch: plan, ingest, tick, fire, commit. The same code runs in one process and on Spark."""
