"""The live page of a run: what holds time, what became of events, and whether the run is well, in a browser."""
