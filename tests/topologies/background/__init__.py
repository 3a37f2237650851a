"""Tests of ``topologies/background.py``."""
