"""A checkpoint folder, whichever engine runs on it: its two halves, and what can be done with them."""
