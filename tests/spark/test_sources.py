"""What the Spark runner reads: every row once, and an account of every row it cannot read."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.helpers.examples import sampled
from tests.spark.shop import ROWS, SCHEMA, Counted, Spans, at, some_orders, write_orders
from tests.spark.tools import in_order, memory_rows, run
from tests.topologies.io.test_file_metadata import MOVED, timed
from topologies.io.sinks import MemorySink
from topologies.spark import runner
from topologies.spark.source import RowsAtOnce
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, run_on_spark, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.errors import ConfigError
from windowing.schema import EmittedRows

pytestmark = pytest.mark.usefixtures("spark")


def counting(**found: Any) -> tuple[Topology, MemorySink]:
    """How many events each ten seconds have, over all spouts."""
    builder, sink = TopologyBuilder("counting"), sinks.memory()
    bolt = builder.set_bolt("spans", Spans().with_tumbling_window("10s").with_timestamp_field("ts").with_lag("1h"))
    for name, spout in found.items():
        builder.set_spout(name, spout)
        bolt.global_grouping(name)
    builder.set_sink("out", sink).from_("spans")
    return builder.build(), sink


@contextmanager
def progress() -> Iterator[list[dict[str, Any]]]:
    """What Spark says about the batches of the queries that end in the meantime."""
    said: list[dict[str, Any]] = []
    wait = runner.GuardedFunction.wait

    def listening(guarded: runner.GuardedFunction, query: Any, session: Any) -> None:
        wait(guarded, query, session)
        said.extend(json.loads(each.json) for each in query.recentProgress)

    runner.GuardedFunction.wait = listening  # type: ignore[method-assign, assignment]
    try:
        yield said
    finally:
        runner.GuardedFunction.wait = wait  # type: ignore[method-assign]


@pytest.mark.feature("AZ-1")
def test_files_arrive_when_they_were_changed_on_spark_too(tmp_path: Path) -> None:
    builder, sink = timed(tmp_path / "in")
    run(builder.build(), tmp_path / "checkpoint")
    assert sink.rows == MOVED


def test_what_cannot_be_read_is_accounted_for_and_the_query_goes_on(tmp_path: Path) -> None:
    moment = at(1).isoformat()
    finer = moment.replace("+00:00", ".000000789+00:00")
    for name in ("csv", "jsonl", "parquet"):
        (tmp_path / name).mkdir()
    (tmp_path / "csv/1.csv").write_text(
        f"user,amount,ts\nann,1.5,{moment}\nbob,many,{moment}\neve,2,never\njoe,3,{finer}\n"
    )
    (tmp_path / "jsonl/1.jsonl").write_text(
        f'{{"user":"ann","amount":1,"ts":"{moment}"}}\n{{"user":\n[]\n{{"user":"bob","amount":1}}\n'
    )
    pq.write_table(some_orders(0), tmp_path / "parquet/1 good.parquet")
    (tmp_path / "parquet/2 corrupt.parquet").write_bytes(b"PAR1, and then something else")
    pq.write_table(some_orders(0).slice(0, 0), tmp_path / "parquet/3 empty.parquet")

    def topology() -> tuple[Topology, dict[str, MemorySink]]:
        builder, out = TopologyBuilder("bad"), {}
        counted = builder.set_bolt("counted", Counted().with_tumbling_window("10s").with_timestamp_field("ts"))
        for name in ("csv", "jsonl", "parquet"):
            builder.set_spout(name, spouts.files(tmp_path / name, SCHEMA))
            counted.global_grouping(name)
            out[name] = sinks.memory()
            builder.set_sink(f"bad-{name}", out[name]).from_(name, "errors")
        out["counted"], out["errors"] = sinks.memory(), sinks.memory()
        builder.set_sink("out", out["counted"]).from_("counted")
        builder.set_sink("errors", out["errors"]).from_("counted", "errors")
        return builder.build(), out

    there, expected = topology()
    local = run_local(there).last
    here, found = topology()
    last = run(here, tmp_path / "checkpoint").last
    assert last is not None
    assert local is not None
    assert last.bolts == local.bolts
    assert last.spouts == local.spouts
    assert last.spouts["csv"] == {"rows": 2, "invalid": 2, "unreadable_files": 0, "truncated": 1}
    assert last.spouts["jsonl"] == {"rows": 2, "invalid": 2, "unreadable_files": 0, "truncated": 0}
    assert last.spouts["parquet"] == {"rows": ROWS, "invalid": 1, "unreadable_files": 1, "truncated": 0}
    accounts = last.bolts["counted"].accounts
    assert accounts["truncated"] == 1
    assert accounts["received"] == 4 + 4 + ROWS + 1
    without = {name: sorted(_bare(row) for row in sink.rows) for name, sink in expected.items()}
    assert {name: sorted(_bare(row) for row in sink.rows) for name, sink in found.items()} == without


def test_times_are_read_as_they_are_declared_on_both_engines(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv").write_text(
        "ts;at\n31/01/2024 12:05 AM;1704088805,25\n31/02/2024 12:05 AM;1\n02/01/2024 1:05 pm;-0,0000001\n"
    )

    def topology() -> tuple[Topology, dict[str, MemorySink]]:
        builder, out = TopologyBuilder("declared"), {"rows": sinks.memory(), "errors": sinks.memory()}
        spout = spouts.files(tmp_path / "in", "ts timestamp, at timestamp", delimiter=";", decimal_point=",",
                             times={"ts": "%d/%m/%Y %I:%M %p", "at": "s"}, timezone="Europe/Berlin")  # fmt: skip
        builder.set_spout("in", spout)
        builder.set_sink("rows", out["rows"]).from_("in")
        builder.set_sink("errors", out["errors"]).from_("in", "errors")
        return builder.build(), out

    there, expected = topology()
    local = run_local(there).last
    here, found = topology()
    spark = run(here, tmp_path / "checkpoint").last
    assert local is not None
    assert spark is not None
    assert spark.spouts == local.spouts == {"in": {"rows": 2, "invalid": 1, "unreadable_files": 0, "truncated": 1}}
    assert found["rows"].rows == expected["rows"].rows
    assert [[each.isoformat() for each in row.values()] for row in found["rows"].rows] == [
        ["2024-01-30T23:05:00+00:00", "2024-01-01T06:00:05.250000+00:00"],
        ["2024-01-02T12:05:00+00:00", "1969-12-31T23:59:59.999999+00:00"],
    ]
    assert "there is no such day" in str(found["errors"].rows[0])


def _bare(row: dict[str, Any]) -> str:
    """A row, its path without the scheme that Spark puts before it."""
    return str(row).replace("file://", "").replace("file:", "")


def test_a_file_without_a_byte_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders/1.parquet").touch()
    topology, _ = counting(orders=spouts.files(tmp_path / "orders", SCHEMA))
    last = run(topology, tmp_path / "checkpoint").last
    assert last is not None
    assert last.spouts["orders"]["unreadable_files"] == 1


def test_odd_names_are_names(tmp_path: Path) -> None:
    folder = tmp_path / "new orders"
    folder.mkdir()
    names = ["a b", "c%20d", "e#f", "g+h&=", "ü", "q?", "x{1,2}", "y[ab]", "z*", "-1", "'"]
    for number, name in enumerate([*names, ".hidden", "_hidden"]):
        path = folder / f"{name}.parquet"
        pq.write_table(some_orders(0), path)
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
    for files_per_batch in (None, 4):
        topology, _ = counting(orders=spouts.files(folder / "*.parquet", SCHEMA, files_per_batch=files_per_batch))
        summary = run(topology, tmp_path / f"checkpoint {files_per_batch}", keep_open=True)
        assert summary.rows == ROWS * len(names)


def test_a_file_much_older_than_those_before_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    write_orders(folder, [0])
    os.utime(folder / "orders 00.parquet", (time.time(), time.time()))
    topology, _ = counting(orders=spouts.files(folder, SCHEMA))
    assert run(topology, tmp_path / "checkpoint", keep_open=True).rows == ROWS
    write_orders(folder, [1])
    assert run(topology, tmp_path / "checkpoint", keep_open=True).rows == ROWS


@contextmanager
def in_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    """The session has this zone within the context."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")


