"""Tests of the servers that tests and benchmarks start."""
