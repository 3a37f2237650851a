"""Tests of ``topologies/cli/``."""
