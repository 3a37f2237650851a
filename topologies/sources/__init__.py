"""Reads splits of sources: rows of files and records as events, and input that kills its reader."""
