"""Inputs that lack the columns that a bolt adds up: their events have nulls there, and change nothing."""

from __future__ import annotations

from collections.abc import Iterator

from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.streams import stream_label
from topologies.preflight.findings import Findings
from topologies.topology import Topology
from windowing.bolts.ready.aggregate_bolt import AggregateBolt
from windowing.errors import ConfigError


def find_lacking(topology: Topology) -> dict[str, Findings]:
    """A warning for each input of an AggregateBolt that has none of the columns that its aggregates name, by the names
    of the bolts.

    An input with some of them is meant: two streams may be added up side by side, each in columns of its own.
    """
    found = {name: tuple(_lacking(topology, node)) for name, node in topology.windowed.items()}
    return {name: Findings(warnings=warnings) for name, warnings in found.items() if warnings}


def _lacking(topology: Topology, node: WindowedNode) -> Iterator[ConfigError]:
    bolt = node.bolt
    if not isinstance(bolt, AggregateBolt):
        return
    added = sorted(bolt.columns_read - frozenset(bolt.by))
    for each in node.inputs:
        has = topology.columns_of(each.stream)
        if added and not frozenset(added) & frozenset(has):
            yield ConfigError(
                f"bolt {node.name!r} adds up {', '.join(map(repr, added))}, and {stream_label(each.stream)!r} has none "
                "of these columns",
                why=f"they are null in its events, so that sums leave them out; it has {', '.join(has)}",
                do="rename the intended column in a bolt between the two; outputs= and rename= name those of a join",
            )
