"""What sinks get once a batch is committed: rows are handed to them, and files their names."""
