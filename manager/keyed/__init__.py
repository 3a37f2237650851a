"""Windows that are not runs of a queue, formed from a task's live events: per key, sessions, snapshots."""
