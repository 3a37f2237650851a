"""Runs over Spark Connect, where a session has no Java on this machine to ask."""
