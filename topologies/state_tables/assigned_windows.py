"""The windows that assigners form of a task's stored events, by the rules that its last run has noted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manager.keyed.assigned import AssignedWindows, Span
from manager.keyed.held import Held
from manager.keyed.substreams import Substreams
from manager.storage.task_state import AssignedState
from policies.marks import NONE
from topologies.state_tables.task_reader import TaskReader

if TYPE_CHECKING:
    from policies.assigners.assigner import Limit


def windows_of(task: TaskReader, live: Held) -> AssignedWindows:
    """The windows of these events, which have the codes of their keys."""
    assigners = task.timing.formed_by(task.bolt.anchor)
    keys = [tuple(key) for key in task.timing.keys]
    return AssignedWindows(assigners, live, task.bolt.accounts.streams, keys=keys)


def reached_span(task: TaskReader, state: AssignedState, live: Held, windows: AssignedWindows) -> Span:
    """Up to where the windows of each of these events have been evaluated."""
    reached = reached_limit(task, state, live)
    return Span(reached, reached) if isinstance(reached, int) else windows.span_of(reached, reached)


def reached_limit(task: TaskReader, state: AssignedState, live: Held) -> Limit:
    """Up to where the windows of these events have been evaluated: one time, or one for each of them in this order."""
    timing = task.timing
    if not (timing.per_key and timing.event_time) or live.keys is None:
        return NONE if task.bolt.frontier is None else task.bolt.frontier
    floor = NONE if state.floor is None else state.floor
    _, marks = Substreams(task.table(state.keys), timing.delay, floor).limits(live.keys)
    reached: Limit = np.where(marks == NONE, NONE, np.maximum(marks, NONE + timing.past_end) - timing.past_end)
    return reached
