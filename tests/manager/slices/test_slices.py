"""Events that are added up as they come: the same rows and accounts as from a bolt that is given whole windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager import slices as overlapping
from manager.storage.checkpoint import MemoryCheckpoint
from policies.storm import (
    SliceGrid,
    TimeEvictionPolicy,
    TimeTriggerPolicy,
    WatermarkTimeEvictionPolicy,
    WatermarkTimeTriggerPolicy,
    in_gap,
)
from tests.helpers.examples import examples
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import TableSource
from topologies.io import sinks, spouts
from topologies.topology import Topology
from windbolt import TopologyBuilder
from windowing import AggregateBolt, Bounds, Duration, TupleWindow, parse_duration, presets
from windowing import aggregates as agg
from windowing.schema import EmittedRows
from windowing.settings.kinds import Session
from windowing.timestamps import FOREVER

COLUMNS = "id long, user string, shop int, ts long, amount double, pieces int"


class FromWindows(AggregateBolt):
    """The same bolt, given the events of each window."""

    def execute(self, window: TupleWindow) -> EmittedRows:
        return super().execute(window)


def declared(kind: type[AggregateBolt], by: tuple[str, ...], *, dense: bool) -> AggregateBolt:
    numbers: dict[str, Any] = {
        "start": agg.window_start(), "until": agg.window_end(), "n": agg.count(), "paid": agg.count("amount"),
        "total": agg.sum("amount"), "pieces_": agg.sum("pieces"), "mean": agg.mean("amount"),
        "least": agg.min("amount"), "most": agg.max("pieces"), "spread": agg.variance("pieces"),
        "weighted": agg.weighted_mean("amount", "pieces"), "corr": agg.corr("amount", "pieces"),
        "between": agg.histogram("amount", [-2, 0.5, 3]),
    }  # fmt: skip
    others = {
        "first": agg.first("id"), "last": agg.last("id"), "ids": agg.collect("id"), "low": agg.min("user"),
        "best": agg.max_by("id", by="amount"), "event": agg.min_by(by="pieces"), "three": agg.top(3, by="amount"),
        "often": agg.mode("pieces"), "about": agg.distinct_count("id", standard_error=0.1),
        "near": agg.quantile("amount", 0.7, relative_error=0.01),
        "by_pieces": agg.collect("id", order_by="pieces", limit=4), "some": agg.collect(["id", "user"], limit=2),
    }  # fmt: skip
    return kind(by, **numbers, **({} if dense else others))


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    slide = draw(st.integers(1, 7))
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "b", "c", None]), st.integers(0, 2), st.integers(0, 40),
                st.none() | st.integers(-8, 8).map(float), st.none() | st.integers(-5, 5), st.booleans(),
            ),
            min_size=1, max_size=60,
        )
    )  # fmt: skip
    return {
        "slide": slide,
        "length": draw(st.integers(1, 3 * slide + 2)),
        "offset": draw(st.integers(0, min(3, slide - 1))),
        "bounds": draw(st.sampled_from(Bounds)),
        "lag": draw(st.integers(0, 12)),
        "by": draw(st.sampled_from([(), ("user",), ("user", "shop"), ("shop",)])),
        "tasks": draw(st.integers(1, 3)),
        "dense": draw(st.booleans()),
        "rules": draw(st.sampled_from(["storm", "storm", "atlas", "clock"])),
        "rows": [(at, *row[:5]) for at, row in enumerate(rows)],
        "ends": [row[5] for row in rows],
    }


def topology(case: dict[str, Any], kind: type[AggregateBolt]) -> Topology:
    bolt = declared(kind, case["by"], dense=case["dense"])
    if case["rules"] == "atlas":
        bolt = bolt.with_time(presets.atlas())
    bolt = bolt.with_window(f"{case['length']}ms", f"{case['slide']}ms").with_alignment(bounds=case["bounds"])
    if case["rules"] == "clock":
        bolt = bolt.with_time(processing=True)
    else:
        bolt = bolt.with_timestamp_field("ts").with_lag(f"{case['lag']}ms").with_late_tuple_stream("late")
    bolt = bolt.with_alignment(offset=f"{case['offset']}ms")
    return wired(COLUMNS, bolt, next(iter(case["by"]), None), case["tasks"])


def wired(columns: str, bolt: AggregateBolt, grouped_by: str | None, tasks: int) -> Topology:
    """The bolt ``sums`` of two spouts, in one task where they are not grouped; its rows and late events are kept."""
    builder = TopologyBuilder("sums")
    declarer = builder.set_bolt("sums", bolt, parallelism=1 if grouped_by is None else tasks)
    for name in ("left", "right"):
        builder.set_spout(name, spouts.memory(columns))
        if grouped_by is None:
            declarer.global_grouping(name)
        else:
            declarer.fields_grouping(name, grouped_by)
    builder.set_sink("out", sinks.memory()).from_("sums")
    if bolt.settings.late_stream is not None:
        builder.set_sink("late", sinks.memory()).from_("sums", "late")
    return builder.build()


def batches(case: dict[str, Any], schema: pa.Schema) -> Iterator[tuple[int, list[TableSource]]]:
    """Each batch with its number; the input changes from one to the other spout within it."""
    splits, first = list[TableSource](), 0
    for at, ends in enumerate(case["ends"]):
        if at % 5 == 4 or ends:
            columns = zip(*case["rows"][first : at + 1], strict=True)
            table = pa.table(
                [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
            )
            splits.append(TableSource("right" if at % 3 == 0 else "left", table, first))
            first = at + 1
        if ends:
            yield at, splits
            splits = []
    yield len(case["ends"]), splits


def run(case: dict[str, Any], kind: type[AggregateBolt]) -> tuple[list[dict[str, Any]], Any, Any]:
    built, checkpoint = topology(case, kind), MemoryCheckpoint()
    if case["rules"] != "atlas":  # where an event may miss one window and be in another, those are assigned
        assert (built.windowed["sums"].partial_sums is not None) == (kind is AggregateBolt)
    accounts, clock = [], 0
    for number, splits in batches(case, built.spouts["left"].outputs["default"]):
        last = number == len(case["ends"])
        clock += 3_000
        report = MicroBatch(built, checkpoint, InProcessExecutor()).run(
            BatchPlan(number, TimeAdvance(clock, close=last), splits, closing=last)
        )
        accounts.append((report.bolts["sums"].accounts, report.bolts["sums"].windows))
    return rows_of(built, "out"), rows_of(built, "late"), accounts


def rows_of(built: Topology, name: str) -> list[dict[str, Any]]:
    sink = built.sinks[name].sink if name in built.sinks else None
    return sink.rows if isinstance(sink, sinks.MemorySink) else []


def assert_alike(rows: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Equal, except for the last digits of what is not a whole number."""
    assert len(rows) == len(wanted)
    for row, other in zip(rows, wanted, strict=True):
        for name, value in row.items():
            rounded = name in ("mean", "spread", "weighted", "corr") and value is not None
            assert value == (pytest.approx(other[name]) if rounded else other[name]), name


