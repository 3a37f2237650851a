"""Windows that are counted from the first clock of the run: their assigners, once that is known."""

from __future__ import annotations

from dataclasses import replace

from policies.assigners import AlignedWindows, WindowAssigner
from topologies.graph.model import WindowedNode
from windowing.durations import Duration
from windowing.rules import START


def anchored(node: WindowedNode, anchor: int | None) -> WindowedNode:
    """The bolt with aligned windows that begin with the anchor, in microseconds, where it asks for that."""
    if node.bolt.settings.anchor != START or anchor is None:
        return node
    assigners: tuple[WindowAssigner, ...] = tuple(
        replace(assigner, origin=anchor + node.bolt.settings.offset.micros, offset=Duration(0))
        if isinstance(assigner, AlignedWindows)
        else assigner
        for assigner in node.assigners
    )
    return replace(node, assigners=assigners)
