"""Formats of text: CSV and JSON, a row on each line."""