@pytest.mark.parametrize("zone", sampled(["America/New_York", "UTC"], 2))
def test_a_dataframe_brings_the_rows_of_its_files(spark: SparkSession, zone: str, orders: Path, tmp_path: Path) -> None:
    topology, sink = counting(orders=spouts.files(orders, SCHEMA))
    run_local(topology)
    expected = in_order(sink.rows)

    with in_zone(spark, zone):
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).parquet(str(orders))
        topology, sink = counting(orders=spouts.stream(frame))
        summary = run(topology, tmp_path / "checkpoint")
    assert summary.batches == 3
    assert in_order(sink.rows) == expected


def test_files_and_dataframes_in_one_topology_are_read_once(orders: Path, tmp_path: Path) -> None:
    def rate(spark: SparkSession) -> Any:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 7).option("numPartitions", 2)
        ticking = source.option("startTimestamp", 1_714_564_800_000).option("advanceMillisPerBatch", 1000).load()
        return ticking.selectExpr("'x' AS user", "double(value) AS amount", "timestamp AS ts")

    def frame(spark: SparkSession) -> Any:
        return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(orders))

    topology, sink = counting(
        files=spouts.files(orders, SCHEMA, files_per_batch=2),
        frame=spouts.stream(frame, SCHEMA),
        rate=spouts.stream(rate, SCHEMA),
    )
    with progress() as said:
        summary = run(topology, tmp_path / "checkpoint")
    last = summary.last
    assert last is not None
    assert {name: counts["rows"] for name, counts in last.spouts.items()} == {
        "files": 3 * ROWS, "frame": 3 * ROWS, "rate": 7
    }  # fmt: skip
    assert sum(each["numInputRows"] for each in said) == 6 * ROWS + 7
    accounts = last.bolts["spans"].accounts
    assert accounts["received"] == 6 * ROWS + 7
    assert sum(row["events"] for row in sink.rows) == accounts["windowed"] == accounts["received"] - accounts["invalid"]


