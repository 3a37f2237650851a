"""Tests of ``topologies/background/``."""
