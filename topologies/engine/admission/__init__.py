"""Admission: whether an event is admitted at a windowed bolt, and with which time."""
