"""Bolts whose watermark waits for a stream of another bolt that may bring no event for long."""

from __future__ import annotations

from collections.abc import Iterator

from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.streams import Stream, stream_label
from topologies.preflight.findings import Findings
from topologies.topology import Topology
from windowing.errors import ConfigError
from windowing.settings.rules import WatermarkCombiner


def find_waiting(topology: Topology) -> dict[str, Findings]:
    """A warning for each bolt with several inputs whose windows stay open until a stream of the topology brings its
    first event; by the names of the bolts."""
    found = {name: tuple(_waits(topology, node)) for name, node in topology.windowed.items()}
    return {name: Findings(warnings=warnings) for name, warnings in found.items() if warnings}


def _waits(topology: Topology, node: WindowedNode) -> Iterator[ConfigError]:
    settings = node.bolt.settings
    released = settings.idle_timeout or settings.partition_idle_timeout or settings.estimate_arrival
    by_all = settings.watermark_combine is WatermarkCombiner.MIN and not settings.watermark_per_key
    if len(node.inputs) < 2 or not node.event_time or released or not by_all:
        return
    imports = settings.watermark_imports or {}
    others = [stream_label(each.stream) for each in node.inputs]
    for label, each, origins, brings in zip(node.streams, node.inputs, node.origins, node.carries_time, strict=True):
        if label in imports or not _of_windows(topology, each.stream) or (origins and brings):
            continue
        other = next(name for name in others if name != label)
        yield ConfigError(
            f"bolt {node.name!r} waits for {label!r}, which comes from windows of this topology",
            why="none of its windows fires before that stream has brought an event, and it may be silent for long",
            do=f"let it take the watermark of another input, with_watermark(imports={{{label!r}: {other!r}}}), or have "
            "the clock close windows, with_watermark(idle_timeout=...)",
        )


def _of_windows(topology: Topology, stream: Stream) -> bool:
    """Whether a windowed bolt comes before a stream."""
    component, _ = stream
    if component in topology.windowed:
        return True
    return component in topology.plain and any(
        _of_windows(topology, each.stream) for each in topology.plain[component].inputs
    )
