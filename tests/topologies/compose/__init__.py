"""Tests of ``topologies/compose/``."""
