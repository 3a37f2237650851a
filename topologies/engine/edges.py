"""Edges: events that begin now and end when a second event says so (SI-3)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from manager.held import Held
from manager.taking import taken
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from topologies.engine.deciding import LetIn
    from topologies.engine.fanout import Fanout
    from topologies.model import WindowedPart


def match_edges(part: WindowedPart, fanout: Fanout, old: Held | None, new: LetIn) -> Held:
    """All live events, with the ends that have arrived at their starts.

    The oldest open start edge with the start and the key of an end edge gets its end. An end edge is in no window
    itself; one that fits no start is invalid.
    """
    assert new.end_edges is not None
    whole = new.events if old is None else Held.concat([old, new.events])
    assert whole.edges is not None
    assert whole.ends is not None
    assert new.events.edges is not None
    ends = whole.ends.copy()
    ending = np.zeros(len(whole), np.bool_)
    ending[len(whole) - len(new.events) :] = new.end_edges
    opened: dict[int, list[int]] = {}
    matched = np.zeros(len(whole), np.bool_)
    for place in np.flatnonzero(np.isin(whole.edges, new.events.edges[new.end_edges])).tolist():
        edge = int(whole.edges[place])
        if ending[place] and opened.get(edge):
            ends[opened[edge].pop(0)] = whole.ends[place]
            matched[place] = True
        elif not ending[place] and ends[place] == FOREVER:
            opened.setdefault(edge, []).append(place)
    streams = np.zeros(len(whole), np.int8) if whole.streams is None else whole.streams
    fanout.count_all(part, "unwindowed", streams, matched)
    strangers = np.flatnonzero(ending & ~matched)
    if len(strangers):
        fanout.refuse_edges(part, taken(whole.payload, strangers), streams[strangers])
    return replace(whole, ends=ends).take(np.flatnonzero(~ending))
