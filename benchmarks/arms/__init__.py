"""The arms of the benchmark: one way each to answer the workloads."""
