"""The event queue of a task, what of it is remembered, and policies of users' own over it."""
