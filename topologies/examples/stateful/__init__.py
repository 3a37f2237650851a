"""Bolts without windows that keep state, ready to copy."""
