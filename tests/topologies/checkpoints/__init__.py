"""Tests of ``topologies/checkpoints/``."""
