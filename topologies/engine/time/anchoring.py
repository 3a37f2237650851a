"""Anchors aligned windows at the first clock of the run, once that is known."""

from __future__ import annotations

from dataclasses import replace

from policies.assigners import AlignedWindows, WindowAssigner
from topologies.graph.nodes.windowed import WindowedNode
from windowing.settings.rules import START
from windowing.time.durations import Duration


def anchored(node: WindowedNode, anchor: int | None) -> WindowedNode:
    """The bolt with its aligned windows starting at the anchor, in microseconds, where its settings ask for that."""
    if node.bolt.settings.anchor != START or anchor is None:
        return node
    assigners: tuple[WindowAssigner, ...] = tuple(
        replace(assigner, origin=anchor + node.bolt.settings.offset.micros, offset=Duration(0))
        if isinstance(assigner, AlignedWindows)
        else assigner
        for assigner in node.assigners
    )
    return replace(node, assigners=assigners)
