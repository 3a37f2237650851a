"""The tasks of windowed bolts: they let events in, fire windows, and keep what is still open."""
