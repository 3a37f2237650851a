"""Windows that assigners or policies form from the retained events of a task: per key, sessions, snapshots."""
