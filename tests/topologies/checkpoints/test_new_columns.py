"""Columns that are added to a spout between two runs on a checkpoint: the events from before have nulls in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manager.storage.segment_files import FileSegments
from tests.helpers.examples import sampled
from topologies.checkpoints.paired_checkpoint import TOPOLOGY, PairedCheckpoint
from topologies.topology import Topology
from windbolt import (
    AggregateBolt,
    Bolt,
    Count,
    Hopping,
    Panes,
    Session,
    SlidingLog,
    Snapshot,
    TopN,
    TopologyBuilder,
    Tuple,
    TupleWindow,
    WindowedBolt,
    aggregates,
    presets,
    sinks,
    spouts,
    state,
)
from windbolt.panes import after_count
from windbolt.triggers import CountTrigger
from windowing.errors import CheckpointError, StorageError

BEFORE = "id string, user string, ts timestamp, until timestamp"
AFTER = "id string, note string, user string, ts timestamp, until timestamp, discount double"
"""One new column is the last, another is between those that were there."""
NEW = ("note", "discount")
MIXED = {"tumbling", "sliding", "several kinds", "sliding logs", "atlas"}
"""Kinds of windows of which some hold events of before and of after."""
ROWS = 60


class Seen(WindowedBolt):
    """All that a window holds, and the columns that it has once there are new ones."""

    outputs = "first timestamp, until timestamp, rows string"

    def execute(self, window: TupleWindow) -> Any:
        rows = [[row[name] for name in ("id", "user")] + [row.get(name) for name in NEW] for row in _rows(window)]
        return window.start, window.end, json.dumps(sorted(rows, key=str))


def _rows(window: TupleWindow) -> list[dict[str, Any]]:
    return list(window.table.to_pylist())


BOLTS: dict[str, Callable[[], WindowedBolt]] = {
    "tumbling": lambda: Seen().with_tumbling_window("10s"),
    "sliding": lambda: Seen().with_window("20s", "5s"),
    "the last events": lambda: Seen().with_window(5, 2),
    "sums": lambda: AggregateBolt(by="user", n=aggregates.count()).with_window("20s", "5s"),
    "of keys": lambda: Seen().with_tumbling_window("10s").with_key("user"),
    "counts of keys": lambda: Seen().with_window(4, 2).with_key("user"),
    "sessions": lambda: Seen().with_window(Session("3s")).with_key("user"),
    "several kinds": lambda: Seen().with_window(Session("3s"), Hopping("20s", "10s")).with_key("user"),
    "sliding logs": lambda: Seen().with_window(SlidingLog("5s")),
    "lifetimes": lambda: (
        Seen().with_window(Snapshot()).with_lifetime("until").with_alignment(bounds="[start, end)").with_key("user")
    ),
    "panes": lambda: Seen().with_tumbling_window("20s").with_key("user").with_trigger(Panes(early=after_count(2))),
    "triggers": lambda: Seen().with_key("user").with_trigger(CountTrigger(Count(7))),
    "atlas": lambda: Seen().with_time(presets.atlas()).with_window("20s", "10s"),
}


def topology(folder: Path, out: str, schema: str, bolt: WindowedBolt, **options: Any) -> Topology:
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.files(folder / "in" / "*.jsonl", schema, files_per_batch=1, **options))
    if bolt.settings.key_trigger is None:  # those of keys go by the clock
        bolt = bolt.with_timestamp_field("ts").with_lag("2s")
    builder.set_bolt("seen", bolt, parallelism=2).fields_grouping("orders", "user")
    builder.set_sink("out", sinks.files(folder / out, format="jsonl")).from_("seen")
    return builder.build()


def write(folder: Path, number: int, **more: Any) -> None:
    """A file of events; those of the first two have no new column, but what is given."""
    (folder / "in").mkdir(exist_ok=True)
    rows = []
    for place in range(ROWS):
        ts = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=(number * ROWS + place + place % 3 * 2) / 2)
        row = {"id": f"{number}-{place}", "user": f"u{place * place % 5}", "ts": ts.isoformat()}
        row["until"] = (ts + timedelta(seconds=1 + place % 4)).isoformat()
        rows.append({**row, **more} if number < 2 else {**row, "note": f"n{place}", "discount": place / 4})
    (folder / "in" / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def rows(folder: Path) -> list[str]:
    return sorted(line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines())


@pytest.mark.parametrize("kind", sampled(BOLTS, 4, first=1))
def test_the_rows_are_those_of_a_run_that_always_had_them(kind: str, tmp_path: Path) -> None:
    bolt = BOLTS[kind]
    for number in (0, 1):
        write(tmp_path, number)
    topology(tmp_path, "out", BEFORE, bolt()).run(tmp_path / "ck", engine="local", keep_open=True)
    topology(tmp_path, "expected", AFTER, bolt()).run(tmp_path / "other", engine="local", keep_open=True)
    write(tmp_path, 2)
    ended = topology(tmp_path, "out", AFTER, bolt()).run(tmp_path / "ck", engine="local")
    assert ended.new_columns == {"seen": ["note", "discount"]}
    again = topology(tmp_path, "expected", AFTER, bolt()).run(tmp_path / "other", engine="local")
    assert again.new_columns == {}
    found, expected = rows(tmp_path / "out"), rows(tmp_path / "expected")
    if kind == "triggers":  # whose windows begin and end by the clock
        found, expected = (sorted(json.loads(row)["rows"] for row in lines) for lines in (found, expected))
    assert found == expected
    mixed = any(", null" in row and "n7" in row for row in rows(tmp_path / "out"))
    assert mixed or kind not in MIXED


def test_state_shows_them(tmp_path: Path) -> None:
    write(tmp_path, 0)
    bolt = BOLTS["sessions"]
    topology(tmp_path, "out", BEFORE, bolt()).run(tmp_path / "ck", engine="local", keep_open=True)
    write(tmp_path, 2)
    topology(tmp_path, "out", AFTER, bolt()).run(tmp_path / "ck", engine="local", keep_open=True)
    held = state.read(tmp_path / "ck", "seen").to_pandas()
    assert len(held)
    assert {"note", "discount"} <= set(held.columns)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("id string, user string, ts timestamp", "is 'id string, user string, ts timestamp'"),
        ("id string, user string, ts timestamp, until string, more long", "until string, more long"),
        ("id string, user string, ts timestamp, till timestamp", "till timestamp"),
    ],
    ids=["gone", "of another type", "renamed"],
)
def test_others_are_refused(schema: str, said: str, tmp_path: Path) -> None:
    write(tmp_path, 0)
    topology(tmp_path, "out", BEFORE, BOLTS["tumbling"]()).run(tmp_path / "ck", engine="local", keep_open=True)
    with pytest.raises(CheckpointError, match="belongs to another topology") as refused:
        topology(tmp_path, "out", schema, BOLTS["tumbling"]()).run(tmp_path / "ck", engine="local")
    assert said in str(refused.value)
    topology(tmp_path, "out", BEFORE, BOLTS["tumbling"]()).run(tmp_path / "ck", engine="local")


def test_rows_that_may_be_taken_back_are_not_given_columns(tmp_path: Path) -> None:
    def bolt() -> WindowedBolt:
        retracting = Panes(early=after_count(2), mode="retracting")
        return TopN(2, order_by="ts", by="user").with_tumbling_window("20s").with_trigger(retracting)

    write(tmp_path, 0)
    topology(tmp_path, "out", BEFORE, bolt()).run(tmp_path / "ck", engine="local", keep_open=True)
    with pytest.raises(CheckpointError, match="belongs to another topology"):
        topology(tmp_path, "out", AFTER, bolt()).run(tmp_path / "ck", engine="local")


def typed(folder: Path, *more: pa.Field) -> Topology:
    schema = pa.schema([("user", pa.string()), ("ts", pa.timestamp("us", "UTC")), *more])
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.files(folder / "in" / "*.parquet", schema, files_per_batch=1))
    bolt = AllOf().with_tumbling_window("10s").with_timestamp_field("ts").with_lag("2s")
    builder.set_bolt("seen", bolt).fields_grouping("orders", "user")
    builder.set_sink("out", sinks.files(folder / "out", format="jsonl")).from_("seen")
    return builder.build()


def write_typed(folder: Path, number: int, kind: pa.DataType) -> None:
    (folder / "in").mkdir(exist_ok=True)
    ts = pa.array([datetime(2024, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"user": ["a"], "ts": ts, "value": pa.nulls(1, kind)}), folder / "in" / f"{number}.parquet")


@pytest.mark.parametrize("kind", [pa.uint32(), pa.large_string(), pa.time64("us"), pa.timestamp("ns")], ids=str)
def test_columns_of_any_type_that_stay_as_they_were_continue(kind: pa.DataType, tmp_path: Path) -> None:
    for number in range(2):
        write_typed(tmp_path, number, kind)
        typed(tmp_path, pa.field("value", kind)).run(tmp_path / "ck", engine="local", keep_open=number != 1)
    assert rows(tmp_path / "out") == ['{"n":2}']


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.large_list(pa.int64()), pa.decimal128(9, 2)], ids=str)
def test_new_columns_have_the_type_that_is_declared(kind: pa.DataType, tmp_path: Path) -> None:
    write_typed(tmp_path, 0, kind)
    typed(tmp_path).run(tmp_path / "ck", engine="local", keep_open=True)
    write_typed(tmp_path, 1, kind)
    typed(tmp_path, pa.field("value", kind)).run(tmp_path / "ck", engine="local")
    assert rows(tmp_path / "out") == ['{"n":2}']


class AllOf(WindowedBolt):
    """How many events a window holds."""

    outputs = "n long"

    def execute(self, window: TupleWindow) -> Any:
        return {"n": len(window.table)}


def test_a_column_that_another_spout_had_already(tmp_path: Path) -> None:
    """The order of the columns of the bolt changes, too."""

    def two(orders: str) -> Topology:
        builder = TopologyBuilder("shop")
        builder.set_spout("orders", spouts.files(tmp_path / "in" / "*.jsonl", orders))
        builder.set_spout("others", spouts.files(tmp_path / "others" / "*.jsonl", f"note string, {BEFORE}"))
        bolt = Seen().with_window("20s", "5s").with_timestamp_field("ts").with_lag("2s")
        declared = builder.set_bolt("seen", bolt)
        declared.fields_grouping("orders", "user").fields_grouping("others", "user")
        builder.set_sink("out", sinks.files(tmp_path / "out", format="jsonl")).from_("seen")
        return builder.build()

    write(tmp_path, 0)
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "0.jsonl").write_text((tmp_path / "in" / "0.jsonl").read_text().replace("u0", "u9"))
    two(BEFORE).run(tmp_path / "ck", engine="local", keep_open=True)
    write(tmp_path, 2)
    assert two(AFTER).run(tmp_path / "ck", engine="local").new_columns == {"seen": ["discount"]}
    assert rows(tmp_path / "out")


def test_a_topology_that_is_refused_for_something_else_leaves_it_as_it_was(tmp_path: Path) -> None:
    write(tmp_path, 0)
    topology(tmp_path, "out", BEFORE, BOLTS["tumbling"]()).run(tmp_path / "ck", engine="local", keep_open=True)
    with pytest.raises(CheckpointError, match="belongs to another topology") as refused:
        topology(tmp_path, "out", AFTER, BOLTS["sliding"]()).run(tmp_path / "ck", engine="local")
    assert "discount" not in str(refused.value), "what may be new is no reason"
    changed = topology(tmp_path, "out", AFTER, BOLTS["tumbling"]())
    with pytest.raises(CheckpointError, match="cannot have its first output"):
        changed.run(tmp_path / "ck", engine="local", first_output="2024-01-01T00:00:10Z")
    topology(tmp_path, "out", BEFORE, BOLTS["tumbling"]()).run(tmp_path / "ck", engine="local")


class Passing(Bolt):
    """A bolt between, of whose columns nothing is noted."""

    outputs = BEFORE

    def execute(self, tuple: Tuple) -> Any:
        return {name: tuple[name] for name in ("id", "user", "ts", "until")}


class PassingMore(Passing):
    """The same, with one more."""

    outputs = f"{BEFORE}, discount double"

    def execute(self, tuple: Tuple) -> Any:
        return {**super().execute(tuple), "discount": tuple["discount"]}


def test_a_column_that_comes_from_another_bolt_is_refused(tmp_path: Path) -> None:
    """It may have been there, and was not kept."""

    def behind(bolt: Bolt) -> Topology:
        builder = TopologyBuilder("shop")
        builder.set_spout("orders", spouts.files(tmp_path / "in" / "*.jsonl", AFTER))
        builder.set_bolt("passing", bolt).shuffle_grouping("orders")
        seen = Seen().with_tumbling_window("10s").with_timestamp_field("ts").with_lag("2s")
        builder.set_bolt("seen", seen).fields_grouping("passing", "user")
        builder.set_sink("out", sinks.discard()).from_("seen")
        return builder.build()

    write(tmp_path, 2)
    behind(Passing()).run(tmp_path / "ck", engine="local", keep_open=True)
    with pytest.raises(CheckpointError, match="belongs to another topology"):
        behind(PassingMore()).run(tmp_path / "ck", engine="local")


@pytest.mark.parametrize("when", ["while it is written", "before it is noted"])
def test_whoever_dies_meanwhile_leaves_it_whole(when: str, tmp_path: Path) -> None:
    write(tmp_path, 0)
    bolt = BOLTS["of keys"]
    topology(tmp_path, "out", BEFORE, bolt()).run(tmp_path / "ck", engine="local", keep_open=True)
    write(tmp_path, 2)
    known = PairedCheckpoint(str(tmp_path / "ck")).documents
    failing: AbstractContextManager[Any] = patch.object(type(known), "write", refusing(type(known).write))
    if when == "while it is written":
        failing = patch.object(FileSegments, "writer", side_effect=StorageError("the disk is full"))
    with failing, pytest.raises(StorageError):
        topology(tmp_path, "out", AFTER, bolt()).run(tmp_path / "ck", engine="local")
    if when == "before it is noted":
        for other in (BEFORE, f"{AFTER}, more long"):
            with pytest.raises(CheckpointError, match="was being given new columns when a run died"):
                topology(tmp_path, "out", other, bolt()).run(tmp_path / "ck", engine="local")
    topology(tmp_path, "out", AFTER, bolt()).run(tmp_path / "ck", engine="local")
    topology(tmp_path, "expected", AFTER, bolt()).run(tmp_path / "other", engine="local")
    assert len(rows(tmp_path / "out")) == len(rows(tmp_path / "expected"))


def refusing(write: Callable[..., None]) -> Callable[..., None]:
    def refused(self: Any, name: str, values: Any) -> None:
        if name == TOPOLOGY:
            raise StorageError("the disk is full")
        write(self, name, values)

    return refused
