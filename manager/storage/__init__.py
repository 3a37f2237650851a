"""Stored files that restore a run after a crash: plans, manifests with the state of tasks, and segments of rows."""
