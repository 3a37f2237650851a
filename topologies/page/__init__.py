"""The live page of a run in a browser: the inputs that hold back time, the accounts of events, and the run's health."""
