"""Tests of users' own topologies: a bolt alone, windows made by hand, a whole topology driven step by step."""
