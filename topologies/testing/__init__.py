"""Tests of users' topologies: of a bolt alone, with windows made by hand, or of a whole topology, step by step."""
