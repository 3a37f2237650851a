"""Tests of ``topologies/run/``."""
