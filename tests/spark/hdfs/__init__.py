"""On a real HDFS: checkpoints, input and sinks, in one process and on Spark."""
