"""Whole topologies in one process: chains, diamonds, plain bolts, sinks, state, failures, crashes, compaction."""

from __future__ import annotations

import gc
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.storage.checkpoint import KEPT_BATCHES, FileCheckpoint, MemoryCheckpoint
from manager.storage.manifest import batch_key
from tests.helpers.examples import examples, sampled
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.ingest import Staging
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.report import BatchReport
from topologies.engine.source_splits import TableSource, file_splits
from topologies.io import sinks, spouts
from topologies.topology import Topology
from windbolt import RunOptions, Summary, TopologyBuilder, run_local
from windowing import (
    AggregateBolt,
    BatchBolt,
    Bolt,
    BoltError,
    ConfigError,
    DataError,
    Emit,
    StatefulWindowedBolt,
    TaskContext,
    TupleWindow,
    WindowedBolt,
    micros,
    millis,
    presets,
)
from windowing.aggregates import count
from windowing.bolts.bolt import pack_state
from windowing.settings.kinds import Session
from windowing.timestamps import from_datetime

Json = dict[str, Any]
EVENTS = "key string, value long, ts long"


class Sum(WindowedBolt):
    """One row a window; ``end`` in milliseconds."""

    outputs: ClassVar[Any] = "value long, n long, end long"

    def execute(self, window: TupleWindow) -> Any:
        values = window.table.column("value").to_pylist()
        return sum(values), len(values), window.end_timestamp // 1000


class Each(WindowedBolt):
    """The events of a window one by one, as they came."""

    outputs: ClassVar[Any] = "key string, value long"

    def execute(self, window: TupleWindow) -> Any:
        return window.table.select(["key", "value"])


def tumbling(bolt: WindowedBolt, length: int) -> WindowedBolt:
    return bolt.with_tumbling_window(millis(length))


def spout(*batches: list[tuple[str, int, int]]) -> spouts.MemorySpout:
    return spouts.memory(EVENTS, *batches)


def run(topology: Topology) -> Summary:
    return run_local(topology, RunOptions(clock=lambda: 0))


def accounts(summary: Summary, bolt: str) -> dict[str, int]:
    assert summary.last is not None
    return {account: number for account, number in summary.last.bolts[bolt].accounts.items() if number}


def steps(topology: Topology, batches: int, checkpoint: Any = None, restart: bool = False) -> Iterator[BatchReport]:
    """The batches of the memory spouts, and the close; with ``restart`` each by a MicroBatch of its own."""
    tables = {name: part.spout.tables() for name, part in topology.spouts.items()}  # type: ignore[union-attr]
    checkpoint = checkpoint or MemoryCheckpoint()
    step = MicroBatch(topology, checkpoint, InProcessExecutor())
    for number in range(batches + 1):
        if restart:
            again = FileCheckpoint(checkpoint.root) if isinstance(checkpoint, FileCheckpoint) else checkpoint
            step = MicroBatch(topology, again, InProcessExecutor())
        yield step.run(plan_of(tables, number, batches))


def plan_of(tables: dict[str, list[pa.Table]], number: int, batches: int) -> BatchPlan:
    if number == batches:
        return BatchPlan(number - 1, TimeAdvance(0, close=True), closing=True)
    splits = [
        TableSource(name, of_spout[number], sum(table.num_rows for table in of_spout[:number]))
        for name, of_spout in tables.items()
    ]
    return BatchPlan(number, TimeAdvance(0), splits)


# ---- chains


def chain(first: WindowedBolt, second: WindowedBolt, events: Any, tasks: int = 1) -> tuple[Topology, Any, Any]:
    builder, rows, totals = TopologyBuilder("chain"), sinks.memory(), sinks.memory()
    builder.set_spout("events", events)
    builder.set_bolt("first", first.with_timestamp_field("ts"), tasks).fields_grouping("events", "key")
    builder.set_bolt("second", second, tasks).shuffle_grouping("first")
    builder.set_sink("rows", rows).from_("first")
    builder.set_sink("totals", totals).from_("second")
    return builder.build(), rows, totals


def test_the_second_of_two_windowed_bolts_sees_what_the_first_emits_at_the_ends_of_its_windows() -> None:
    events = spout([("a", 1, 1), ("a", 2, 7)], [("a", 4, 12), ("a", 8, 25)], [("a", 16, 41)])
    topology, rows, totals = chain(tumbling(Sum(), 5), tumbling(Sum(), 20), events)
    summary = run(topology)
    assert [(row["end"], row["value"]) for row in rows.rows] == [(5, 1), (10, 2), (15, 4), (25, 8), (45, 16)]
    assert [(row["end"], row["value"]) for row in totals.rows] == [(20, 7), (40, 8), (60, 16)]
    assert accounts(summary, "second") == {"received": 5, "windowed": 5}


EVENT = st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(-30, 60))
SHAPES = [
    lambda bolt: bolt.with_tumbling_window(millis(7)),
    lambda bolt: bolt.with_window(millis(9), millis(4)),
    lambda bolt: bolt.with_window(3, 2),
    lambda bolt: bolt.with_window(2, millis(5)),
    lambda bolt: bolt.with_window(millis(6), 2),
    lambda bolt: bolt.with_window(2),
]


@examples(150, by_default=60)
@given(
    st.lists(st.lists(EVENT, max_size=8), max_size=6),
    st.sampled_from(SHAPES),
    st.sampled_from(SHAPES),
    st.sampled_from([0, 3, 20]),
    st.integers(1, 2),
)
def test_nothing_that_a_bolt_emits_is_late_for_the_next(
    batches: Any, first: Any, second: Any, lag: int, tasks: int
) -> None:
    topology, rows, _ = chain(first(Sum()).with_lag(millis(lag)), second(Sum()), spout(*batches), tasks)
    for report in steps(topology, len(batches)):
        assert report.bolts["second"].accounts["late"] == 0
        assert report.bolts["second"].accounts["received"] == report.bolts["first"].fired
    assert len(rows.rows) == report.bolts["first"].fired


