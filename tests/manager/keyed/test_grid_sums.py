"""Windows on a grid that assigners form, whose events are added up as they come: rows, late events and accounts are
those of a bolt that is given the events of each window.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from policies.assigners import AlignedWindows, CalendarWindows, GridWindows, LiveEvents
from policies.assigners.aligned import Unit
from tests.helpers.examples import examples, sampled
from tests.helpers.kept_sums import COLUMNS, LATENESS, PANES, UNFIT, assert_as_from_events, most_rows
from topologies.engine import micro_batch
from topologies.graph.describing import topology_text
from windbolt import TopologyBuilder, spouts
from windowing import AggregateBolt, Bounds, Count, Duration
from windowing import aggregates as agg
from windowing.settings.kinds import Calendar, Hopping, Session
from windowing.settings.panes import Panes
from windowing.timestamps import FOREVER

BY_WINDOW = [name for name in LATENESS if "session" not in name]


def case_of(rows: list[tuple[str, int]], ends: set[int], **others: Any) -> dict[str, Any]:
    """A case of rows of a key and a time; batches end with these rows."""
    settings: dict[str, Any] = {
        "kind": "tumbling", "slide": 9, "more": 1, "bounds": Bounds.END, "key": True, "lag": 0, "by": None, "tasks": 1,
        "dense": False, "lateness": "storm", "panes": "",
    }  # fmt: skip
    made = [(at, key, 1, time, 1.0, 1, 0) for at, (key, time) in enumerate(rows)]
    return {**settings, **others, "rows": made, "ends": [at in ends for at in range(len(made))]}


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "b", None]), st.integers(0, 2), st.integers(-3, 40),
                st.none() | st.integers(-8, 8).map(float), st.none() | st.integers(-5, 5), st.booleans(),
            ),
            min_size=1, max_size=50,
        )
    )  # fmt: skip
    lateness = draw(st.sampled_from(["clock", *BY_WINDOW]))
    kind = draw(
        st.sampled_from(["tumbling", "tumbling", "hopping", "gaps", "calendar", "last", "anchored", "start", "several"])
    )
    often = kind not in ("hopping", "last", "several")
    return {
        "kind": kind,
        "slide": draw(st.integers(2, 9)),
        "more": draw(st.integers(1, 15)),
        "bounds": draw(st.sampled_from(Bounds)),
        "key": draw(st.booleans()) or lateness == "each key",
        "lag": draw(st.integers(0, 12)),
        "by": draw(st.sampled_from([None, (), ("user",), ("user", "shop"), ("shop",)])),
        "tasks": draw(st.integers(1, 3)),
        "dense": draw(st.booleans()),
        "lateness": lateness,
        "panes": draw(st.sampled_from(["", *sorted(set(PANES) - UNFIT.get(lateness, set()))])) if often else "",
        "rows": [(at, *row[:5], 0) for at, row in enumerate(rows)],
        "ends": [row[5] for row in rows],
    }


def with_windows(bolt: AggregateBolt, case: dict[str, Any]) -> AggregateBolt:
    bolt = bolt.with_alignment(bounds=case["bounds"])
    slide, more = case["slide"], case["more"]
    match case["kind"]:
        case "hopping":
            return bolt.with_window(f"{slide + more}ms", f"{slide}ms")
        case "gaps":
            return bolt.with_window(f"{min(more, slide - 1)}ms", f"{slide}ms")
        case "calendar":
            return bolt.with_window(Calendar("hour", "Europe/Berlin"))
        case "last":
            return bolt.with_window(Calendar("hour", "Europe/Berlin", last=min(more, 4)))
        case "several":
            return bolt.with_window(Hopping(f"{slide}ms", f"{slide}ms"), Hopping(f"{more}ms", f"{slide + more % 3}ms"))
        case "anchored":
            bolt = bolt.with_alignment(anchor=7_000)
        case "start":
            bolt = bolt.with_alignment(anchor="start")
    return bolt.with_tumbling_window(f"{slide}ms")


LATE_FOR_ONE_WINDOW = case_of(
    [("b", 30), ("a", 1), ("a", 9), ("a", 1), ("a", 4)], {0, 4}, kind="hopping", slide=3, more=6, lateness="each event"
)
"""In one batch, an event that is late for a window which is not evaluated yet, and one of the same time before it."""
MISSED_BY_THE_EARLIER_ONE = case_of(
    [("b", 30), ("a", 8), ("a", 4)], {0, 2}, kind="hopping", slide=5, more=2, lateness="each event"
)
"""In one batch, an event that comes too late for a window in which the later one before it is not."""
IN_A_GAP_OR_LATE = case_of([("b", 30), ("a", 14), ("a", 10)], {0, 2}, kind="several", more=2, lateness="each event")
"""In one batch, an event in a gap of one kind of windows, and one that comes too late for the window before the gap.

