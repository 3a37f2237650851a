"""Ordinary queries, written as a user would from the guide, beside Spark's own; what they must answer says DuckDB."""
