"""Edges and versions: events whose end is announced by a later one (SI-3, SI-19)."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.retained_events import Held, read_held, write_held
from manager.storage.segments import Ref, SegmentWriter
from policies.watermarks import NONE
from topologies.engine.fire.task_windows import Admitted
from topologies.engine.ingest import Router
from topologies.engine.plain_bolts import refuse_end_edges
from topologies.graph.graph import WindowedNode
from topologies.graph.groupings import KeyCodes, comparable, value_codes
from windowing.columns import take_rows
from windowing.settings.rules import LateAction
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Versions: events that last until the next one of their key begins.


def end_versions(old: Held | None, new: Held, versions: int, codes: KeyCodes) -> Held:
    """The events of a task; each version ends as the next one of its key begins, if it does not end before.

    Of versions that begin at the same time the last to arrive counts. It does not matter where batches end: what is
    admitted is not from before the watermark, up to which versions have met their partners.
    """
    events = new if old is None else Held.concat([old, new])
    assert events.streams is not None
    of_keys = codes.apply(events).keys
    assert of_keys is not None
    assert events.ends is not None
    rows = np.flatnonzero(events.streams == versions)
    rows = rows[np.lexsort((events.times[rows], of_keys[rows]))]
    keys, following = of_keys[rows], np.full(len(rows), FOREVER)
    following[:-1] = np.where(keys[1:] == keys[:-1], events.times[rows[1:]], FOREVER)
    ends = events.ends.copy()
    ends[rows] = np.minimum(ends[rows], following)
    return replace(events, ends=ends)


# Matching of edges: events whose end is announced by a second event (SI-3).


@dataclass(frozen=True)
class Matched:
    """Live events whose ends have been matched, and the end edges whose starts have not arrived."""

    events: Held
    waiting: Held


def concerned(node: WindowedNode, new: Admitted, waiting: Held | None) -> bool:
    """True if there may be edges to match: an end edge arrived, or a start whose end edge waits for it."""
    if new.end_edges is not None and new.end_edges.any():
        return True
    if waiting is None or waiting.edges is None or new.events.edges is None:
        return False
    if not np.isin(new.events.edges, waiting.edges).any():
        return False
    edges = _edges(node, Held.concat([waiting, new.events]))
    return bool(np.isin(edges[len(waiting) :], edges[: len(waiting)]).any())


def match_edges(node: WindowedNode, router: Router, old: Held | None, waiting: Held | None, new: Admitted) -> Matched:
    """Match start edges with the end edges that have arrived, in whichever order the two came (SI-19).

    An end edge ends the oldest open start edge of its start time and key. It is in no window itself. One whose start
    has not arrived waits for it (see ``expired``).
    """
    assert new.end_edges is not None
    events = Held.concat([held for held in (old, waiting, new.events) if held is not None])
    assert events.ends is not None
    first = len(events) - len(new.events)
    ending = np.zeros(len(events), np.bool_)
    ending[first:] = new.end_edges
    if waiting is not None:
        ending[first - len(waiting) : first] = True
    closed = np.full(len(events), NONE) if events.closed_until is None else events.closed_until
    passed = _unreachable(node, closed)
    ends = events.ends.copy()
    matched = np.zeros(len(events), np.bool_)
    edges = _edges(node, events)
    opened: dict[int, deque[int]] = defaultdict(deque)
    early: dict[int, deque[int]] = defaultdict(deque)
    for row in np.flatnonzero(np.isin(edges, edges[ending])).tolist():
        edge = int(edges[row])
        if ending[row]:
            if opened[edge]:
                ends[opened[edge].popleft()] = events.ends[row]
                matched[row] = True
            else:
                early[edge].append(row)
        elif ends[row] == FOREVER:
            # One that had expired when this start came does not match, wherever batches end.
            if early[edge] and events.ends[early[edge][0]] > passed[row]:
                end = early[edge].popleft()
                ends[row] = events.ends[end]
                matched[end] = True
            else:
                opened[edge].append(row)
    # A start that was moved to its end, or beyond, leaves no event, in whichever order the two came (SI-13).
    nothing = ~ending & (ends <= events.times)
    unseen = nothing if events.seen is None else nothing & ~events.seen
    router.ledger.count_chosen(node, "unwindowed", _streams(events), matched | unseen)
    matched_events = replace(events, ends=ends).take(np.flatnonzero(~ending & ~nothing))
    return Matched(matched_events, events.take(np.flatnonzero(ending & ~matched)))


def expired(node: WindowedNode, router: Router, waiting: Held, limit: int | None) -> Held:
    """The end edges that still wait. Those that end up to the limit (microseconds) can match no start any more (see
    ``_unreachable``) and are invalid."""
    assert waiting.ends is not None
    ended = waiting.ends <= _unreachable(node, np.asarray(NONE if limit is None else limit))
    if ended.any():
        places = np.flatnonzero(ended)
        unmatched, inputs = take_rows(waiting.payload, places), _streams(waiting)[places]
        refuse_end_edges(node, unmatched, inputs, router.context.clock, router.ledger, router.emit)
    return waiting.take(np.flatnonzero(~ended))


def _edges(node: WindowedNode, events: Held) -> NDArray[np.int64]:
    """A number for each event that its start and its end edge share: they have one start time, input and key."""
    assert events.edges is not None
    lifetime = node.bolt.settings.lifetime
    assert lifetime is not None
    numbers = [pa.array(events.edges), pa.array(_streams(events))]
    return value_codes([*numbers, *(comparable(events.payload.column(name)) for name in lifetime.edge_key)])[0]


def _unreachable(node: WindowedNode, closed_until: NDArray[np.int64]) -> NDArray[np.int64]:
    """Up to which end an end edge can match no start any more, at the time up to which windows are closed. One at that
    very time still can where late starts are moved there, and the two are then nothing."""
    settings = node.bolt.settings
    moves = any(settings.of_input(label).late_action is LateAction.CUT for label in node.streams)
    return np.where(closed_until > NONE, closed_until - moves, closed_until)


def _streams(held: Held) -> NDArray[np.int8]:
    return np.zeros(len(held), np.int8) if held.streams is None else held.streams


# End edges that wait for their starts, in one task (SI-3, SI-19).


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
        """True if some of the admitted events may match, so that all live events must be looked at."""
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
