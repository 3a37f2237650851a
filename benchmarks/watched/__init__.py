"""Cost of watching a run: the same run with metrics that Prometheus scrapes, and without."""
