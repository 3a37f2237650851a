"""A scenario's run drawn for a terminal."""
