"""Joins of two streams: the pairs of their events that have equal keys."""