@examples(200, by_default=120)
@given(cases())
def test_rows_and_accounts_are_those_of_whole_windows(case: dict[str, Any]) -> None:
    rows, late, accounts = run(case, AggregateBolt)
    wanted, wanted_late, wanted_accounts = run(case, FromWindows)
    assert_alike(rows, wanted)
    assert late == wanted_late
    assert accounts == wanted_accounts


@pytest.mark.parametrize("dense", [True, False])
def test_both_ways_to_join_windows_agree(monkeypatch: pytest.MonkeyPatch, dense: bool) -> None:
    chance = np.random.default_rng(3)
    rows = [
        (at, "abcd"[chance.integers(4)], int(chance.integers(3)), int(at // 3 + chance.integers(9)),
         float(chance.integers(9)), int(chance.integers(9)))
        for at in range(400)
    ]  # fmt: skip
    case: dict[str, Any] = {
        "slide": 2, "length": 15, "offset": 0, "bounds": Bounds.START, "lag": 9, "by": ("user", "shop"), "tasks": 2,
        "dense": True, "rules": "storm", "rows": rows, "ends": [at % 37 == 36 for at in range(400)],
    }  # fmt: skip
    monkeypatch.setattr("manager.slices.dense_is_cheaper", lambda *_: dense)
    rows_found, _, accounts = run(case, AggregateBolt)
    wanted, _, wanted_accounts = run(case, FromWindows)
    assert accounts == wanted_accounts
    assert len(wanted) > 500
    assert_alike(rows_found, wanted)


@given(
    st.integers(1, 9), st.integers(1, 30), st.integers(-3, 12), st.sampled_from(Bounds),
    st.lists(st.integers(-100, 100), min_size=1),
)  # fmt: skip
def test_slices_lie_whole_in_windows(slide: int, length: int, offset: int, bounds: Bounds, found: list[int]) -> None:
    eviction = TimeEvictionPolicy(Duration(length), bounds)
    trigger = TimeTriggerPolicy(Duration(slide), bounds, Duration(0))
    made = SliceGrid.of(eviction, trigger)
    assert made is not None
    slices = replace(made, offset=offset)
    times = np.sort(np.array(found, np.int64))
    numbers = slices.numbers(times)
    ends = slices.times(numbers)
    assert (np.diff(numbers) >= 0).all()
    assert (ends >= times).all()
    assert (slices.numbers(ends) == numbers).all()
    for end in range(offset - 20 * slide, offset + 20 * slide, slide):
        inside = [bounds.holds(end - length, end, time) for time in times.tolist()]
        assert inside == [bounds.holds(end - length, end, time) for time in ends.tolist()]


def test_windows_by_other_rules_are_given_their_events() -> None:
    for bolt in (
        AggregateBolt(n=agg.count()).with_window(3, 2),
        AggregateBolt(n=agg.count()).with_window(Session("2s"), Session("3s")),
        AggregateBolt(n=agg.count()).with_window(Session("2s")).with_policies(expired=True),
        AggregateBolt(n=agg.count()).with_window(Session("2s")).with_message_id_field("id"),
    ):
        builder = TopologyBuilder("others")
        builder.set_spout("left", spouts.memory(COLUMNS))
        builder.set_bolt("sums", bolt.with_timestamp_field("ts")).global_grouping("left")
        assert builder.build().windowed["sums"].partial_sums is None


class Half(WatermarkTimeEvictionPolicy):
    """Windows of half the length."""

    def starts(self, timestamps: Any, ends: Any, stops: Any) -> Any:
        return self.bounds.count_before_end(timestamps, ends - self.length.micros // 2)


class Twice(WatermarkTimeTriggerPolicy):
    """Windows at half slides too."""

    def firings(self, queue: Any, reach: Any) -> Any:
        return replace(self, slide=Duration(self.slide.micros // 2)).firings(queue, reach)


def test_policies_of_ones_own_are_given_events() -> None:
    length, slide = parse_duration("10s"), parse_duration("10s")
    mine = Half(length), Twice(slide)
    assert SliceGrid.of(WatermarkTimeEvictionPolicy(length), WatermarkTimeTriggerPolicy(slide)) is not None
    assert SliceGrid.of(mine[0], WatermarkTimeTriggerPolicy(slide)) is None
    assert SliceGrid.of(WatermarkTimeEvictionPolicy(length), mine[1]) is None


def test_an_event_at_the_end_of_time_is_in_no_window() -> None:
    overlapping = TimeEvictionPolicy(Duration(10)), WatermarkTimeTriggerPolicy(Duration(5))
    found = in_gap(*overlapping, np.array([3, FOREVER]))
    assert found is not None
    assert found.tolist() == [False, True]
    assert in_gap(*overlapping, np.array([3, 4])) is None
    apart = TimeEvictionPolicy(Duration(2)), WatermarkTimeTriggerPolicy(Duration(5))
    gap = in_gap(*apart, np.array([5, 7, FOREVER]))
    assert gap is not None
    assert gap.tolist() == [False, True, True]


def test_what_stacks_join_is_bounded() -> None:
    present = agg.count("amount").accumulators
    rows, slices = np.array([10**9]), np.array([10])
    assert overlapping.dense_is_cheaper(present, 1_000, rows, slices)
    assert not overlapping.dense_is_cheaper(present, 10**9, rows, slices)
