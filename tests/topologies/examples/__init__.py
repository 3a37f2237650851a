"""Tests of ``topologies/examples/``."""
