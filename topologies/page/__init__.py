"""The live page of a run: what holds time, what happened to events, and whether the run is well, in a browser."""
