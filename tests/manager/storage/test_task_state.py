"""The state of a task: as it stands in the manifest, and what follows from the declarations of its fields."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from manager.storage.segments import Flags, Ref, Refs
from manager.storage.task_state import (
    STORED,
    AssignedState,
    BoltTaskState,
    DeclaredState,
    FieldKind,
    PolicyState,
    QueueState,
    StatefulState,
    TaskState,
    TriggeredState,
    WindowsState,
)

REF = Ref(
    "0/a", 64, 100, 5, start=1, earliest_live=10, latest_live=20, by_stream=(2, 3), level=1,
    flags=Flags("0/b", 0, 8, 7, 3), checksum=9,
)  # fmt: skip

STATES: dict[str, WindowsState] = {
    "queue": QueueState(3, 2, 1, [0, 2], 50, 40),
    "assigned": AssignedState(60, 40, 7, 30, (60, 70), REF, None, REF, REF),
    "triggered": TriggeredState(60, 2, REF),
    "policies": PolicyState(60, 2, REF, last_end=50),
    "stateful": StatefulState(REF, REF),
}


@pytest.mark.parametrize("family", STATES)
def test_a_state_is_what_it_was_after_json(family: str) -> None:
    bolt = BoltTaskState(4, 1, {"default": 9}, {"full": 1}, {"": REF}, {"late": REF})
    state = TaskState(STATES[family], Refs([REF]), [1, 0], bolt)
    written = json.loads(json.dumps(state.to_json()))
    assert written["family"] == family
    assert TaskState.from_json(written) == state


FAMILIES = (QueueState, AssignedState, TriggeredState, PolicyState, StatefulState)


def filled(state: type[DeclaredState]) -> dict[str, Any]:
    """Rows in a segment of their own for each field that can hold some; several where a field holds several."""
    fresh = state()
    refs = {name: replace(REF, segment=f"old/{name}", flags=None) for name in state.fields_of(*STORED)}
    return {name: {"": ref, "more": ref} if getattr(fresh, name) == {} else ref for name, ref in refs.items()}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_stored_row_is_lost_when_segments_are_renamed(family: type[WindowsState]) -> None:
    """As in a savepoint: a field that was left out would name a segment that is not there."""
    rows, of_bolt = filled(family), filled(BoltTaskState)
    events = Refs([replace(REF, segment="old/events", flags=None)])
    task = TaskState(family().with_values(**rows), events, [], BoltTaskState(**of_bolt))
    names = {f"old/{name}": f"new/{name}" for name in [*rows, *of_bolt, "events"]}
    assert task.segment_names() == set(names)
    renamed = task.with_segments(names)
    assert renamed.segment_names() == set(names.values())
    assert renamed.with_segments({new: old for old, new in names.items()}).to_json() == task.to_json()


def test_positions_count_the_events_before_them_that_are_left() -> None:
    state = QueueState(base=7, settled_count=5, accounted=3, previous=[1, 4], previous_frontier=50, last_reference=40)
    kept = np.array([True, False, True, False, True, True])
    wanted = QueueState(7, settled_count=3, accounted=2, previous=[1, 2], previous_frontier=50, last_reference=40)
    assert state.without_rows(kept) == wanted
    assert replace(state, previous=None).without_rows(kept) == replace(wanted, previous=None)


def test_ends_that_wait_are_pending_until_their_rows_are_gone() -> None:
    task = TaskState(AssignedState(end_edges=REF, keys=REF), Refs([REF]), [1, 0])
    assert task.pending(2) == [2 - 1 + 2, 3 - 0 + 3]
    without = replace(task, windows=task.windows.with_rows(lambda ref: None, FieldKind.EVENTS))
    assert without.windows == AssignedState(keys=REF)
    assert without.pending(2) == [1, 3]


def test_a_task_has_the_values_of_the_tasks_it_comes_from_and_of_all_where_those_are_of_time() -> None:
    states = [
        AssignedState(next_end=30, last_end=20, evaluations=4, floor=5, open_ends=(30, 40), listed="a"),
        AssignedState(next_end=10, last_end=25, evaluations=9, open_ends=(10,), listed="a"),
        AssignedState(next_end=None, last_end=None, evaluations=2, open_ends=(30, 35), listed="a"),
    ]
    merged = AssignedState(**AssignedState.merged(states, [0, 2]))
    assert merged == AssignedState(next_end=30, last_end=25, evaluations=9, open_ends=(30, 35, 40))
    assert AssignedState(**AssignedState.merged(states, [])) == AssignedState(last_end=25, evaluations=9)


def test_counts_of_tasks_are_added_up_and_nothing_else_is() -> None:
    one = BoltTaskState(2, 1, {"default": 4}, {"b": 1, "a": 2}, {"": REF}, needed_until=9)
    two = BoltTaskState(3, 0, {"late": 1, "default": 1}, {"a": 5}, {"x": REF}, {"late": REF})
    total = BoltTaskState(5, 1, {"default": 5, "late": 1}, {"a": 7, "b": 1}, {"": REF}, needed_until=9)
    assert one.add_counts(two) == total
    assert list(one.add_counts(two).counters) == ["a", "b"]


def test_all_sections_that_a_task_needs_are_named() -> None:
    one, two, three, four = (replace(REF, segment=f"0/{name}") for name in "wxyz")
    bolt = BoltTaskState(user={"": three}, retractable={"default": four})
    state = TaskState(AssignedState(keys=two), Refs([one]), [], bolt)
    assert {ref.segment for ref in state.all_refs()} == {"0/w", "0/x", "0/y", "0/z"}


def test_a_family_that_nobody_knows_is_refused() -> None:
    with pytest.raises(KeyError, match="heaps"):
        TaskState.from_json(TaskState(QueueState()).to_json() | {"family": "heaps"})
