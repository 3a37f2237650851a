"""Tests of ``topologies/sources/``."""
