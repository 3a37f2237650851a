"""Checks that a runner is given a topology, and not its builder."""

from __future__ import annotations

from topologies.compose.builder import TopologyBuilder
from topologies.topology import Topology
from windowing.errors import ConfigError


def check_built(call: str, given: object) -> None:
    """ConfigError for anything but a topology; ``call`` is what it was given to: ``run_local``."""
    if isinstance(given, TopologyBuilder):
        raise ConfigError(f"{call}(builder)", why="a builder is not a topology yet", do="give builder.build()")
    if not isinstance(given, Topology):
        raise ConfigError(f"{call}({given!r:.60})", do="give the topology that builder.build() returns")
