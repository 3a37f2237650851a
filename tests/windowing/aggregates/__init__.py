"""Tests of ``windowing/aggregates/``."""
