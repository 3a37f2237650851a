"""Pre-aggregation: events are folded by slice of time and key as they arrive."""
