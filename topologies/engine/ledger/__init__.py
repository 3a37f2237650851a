"""What a task records about the events it handles: counts and traces."""
