"""Composing topologies and running them: locally, as scenarios, and on Spark. Users import ``windbolt``."""
