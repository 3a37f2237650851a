"""Tests of ``topologies/engine/``."""
