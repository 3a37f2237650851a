"""Runs over Spark Connect, on a server of this machine."""
