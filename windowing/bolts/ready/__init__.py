"""Bolts that are ready to be used: sums by key, ranks, changes, limits, unions, shifts in time."""