@examples(60, by_default=20)
@given(st.lists(st.lists(EVENT, max_size=8), max_size=4), st.sampled_from(SHAPES), st.sampled_from(SHAPES))
def test_runs_that_go_on_after_a_close_lose_nothing(batches: Any, first: Any, second: Any) -> None:
    topology, rows, _ = chain(first(Sum()), second(Sum()), spout())
    schema = topology.spouts["events"].outputs["default"]
    step = MicroBatch(topology, MemoryCheckpoint(), InProcessExecutor())
    for number, events in enumerate(batches):
        columns = zip(*events, strict=True)
        table = pa.table(list(map(pa.array, columns)), schema=schema) if events else schema.empty_table()
        step.run(BatchPlan(number, TimeAdvance(0), [TableSource("events", table)]))
        report = step.run(BatchPlan(number, TimeAdvance(0, close=True), closing=True))  # which checks the accounts
        assert report.bolts["second"].accounts["received"] == len(rows.rows)
        assert [row["end"] for row in rows.rows] == sorted(row["end"] for row in rows.rows)


def test_a_chain_does_not_stall_when_the_first_bolt_is_quiet() -> None:
    events = spout([("a", 1, 1)], [("a", 2, 1000)], [("a", 3, 2000)])
    topology, _, totals = chain(tumbling(Sum(), 5), tumbling(Sum(), 20), events)
    reports = list(steps(topology, 3))
    assert [report.bolts["second"].watermark for report in reports] == [999, 999_999, 1_999_999, 2_000_000]
    assert [row["end"] for row in totals.rows] == [20, 1000, 2000]


def test_a_chain_goes_on_with_the_arrivals_where_each_key_has_its_own_watermark() -> None:
    rules = presets.azure(late="5s", out_of_order="0s", early=None, arrival_field="at")
    first = Each().with_time(rules).with_tumbling_window("10s").with_timestamp_field("ts").with_key("key")
    builder, out = TopologyBuilder("chain"), sinks.memory()
    spout = spouts.memory(
        "key string, value long, ts long, at long", [("a", 1, 1_000, 1_000)], [("b", 2, 60_000, 60_000)]
    )
    builder.set_spout("events", spout)
    builder.set_bolt("first", first.with_watermark(per_key=True)).fields_grouping("events", "key")
    builder.set_bolt("second", Sum().with_tumbling_window("20s")).global_grouping("first")
    builder.set_sink("out", out).from_("second")
    step = MicroBatch(builder.build(), MemoryCheckpoint(), InProcessExecutor())
    for number, table in enumerate(spout.tables()):
        report = step.run(BatchPlan(number, TimeAdvance(60_000_000 * number), [TableSource("events", table, number)]))
    assert report.bolts["second"].watermark == 54_999_998, "Azure's windows wait until time is past their end"
    assert [row["value"] for row in out.rows] == [1], "before the end of the streams"


class Starts(WindowedBolt):
    outputs: ClassVar[Any] = "value long, start timestamp"

    def execute(self, window: TupleWindow) -> Any:
        return window.table.num_rows, window.start


def test_a_second_bolt_with_a_timestamp_field_of_its_own_goes_by_the_times_it_sees() -> None:
    events = spout([("a", 1, 1)], [("a", 2, 12)], [("a", 3, 23)], [("a", 4, 34)])
    second = tumbling(Sum(), 10).with_timestamp_field("start")
    topology, _, totals = chain(tumbling(Starts(), 10), second, events)
    summary = run(topology)
    assert accounts(summary, "second") == {"received": 4, "windowed": 4}
    assert [row["end"] for row in totals.rows] == [0, 10, 20, 30]


def test_a_diamond_waits_for_both_sides() -> None:
    builder, out = TopologyBuilder("diamond"), sinks.memory()
    builder.set_spout("events", spout([("a", 1, 1), ("a", 2, 14)], [("a", 4, 30)], [("a", 8, 60)]))
    builder.set_bolt("short", tumbling(Sum(), 5).with_timestamp_field("ts")).global_grouping("events")
    builder.set_bolt("long", tumbling(Sum(), 20).with_timestamp_field("ts").with_lag(millis(10))).global_grouping(
        "events"
    )
    builder.set_bolt("both", tumbling(Each2(), 20)).global_grouping("short").global_grouping("long")
    builder.set_sink("out", out).from_("both")
    topology = builder.build()
    reports = list(steps(topology, 3))
    assert [report.bolts["both"].watermark for report in reports[:3]] == [3_999, 19_999, 49_999]
    assert all(report.bolts["both"].accounts["late"] == 0 for report in reports)
    assert [(row["end"], row["short"], row["long"]) for row in out.rows] == [
        (20, [1, 2], [3]),
        (40, [4], [4]),
        (60, [8], [8]),
    ]


