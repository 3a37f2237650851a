"""What is saved of a run and restored after a crash: plans, manifests with the state of tasks, and segments of rows."""
