"""Aggregates within a stated error: quantiles, and how many different values there are."""
