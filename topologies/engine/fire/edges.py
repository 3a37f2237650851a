"""Edges: events that begin now and end when a second event says so (SI-3)."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from manager.keyed.held import Held
from manager.storage.taking import taken
from policies.marks import NONE
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topologies.engine.fire.deciding import LetIn
    from topologies.engine.ingest.router import Router
    from topologies.graph.model import WindowedNode


@dataclass(frozen=True)
class Matched:
    """Live events with the ends that have arrived at their starts, and the ends whose starts have not come."""

    events: Held
    waiting: Held


def concerned(new: LetIn, waiting: Held | None) -> bool:
    """Whether there may be something to match: an end edge has come, or a start whose end waits for it."""
    if new.end_edges is not None and new.end_edges.any():
        return True
    if waiting is None or waiting.edges is None or new.events.edges is None:
        return False
    return bool(np.isin(new.events.edges, waiting.edges).any())


def match_edges(part: WindowedNode, router: Router, old: Held | None, waiting: Held | None, new: LetIn) -> Matched:
    """Give start edges the ends that have arrived, whichever of the two came first (SI-19).

    The oldest open start edge with the start and the key of an end edge gets its end. An end edge is in no window
    itself. One whose start has not come waits for it: see ``expired``.
    """
    assert new.end_edges is not None
    whole = Held.concat([held for held in (old, waiting, new.events) if held is not None])
    assert whole.edges is not None
    assert whole.ends is not None
    first = len(whole) - len(new.events)
    ending = np.zeros(len(whole), np.bool_)
    ending[first:] = new.end_edges
    if waiting is not None:
        ending[first - len(waiting) : first] = True
    ends = whole.ends.copy()
    matched = np.zeros(len(whole), np.bool_)
    opened: dict[int, deque[int]] = defaultdict(deque)
    early: dict[int, deque[int]] = defaultdict(deque)
    for place in np.flatnonzero(np.isin(whole.edges, whole.edges[ending])).tolist():
        edge = int(whole.edges[place])
        if ending[place]:
            if opened[edge]:
                ends[opened[edge].popleft()] = whole.ends[place]
                matched[place] = True
            else:
                early[edge].append(place)
        elif ends[place] == FOREVER:
            # A start that was moved to where its end is, or beyond, has missed it: so it had, had the end expired.
            if early[edge] and whole.times[place] < whole.ends[early[edge][0]]:
                end = early[edge].popleft()
                ends[place] = whole.ends[end]
                matched[end] = True
            else:
                opened[edge].append(place)
    router.ledger.count_chosen(part, "unwindowed", _streams(whole), matched)
    events = replace(whole, ends=ends).take(np.flatnonzero(~ending))
    return Matched(events, whole.take(np.flatnonzero(ending & ~matched)))


def expired(part: WindowedNode, router: Router, waiting: Held, limit: int | None) -> Held:
    """The end edges that still wait; those that end up to the limit can fit no start any more, and are invalid."""
    assert waiting.ends is not None
    over = waiting.ends <= (NONE if limit is None else limit)
    if over.any():
        places = np.flatnonzero(over)
        router.refuse_edges(part, taken(waiting.payload, places), _streams(waiting)[places])
    return waiting.take(np.flatnonzero(~over))


def _streams(held: Held) -> NDArray[np.int8]:
    return np.zeros(len(held), np.int8) if held.streams is None else held.streams
