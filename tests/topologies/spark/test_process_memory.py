"""Workers set aside what stays, so that a collection of garbage after each task does not look at it; what a run before
has left is collected."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from topologies.spark import process_memory


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threshold = gc.get_threshold()
    monkeypatch.setattr(process_memory, "_PAUSE", 0.0)
    monkeypatch.setattr(process_memory, "_not_before", 0.0)
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


class Node:
    """Refers to itself."""

    def __init__(self) -> None:
        self.me = self


def looked_at() -> int:
    return len(gc.get_objects())


def test_what_is_there_after_the_first_tasks_is_not_looked_at() -> None:
    process_memory.collect_previous_run()
    kept = []
    for number in range(5):
        kept.append([Node() for _ in range(1_000)])
        process_memory.exempt_settled_objects()
        if number < 3:
            assert looked_at() < 500, "all of it is set aside"
    assert 2_000 <= looked_at() < 4_500, "later objects are those of rows, which go"
    assert gc.get_freeze_count() > 3_000


def test_what_the_run_before_has_left_is_collected() -> None:
    process_memory.collect_previous_run()
    left = Node()
    gone = weakref.ref(left)
    process_memory.exempt_settled_objects()
    del left
    gc.collect()
    assert gone() is not None, "it was set aside"
    process_memory.collect_previous_run()
    assert gone() is None


def test_what_a_task_leaves_is_collected_before_the_rest_is_set_aside() -> None:
    process_memory.collect_previous_run()
    gone = weakref.ref(Node())
    process_memory.exempt_settled_objects()
    assert gone() is None


def test_topologies_that_take_turns_in_a_worker_do_not_make_it_collect_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_memory, "_PAUSE", 60.0)
    process_memory.collect_previous_run()
    collections: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda: collections.append(1))
    process_memory.collect_previous_run()
    assert not collections
    assert gc.get_freeze_count() > 0
