"""Composing topologies and running them: locally, as scenarios, and on Spark. ``windbolt`` has what users call."""
