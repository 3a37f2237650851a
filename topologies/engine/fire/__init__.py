"""The tasks of windowed bolts: they admit events, fire windows, and keep what is still open."""
