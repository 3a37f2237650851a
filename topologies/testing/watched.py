"""A topology as a test looks on: with a memory in the place of each sink, and one for each stream."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from topologies.graph.nodes.plain import PlainNode
from topologies.graph.nodes.sink import SinkNode
from topologies.graph.nodes.spout import SpoutNode
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.side_streams import LATE_COLUMNS
from topologies.graph.streams import Stream, stream_label
from topologies.io.sinks import MemorySink
from topologies.testing.fired import Notes, watched_node
from topologies.topology import Topology
from windowing.settings.rules import LateAction

LATE = "late"
"""The stream on which late events are seen of a bolt that puts them on none."""
WATCHER = "stream "
"""Before the names of the sinks that only look on; no part of a topology may have a space in its name."""


def watched(topology: Topology, notes: Notes, streams: dict[str, MemorySink]) -> Topology:
    """The topology with a memory for each of its sinks and streams, noting its windows."""
    windowed = {name: watched_node(_with_late(node), notes) for name, node in topology.windowed.items()}
    parts: dict[str, SpoutNode | PlainNode | WindowedNode] = {**topology.spouts, **topology.plain, **windowed}
    sinks, takers = {}, {stream: list(names) for stream, names in topology.takers.items()}
    for name, node in topology.sinks.items():
        streams[name] = MemorySink()
        sinks[name] = replace(node, sink=streams[name])
    for component, each in parts.items():
        for stream, schema in each.outputs.items():
            place: Stream = (component, stream)
            label = stream_label(place)
            streams.setdefault(label, MemorySink())
            sinks[WATCHER + label] = SinkNode(WATCHER + label, streams[label], (place,), schema)
            takers.setdefault(place, []).append(WATCHER + label)
    return replace(
        topology,
        windowed=windowed,
        sinks=sinks,
        takers={stream: tuple(names) for stream, names in takers.items()},
    )


def _with_late(node: WindowedNode) -> WindowedNode:
    """The bolt with a stream of late events, where it has none to which they would go."""
    settings = node.bolt.settings
    if not node.event_time or settings.late_stream is not None or settings.late_action is not LateAction.DIVERT:
        return node
    stream = LATE if LATE not in node.outputs else f"_{LATE}"
    added = [field.name for field in LATE_COLUMNS]
    columns = [field for field in node.schema if field.name not in added]
    outputs = {**node.outputs, stream: pa.schema([*columns, *LATE_COLUMNS])}
    return replace(node, bolt=node.bolt.configured(replace(settings, late_stream=stream)), outputs=outputs)