def test_the_names_of_files_are_no_rows_and_are_those_of_its_log(orders: Path, tmp_path: Path) -> None:
    write_orders(orders, range(12))  # Spark joins its log at every tenth entry
    topology, _ = counting(orders=spouts.files(orders, SCHEMA, files_per_batch=1))
    with progress() as said:
        summary = run(topology, tmp_path / "checkpoint")
    assert summary.batches == 13
    assert summary.last is not None
    rows = sum(len(pq.read_table(path)) for path in orders.iterdir())
    assert sum(each["numInputRows"] for each in said) == summary.last.spouts["orders"]["rows"] == rows


def test_a_heartbeat_does_not_join_batches(tmp_path: Path) -> None:
    builder, sink = TopologyBuilder("clock"), sinks.memory()
    builder.set_spout("orders", spouts.memory(SCHEMA, *[[("a", 1.0, at(1))]] * 3))
    bolt = Spans().with_tumbling_window("10s").with_timestamp_field("ts").with_watermark_interval("1s")
    builder.set_bolt("spans", bolt).global_grouping("orders")
    builder.set_sink("out", sink).from_("spans")
    summary = run(builder.build(), tmp_path / "checkpoint")
    assert (summary.batches, summary.rows) == (4, 3)
    assert memory_rows({"out": sink})["out"]


