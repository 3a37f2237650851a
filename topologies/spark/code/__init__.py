"""The code that executors need and may not have: windbolt itself, and the user's modules."""
