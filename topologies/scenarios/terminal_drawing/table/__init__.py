"""The table of arrivals: a line for each event and each step of the clock."""
