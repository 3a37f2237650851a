"""Tests of ``topologies/testing/``."""
