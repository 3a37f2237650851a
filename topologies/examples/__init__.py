"""Topologies that are ready to run."""
