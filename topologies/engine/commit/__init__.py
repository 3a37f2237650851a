"""Serving sinks from the driver."""
