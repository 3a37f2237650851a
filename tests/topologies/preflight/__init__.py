"""Tests of ``topologies/preflight/``."""
