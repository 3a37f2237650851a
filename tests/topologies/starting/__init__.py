"""Tests of ``topologies/starting/``."""
