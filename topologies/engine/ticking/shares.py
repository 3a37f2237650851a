"""Independent windows of one task, shared among the workers that would have nothing to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from topologies.engine.work.items import FireItem, Share
from topologies.topology import Topology

_FEW = 1_000
"""So few events are soon done; each share has to read all that the task holds."""


def in_shares(topology: Topology, items: Sequence[FireItem], slots: int) -> list[FireItem]:
    """The items, those of bolts with independent windows in as many shares as there are slots for each item.

    The shares of a task are one after another, so what they emit is in the order of the windows.
    """
    return [share for item in items for share in _shares(topology, item, max(1, slots // len(items)))]


def _shares(topology: Topology, item: FireItem, count: int) -> Iterator[FireItem]:
    shared = item.frontiers.current is not None and topology.windowed[item.bolt].can_share_windows
    if not shared or item.state.refs.needed < _FEW:
        yield item
        return
    for index in range(count):
        yield replace(item, share=Share(index, count))
