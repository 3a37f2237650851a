"""End edges that wait for their starts, in one task (SI-3, SI-19)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from manager.keyed.held import Held
from manager.keyed.held_segments import read_held, write_held
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentWriter
from topologies.engine.fire.admitting import Admitted
from topologies.engine.fire.assigned.edges import concerned, expired, match_edges
from topologies.engine.ingest.router import Router
from topologies.graph.nodes.windowed import WindowedNode


@dataclass(frozen=True)
class WrittenEdges:
    """Waiting end edges as they are stored."""

    ref: Ref
    earliest_end: int
    """The first of their ends, in microseconds."""


class WaitingEdges:
    """Matches the end edges of a task with their starts, and keeps those whose starts have not arrived."""

    def __init__(self, node: WindowedNode, router: Router, stored: Ref | None) -> None:
        self._node, self._router = node, router
        self._edges = None if stored is None else read_held(router.context.store, stored)[0]

    def concern(self, admitted: Admitted) -> bool:
        """Whether some of the admitted events may match, so that all live events must be looked at."""
        return concerned(self._node, admitted, self._edges)

    def match(self, live: Held | None, admitted: Admitted) -> Held:
        """Match live and admitted events with the end edges; returns them without end edges."""
        matched = match_edges(self._node, self._router, live, self._edges, admitted)
        self._edges = matched.waiting
        return matched.events

    def expire(self, frontier: int | None) -> None:
        """Refuse those that can match no start any more, because they end up to the frontier (microseconds)."""
        if self._edges is not None:
            self._edges = expired(self._node, self._router, self._edges, frontier)

    def write(self, writer: SegmentWriter) -> WrittenEdges | None:
        """Write those that still wait; None where there are none."""
        edges = self._edges
        if edges is None or not len(edges):
            return None
        assert edges.ends is not None
        ref = write_held(writer, replace(edges, seen=None), len(self._node.inputs))
        return WrittenEdges(ref, int(edges.ends.min()))
