"""The driver's part in serving sinks."""
