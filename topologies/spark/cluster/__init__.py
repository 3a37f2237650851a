"""What is found out about a cluster before the first batch: whether every executor can run the topology."""
