"""CSV messages: one row each."""
