"""Tests of ``topologies/step/``."""
