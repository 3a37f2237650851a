"""Windows that have fired and may fire again, where their events are repaired."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from manager.keyed.held import Held
from manager.keyed.pane_states import PaneStates
from manager.storage.task_state import AssignedState
from topologies.state_tables.assigned_windows import reached_span, windows_of
from topologies.state_tables.task_reader import TaskReader

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Span = tuple[int, int]
"""The start and the end of a window."""
_Of = tuple[int, int]
"""The kind of a window, and the code of its key."""


def with_repaired(task: TaskReader, state: AssignedState, live: Held, different: NDArray[np.bool_]) -> PaneStates:
    """The states of open windows; those that have fired and hold events that are different are to fire again.

    ``live`` are the events as they were, ``different`` is a mask over them."""
    panes = _fired_panes(task, state)
    touched: dict[_Of, list[_Span]] = defaultdict(list)
    for of, span, _ in _windows_with(task, state, live, different):
        touched[of].append(span)
    merging = [each.merges for each in task.timing.formed_by(task.bolt.anchor)]
    repaired = panes.repaired.copy()
    for row in np.flatnonzero(panes.index > 0).tolist():
        of, span = (int(panes.kind[row]), int(panes.key[row])), (int(panes.start[row]), int(panes.end[row]))
        if any(_same(span, each, merging=merging[of[0]]) for each in touched[of]):
            repaired[row] = 1
    return replace(panes, repaired=repaired)


def last_of_fired(task: TaskReader, state: AssignedState, live: Held, gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of these events are in a window that has fired and, without those that are gone, would hold too few to fire
    again."""
    panes, last = _fired_panes(task, state), np.zeros(len(live), np.bool_)
    merging = [each.merges for each in task.timing.formed_by(task.bolt.anchor)]
    fired: dict[_Of, list[_Span]] = defaultdict(list)
    for row in np.flatnonzero(panes.index > 0).tolist():
        fired[int(panes.kind[row]), int(panes.key[row])].append((int(panes.start[row]), int(panes.end[row])))
    left: dict[_Of, list[_Span]] = defaultdict(list)
    still = live.take(np.flatnonzero(~gone))
    for of, span, members in _windows_with(task, state, still, np.ones(len(still), np.bool_)):
        if len(members) >= task.timing.least_at_end:
            left[of].append(span)
    for of, span, members in _windows_with(task, state, live, gone):
        shown = [each for each in fired[of] if _same(each, span, merging=merging[of[0]])]
        if any(not any(_same(each, other, merging=merging[of[0]]) for other in left[of]) for each in shown):
            last[members] = True
    return last


def _fired_panes(task: TaskReader, state: AssignedState) -> PaneStates:
    return PaneStates.of(task.table(state.panes))


def _windows_with(
    task: TaskReader, state: AssignedState, live: Held, which: NDArray[np.bool_]
) -> Iterator[tuple[_Of, _Span, NDArray[np.int64]]]:
    """Yield the open windows that hold one of these events, with the indices of all of their events."""
    if not len(live):
        return
    windows = windows_of(task, live)
    for kind, piece in windows.open_windows(reached_span(task, state, live, windows)):
        if not len(piece):
            continue
        counts = np.add.reduceat(which[piece.members].astype(np.int64), piece.offsets[:-1])
        for index in np.flatnonzero(counts).tolist():
            members = piece.members[piece.offsets[index] : piece.offsets[index + 1]]
            key = 0 if live.keys is None else int(live.keys[members[0]])
            yield (kind, key), (int(piece.starts[index]), int(piece.ends[index])), members


def _same(one: _Span, other: _Span, *, merging: bool) -> bool:
    """Whether a firing of one window supersedes that of the other: it is the same, or they merge and overlap."""
    return one == other or (merging and one[0] < other[1] and other[0] < one[1])
