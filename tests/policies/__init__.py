"""Tests of ``policies/``."""
