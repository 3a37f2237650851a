"""Tests of ``topologies/html/``."""
