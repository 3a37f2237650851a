"""Tests of ``windowing/``."""
