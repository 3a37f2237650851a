"""The columns of a spout that bolts take for the times of events: bolts that read it, and those behind plain bolts."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from topologies.graph.nodes.spout import SpoutNode
from topologies.graph.streams import Stream
from topologies.topology import Topology
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.time.timestamps import is_time


def direct_columns(topology: Topology, node: SpoutNode, schema: pa.Schema) -> list[str]:
    """The columns by which bolts that read the spout itself go."""
    return [name for name, first in _columns(topology, node, schema).items() if not first]


def columns_behind(topology: Topology, node: SpoutNode, schema: pa.Schema) -> dict[str, str]:
    """The columns by which only bolts behind plain bolts go, each with the plain bolt that gets it first, and may
    change it."""
    return {name: first for name, first in _columns(topology, node, schema).items() if first}


def _columns(topology: Topology, node: SpoutNode, schema: pa.Schema) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in topology.windowed.values():
        field = part.bolt.settings.timestamp_field
        if field is None or field not in schema.names or not is_time(schema.field(field).type):
            continue
        for each in part.inputs:
            for first in _ways(topology, (node.name, DEFAULT_STREAM), each.stream):
                found[field] = min(first, found.get(field, first))
    return found


def _ways(topology: Topology, spout: Stream, stream: Stream) -> Iterator[str]:
    """By which plain bolt a stream that carries a spout's events begins, for each way between the two; "" for none."""
    if stream == spout:
        yield ""
    plain = topology.plain.get(stream[0])
    for each in () if plain is None else plain.inputs:
        yield from (first or stream[0] for first in _ways(topology, spout, each.stream))
