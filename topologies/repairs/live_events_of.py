"""The events of a task that a window may still need, and which rows of the table of events they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manager.keyed.held import GONE, Held
from manager.keyed.held_segments import read_needed
from topologies.state_tables.task_reader import TaskReader

if TYPE_CHECKING:
    from numpy.typing import NDArray


def live_events_of(task: TaskReader) -> tuple[Held | None, NDArray[np.int64]]:
    """Those of a task that holds events; None where there are none. Ends that wait for starts are not among them."""
    parts, places, first = [], [np.zeros(0, np.int64)], 0
    for ref in task.state.refs:
        held, flags = read_needed(task.store, ref)
        live = np.flatnonzero((flags & GONE) == 0)
        if len(live):
            parts.append(held.take(live))
            places.append(first + live)
        first += len(held)
    return (task.coded(Held.concat(parts)) if parts else None), np.concatenate(places)
