"""A built topology, as data and in words."""
