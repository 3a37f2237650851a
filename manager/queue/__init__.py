"""The event queue of a task, the manager's state, and windows of eviction policies that decide event by event."""
