"""The event queue of a task, the manager's state, and eviction policies that decide event by event."""
