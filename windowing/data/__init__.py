"""Columns and rows of events: their schema, order, hashes, and how user code sees them."""
