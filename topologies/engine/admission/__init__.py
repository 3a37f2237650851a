"""Admission: the time of each event at a windowed bolt, and whether it is admitted."""