class Each2(WindowedBolt):
    outputs: ClassVar[Any] = "end long, short array<long>, long array<long>"

    def execute(self, window: TupleWindow) -> Any:
        sides = [window.stream(name).column("value").to_pylist() for name in ("short", "long")]
        return (window.end_timestamp // 1000, *sides)


# ---- plain bolts


class Double(Bolt):
    outputs: ClassVar[Any] = {"default": EVENTS, "odd": "value long"}

    def execute(self, tuple: Any) -> Any:
        if tuple["value"] % 2:
            yield Emit((tuple["value"],), stream="odd")
        yield {**tuple.values, "value": tuple["value"] * 2}


class Keep(BatchBolt):
    outputs: ClassVar[Any] = EVENTS

    def execute(self, batch: pa.Table) -> Any:
        return batch.filter(pa.compute.greater(batch.column("value"), 2))


def test_plain_bolts_map_filter_and_emit_to_several_streams() -> None:
    builder, odd, total = TopologyBuilder("plain"), sinks.memory(), sinks.memory()
    builder.set_spout("events", spout([("a", 1, 1), ("a", 2, 2)], [("a", 3, 3), ("a", 4, 14)]))
    builder.set_bolt("double", Double()).shuffle_grouping("events")
    builder.set_bolt("keep", Keep()).shuffle_grouping("double")
    builder.set_bolt("sum", tumbling(Sum(), 10).with_timestamp_field("ts")).global_grouping("keep")
    builder.set_sink("odd", odd).from_("double", "odd")
    builder.set_sink("total", total).from_("sum")
    summary = run(builder.build())
    assert [row["value"] for row in odd.rows] == [1, 3]
    assert [(row["value"], row["n"]) for row in total.rows] == [(4 + 6, 2), (8, 1)]
    assert accounts(summary, "sum") == {"received": 3, "windowed": 3}


class Noted(Bolt):
    outputs: ClassVar[Any] = "value long, time long"

    def execute(self, tuple: Any) -> Any:
        return tuple["value"], tuple.timestamp


class NotedBatch(BatchBolt):
    outputs: ClassVar[Any] = "value long, n long"

    def execute(self, batch: pa.Table) -> Any:
        return [(value, batch.num_rows) for value in batch.column("value").to_pylist()]


@pytest.mark.parametrize("plain", [Noted(), NotedBatch()], ids=["tuple", "batch"])
def test_a_plain_bolt_between_two_windowed_ones_carries_the_time(plain: Any) -> None:
    builder, noted, totals = TopologyBuilder("between"), sinks.memory(), sinks.memory()
    builder.set_spout("events", spout([("a", 1, 1), ("a", 2, 7)], [("a", 4, 12), ("a", 8, 25)], [("a", 16, 41)]))
    builder.set_bolt("first", tumbling(Sum(), 5).with_timestamp_field("ts")).global_grouping("events")
    builder.set_bolt("plain", plain).shuffle_grouping("first")
    builder.set_bolt("second", tumbling(Sum(), 20)).global_grouping("plain")
    builder.set_sink("noted", noted).from_("plain")
    builder.set_sink("totals", totals).from_("second")
    summary = run(builder.build())
    assert [(row["end"], row["value"]) for row in totals.rows] == [(20, 7), (40, 8), (60, 16)]
    assert accounts(summary, "second")["windowed"] == 5
    if isinstance(plain, Noted):
        assert [row["time"] for row in noted.rows] == [5_000, 10_000, 15_000, 25_000, 45_000]


def test_without_event_time_a_tuple_has_the_clock_at_its_arrival() -> None:
    builder, noted = TopologyBuilder("clock"), sinks.memory()
    builder.set_spout("events", spout([("a", 1, 1)]))
    builder.set_bolt("noted", Noted()).shuffle_grouping("events")
    builder.set_sink("out", noted).from_("noted")
    run_local(builder.build(), RunOptions(clock=lambda: 77))
    assert noted.rows == [{"value": 1, "time": 77}]


# ---- streams and sinks


def test_several_sinks_may_take_one_stream_and_one_sink_several() -> None:
    builder, one, two = TopologyBuilder("sinks"), sinks.memory(), sinks.memory()
    builder.set_spout("left", spout([("a", 1, 1)]))
    builder.set_spout("right", spout([("b", 2, 1)], [("b", 3, 2)]))
    builder.set_sink("one", one).from_("left").from_("right")
    builder.set_sink("two", two).from_("right")
    run(builder.build())
    assert [row["value"] for row in one.rows] == [1, 2, 3]
    assert [row["value"] for row in two.rows] == [2, 3]


def test_late_events_can_be_the_input_of_another_bolt() -> None:
    builder, late, totals = TopologyBuilder("late"), sinks.memory(), sinks.memory()
    builder.set_spout("events", spout([("a", 1, 15)], [("a", 2, 3), ("a", 4, 15), ("b", 8, 9)], [("a", 16, 90)]))
    first = tumbling(Sum(), 5).with_timestamp_field("ts").with_late_tuple_stream("late")
    builder.set_bolt("first", first).global_grouping("events")
    builder.set_bolt("rest", tumbling(Sum(), 10).with_timestamp_field("_event_time")).global_grouping("first", "late")
    builder.set_sink("late", late).from_("first", "late")
    builder.set_sink("totals", totals).from_("rest")
    summary = run(builder.build())
    assert accounts(summary, "first") == {"received": 5, "windowed": 2, "late": 3}
    assert [(row["value"], row["_late_by_us"], row["_stream"]) for row in late.rows] == [
        (2, 12_000, "events"),
        (4, 0, "events"),
        (8, 6_000, "events"),
    ]
    assert {from_datetime(row["_watermark"]) for row in late.rows} == {15_000}
    assert late.rows[0]["_reason"] == "the watermark has passed it"
    assert "ends at the watermark" in late.rows[1]["_reason"]
    assert [(row["value"], row["end"]) for row in totals.rows] == [(10, 10), (4, 20)]


def test_events_without_a_usable_time_go_to_the_error_stream() -> None:
    builder, errors = TopologyBuilder("errors"), sinks.memory()
    far = 400_000_000_000_000
    builder.set_spout("events", spouts.memory(EVENTS, [("a", 1, 1), ("b", 2, None), ("c", 3, far), ("d", 4, 7)]))
    builder.set_bolt("sum", tumbling(Sum(), 5).with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("errors", errors).from_("sum", "errors")
    summary = run(builder.build())
    assert accounts(summary, "sum") == {"received": 4, "windowed": 2, "invalid": 2}
    assert [(row["_component"], row["_source"], row["_row"], row["_reason"]) for row in errors.rows] == [
        ("sum", "events", 1, "timestamp is null"),
        ("sum", "events", 2, "timestamp outside the years 1 to 9999"),
    ]
    assert json.loads(errors.rows[0]["_data"]) == {"key": "b", "value": 2, "ts": None}


@pytest.mark.parametrize(
    ("extractor", "reason"),
    [
        (lambda row: None, "timestamp is null"),
        (lambda row: 10**30, "timestamp outside the years 1 to 9999"),
        (lambda row: -(10**17), "timestamp outside the years 1 to 9999"),
        (lambda row: row["nothing"], "the timestamp extractor failed: KeyError: 'nothing'"),
        (lambda row: "soon", "the timestamp extractor failed: ValueError"),
    ],
)
def test_an_extractor_that_gives_no_time_is_the_reason(extractor: Any, reason: str) -> None:
    builder, errors = TopologyBuilder("errors"), sinks.memory()
    builder.set_spout("events", spout([("a", 1, 1)]))
    builder.set_bolt("sum", tumbling(Sum(), 5).with_timestamp_extractor(extractor)).global_grouping("events")
    builder.set_sink("errors", errors).from_("sum", "errors")
    summary = run(builder.build())
    assert accounts(summary, "sum") == {"received": 1, "invalid": 1}
    assert errors.rows[0]["_reason"].startswith(reason)


@pytest.mark.parametrize("answer", [pa.array([1.5]), pa.array(["x"]), pa.array([1, 2]), 7, None])
def test_an_extractor_of_columns_that_gives_no_times_fails_by_its_bolts_name(answer: Any) -> None:
    builder = TopologyBuilder("columns")
    builder.set_spout("events", spout([("a", 1, 1)]))
    bolt = tumbling(Sum(), 5).with_timestamp_extractor(lambda table: answer, columns=True)
    builder.set_bolt("sum", bolt).global_grouping("events")
    with pytest.raises(BoltError, match="'sum'"):
        run(builder.build())


def test_input_that_cannot_be_read_can_stop_the_run() -> None:
    builder, out = TopologyBuilder("stop", on_invalid="stop"), sinks.memory()
    builder.set_spout("events", spouts.memory(EVENTS, [("a", 1, 1)], [("b", 2, None)]))
    builder.set_bolt("sum", tumbling(Sum(), 5).with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("out", out).from_("sum")
    with pytest.raises(DataError, match="row 1: timestamp is null"):
        run(builder.build())


# ---- files


def write(folder: Path, name: str, rows: Json, at: int) -> None:
    pq.write_table(pa.table(rows), folder / name)
    os.utime(folder / name, (at, at))


def file_topology(folder: Path, out: Any, errors: Any, **options: Any) -> Topology:
    builder = TopologyBuilder("files", **options)
    builder.set_spout("events", spouts.files(folder / "*.parquet", "key string, value long, ts long"))
    builder.set_bolt("sum", tumbling(Sum(), 10).with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("out", out).from_("sum")
    builder.set_sink("errors", errors).from_("events", "errors")
    return builder.build()


def test_an_event_without_a_time_is_told_with_its_file_but_not_with_one_that_windbolt_made(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", {"key": ["a", "b"], "value": [1, 2], "ts": [1, 2]}, 1)
    write(tmp_path, "b.parquet", {"key": ["c", "d"], "value": [3, 4], "ts": [3, None]}, 2)
    schema = "key string, value long, ts long"
    for spout, source in (
        (spouts.files(tmp_path / "*.parquet", schema), "b.parquet"),
        (spouts.memory(schema, [("a", 1, 1)], [("c", 3, 3), ("d", 4, None)]), "events"),
    ):
        builder, errors = TopologyBuilder("errors"), sinks.memory()
        builder.set_spout("events", spout)
        builder.set_bolt("sum", tumbling(Sum(), 10).with_timestamp_field("ts")).global_grouping("events")
        builder.set_sink("errors", errors).from_("sum", "errors")
        run_local(builder.build(), RunOptions(str(tmp_path / f"checkpoint-{source}")))
        (row,) = errors.rows
        assert (Path(row["_source"]).name, row["_row"], row["_reason"]) == (source, 1, "timestamp is null")


def test_files_that_cannot_be_read_are_diverted_whole_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", {"key": ["a"], "value": [1], "ts": [1]}, 1)
    write(tmp_path, "b.parquet", {"key": ["a"], "ts": [2]}, 2)
    (tmp_path / "c.parquet").write_bytes(b"PAR1 and then nothing PAR1")
    (tmp_path / "d.parquet").write_bytes(b"")
    write(tmp_path, "e.parquet", {"key": [], "value": pa.array([], pa.int64()), "ts": pa.array([], pa.int64())}, 5)
    write(tmp_path, "f.parquet", {"key": ["a"], "value": [4], "ts": [3]}, 6)
    out, errors = sinks.memory(), sinks.memory()
    summary = run(file_topology(tmp_path, out, errors))
    assert [row["value"] for row in out.rows] == [5]
    bad = sorted(Path(row["_source"]).name for row in errors.rows)
    assert {"b.parquet", "c.parquet", "d.parquet"} >= set(bad) >= {"b.parquet", "c.parquet"}
    assert all(row["_row"] is None for row in errors.rows)
    assert "value" in next(row["_reason"] for row in errors.rows if row["_source"].endswith("b.parquet"))
    found = accounts(summary, "sum")
    assert found == {"received": 2 + len(bad), "windowed": 2, "invalid": len(bad)}
    with pytest.raises(DataError):
        run(file_topology(tmp_path, sinks.memory(), sinks.memory(), on_invalid="stop"))


def test_a_batch_that_runs_again_leaves_the_same_rows_and_no_other_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for at in range(4):
        rows = {"key": ["a", "b"], "value": [at, 1], "ts": [at * 10, at * 10 + 1]}
        write(tmp_path / "in", f"{at}.parquet", rows, at + 1)

    def results(name: str, crash: str | None) -> tuple[list[str], Json]:
        folder = tmp_path / name
        topology = file_topology(tmp_path / "in", sinks.files(folder), sinks.memory())
        checkpoint = MemoryCheckpoint()
        paths = [str(tmp_path / "in" / f"{at}.parquet") for at in range(4)]
        for number in range(5):
            if number < 4:
                plan = BatchPlan(number, TimeAdvance(0), file_splits(topology, [("events", paths[number])], 1))
            else:
                plan = BatchPlan(3, TimeAdvance(0, close=True), closing=True)
            if crash:
                checkpoint.plan(batch_key(plan.batch, plan.closing), {})  # as runners do before each step
                broken = MicroBatch(topology, checkpoint, InProcessExecutor())
                broken.hook = failing(crash)
                with pytest.raises(Crash):
                    broken.run(plan)
            MicroBatch(topology, checkpoint, InProcessExecutor()).run(plan)
        names = sorted(os.listdir(folder))
        return names, pq.read_table(folder).to_pydict()

    calm = results("calm", None)
    assert sum(calm[1]["value"]) == 0 + 1 + 2 + 3 + 4
    for phase in ("ingest", "tick", "fire", "compact", "sinks", "commit"):
        assert results(f"crash-{phase}", phase) == calm


def test_files_of_another_run_are_not_replaced(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", {"key": ["a"], "value": [1], "ts": [1]}, 1)
    run(file_topology(tmp_path, sinks.files(tmp_path / "out"), sinks.memory()))
    with pytest.raises(ConfigError, match="files of another run"):
        run(file_topology(tmp_path, sinks.files(tmp_path / "out"), sinks.memory()))


# ---- groupings


class WhoGets(WindowedBolt):
    outputs: ClassVar[Any] = "task long, keys array<string>"

    def execute(self, window: TupleWindow) -> Any:
        return window.task, sorted(window.table.column("key").to_pylist())


def who_gets(group: Any, tasks: int = 3) -> tuple[list[Json], Json]:
    builder, out = TopologyBuilder("groups"), sinks.memory()
    builder.set_spout("events", spout([(key, 0, 1) for key in "abcabc"], [(key, 0, 2) for key in "abc"]))
    group(builder.set_bolt("who", tumbling(WhoGets(), 5).with_timestamp_field("ts"), tasks))
    builder.set_sink("out", out).from_("who")
    summary = run(builder.build())
    return sorted(out.rows, key=lambda row: row["task"]), accounts(summary, "who")


def test_all_grouping_gives_every_task_a_copy_and_each_copy_is_accounted_for() -> None:
    rows, counts = who_gets(lambda bolt: bolt.all_grouping("events"))
    assert rows == [{"task": task, "keys": sorted("abcabcabc")} for task in range(3)]
    assert counts == {"received": 27, "windowed": 27}


def test_shuffle_grouping_takes_turns_by_place_in_the_source() -> None:
    rows, counts = who_gets(lambda bolt: bolt.shuffle_grouping("events"))
    assert rows == [{"task": task, "keys": [key] * 3} for task, key in enumerate("abc")]
    assert counts == {"received": 9, "windowed": 9}


def test_global_grouping_gives_all_to_the_first_task() -> None:
    rows, _ = who_gets(lambda bolt: bolt.global_grouping("events"))
    assert rows == [{"task": 0, "keys": sorted("abcabcabc")}]


def test_fields_grouping_keeps_equal_values_together() -> None:
    rows, counts = who_gets(lambda bolt: bolt.fields_grouping("events", "key"), tasks=5)
    assert counts == {"received": 9, "windowed": 9}
    homes = [key for row in rows for key in set(row["keys"])]
    assert sorted(homes) == ["a", "b", "c"]


# ---- state and failures


class Running(StatefulWindowedBolt):
    outputs: ClassVar[Any] = "windows long, total double, last string, rows long"
    state_types: ClassVar[Any] = {"windows": int, "total": float, "by_key": dict, "last": str, "kept": "value long"}

    def execute(self, window: TupleWindow) -> Any:
        state = self.state
        state["windows"] += 1
        for event in window.get():
            state["total"] += event["value"] / 2
            state["by_key"][event["key"]] = state["by_key"].get(event["key"], 0) + 1
            state["last"] = event["key"]
        state["kept"] = pa.concat_tables([state["kept"], window.table.select(["value"])])
        return state["windows"], state["total"], state["last"], state["kept"].num_rows


BATCHES = [[("a", 1, 1), ("b", 2, 7)], [("c", 4, 12)], [("a", 8, 25)], [("b", 16, 41), ("a", 1, 42)], [("a", 3, 60)]]


def stateful() -> tuple[Topology, sinks.MemorySink]:
    builder, out = TopologyBuilder("stateful"), sinks.memory()
    builder.set_spout("events", spout(*BATCHES))
    builder.set_bolt("run", tumbling(Running(), 5).with_timestamp_field("ts"), 2).fields_grouping("events", "key")
    builder.set_sink("out", out).from_("run")
    return builder.build(), out


@pytest.mark.feature("ST-27")
def test_state_is_restored_across_batches_processes_and_crashes(tmp_path: Path) -> None:
    topology, out = stateful()
    run(topology)
    expected = out.rows
    assert expected[-1]["windows"] >= 3
    for name, checkpoint in (("memory", MemoryCheckpoint()), ("files", FileCheckpoint(str(tmp_path)))):
        topology, out = stateful()
        list(steps(topology, len(BATCHES), checkpoint, restart=True))
        assert out.rows == expected, name


def test_state_on_disk_is_arrow_and_json(tmp_path: Path) -> None:
    topology, _ = stateful()
    list(steps(topology, len(BATCHES), FileCheckpoint(str(tmp_path)), restart=True))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".json", ".arrow"}
    assert not any(b"pickle" in path.read_bytes() or path.read_bytes()[:2] == b"\x80\x04" for path in files)


HALVES = "\ud83d" + "\ude00"
ONE = [1]
CIRCLE = list[Any]()
CIRCLE.append(CIRCLE)
DEEP = list[Any]()
for _ in range(3_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("types", "changes", "complaint"),
    [
        ({"n": int}, {"n": "one"}, "state 'n' is str 'one', and was declared int"),
        ({"n": int}, {"n": True}, "declared int"),
        ({"n": int}, {"n": 1.5}, "declared int"),
        ({"n": int}, {"m": 1}, "undeclared: \\['m'\\]"),
        ({"n": dict}, {"n": {1: 2}}, r"self.state\['n'\] has the key 1 \(a int\), and keys are kept as texts"),
        ({"n": dict}, {"n": {HALVES: 2}}, r"has the key .*, two halves of a character that JSON would make one"),
        ({"n": str}, {"n": HALVES}, r"self.state\['n'\] is .*, two halves of a character that JSON would make one"),
        ({"n": dict}, {"n": defaultdict(int)}, r"self.state\['n'\] is a defaultdict"),
        ({"n": list}, {"n": [(1, 2)]}, r"self.state\['n'\]\[0\] is a tuple \(1, 2\), which JSON does not have"),
        ({"n": list}, {"n": [{1, 2}]}, r"self.state\['n'\]\[0\] is a set"),
        ({"n": list, "m": list}, {"n": ONE, "m": [1, ONE]}, r"\['m'\]\[1\] is the same list as self.state\['n'\]"),
        ({"n": list}, {"n": CIRCLE}, r"self.state\['n'\] contains itself, at self.state\['n'\]\[0\]"),
        ({"n": list}, {"n": DEEP}, r"self.state contains itself, or is nested hundreds of levels deep"),
        ({"n": "a long"}, {"n": [1]}, "state 'n' is list"),
        ({"n": "a long"}, {"n": pa.table({"b": ["x"]})}, "declares"),
    ],
)
def test_state_that_is_not_what_was_declared_is_refused(types: Json, changes: Json, complaint: str) -> None:
    class Wrong(StatefulWindowedBolt):
        outputs: ClassVar[Any] = {}
        state_types: ClassVar[Any] = types

        def execute(self, window: TupleWindow) -> None:
            self.state.update(changes)

    builder = TopologyBuilder("wrong")
    builder.set_spout("events", spout([("a", 1, 1)]))
    builder.set_bolt("keeps", tumbling(Wrong(), 5).with_timestamp_field("ts")).global_grouping("events")
    with pytest.raises(BoltError, match=complaint) as found:
        run(builder.build())
    assert "'keeps'" in str(found.value)


def test_a_number_of_numpy_that_is_declared_as_a_number_is_kept() -> None:
    assert pack_state({"mean": np.float64(1.5), "at": [None, "é"]}, {"mean": float, "at": list}) == (
        '{"mean": 1.5, "at": [null, "\\u00e9"]}',
        {},
    )


class Fragile(Sum):
    broken = True

    def execute(self, window: TupleWindow) -> Any:
        if Fragile.broken and 4 in window.table.column("value").to_pylist():
            raise LookupError("no such value")  # the line that the error names
        return super().execute(window)


def test_an_exception_names_the_bolt_the_window_the_batch_and_the_line_and_a_later_run_goes_on() -> None:
    builder, out = TopologyBuilder("fragile"), sinks.memory()
    builder.set_spout("events", spout(*BATCHES))
    builder.set_bolt("sum", tumbling(Fragile(), 5).with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("out", out).from_("sum")
    topology, checkpoint = builder.build(), MemoryCheckpoint()
    tables = {"events": spout(*BATCHES).tables()}
    step = MicroBatch(topology, checkpoint, InProcessExecutor())
    step.run(plan_of(tables, 0, 5))
    step.run(plan_of(tables, 1, 5))
    with pytest.raises(BoltError) as found:
        step.run(plan_of(tables, 2, 5))
    text = str(found.value)
    number = next(
        at for at, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "raise LookupError" in line
    )
    assert "bolt 'sum' failed in task 0 on the window from 1970-01-01T00:00:00.010Z" in text
    assert "in batch 2" in text
    assert f"LookupError: no such value at {__file__}:{number}, in execute" in text
    assert "was not committed" in text
    assert isinstance(found.value.__cause__, LookupError)
    latest = checkpoint.latest()
    assert latest is not None
    assert latest.batch == 1
    Fragile.broken = False
    try:
        step = MicroBatch(topology, checkpoint, InProcessExecutor())
        for at in range(2, 6):
            step.run(plan_of(tables, at, 5))
    finally:
        Fragile.broken = True
    assert [(row["end"], row["value"]) for row in out.rows] == [(5, 1), (10, 2), (15, 4), (25, 8), (45, 17), (60, 3)]


def test_rows_that_were_not_declared_name_the_bolt_and_the_window() -> None:
    class Wrong(Sum):
        def execute(self, window: TupleWindow) -> Any:
            return "what"

    builder = TopologyBuilder("wrong")
    builder.set_spout("events", spout([("a", 1, 1)]))
    builder.set_bolt("sum", tumbling(Wrong(), 5).with_timestamp_field("ts")).global_grouping("events")
    with pytest.raises(BoltError, match=r"'sum' failed in task 0 on the window .* str 'what'"):
        run(builder.build())


class Broken(Bolt):
    outputs: ClassVar[Any] = EVENTS

    def execute(self, tuple: Any) -> Any:
        return {**tuple.values, "value": 1 // tuple["value"]}


def test_an_exception_in_a_plain_bolt_names_the_row() -> None:
    builder = TopologyBuilder("plain")
    builder.set_spout("events", spout([("a", 1, 1), ("a", 0, 2)]))
    builder.set_bolt("broken", Broken()).shuffle_grouping("events")
    with pytest.raises(BoltError, match=r"'broken' failed on row 1 of 'events', in batch 0\. ZeroDivisionError"):
        run(builder.build())


class Prepared(Sum):
    def prepare(self, context: TaskContext) -> None:
        assert not hasattr(self, "context")
        self.context = context

    def execute(self, window: TupleWindow) -> Any:
        return self.context.task, self.context.parallelism, window.end_timestamp // 1000


def test_a_bolt_is_prepared_anew_in_each_batch_and_task() -> None:
    builder, out = TopologyBuilder("prepared"), sinks.memory()
    builder.set_spout("events", spout(*BATCHES))
    builder.set_bolt("sum", tumbling(Prepared(), 5).with_timestamp_field("ts"), 2).shuffle_grouping("events")
    builder.set_sink("out", out).from_("sum")
    run(builder.build())
    assert {row["value"] for row in out.rows} == {0, 1}
    assert {row["n"] for row in out.rows} == {2}


# ---- crashes and restarts


class Crash(Exception):
    pass


def failing(phase: str) -> Any:
    def fail(begun: str) -> None:
        if begun == phase:
            raise Crash

    return fail


def everything() -> tuple[Topology, dict[str, sinks.MemorySink]]:
    """Several kinds of windows, in chains, with late events, errors, state and parallel tasks."""
    builder = TopologyBuilder("everything")
    out = {name: sinks.memory() for name in ("first", "late", "count", "run", "second", "errors")}
    builder.set_spout("events", spouts.memory(EVENTS, *BATCHES[:3], [("a", 5, 3), ("b", 6, None)], *BATCHES[3:]))
    sliding = Sum().with_window(millis(20), millis(5)).with_timestamp_field("ts").with_late_tuple_stream("late")
    builder.set_bolt("first", sliding, 2).fields_grouping("events", "key")
    counting = Sum().with_window(3, 2).with_timestamp_field("ts").with_lag("10ms")
    builder.set_bolt("count", counting).global_grouping("events")
    builder.set_bolt("run", tumbling(Running(), 5).with_timestamp_field("ts"), 2).shuffle_grouping("events")
    builder.set_bolt("second", tumbling(Sum(), 30), 2).shuffle_grouping("first").all_grouping("count")
    builder.set_sink("first_out", out["first"]).from_("first")
    builder.set_sink("late_out", out["late"]).from_("first", "late")
    builder.set_sink("count_out", out["count"]).from_("count")
    builder.set_sink("run_out", out["run"]).from_("run")
    builder.set_sink("second_out", out["second"]).from_("second")
    builder.set_sink("errors_out", out["errors"]).from_("first", "errors")
    return builder.build(), out


def outcome(reports: list[BatchReport], out: dict[str, sinks.MemorySink]) -> Json:
    rows = {name: sink.rows for name, sink in out.items()}
    assert all(rows.values())
    return {"rows": rows, "bolts": {name: bolt.accounts for name, bolt in reports[-1].bolts.items()}}


def test_restarting_from_disk_after_every_batch_changes_nothing(tmp_path: Path) -> None:
    topology, out = everything()
    expected = outcome(list(steps(topology, 6)), out)
    topology, out = everything()
    checkpoint = FileCheckpoint(str(tmp_path))
    assert outcome(list(steps(topology, 6, checkpoint, restart=True)), out) == expected
    assert len(list((tmp_path / "manifests").iterdir())) == KEPT_BATCHES
    latest = FileCheckpoint(str(tmp_path)).latest()
    assert latest is not None
    kept = {str(path.relative_to(tmp_path / "segments")) for path in (tmp_path / "segments").rglob("*.arrow")}
    assert latest.segments() <= kept


@pytest.mark.feature("ST-22")
@pytest.mark.parametrize(
    "phase", sampled(["ingest", "tick", "fire", "compact", "sinks", "commit", "publish", "committed"], 3, first=2)
)
def test_a_crash_as_a_phase_begins_changes_nothing(phase: str, tmp_path: Path) -> None:
    topology, out = everything()
    expected = outcome(list(steps(topology, 6)), out)
    topology, out = everything()
    tables = {"events": topology.spouts["events"].spout.tables()}  # type: ignore[union-attr]
    reports: list[BatchReport] = []
    for number in range(7):
        plan = plan_of(tables, number, 6)
        step = MicroBatch(topology, FileCheckpoint(str(tmp_path)), InProcessExecutor())
        step.hook = failing(phase)
        with pytest.raises(Crash):
            step.run(plan)
        step = MicroBatch(topology, FileCheckpoint(str(tmp_path)), InProcessExecutor())
        if phase in ("publish", "committed"):
            assert step.done(plan.batch)
            reports = []
            continue
        reports.append(step.run(plan))
    if phase in ("publish", "committed"):
        assert {name: sink.rows for name, sink in out.items()} == expected["rows"]
    else:
        assert outcome(reports, out) == expected


# ---- compaction


@pytest.mark.feature("ST-26")
@pytest.mark.parametrize("splits", sampled([12, 1], 2))
@pytest.mark.parametrize("bolt", [Sum().with_window(millis(100_000), millis(500)), Sum().with_window(900, 50)])
def test_many_small_batches_leave_few_segments_and_the_same_answers(bolt: WindowedBolt, splits: int) -> None:
    batches = 120

    def built(events: Any) -> tuple[Topology, sinks.MemorySink]:
        builder, out = TopologyBuilder("compact"), sinks.memory()
        builder.set_spout("events", events)
        builder.set_bolt("sum", bolt.with_timestamp_field("ts"), 2).fields_grouping("events", "key")
        builder.set_sink("out", out).from_("sum")
        return builder.build(), out

    rows = [("abcd"[at % 4], at, at * 7 // splits) for at in range(batches * splits)]
    topology, expected = built(spout(rows))
    run(topology)
    topology, out = built(spout())
    table = spout(rows).tables()[0]
    checkpoint = MemoryCheckpoint()
    step = MicroBatch(topology, checkpoint, InProcessExecutor())
    most = 0
    for number in range(batches):
        parts = [
            TableSource("events", table.slice(number * splits + at, 1), number * splits + at) for at in range(splits)
        ]
        step.run(BatchPlan(number, TimeAdvance(0), parts))
        most = max(most, *(len(task.refs) for task in step.manifest.bolts["sum"].tasks))
    step.run(BatchPlan(batches - 1, TimeAdvance(0, close=True), closing=True))
    assert most <= 24
    assert len(checkpoint.segments.tables) <= 60
    key = lambda row: (row["end"], row["value"], row["n"])  # noqa: E731
    assert sorted(out.rows, key=key) == sorted(expected.rows, key=key)


# ---- odds and ends


def test_dictionary_encoded_columns_go_all_the_way() -> None:
    schema = pa.schema([("key", pa.dictionary(pa.int32(), pa.string())), ("value", pa.int64()), ("ts", pa.int64())])

    def table(keys: list[str | None], start: int) -> pa.Table:
        numbers = pa.array(range(start, start + len(keys)), pa.int64())
        return pa.table([pa.array(keys).dictionary_encode(), numbers, numbers], schema=schema)

    builder, out = TopologyBuilder("dictionary"), sinks.memory()
    tables = table(["a", "b"], 1), table(["c", None, "a"], 3), table(["d"], 9)
    builder.set_spout("events", spouts.memory(schema, *tables))
    builder.set_bolt("who", WhoKeys().with_tumbling_window("10ms").with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("out", out).from_("who")
    topology = builder.build()
    list(steps(topology, 3))
    assert [row["keys"] for row in out.rows] == [["a", "b", "c", None, "a", "d"]]


class WhoKeys(WindowedBolt):
    outputs: ClassVar[Any] = "keys array<string>"

    def execute(self, window: TupleWindow) -> Any:
        return [{"keys": window.table.column("key").to_pylist()}]


def test_streams_that_lack_a_column_have_nulls_there() -> None:
    builder, out = TopologyBuilder("nulls"), sinks.memory()
    builder.set_spout("one", spouts.memory("key string, ts long", [("a", 1)]))
    builder.set_spout("two", spouts.memory("value long, ts long", [(5, 2)]))
    bolt = Pairs().with_tumbling_window("5ms").with_timestamp_field("ts")
    builder.set_bolt("pairs", bolt).global_grouping("one").global_grouping("two")
    builder.set_sink("out", out).from_("pairs")
    run(builder.build())
    assert out.rows == [{"key": "a", "value": None}, {"key": None, "value": 5}]


class Pairs(WindowedBolt):
    outputs: ClassVar[Any] = "key string, value long"

    def execute(self, window: TupleWindow) -> Any:
        return window.table.select(["key", "value"])


def test_a_topology_without_input_runs_and_closes() -> None:
    topology, out = everything()
    schema = topology.spouts["events"].outputs["default"]
    step = MicroBatch(topology, MemoryCheckpoint(), InProcessExecutor())
    step.run(BatchPlan(0, TimeAdvance(0), [TableSource("events", schema.empty_table())]))
    report = step.run(BatchPlan(0, TimeAdvance(0, close=True), closing=True))
    assert all(bolt.fired == 0 for bolt in report.bolts.values())
    assert not any(sink.rows for sink in out.values())


def test_a_local_run_can_be_stopped_and_then_does_not_close() -> None:
    topology, _ = everything()
    options = RunOptions(clock=lambda: 0)
    options = RunOptions(clock=lambda: 0, on_report=lambda report: options.stop.set(), stop=options.stop)
    summary = run_local(topology, options)
    assert summary.stopped
    assert summary.batches == 1


def test_a_local_run_comes_to_the_same_with_a_checkpoint_and_without(tmp_path: Path) -> None:
    """But for a shuffle, which starts over with each file, and errors, which say in which file a row was."""
    (bare, rows), (kept, same) = everything(), everything()
    run_local(bare, RunOptions(clock=lambda: 0))
    run_local(kept, RunOptions(str(tmp_path / "ck"), clock=lambda: 0))
    for name in ("first", "late", "count", "second"):
        assert same[name].rows == rows[name].rows != []
    assert len(same["run"].rows) == len(rows["run"].rows)
    assert [error["_reason"] for error in same["errors"].rows] == [error["_reason"] for error in rows["errors"].rows]


def test_the_report_counts_what_is_open() -> None:
    builder = TopologyBuilder("open")
    builder.set_spout("events", spout([("a", 1, 3), ("a", 2, 12)]))
    builder.set_bolt("sum", Sum().with_window("10ms", "5ms").with_timestamp_field("ts")).global_grouping("events")
    topology = builder.build()
    first, last = steps(topology, 1)
    assert first.bolts["sum"].windows == 2
    assert (first.bolts["sum"].open, last.bolts["sum"].open) == (2, 0)
    assert last.to_json()["bolts"]["sum"]["accounts"]["windowed"] == 2


@pytest.mark.parametrize(
    ("bolt", "most"),
    [
        (lambda: Sum().with_tumbling_window("10ms"), 1),
        (lambda: Sum().with_tumbling_window("10ms").with_key("key"), 50),
        (lambda: Sum().with_window("10ms", "5ms").with_key("key"), 100),
        (lambda: Sum().with_window("13ms", "5ms").with_alignment(aligned="starts"), 3),
        (lambda: Sum().with_window(3, 3), 16),
        (lambda: Sum().with_window(Session("10ms")), 50),
    ],
)
def test_no_more_windows_are_open_than_the_report_says(bolt: Callable[[], WindowedBolt], most: int) -> None:
    """Operators watch this number: of fifty keys it is not one."""
    builder = TopologyBuilder("open")
    builder.set_spout("events", spout([(f"key {number}", 1, 1) for number in range(50)]))
    builder.set_bolt("sum", bolt().with_timestamp_field("ts")).global_grouping("events")
    first, last = steps(builder.build(), 1)
    assert first.bolts["sum"].open is not None
    assert last.bolts["sum"].windows <= first.bolts["sum"].open <= most


@pytest.mark.parametrize(("bounds", "still_open"), [("(start, end]", (1, 1, 0)), ("[start, end)", (1, 1, 1))])
@pytest.mark.parametrize("bolt", [Sum, lambda: AggregateBolt(n=count())], ids=["events", "slices"])
def test_of_windows_one_after_the_other_the_report_counts_exactly_those_that_are_open(
    bolt: Callable[[], WindowedBolt], bounds: Literal["(start, end]", "[start, end)"], still_open: tuple[int, ...]
) -> None:
    """An event at 20 is in the window that ends there, and is closed with it, or in the one that begins there."""
    for latest, expected in zip((12, 15, 20), still_open, strict=True):
        builder = TopologyBuilder("open")
        builder.set_spout("events", spout([("a", 1, 3), ("a", 2, latest)]))
        windowed = bolt().with_tumbling_window("10ms").with_alignment(bounds=bounds).with_timestamp_field("ts")
        builder.set_bolt("sum", windowed).global_grouping("events")
        assert [report.bolts["sum"].open for report in steps(builder.build(), 1)] == [expected, 0]


def test_hashing_of_numpy_scalars_in_rows() -> None:
    builder, out = TopologyBuilder("numpy"), sinks.memory()
    builder.set_spout("events", spout([("a", 1, 1)]))
    builder.set_bolt("numpy", tumbling(Numpy(), 5).with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("out", out).from_("numpy")
    run(builder.build())
    assert out.rows == [{"value": 1, "n": 2, "end": 3}]


class Numpy(Sum):
    def execute(self, window: TupleWindow) -> Any:
        return np.int64(1), np.float64(2.0), np.int8(3)


def test_times_finer_than_a_millisecond() -> None:
    builder, out = TopologyBuilder("micros"), sinks.memory()
    builder.set_spout("events", spouts.memory("value long, ts timestamp"))
    builder.set_bolt("sum", Sum().with_tumbling_window(micros(10)).with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("out", out).from_("sum")
    topology = builder.build()
    schema = topology.spouts["events"].outputs["default"]
    table = pa.table([pa.array([1, 2, 4]), pa.array([3, 9, 11]).cast(pa.timestamp("us", "UTC"))], schema=schema)
    step = MicroBatch(topology, MemoryCheckpoint(), InProcessExecutor())
    step.run(BatchPlan(0, TimeAdvance(0, close=True), [TableSource("events", table)]))
    assert [row["value"] for row in out.rows] == [3, 4]


def test_what_a_task_has_staged_is_freed_when_it_ends() -> None:
    """Not at the next collection of circles: by then a fast run would have many batches in memory."""
    builder = TopologyBuilder("freed")
    builder.set_spout("events", spout([("a", 1, 1)], [("a", 2, 30)]))
    builder.set_bolt("sum", tumbling(Sum(), 5).with_timestamp_field("ts")).global_grouping("events")
    topology = builder.build()
    gc.collect()
    gc.disable()
    try:
        run(topology)
        assert not [each for each in gc.get_objects() if isinstance(each, Staging)]
    finally:
        gc.enable()


def test_sums_without_a_key_may_have_tasks_that_get_nothing() -> None:
    """A global grouping sends all events to the first of several tasks, whatever the bolt adds up."""
    builder, out = TopologyBuilder("sums"), sinks.memory()
    builder.set_spout("events", spouts.memory(EVENTS, [("a", 1, 1), ("b", 2, 2), ("c", 3, 12)]))
    sums = AggregateBolt(n=count()).with_tumbling_window("10ms").with_timestamp_field("ts")
    builder.set_bolt("sums", sums, parallelism=3).global_grouping("events")
    builder.set_sink("out", out).from_("sums")
    run_local(builder.build())
    assert [row["n"] for row in out.rows] == [2, 1]
