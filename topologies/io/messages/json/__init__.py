"""JSON messages: one value each."""
