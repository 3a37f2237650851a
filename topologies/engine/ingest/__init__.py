"""Ingesting events: merging them, and routing them through plain bolts to windowed bolts and sinks."""
