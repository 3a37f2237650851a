"""Watermarks: of ticks, of events, of keys."""
