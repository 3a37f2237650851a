"""Tests of ``topologies/graph/html.py``."""
