"""Windows that are no runs of a queue: per key, sessions, snapshots, triggers; from live events."""
