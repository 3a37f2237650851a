"""Columns with a default, wherever the rows come from: missing and null are the default, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, ipc

from manager.storage.checkpoint import MemoryCheckpoint
from topologies.checkpoints.inspect_spouts import inspect_spouts, suspicious_input
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.kafka_records import Records
from topologies.engine.micro_batch import MicroBatch
from topologies.graph.declarations import with_needed_columns
from topologies.io.sinks import MemorySink
from topologies.topology import Topology
from windbolt import AggregateBolt, TopologyBuilder, TupleWindow, WindowedBolt, aggregates, sinks, spouts, state
from windbolt.testing import TopologyDriver

SCHEMA = "user string, currency string, amount double, ts timestamp"
DEFAULTS = {"currency": "EUR", "amount": 1.5}
START = datetime(2024, 1, 1, 0, 0, 1, tzinfo=UTC)
Row = dict[str, Any]


class Seen(WindowedBolt):
    """The rows of a window."""

    outputs = "user string, currency string, amount double"

    def execute(self, window: TupleWindow) -> Any:
        return window.table.select(["user", "currency", "amount"])


def topology(
    spout: Any, bolt: WindowedBolt | None = None, also: str | None = None
) -> tuple[Topology, dict[str, MemorySink]]:
    builder, out = TopologyBuilder("shop"), {name: sinks.memory() for name in ("out", "errors", "rows")}
    builder.set_spout("orders", spout)
    bolt = (bolt or Seen()).with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("seen", bolt).fields_grouping("orders", "user")
    builder.set_sink("out", out["out"]).from_("seen")
    if also == "errors":
        builder.set_sink("errors", out["errors"]).from_("seen", stream="errors")
    if also == "rows":
        builder.set_sink("rows", out["rows"]).from_("orders")
    return builder.build(), out


def rows(*given: Row) -> list[Row]:
    """Rows of users a, b, c: each has what is given, and a time."""
    return [{"user": "abcdefgh"[at], "ts": START + timedelta(seconds=at)} | row for at, row in enumerate(given)]


MIXED = rows({}, {"currency": "CHF", "amount": 0.0}, {"currency": None, "amount": None}, {"currency": "", "amount": 2})
FILLED = [("a", "EUR", 1.5), ("b", "CHF", 0.0), ("c", "EUR", 1.5), ("d", "", 2.0)]
LACKING = [{"user": row["user"], "ts": row["ts"]} for row in MIXED]
ALL_DEFAULT = [(user, "EUR", 1.5) for user in "abcd"]


def found(sink: MemorySink) -> list[tuple[Any, ...]]:
    return sorted((row["user"], row["currency"], row["amount"]) for row in sink.rows)


def _table(given: list[Row]) -> pa.Table:
    kinds = {"user": pa.string(), "currency": pa.string(), "amount": pa.float64(), "ts": pa.timestamp("us", "UTC")}
    there = [name for name in kinds if any(name in row for row in given)]
    return pa.table({name: pa.array([row.get(name) for row in given], kinds[name]) for name in there})


def _jsonl(path: Path, given: list[Row]) -> None:
    path.write_text("".join(json.dumps(row, default=lambda moment: moment.isoformat()) + "\n" for row in given))


def _arrow(path: Path, given: list[Row]) -> None:
    table = _table(given)
    with pa.OSFile(str(path), "wb") as sink, ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


WRITE: dict[str, Callable[[Path, list[Row]], None]] = {
    "jsonl": _jsonl,
    "csv": lambda path, given: csv.write_csv(_table(given), path),
    "parquet": lambda path, given: pq.write_table(_table(given), path, row_group_size=2),
    "arrow": _arrow,
}


def spout_of(folder: Path, format: str, given: list[Row], **options: Any) -> Any:
    WRITE[format](folder / f"1.{format}", given)
    options = {"schema": SCHEMA, "defaults": DEFAULTS} | options
    return spouts.files(folder / f"*.{format}", **options)


@pytest.mark.parametrize("also", [None, "errors", "rows"])
@pytest.mark.parametrize(("given_rows", "wanted"), [(MIXED, FILLED), (LACKING, ALL_DEFAULT)], ids=["nulls", "lacking"])
@pytest.mark.parametrize("format", WRITE)
def test_files(format: str, given_rows: list[Row], wanted: Any, also: str | None, tmp_path: Path) -> None:
    built, out = topology(spout_of(tmp_path, format, given_rows), also=also)
    summary = built.run(engine="local")
    assert not summary.complaints
    assert found(out["out"]) == wanted
    if also == "rows":
        assert found(out["rows"]) == wanted


def test_files_with_metadata_and_merged(tmp_path: Path) -> None:
    spout = spout_of(tmp_path, "parquet", LACKING, metadata=True, merge_by="ts")
    built, out = topology(spout, also="rows")
    built.run(engine="local")
    assert found(out["out"]) == ALL_DEFAULT
    assert {row["file_path"] for row in out["rows"].rows} == {str(tmp_path / "1.parquet")}


@pytest.mark.parametrize("format", ["csv", "parquet", "arrow"])
def test_a_file_that_lacks_another_column_is_invalid_as_before(format: str, tmp_path: Path) -> None:
    built, out = topology(spout_of(tmp_path, format, LACKING, defaults={"amount": 1.5}), also="errors")
    built.run(engine="local")
    assert not out["out"].rows
    assert "has no column 'currency'" in out["errors"].rows[0]["_reason"]


@pytest.mark.parametrize("format", ["csv", "parquet", "arrow"])
def test_a_file_that_has_no_declared_column_is_invalid(format: str, tmp_path: Path) -> None:
    """It is probably another file, even if all columns have a default."""
    WRITE[format](tmp_path / f"1.{format}", LACKING)
    builder, out = TopologyBuilder("shop"), sinks.memory()
    builder.set_spout("orders", spouts.files(tmp_path / f"*.{format}", "amount double", defaults={"amount": 1.5}))
    builder.set_sink("out", out).from_("orders")
    builder.set_sink("errors", sinks.discard()).from_("orders", stream="errors")
    assert "has no column 'amount'" in builder.build().run(engine="local").complaints[0]
    assert not out.rows


def test_a_value_that_cannot_be_read_is_no_missing_one(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text(
        '{"user": "a", "amount": "many", "ts": "2024-01-01T00:00:00Z"}\n{"user": "b", "ts": "2024-01-01T00:00:00Z"}\n'
    )
    built, out = topology(spouts.files(tmp_path / "*.jsonl", SCHEMA, defaults=DEFAULTS), also="errors")
    built.run(engine="local")
    assert found(out["out"]) == [("b", "EUR", 1.5)]
    assert [row["_row"] for row in out["errors"].rows] == [0]


def test_columns_that_nobody_needs_are_not_read_for_their_default(tmp_path: Path) -> None:
    """Nor are they in the rows, whether the file has them or not."""
    bolt = AggregateBolt(by="currency", n=aggregates.count())
    builder, out = TopologyBuilder("shop"), sinks.memory()
    builder.set_spout("orders", spout_of(tmp_path, "parquet", MIXED))
    pq.write_table(_table(LACKING), tmp_path / "2.parquet")
    builder.set_bolt("n", bolt.with_tumbling_window("10s").with_timestamp_field("ts")).fields_grouping(
        "orders", "currency"
    )
    builder.set_sink("out", out).from_("n")
    built = builder.build()
    assert with_needed_columns(built).spouts["orders"].schema.names == ["currency", "ts"]
    built.run(engine="local")
    assert sorted((row["currency"], row["n"]) for row in out.rows) == [("", 1), ("CHF", 1), ("EUR", 6)]


@pytest.mark.parametrize("nested", ["array<long>", "struct<a: long, b: string>", "map<string, long>"])
@pytest.mark.parametrize("format", ["jsonl", "parquet", "csv"])
def test_nested_columns(format: str, nested: str, tmp_path: Path) -> None:
    """As a whole: a null within a value stays."""
    default: Any = {"array<long>": [1, 2], "map<string, long>": {"x": 1}}.get(nested, {"a": 1, "b": None})
    WRITE[format](tmp_path / f"1.{format}", LACKING)
    builder, out = TopologyBuilder("shop"), sinks.memory()
    schema = f"user string, more {nested}"
    builder.set_spout("orders", spouts.files(tmp_path / f"*.{format}", schema, defaults={"more": default}))
    builder.set_sink("out", out).from_("orders")
    builder.build().run(engine="local")
    wanted = list(default.items()) if nested.startswith("map") else default
    assert [row["more"] for row in out.rows] == [wanted] * 4


def test_records_of_kafka() -> None:
    spout = spouts.kafka("host:9092", "orders", SCHEMA, metadata=["key"], defaults=DEFAULTS | {"kafka_key": "none"})
    built, out = topology(spout, also="rows")
    values = [json.dumps(row, default=lambda moment: moment.isoformat()).encode() for row in MIXED]
    about = {"topic": "t", "partition": 0, "timestamp": START, "key": b"k"}
    records: list[Row] = [about | {"offset": at, "value": value} for at, value in enumerate(values)]
    records[0]["key"] = None
    table = pa.Table.from_pylist(records, spout.record)
    step = MicroBatch(built, MemoryCheckpoint(), InProcessExecutor())
    step.run(BatchPlan(0, TimeAdvance(0, close=True), [Records("orders", [table])]))
    assert found(out["out"]) == FILLED
    assert [row["kafka_key"] for row in out["rows"].rows] == ["none", "k", "k", "k"]


@pytest.mark.parametrize("checkpoint", [False, True], ids=["alone", "with a checkpoint"])
def test_rows_in_memory(checkpoint: bool, tmp_path: Path) -> None:
    built, out = topology(spouts.memory(SCHEMA, MIXED[:2], MIXED[2:], defaults=DEFAULTS))
    built.run(tmp_path / "ck" if checkpoint else None, engine="local")
    assert found(out["out"]) == FILLED


@pytest.mark.parametrize("as_table", [False, True], ids=["dicts", "a table"])
def test_rows_that_a_test_pushes(as_table: bool) -> None:
    built, _ = topology(spouts.files("in/*.jsonl", SCHEMA, defaults=DEFAULTS))
    driver = TopologyDriver(built)
    driver.push("orders", _table(LACKING) if as_table else MIXED)
    driver.close()
    read = sorted((row["user"], row["currency"], row["amount"]) for row in driver.read("seen"))
    assert read == (ALL_DEFAULT if as_table else FILLED)


@pytest.mark.parametrize("as_table", [False, True], ids=["dicts", "a table"])
def test_events_that_a_checkpoint_begins_with(as_table: bool, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    built, out = topology(spouts.files(tmp_path / "in" / "*.jsonl", SCHEMA, defaults=DEFAULTS))
    state.begin(tmp_path / "ck", built, {"orders": _table(LACKING) if as_table else MIXED})
    _jsonl(tmp_path / "in" / "1.jsonl", rows(*[{}] * 5)[4:])
    built.run(tmp_path / "ck", engine="local")
    assert found(out["out"]) == [*(ALL_DEFAULT if as_table else FILLED), ("e", "EUR", 1.5)]


def test_a_default_may_be_the_time_of_events(tmp_path: Path) -> None:
    """It is one rule: whoever declares it says when events without a time happened."""
    given_rows: list[Row] = [{"user": "a"}, {"user": "b", "ts": START}]
    _jsonl(tmp_path / "1.jsonl", given_rows)
    built, out = topology(spouts.files(tmp_path / "*.jsonl", SCHEMA, defaults=DEFAULTS | {"ts": START}))
    summary = built.run(engine="local")
    assert found(out["out"]) == [("a", "EUR", 1.5), ("b", "EUR", 1.5)]
    assert summary.last is not None
    assert summary.last.bolts["seen"].accounts["invalid"] == 0


def test_what_a_check_says_of_them(tmp_path: Path) -> None:
    built, _ = topology(spout_of(tmp_path, "jsonl", LACKING))
    assert not suspicious_input(built), "no row has the column, and that is meant so"
    facts = dict(inspect_spouts(built)["orders"].facts)
    assert '"currency": "EUR"' in facts["such as"]
    without, _ = topology(spouts.files(tmp_path / "*.jsonl", SCHEMA))
    assert len(suspicious_input(without)) == 2


several = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "currency": st.sampled_from([None, "", "EUR", "CHF"]),
            "amount": st.sampled_from([None, 0.0, 1.5, -1.0]),
        },
    ),
    min_size=1,
    max_size=8,
)


@given(several, st.sampled_from(sorted(WRITE)))
def test_the_same_as_rows_in_which_the_default_was_written_out(some: list[Row], format: str) -> None:
    """The oracle is a topology that knows no default."""
    lacking = rows(*some)
    written = [row | {name: value for name, value in DEFAULTS.items() if row.get(name) is None} for row in lacking]
    outs = []
    for these, options in ((lacking, dict[str, Any]()), (written, dict[str, Any](defaults={}))):
        with TemporaryDirectory() as folder:
            built, out = topology(spout_of(Path(folder), format, these, **options), also="rows")
            summary = built.run(engine="local")
        assert summary.last is not None
        outs.append((found(out["out"]), found(out["rows"]), summary.last.bolts["seen"].accounts))
    assert outs[0] == outs[1]
