"""The state of a task in the manifest: tagged with the kind of its windows, with the fields of that kind alone."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from manager.event_queue import QueueState
from manager.storage.manifest import AssignedState, BoltTaskState, PolicyState, TaskState, TriggeredState, WindowsState
from manager.storage.segments import Flags, Ref, Refs

REF = Ref(
    "0/a", 64, 100, 5, start=1, earliest_live=10, latest_live=20, by_stream=(2, 3), level=1,
    flags=Flags("0/b", 0, 8, 7), checksum=9,
)  # fmt: skip

STATES: dict[str, WindowsState] = {
    "queue": QueueState(3, 2, 1, [0, 2], 50, 40),
    "assigned": AssignedState(60, 40, 7, 30, (60, 70), (1, 0), REF, None, REF, REF),
    "triggered": TriggeredState(60, 2, REF),
    "policies": PolicyState(60, 2, REF, last_end=50),
}


@pytest.mark.parametrize("family", STATES)
def test_a_state_is_what_it_was_after_json(family: str) -> None:
    bolt = BoltTaskState(4, 1, {"default": 9}, {"full": 1}, {"": REF}, {"late": REF})
    state = TaskState(STATES[family], Refs([REF]), [1, 0], bolt)
    written = json.loads(json.dumps(state.to_json()))
    assert written["family"] == family
    assert TaskState.from_json(written) == state


@pytest.mark.parametrize("windows", STATES.values(), ids=STATES)
def test_a_state_has_the_fields_of_its_family_and_no_others(windows: WindowsState) -> None:
    assert set(TaskState(windows).to_json()["windows"]) == {field.name for field in fields(windows)}


def test_all_sections_that_a_task_needs_are_named() -> None:
    one, two, three, four = (replace(REF, segment=f"0/{name}") for name in "wxyz")
    bolt = BoltTaskState(user={"": three}, shown={"default": four})
    state = TaskState(AssignedState(keys=two), Refs([one]), [], bolt)
    assert {ref.segment for ref in state.all_refs()} == {"0/w", "0/x", "0/y", "0/z"}


def test_a_family_that_nobody_knows_is_refused() -> None:
    with pytest.raises(KeyError, match="heaps"):
        TaskState.from_json(TaskState(QueueState()).to_json() | {"family": "heaps"})
