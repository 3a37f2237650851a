"""Tests of ``topologies/graph/``."""
