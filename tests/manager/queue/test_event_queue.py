"""The event queue against a sorted list."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager import event_queue
from manager.event_queue import EventQueue
from tests.helpers.examples import examples
from windowing import Events
from windowing.columns import hash_order, order_within
from windowing.timestamps import FOREVER

Event = tuple[int, int]  # (time, number)


def events_of(rows: list[Event], streams: bool = False) -> Events:
    times = np.array([time for time, _ in rows], np.int64)
    payload = pa.record_batch({"n": pa.array([number for _, number in rows], pa.int64())})
    return Events(times, payload, np.array([number % 3 for _, number in rows], np.int8) if streams else None)


def numbers(queue: EventQueue) -> list[int]:
    return queue.settled_view().table(range(queue.settled_count)).column("n").to_pylist() if queue.settled_count else []


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.integers(0, 25), max_size=8)),
        st.tuples(st.just("settle"), st.integers(0, 6)),
        st.tuples(st.just("drop"), st.integers(0, 5)),
        st.tuples(st.just("restore"), st.just(0)),
    ),
    max_size=30,
)


@examples(300)
@given(MOVES, st.booleans())
def test_it_is_a_sorted_list_whose_head_is_settled(moves: list[tuple[str, Any]], streams: bool) -> None:
    queue = EventQueue(("a", "b", "c") if streams else ("a",))
    settled: list[Event] = []
    waiting: list[Event] = []
    frontier = count = dropped = 0
    for what, how in moves:
        match what:
            case "add":
                rows = [(frontier + time, count + at) for at, time in enumerate(how)]  # nothing before the frontier
                count += len(rows)
                waiting += rows
                queue.add(events_of(rows, streams))
            case "settle":
                frontier += how
                ready = sorted(row for row in waiting if row[0] <= frontier)
                assert queue.settle(frontier) == len(ready)
                settled += ready
                waiting = [row for row in waiting if row[0] > frontier]
            case "drop":
                gone = min(how, len(settled))
                queue.drop(gone)
                settled, dropped = settled[gone:], dropped + gone
            case "restore":
                parts = [*queue.settled_view().pieces(0, queue.settled_count), *queue.waiting_events]
                base, queue = queue.base, EventQueue(queue.stream_names)
                queue.base = base
                for part in parts:
                    queue.add(part)
                if settled:
                    queue.settle_first(len(settled))
        assert numbers(queue) == [number for _, number in settled]
        assert queue.timestamps.tolist() == [time for time, _ in settled]
        assert (queue.settled_count, queue.waiting, len(queue)) == (
            len(settled),
            len(waiting),
            len(settled) + len(waiting),
        )
        assert queue.base == dropped
        look = queue.settled_view()
        if settled:
            middle = len(settled) // 2
            assert look.table(range(middle, middle + 1)).to_pylist()[0] == {"n": settled[middle][1]}
            some = np.arange(0, len(settled), 2)
            assert look.table(some).column("n").to_pylist() == [settled[at][1] for at in some]
            assert look.timestamps(some).tolist() == [settled[at][0] for at in some]
            if streams:
                assert look.streams(range(len(settled))).tolist() == [number % 3 for _, number in settled]
                assert look.streams(some).tolist() == [settled[at][1] % 3 for at in some]
    queue.settle(FOREVER)
    assert numbers(queue) == [number for _, number in [*settled, *sorted(waiting)]]
    assert queue.waiting_events == []


def test_a_look_stays_as_it_was_when_the_queue_moves_on() -> None:
    queue = EventQueue()
    queue.add(events_of([(1, 1), (2, 2), (3, 3)]))
    queue.settle(3)
    look = queue.settled_view()
    queue.drop(3)
    for start in range(4, 5000, 7):
        queue.add(events_of([(at, at) for at in range(start, start + 7)]))
        queue.settle(start + 6)
        queue.drop(5)
    assert look.table(range(3)).column("n").to_pylist() == [1, 2, 3]
    assert look.timestamps(range(3)).tolist() == [1, 2, 3]


@given(
    parts=st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=8), min_size=1, max_size=6), streams=st.booleans()
)
@examples(200)
def test_parts_that_are_merged_where_they_overlap_are_in_order(parts: list[list[int]], streams: bool) -> None:
    rows: list[Event] = []
    added: list[list[Event]] = []
    for times in parts:
        added.append([(time, len(rows) + number) for number, time in enumerate(times)])
        rows.extend(added[-1])
    queue = EventQueue(["a", "b", "c"])
    queue.restore([events_of(part, streams) for part in added])
    with mock.patch.object(event_queue, "_LARGE", 1):
        queue.settle(30)
        queue.settle(FOREVER)
    expected = [number for _, number in sorted(rows)]
    assert numbers(queue) == expected
    codes = queue.settled_view().streams(range(len(expected)))
    assert codes.tolist() == [number % 3 if streams else 0 for number in expected]
    assert queue.timestamps.tolist() == sorted(time for time, _ in rows)


def test_of_large_parts_only_what_overlaps_is_copied() -> None:
    first, second = (events_of([(start + at, at) for at in range(50_000)]) for start in (0, 49_000))
    queue = EventQueue()
    queue.restore([first, second])
    queue.settle(FOREVER)
    view = queue.settled_view()
    pieces = view.pieces(0, queue.settled_count)
    assert [len(piece) for piece in pieces] == [49_000, 2_000, 49_000]
    addresses = [piece.payload.column(0).buffers()[1].address for piece in pieces]
    assert addresses[::2] == [events.payload.column(0).buffers()[1].address for events in (first, second)]
    assert view.table(range(49_000, 49_004)).column("n").to_pylist() == [49_000, 0, 49_001, 1]


def test_tables_are_slices_and_not_copies() -> None:
    queue = EventQueue()
    events = events_of([(at, at) for at in range(100)])
    queue.add(events)
    queue.settle(FOREVER)
    table = queue.settled_view().table(range(10, 20))
    assert table.column("n").chunk(0).buffers()[1].address == events.payload.column(0).buffers()[1].address


@pytest.mark.feature("ST-26")
def test_nothing_is_kept_of_events_that_were_dropped() -> None:
    queue = EventQueue()
    for start in range(0, 1000, 10):
        queue.add(events_of([(at, at) for at in range(start, start + 10)]))
        queue.settle(FOREVER)
        queue.drop(10)
    assert len(queue) == 0
    assert queue.settled_view().pieces(0, 0) == []
    assert len(queue._chunks) == len(queue._starts) == 0
    assert len(queue._times) <= 2048


@pytest.mark.parametrize("members", [range(0), np.array([], np.int64)])
def test_no_members_make_an_empty_table_of_the_columns(members: Any) -> None:
    queue = EventQueue()
    queue.add(events_of([(1, 1)]))
    queue.settle(FOREVER)
    table = queue.settled_view().table(members)
    assert table.column_names == ["n"]
    assert table.num_rows == 0


def test_hashes_are_put_in_order_whatever_their_lower_bits() -> None:
    chance = np.random.default_rng(3)
    for hashes in (
        chance.integers(-(1 << 63), (1 << 63) - 1, 500),
        chance.integers(-5, 5, 500),  # they differ in lower bits only
        np.repeat(chance.integers(-(1 << 63), (1 << 63) - 1, 20), 30),
        np.zeros(0, np.int64),
        np.array([7]),
    ):
        assert hash_order(hashes).tolist() == np.argsort(hashes, kind="stable").tolist()


def test_order_within_groups_is_stable_and_does_not_overflow() -> None:
    chance = np.random.default_rng(4)
    groups = np.sort(chance.integers(0, 9, 400))
    for keys in (chance.integers(0, 50, 400), chance.integers(-(1 << 61), 1 << 61, 400)):
        assert order_within(groups, keys).tolist() == np.lexsort((keys, groups)).tolist()
