"""The nodes of a topology, one kind per file: each with everything derived from its place in the topology."""
