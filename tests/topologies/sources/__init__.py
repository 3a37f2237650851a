"""Tests of ``topologies/engine/source_splits.py``."""
