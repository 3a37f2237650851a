"""Stored events with other values, or without some of them: a savepoint that is repaired."""
