"""Anchors aligned windows at the first clock of the run, once that is known."""

from __future__ import annotations

from dataclasses import replace

from topologies.graph.nodes.windowed import WindowedNode
from windowing.settings.rules import START


def anchored(node: WindowedNode, anchor: int | None) -> WindowedNode:
    """The bolt with its aligned windows starting at the anchor, in microseconds, where its settings ask for that."""
    if node.bolt.settings.anchor != START or anchor is None:
        return node
    offset = node.bolt.settings.offset.micros
    return replace(node, assigners=tuple(assigner.anchored(anchor, offset) for assigner in node.assigners))
