"""Watermarks computed at ticks, from events, and per key."""
