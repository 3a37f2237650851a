"""What it costs to watch a run: the same run with metrics that Prometheus scrapes, and without."""
