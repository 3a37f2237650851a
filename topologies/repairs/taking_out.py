"""Which stored events can be taken out: those without which all later windows are as if they had never come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manager.keyed.held import Held
from manager.keyed.held_segments import KEY_COLUMN
from manager.queue.queue_state import QueueState
from manager.storage.task_state import AssignedState, PolicyState, TriggeredState
from policies.assigners.assigner import limit_at
from topologies.repairs.fired_windows import last_of_fired
from topologies.repairs.live_events_of import live_events_of
from topologies.state_tables.assigned_windows import reached_span, windows_of
from topologies.state_tables.task_reader import TaskReader
from windowing.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_LEAVE = "leave it in, and give it values that do no harm, such as nulls or zeros"


def check_taken_out(bolt: str, task: TaskReader, kept: NDArray[np.bool_]) -> None:
    """DataError that names the first event that cannot be taken out, and why."""
    if kept.all():
        return
    for wrong, why in _reasons(task, ~kept):
        if wrong.any():
            raise DataError(
                f"row {int(np.argmax(wrong))} of task {task.number} of bolt {bolt!r} cannot be taken out",
                why=why,
                do=_LEAVE,
            )


def _reasons(task: TaskReader, out: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.bool_], str]]:
    """What stands in the way: of each reason, for which rows it is one."""
    match task.state.windows:
        case QueueState() as state:
            if task.timing.by_place:
                settled = np.arange(len(out)) < state.settled_count
                why = "its windows count, or choose among, all the events of a task, and time has reached it"
                yield out & settled, why
        case AssignedState() as state:
            yield from _of_assigned(task, state, out)
        case PolicyState():
            yield _told(task, out), "a policy has been told of it, and may have made something of it"
        case TriggeredState() as state:
            yield _of_known_keys(task, state, out), "of its key a timer is kept, or what a rule has made of its events"


def _of_assigned(
    task: TaskReader, state: AssignedState, out: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[np.bool_], str]]:
    live, places = live_events_of(task)
    if live is None:
        return
    gone, nothing = out[places], np.zeros(len(out), np.bool_)

    def rows(which: NDArray[np.bool_]) -> NDArray[np.bool_]:
        found = nothing.copy()
        found[places[which]] = True
        return found

    seen = np.zeros(len(live), np.bool_) if live.seen is None else live.seen
    windows = windows_of(task, live)
    if state.panes is not None:
        why = "without it too few are left in a window that has fired and may fire again: what was shown could not be "
        why += "taken back"
        yield rows(gone & last_of_fired(task, state, live, gone)), why
    if task.timing.versions is not None and live.streams is not None:
        why = "it is a version of a join, and has ended the one before, which may be gone by now"
        yield rows(gone & (live.streams == task.timing.inputs.index(task.timing.versions))), why
    if not all(each.ends_by_time for each in windows.assigners):
        reached = live.times <= limit_at(reached_span(task, state, live, windows).upto, np.arange(len(live)))
        yield rows(gone & reached), "its windows count events, and time has reached it"
        return
    left = np.flatnonzero(~gone)
    lost = _members(task, state, live)
    lost[:, left] &= ~_members(task, state, live.take(left))
    broken = lost.any(axis=0) & ~gone & ~seen
    if broken.any():
        one = int(np.argmax(broken))
        same = gone if live.keys is None else gone & (live.keys == live.keys[one])
        why = f"without it a window has ended that has not fired, and row {int(places[one])} would be in none"
        yield rows(same if same.any() else gone), why


def _members(task: TaskReader, state: AssignedState, live: Held) -> NDArray[np.bool_]:
    """By kind of window, which of these events are in one that is still to fire."""
    found = np.zeros((len(task.timing.assigners), len(live)), np.bool_)
    if len(live):
        windows = windows_of(task, live)
        for kind, piece in windows.open_windows(reached_span(task, state, live, windows)):
            found[kind, piece.members] = True
    return found


def _told(task: TaskReader, out: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of these rows are events that policies have been told of."""
    told, (live, places) = np.zeros(len(out), np.bool_), live_events_of(task)
    if live is not None and live.numbers is not None:
        told[places] = live.numbers >= 0
    return told & out


def _of_known_keys(task: TaskReader, state: TriggeredState, out: NDArray[np.bool_]) -> NDArray[np.bool_]:
    wrong, records, (live, places) = np.zeros(len(out), np.bool_), task.table(state.keys), live_events_of(task)
    if records is not None and live is not None:
        assert live.keys is not None
        wrong[places] = np.isin(live.keys, records.column(KEY_COLUMN).to_numpy())
    return wrong & out
