"""Rows of a batch: of sources, between components, for sinks."""
