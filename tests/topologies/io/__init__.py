"""Tests of ``topologies/io/``."""