class Sums(WindowedBolt):
    """What is summed up per user, in its currency."""

    outputs = "user string, currency string, amount double"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return (
            window.table.group_by(["user", "currency"])
            .aggregate([("amount", "sum")])
            .rename_columns(["user", "currency", "amount"])
        )


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "beside files"])
def test_a_dataframe_may_lack_columns_with_a_default(alone: bool, tmp_path: Path) -> None:
    """It lacks one column, and has nulls in another; the files beside it lack both."""
    rows: dict[str, list[dict[str, Any]]] = {
        "frame": [{"user": "ann", "amount": 2}, {"user": "bob"}],
        "files": [{"user": "eve"}],
    }
    for name, given in rows.items():
        (tmp_path / name).mkdir()
        lines = [json.dumps(row | {"ts": at(1).isoformat()}) + "\n" for row in given]
        (tmp_path / name / "1.jsonl").write_text("".join(lines))
    schema, defaults = "user string, currency string, amount double, ts timestamp", {"currency": "EUR", "amount": 0.5}

    def frame(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema(SCHEMA).json(str(tmp_path / "frame"))

    builder, sink = TopologyBuilder("sums"), sinks.memory()
    found: dict[str, Any] = {"frame": spouts.stream(frame, schema, defaults=defaults)}
    if not alone:
        found["files"] = spouts.files(tmp_path / "files", schema, format="jsonl", defaults=defaults)
    bolt = builder.set_bolt("sums", Sums().with_tumbling_window("10s").with_timestamp_field("ts"))
    for name, spout in found.items():
        builder.set_spout(name, spout)
        bolt.global_grouping(name)
    builder.set_sink("out", sink).from_("sums")
    run(builder.build(), tmp_path / "checkpoint")
    wanted = [("ann", "EUR", 2.0), ("bob", "EUR", 0.5), ("eve", "EUR", 0.5)]
    assert sorted(tuple(row.values()) for row in sink.rows) == wanted[: 2 if alone else 3]


def test_a_dataframe_that_is_not_one_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    topology, _ = counting(orders=spouts.stream(lambda session: session.range(3), "id long, ts timestamp"))
    with pytest.raises(ConfigError, match="not a streaming DataFrame"):
        run(topology, tmp_path / "one")
    rate = spark.readStream.format("rate").load()
    topology, _ = counting(orders=spouts.stream(lambda session: rate, SCHEMA))
    with pytest.raises(ConfigError, match="has no column 'user', 'amount', 'ts'"):
        run(topology, tmp_path / "two")


OF_FRAME = (
    "d date, whole int, big long, real double, price decimal(5,3), text string, at timestamp, local timestamp_ntz, "
    "pair struct<a: int, b: int>, days array<date>, units decimal(18,0)"
)
"""The columns of a DataFrame."""


ANYWHERE = (
    "real int", "big int", "big double", "real float", "price decimal(5,2)", "price decimal(4,3)", "price long",
    "units int", "text int", "d int",
    "big timestamp", "at long", "at date", "text timestamp", "pair struct<b: int, a: int>", "days array<int>",
)  # fmt: skip
IN_ZONES = ("d timestamp", "local timestamp", "days array<timestamp>")


@pytest.mark.parametrize(
    ("declared", "zone"),
    [*((each, "UTC") for each in ANYWHERE), *((each, "America/New_York") for each in IN_ZONES)],
)
def test_a_dataframe_of_which_a_cast_would_change_values_is_refused(
    spark: SparkSession, declared: str, zone: str, tmp_path: Path
) -> None:
    frame = spark.readStream.schema(OF_FRAME).parquet(str(tmp_path))
    builder = TopologyBuilder("typed")
    builder.set_spout("rows", spouts.stream(frame, declared))
    builder.set_sink("out", sinks.memory()).from_("rows")
    with in_zone(spark, zone), pytest.raises(ConfigError, match="a cast of Spark's would change values"):
        run(builder.build(), tmp_path / "checkpoint")


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "GMT", "+00:00"])
def test_a_dataframe_may_have_narrower_types_than_are_declared(spark: SparkSession, zone: str, tmp_path: Path) -> None:
    place, fields = tmp_path / "in", pa.struct([("a", pa.int32()), ("b", pa.int32())])
    place.mkdir()
    noon = datetime(2024, 7, 1, 12, tzinfo=UTC)
    given: dict[str, Any] = {
        "d": pa.array([noon.date()]), "whole": pa.array([-(2**31)], pa.int32()), "big": [2**63 - 1], "real": [0.1],
        "price": [Decimal("1.239")], "text": ["ä"], "at": [noon], "local": pa.array([noon.replace(tzinfo=None)]),
        "pair": pa.array([{"a": 1, "b": 2}], fields), "days": pa.array([[noon.date()]]),
        "units": pa.array([Decimal(10**18 - 1)], pa.decimal128(18, 0)),
    }  # fmt: skip
    pq.write_table(pa.table(given), place / "1.parquet")
    declared = (
        "d timestamp, whole double, big decimal(21,2), real double, price decimal(18,4), text binary, at timestamp, "
        "local timestamp, pair struct<a: long, b: string>, days array<timestamp>, units long"
    )
    builder, out = TopologyBuilder("typed"), sinks.memory()
    builder.set_spout("rows", spouts.stream(spark.readStream.schema(OF_FRAME).parquet(str(place)), declared))
    builder.set_sink("out", out).from_("rows")
    with in_zone(spark, zone):
        run(builder.build(), tmp_path / "checkpoint")
    midnight = noon.replace(hour=0)
    assert out.rows == [
        {"d": midnight, "whole": -(2.0**31), "big": Decimal(2**63 - 1), "real": 0.1, "price": Decimal("1.239"),
         "text": "ä".encode(), "at": noon, "local": noon, "pair": {"a": 1, "b": "2"}, "days": [midnight],
         "units": 10**18 - 1}
    ]  # fmt: skip


