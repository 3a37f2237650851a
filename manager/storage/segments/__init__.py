"""Segments and references to their sections: where the rows of a task lie, and how they are read and written."""
