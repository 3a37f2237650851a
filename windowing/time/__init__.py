"""Durations, timestamps, time zones and times of day."""
