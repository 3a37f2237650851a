"""Tests of ``topologies/``."""