@pytest.mark.parametrize(("its_zone", "zone"), [("America/New_York", "UTC"), ("UTC", "America/New_York")])
def test_times_without_a_zone_are_of_the_session_of_the_dataframe(
    spark: SparkSession, its_zone: str, zone: str, tmp_path: Path
) -> None:
    """The run may be in another one."""
    place, noon = tmp_path / "in", datetime(2024, 7, 1, 12, tzinfo=UTC)
    place.mkdir()
    pq.write_table(pa.table({"local": [noon.replace(tzinfo=None)]}), place / "1.parquet")
    other, builder, out = spark.newSession(), TopologyBuilder("typed"), sinks.memory()
    other.conf.set("spark.sql.session.timeZone", its_zone)
    frame = other.readStream.schema("local timestamp_ntz").parquet(str(place))
    builder.set_spout("rows", spouts.stream(frame, "local timestamp"))
    builder.set_sink("out", out).from_("rows")
    refused = its_zone != "UTC"
    with in_zone(spark, zone), pytest.raises(ConfigError, match=its_zone) if refused else nullcontext():
        run_on_spark(builder.build(), RunOptions(str(tmp_path / "checkpoint")), spark=spark)
    assert out.rows == ([] if refused else [{"local": noon}])


def test_batches_are_cut_by_bytes_in_each_spout_and_a_checkpoint_goes_on_under_another_limit(
    orders: Path, tmp_path: Path
) -> None:
    returns = tmp_path / "returns"
    write_orders(returns, range(5))
    sizes = [path.stat().st_size for path in sorted(returns.iterdir())]

    def topology(**limit: Any) -> Topology:
        return counting(orders=spouts.files(orders, SCHEMA, **limit), returns=spouts.files(returns, SCHEMA, **limit))[0]

    rows: list[int] = []
    options: dict[str, Any] = {"keep_open": True, "on_report": lambda report: rows.append(report.rows)}
    total = sum(len(pq.read_table(path)) for folder in (orders, returns) for path in folder.iterdir())
    run(topology(bytes_per_batch=max(sizes) * 2), tmp_path / "checkpoint", **options)
    assert len(rows) == 3  # two files of each
    assert sum(rows) == total
    write_orders(orders, range(5, 9))
    more = sum(len(pq.read_table(path)) for folder in (orders, returns) for path in folder.iterdir()) - total
    rows.clear()
    last = run(topology(files_per_batch=3), tmp_path / "checkpoint", **options).last
    assert len(rows) == 2
    assert sum(rows) == more
    assert last is not None
    assert last.bolts["spans"].accounts["received"] == total + more
    rows.clear()
    write_orders(orders, range(9, 12))
    run(topology(), tmp_path / "checkpoint", **options)
    assert len(rows) == 1


def test_rows_of_text_are_handed_over_in_larger_numbers_once_some_were_seen(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        lines = [f'{{"ts": "2024-05-01T00:0{number}:{second:02}Z", "user": "ada"}}\n' for second in range(60)]
        (tmp_path / f"in/{number}.json").write_text("".join(lines))
    declared = "ts timestamp, user string"

    def frame(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema(declared).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))

    topology, sink = counting(only=spouts.stream(frame, declared))
    limits: list[int] = []
    apply = RowsAtOnce.apply

    def noted(self: RowsAtOnce, session: SparkSession) -> None:
        apply(self, session)
        limits.append(int(session.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 0))

    with patch.object(RowsAtOnce, "apply", noted):
        run(topology, tmp_path / "checkpoint")
    assert limits[:3] == [255, 10_000, 10_000]
    assert sum(row["events"] for row in sink.rows) == 180


def test_the_only_dataframe_may_have_odd_names(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text('{"ts": "2024-05-01T00:00:01Z", "a.b": 1}\n{"ts": "2024-05-01T00:00:02Z"}\n')
    declared = "ts timestamp, `a.b` int"
    topology, sink = counting(
        only=spouts.stream(lambda spark: spark.readStream.schema(declared).json(str(tmp_path / "in")), declared)
    )
    run(topology, tmp_path / "checkpoint")
    assert [row["events"] for row in sink.rows] == [2]
