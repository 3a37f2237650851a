"""Tests of ``manager/``."""
