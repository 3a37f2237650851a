"""Windows that are counted from the first clock of the run: their assigners, once that is known."""

from __future__ import annotations

from dataclasses import replace

from policies.assigners import AlignedWindows, WindowAssigner
from topologies.graph.model import WindowedNode
from windowing.durations import Duration
from windowing.rules import START


def anchored(part: WindowedNode, anchor: int | None) -> WindowedNode:
    """The bolt with aligned windows that begin with the anchor, in microseconds, where it asks for that."""
    if part.bolt.settings.anchor != START or anchor is None:
        return part
    assigners: tuple[WindowAssigner, ...] = tuple(
        replace(each, origin=anchor + part.bolt.settings.offset.micros, offset=Duration(0))
        if isinstance(each, AlignedWindows)
        else each
        for each in part.assigners
    )
    return replace(part, assigners=assigners)
