"""Tests of ``topologies/spark/``."""