Both are in the same window of the other kind."""
SHOWN_AND_NEW = case_of([("a", 1), ("a", 2), ("a", 3), ("a", 4)], {1, 2, 3}, panes="discarding")
"""Rows of one window are merged, of which some have been shown and some have not."""
COUNTED_FROM_A_CLOCK = case_of([("a", 12), ("a", 15), ("a", 16)], {0, 1, 2}, kind="start", lag=12)
"""Rows of windows that are counted from the first clock of the run, 5 ms, are merged."""


@examples(150)
@example(LATE_FOR_ONE_WINDOW)
@example(MISSED_BY_THE_EARLIER_ONE)
@example(IN_A_GAP_OR_LATE)
@example(SHOWN_AND_NEW)
@example(COUNTED_FROM_A_CLOCK)
@given(cases())
def test_rows_and_accounts_are_those_of_windows_of_events(case: dict[str, Any]) -> None:
    if case["kind"] in ("calendar", "last"):  # hours, where others have milliseconds
        hours = 3_600_000 // 4
        case = {**case, "rows": [(*row[:3], row[3] * hours, *row[4:]) for row in case["rows"]]}
    since = 5 - 700_000 if case["kind"] == "start" and case["lateness"] != "clock" else 0
    _, late, _ = assert_as_from_events(case, with_windows, since)
    event(f"{case['kind']}, {case['lateness']}: {'late events' if late else 'none late'}")


GRIDS: dict[str, Callable[[int, int, Bounds], GridWindows]] = {
    "aligned": lambda length, slide, bounds: AlignedWindows(Duration(length), Duration(slide), bounds),
    "anchored": lambda length, slide, bounds: AlignedWindows(Duration(length), Duration(slide), bounds, origin=5),
    "calendar": lambda length, slide, bounds: CalendarWindows("hour", "Europe/Berlin", bounds, last=1 + length % 4),
}


@example("aligned", 7, 5, Bounds.END, [(0, 4, 5), (0, 6, 0)])
@example("aligned", 20, 5, Bounds.END, [(0, 3, -30), (0, 4, 7), (0, 4, -30)])
@example("aligned", 1, 2, Bounds.END, [(0, 38, 38), (0, 39, 0)])
@given(
    st.sampled_from(sorted(GRIDS)), st.integers(1, 25), st.integers(1, 9), st.sampled_from(Bounds),
    st.lists(st.tuples(st.integers(0, 2), st.integers(-30, 60), st.integers(-30, 60)), min_size=1, max_size=40),
)  # fmt: skip
def test_a_row_is_in_the_windows_of_each_event_of_its_run(
    name: str, length: int, slide: int, bounds: Bounds, found: list[tuple[int, int, int]]
) -> None:
    grid, unit = GRIDS[name](length, slide, bounds), 600_000_000 if name == "calendar" else 1
    keys, times, limits = (np.array(column, np.int64) for column in zip(*sorted(found), strict=True))
    times, limits = times * unit, limits * unit
    runs = grid.runs(LiveEvents(times, keys, closed_until=limits))
    least = np.full(len(runs.starts), FOREVER)
    np.minimum.at(least, runs.numbers, limits)
    rows = LiveEvents(runs.starts, keys[np.unique(runs.numbers, return_index=True)[1]], closed_until=least)
    windows = windows_by_member(grid, rows)
    assert windows_by_member(grid, LiveEvents(times, keys, closed_until=limits)) == [windows[at] for at in runs.numbers]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Apia", "Asia/Kathmandu"])
@pytest.mark.parametrize("unit", ["hour", "day", "week", "month", "year"])
def test_an_event_may_have_missed_all_its_windows_at_any_local_time(unit: Unit, zone: str) -> None:
    times = np.arange(-20, 20) * 6 * 3_600_000_000 + 1_325_239_200_000_000  # Samoa skipped a day there
    for last in (1, 3):
        grid = CalendarWindows(unit, zone, last=last)
        for at in range(len(times)):  # alone, so that no other event asks for further boundaries
            live = LiveEvents(times[at : at + 1], closed_until=np.array([FOREVER - 1]))
            first, end = grid.first_and_last_end_of_points(live)
            assert first[0] > end[0] > times[at]
            assert len(grid.runs(live).starts) == 1


def windows_by_member(grid: GridWindows, live: LiveEvents) -> list[list[tuple[int, int]]]:
    held: list[list[tuple[int, int]]] = [[] for _ in range(len(live))]
    assert live.closed_until is not None
    for at in range(len(live)):
        one = LiveEvents(live.starts[at : at + 1], closed_until=live.closed_until[at : at + 1])
        for piece in grid.assign(one, -FOREVER, FOREVER):
            held[at].extend(zip(piece.starts.tolist(), piece.ends.tolist(), strict=True))
    return held


@pytest.mark.parametrize("panes", sampled(["", "discarding"], 2, lambda panes: panes or "none"))
def test_a_window_of_many_events_in_many_batches_is_few_rows(panes: str) -> None:
    """However many events there are: a row for each segment, and these are merged."""
    many = 600
    case = case_of([("a", at + 1) for at in range(many)], set(range(0, many, 6)), slide=10_000, panes=panes)
    assert most_rows(case, with_windows) <= 3 * micro_batch._FANOUT * (2 if panes else 1)


def counting() -> AggregateBolt:
    return AggregateBolt(n=agg.count()).with_timestamp_field("ts")


def by_arrival() -> AggregateBolt:
    return AggregateBolt(n=agg.count()).with_time(processing=True)


OTHERS: dict[str, Callable[[], AggregateBolt]] = {
    "counts by event time": lambda: counting().with_key("user").with_tumbling_window(Count(3)),
    "counts of parts of slides": lambda: by_arrival().with_key("user").with_window(Count(3), Count(2)),
    "counts with gaps": lambda: by_arrival().with_key("user").with_window(Count(2), Count(4)),
    "counts without a key": lambda: by_arrival().with_tumbling_window(Count(3)),
    "sessions among several kinds": lambda: (
        counting().with_key("user").with_window(Session("1s"), Calendar("day", "UTC"))
    ),
    "panes that overlap": lambda: counting().with_window("4s", "2s").with_trigger(Panes(**PANES["discarding"])),
    "windows without events": lambda: (
        counting().with_key("user").with_tumbling_window("2s").with_empty_windows(until="8s")
    ),
    "expired events": lambda: counting().with_key("user").with_tumbling_window("2s").with_policies(expired=True),
    "message ids": lambda: counting().with_key("user").with_tumbling_window("2s").with_message_id_field("id"),
    "lifetimes": lambda: counting().with_tumbling_window("2s").with_lifetime("gap"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_windows_that_need_their_events_keep_them(name: str) -> None:
    builder = TopologyBuilder("others")
    builder.set_spout("left", spouts.memory(COLUMNS))
    builder.set_bolt("sums", OTHERS[name]()).fields_grouping("left", "user")
    built = builder.build()
    assert built.windowed["sums"].partial_sums is None
    assert "the events of its windows" in topology_text(built)


@pytest.mark.parametrize("keyed", [True, False])
def test_describe_says_that_sums_by_window_are_kept(keyed: bool) -> None:
    bolt = counting().with_tumbling_window("2s").with_trigger(Panes(**PANES["discarding"]))
    builder = TopologyBuilder("described")
    builder.set_spout("left", spouts.memory(COLUMNS))
    builder.set_bolt("sums", bolt.with_key("user") if keyed else bolt).fields_grouping("left", "user")
    assert "sums by window, no events" in topology_text(builder.build())
