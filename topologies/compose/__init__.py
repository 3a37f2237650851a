"""From what a user declares to a topology: the builder, and every check before a run."""
