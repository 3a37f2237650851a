"""Events whose end is not known yet: null, or 9999-12-31, the last day that databases can write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow.csv import read_csv
from pyarrow.json import read_json
from pyarrow.parquet import read_table

from topologies.testing.bolt_run import run_bolt
from windbolt import RunOptions, TopologyBuilder, replay, run_local, sinks, spouts, state
from windowing import (
    AggregateBolt,
    AlterLifetime,
    Calendar,
    Rank,
    Session,
    SlidingLog,
    Snapshot,
    TemporalJoin,
    TopN,
    TupleWindow,
    WindowedBolt,
    WindowJoin,
    presets,
)
from windowing.aggregates import count, window_end, window_start
from windowing.timestamps import FOREVER, LATEST, OPEN_END, from_datetime, to_datetime

LAST_DAY = [
    datetime(9999, 12, 31, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(9999, 12, 31, tzinfo=UTC) - timedelta(hours=14),
]
EARLIER = datetime(9999, 12, 30, tzinfo=UTC)


def at(seconds: int) -> datetime:
    return datetime(2026, 3, 2, tzinfo=UTC) + timedelta(seconds=seconds)


def later_run(end: datetime | None, checkpoint: Path) -> tuple[list[dict[str, Any]], int]:
    """What a second run on a checkpoint joins, and how many events were late there; a price of the first met none."""

    def built(runs: int) -> tuple[Any, Any]:
        builder, out = TopologyBuilder("later"), sinks.memory()
        prices = [[("b", at(0), 5, end)], [("a", at(20), 7, at(40))]]
        orders = [[("a", at(9))], [("a", at(30))]]
        columns = "item string, ts timestamp, price long, until timestamp"
        builder.set_spout("prices", spouts.memory(columns, *prices[:runs]))
        builder.set_spout("orders", spouts.memory("item string, ts timestamp", *orders[:runs]))
        join = TemporalJoin("orders", "prices", on="item", how="full").with_timestamp_field("ts").with_lifetime("until")
        builder.set_bolt("join", join).global_grouping("prices").global_grouping("orders")
        builder.set_sink("out", out).from_("join")
        return builder.build(), out

    options = RunOptions(str(checkpoint))
    run_local(built(1)[0], options)
    second, out = built(2)
    summary = run_local(second, options)
    return out.rows, summary.this_run()["join"].accounts["late"]


def test_the_last_day_begins_where_the_day_begins_first() -> None:
    assert to_datetime(OPEN_END) == LAST_DAY[2]
    assert from_datetime(LAST_DAY[1]) == LATEST


class Spans(WindowedBolt):
    outputs = "start long, ids string, ends string"

    def execute(self, window: TupleWindow) -> Any:
        ends = ",".join(str(end) for end in window.lifetime_ends.tolist())
        return {"start": window.start_timestamp, "ids": "".join(window.column("id").tolist()), "ends": ends}


@pytest.mark.parametrize("end", LAST_DAY, ids=str)
def test_an_end_on_the_last_day_is_no_end_as_null_is(end: datetime) -> None:
    bolt = Spans().with_time(presets.streaminsight(1, to_infinity=True)).with_window(Snapshot())
    bolt = bolt.with_timestamp_field("ts").with_lifetime("until")
    schema = "id string, ts timestamp, until timestamp"
    rows, null, earlier = (
        run_bolt(bolt, [("a", at(0), given), ("b", at(5), at(7))], schema).rows for given in (end, None, EARLIER)
    )
    assert rows == null != earlier
    assert len(rows) == len(earlier)


@pytest.mark.parametrize("end", [None, *LAST_DAY], ids=str)
def test_it_takes_no_watermark_of_a_later_run_to_the_year_9999(end: datetime | None, tmp_path: Path) -> None:
    rows, late = later_run(end, tmp_path / "ck")
    assert late == 0, rows


def test_an_end_before_it_does(tmp_path: Path) -> None:
    assert later_run(EARLIER, tmp_path / "ck")[1] > 0


@pytest.mark.parametrize("kind", ["timestamp", "long"])
def test_an_extension_leaves_it_alone(kind: str) -> None:
    ends = [None, *LAST_DAY, at(1)]
    given = [end if end is None or kind == "timestamp" else from_datetime(end) // 1000 for end in ends]
    rows = run_bolt(AlterLifetime("until", extend="2d"), [(end,) for end in given], f"until {kind}").rows
    found = [row["until"] for row in rows]
    assert found[:-1] == given[:-1]
    moved = at(1) + timedelta(days=2)
    assert found[-1] == (moved if kind == "timestamp" else from_datetime(moved) // 1000)


class Edges(WindowedBolt):
    outputs = "since timestamp, until timestamp"

    def execute(self, window: TupleWindow) -> Any:
        assert (window.end is None) == (window.end_timestamp == FOREVER) == ("no end" in repr(window))
        return window.start, window.end


BOLTS: dict[str, WindowedBolt] = {
    "a bolt": Edges(),
    "an aggregate": AggregateBolt(since=window_start(), until=window_end()),
    "ranks": Rank("ts", start="since", end="until"),
    "the best": TopN(1, "ts", by="id", start="since", end="until"),
    "a join": WindowJoin("s", "t", on="id", how="left", start="since", end="until"),
}


def with_open_end(bolt: WindowedBolt, sink: Any) -> None:
    """Two events in snapshots, one of them without an end, to the end of the streams."""
    builder, columns = TopologyBuilder("open"), "id string, ts timestamp, until_ timestamp"
    builder.set_spout("s", spouts.memory(columns, [("a", at(1), None), ("b", at(2), at(3))]))
    builder.set_spout("t", spouts.memory(columns))
    bolt = bolt.with_window(Snapshot()).with_time(presets.streaminsight(1, to_infinity=True))
    declarer = builder.set_bolt("open", bolt.with_timestamp_field("ts").with_lifetime("until_")).global_grouping("s")
    if isinstance(bolt, WindowJoin):
        declarer.global_grouping("t")
    builder.set_sink("out", sink).from_("open")
    run_local(builder.build())


@pytest.mark.parametrize("name", BOLTS)
def test_a_window_without_an_end_has_none(name: str) -> None:
    out = sinks.memory()
    with_open_end(BOLTS[name], out)
    assert {(row["since"], row["until"]) for row in out.rows} == {(at(1), at(2)), (at(2), at(3)), (at(3), None)}


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_in_a_file_it_is_null(format: Any, tmp_path: Path) -> None:
    with_open_end(BOLTS["an aggregate"], sinks.files(str(tmp_path), format=format))
    read = {"jsonl": read_json, "csv": read_csv, "parquet": read_table}[format]
    ends = [each for file in tmp_path.rglob(f"*.{format}") for each in read(file).column("until").cast("string")]
    assert sorted(str(end)[:19].replace("T", " ") for end in ends) == [str(at(2))[:19], str(at(3))[:19], "None"]


@pytest.mark.parametrize(
    "kind", [None, Session("10s"), SlidingLog("10s"), Calendar("day", "Europe/Berlin"), Snapshot()]
)
def test_a_bolt_behind_it_takes_rows_that_come_at_no_time(kind: Any) -> None:
    builder, out = TopologyBuilder("chain"), sinks.memory()
    rows = [("a", at(1), None), ("b", at(2), at(3))]
    builder.set_spout("s", spouts.memory("id string, ts timestamp, until timestamp", rows))
    bolt = Edges().with_window(Snapshot()).with_time(presets.streaminsight(1, to_infinity=True))
    builder.set_bolt("open", bolt.with_timestamp_field("ts").with_lifetime("until")).global_grouping("s")
    minutes = AggregateBolt(n=count())
    minutes = minutes.with_tumbling_window("1m") if kind is None else minutes.with_window(kind)
    builder.set_bolt("minutes", minutes).global_grouping("open")
    builder.set_sink("out", out).from_("minutes")
    summary = run_local(builder.build())
    assert sum(row["n"] for row in out.rows) >= 2
    accounts = summary.this_run()["minutes"].accounts
    assert (accounts["received"], accounts["windowed"], accounts["unwindowed"]) == (3, 2, 1)


@pytest.mark.parametrize("ticks", [[], [{"tick": "watermark"}]])
def test_it_is_in_the_windows_that_begin_by_the_latest_event_of_the_bolt(ticks: list[dict[str, str]]) -> None:
    bolt = {"length": "10ms", "sliding": "10ms", "end_field": "until", "timestamp_field": "ts", "key": ["k"]}
    events = [{"event": {"id": "open", "ts": 1, "k": "a"}}, {"event": {"id": "late", "ts": 35, "k": "b", "until": 36}}]
    found = replay({"name": "open", "bolt": bolt, "steps": [*events, *ticks, {"close": True}]}).windows
    assert sorted((window["end"], *window["events"]) for window in found) == [
        (10, "open"), (20, "open"), (30, "open"), (40, "late"), (40, "open"),
    ]  # fmt: skip


def test_open_windows_years_apart_are_listed_at_once(tmp_path: Path) -> None:
    """Two events, and a slide of a millisecond: nothing is done for the 8,000 years between them."""
    builder = TopologyBuilder("apart")
    builder.set_spout("events", spouts.memory("ts timestamp", [(at(0),), (EARLIER,)]))
    bolt = AggregateBolt(events=count()).with_timestamp_field("ts").with_lag("3000000d").with_window("3ms", "1ms")
    builder.set_bolt("count", bolt).global_grouping("events")
    builder.set_sink("out", sinks.memory()).from_("count")
    run_local(builder.build(), RunOptions(str(tmp_path), keep_open=True))
    ends = state.read(str(tmp_path), "count")["windows"].column("end").to_pylist()
    assert ends == [first + timedelta(milliseconds=each) for first in (at(0), EARLIER) for each in range(3)]
