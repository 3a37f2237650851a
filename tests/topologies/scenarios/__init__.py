"""Tests of ``topologies/scenarios/``."""
