"""Promised watermarks: the inputs of a topology promise that no older events will come."""

from __future__ import annotations

from manager.storage.manifest import BoltState, Manifest
from manager.watermarks.arrival_times import input_of
from policies.marks import NONE, MarkState
from topologies.graph.nodes.windowed import WindowedNode
from topologies.topology import Topology


def promise(topology: Topology, state: Manifest, bolts: list[str], watermark: int) -> None:
    """Raise the watermark of the inputs of some bolts to ``watermark`` (microseconds); the next tick emits it.

    Inputs from other windowed bolts keep the watermark of those bolts.
    """
    for name in bolts:
        _promise(topology.windowed[name], state.bolts[name], watermark)


def can_promise(node: WindowedNode) -> bool:
    """Whether a bolt has a single watermark that its inputs from spouts can advance."""
    settings = node.bolt.settings
    return node.event_time and not settings.watermark_per_key and not all(node.origins)


def _promise(node: WindowedNode, bolt_state: BoltState, watermark: int) -> None:
    mark = bolt_state.watermark
    mine = [label for label, origins in zip(node.streams, node.origins, strict=True) if not origins]
    for label in mine:
        mark.latest[label] = max(mark.latest.get(label, NONE), watermark + node.lag.micros)
        if node.sequenced and not any(input_of(source) == label for source in mark.sources.marks):
            mark.sources.marks[label] = MarkState()
    mark.ticked_at = None  # do not wait for the watermark interval
    for source, state in mark.sources.marks.items():
        if input_of(source) in mine:
            state.mark = max(state.mark, watermark)
