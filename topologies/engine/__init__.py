"""The micro-batch, from ingest to publish: the same code runs in one process and on Spark."""
