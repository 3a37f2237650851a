"""Tests of ``topologies/checkpoints/preflight.py``."""
