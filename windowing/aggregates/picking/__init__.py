"""Aggregates that pick events: the first and last, the best, lists in an order."""
