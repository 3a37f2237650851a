"""Sums that Java makes of the rows of a DataFrame are those that windbolt makes of the rows (decision 141)."""

from __future__ import annotations

import itertools
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.helpers.examples import examples, sampled
from tests.helpers.places import ROOT
from tests.spark.tools import Crash, run
from topologies.graph.declarations import with_needed_columns
from topologies.graph.describing import topology_text
from topologies.graph.java_sums import frame_sums
from topologies.io.sinks import MemorySink
from topologies.spark import frame_sums as summed
from topologies.spark import runner, source
from topologies.spark.frame_sums import FrameAdder
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import AggregateBolt, aggregates
from windowing.errors import BoltError, DataError, WindboltError
from windowing.schema import parse_schema

BASE = datetime(2024, 1, 1, tzinfo=UTC)

YEAR_10000 = {"date": 2_932_897, "timestamp": 253_402_300_800_000_000}
"""Of each type of times, the first value that Python has not: its row is bad."""
DOUBLES = [0.0, -0.0, 1.5, -2.25, 0.1, 0.2, 0.3, 1e300, -1e300, math.inf, -math.inf, math.nan, None]
LONGS = [0, 1, -1, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63), None]
VALUES: dict[str, list[Any]] = {
    "byte": [0, 127, -128, 5, None],
    "int": [0, 2**31 - 1, -(2**31), 17, None],
    "long": LONGS,
    "float": [0.0, -0.0, 0.1, 3e38, -3e38, math.nan, math.inf, None],
    "double": DOUBLES,
    "boolean": [True, False, None],
    "string": ["", "a", "A", "ä", "a b", None],
    "date": [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31), None],
    "timestamp": [
        BASE,
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        BASE + timedelta(microseconds=1),
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        None,
    ],
    "decimal(10,2)": [Decimal("0.00"), Decimal("-1.10"), Decimal("99999999.99"), None],
}
SUMMED = ("byte", "int", "long", "float", "double", "decimal(10,2)")
TIMES: dict[str, Any] = {
    "timestamp": lambda moment: moment,
    "long": lambda moment: (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1),
    "date": lambda moment: moment.date(),
}
SHAPES = [("10s", None), ("10s", "5s"), ("10s", "3s"), ("2s", "5s"), ("3d", "1d"), ("1500ms", "1s")]
ROWS = ("rows, files", "rows, results")
COLUMNS = ("columns, driver", "columns, files", "columns, results")
"""How Java reads a batch: its rows, in a job that writes files or returns results; or its columns, by threads of the
driver, or in such a job."""


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    """Files of rows, and what is asked of them."""
    key, value, time = (
        draw(st.sampled_from([*VALUES])),
        draw(st.sampled_from([*VALUES])),
        draw(st.sampled_from([*TIMES])),
    )
    base = draw(st.sampled_from([BASE, datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC)]))
    seconds = st.integers(-15, 60).map(lambda half: timedelta(seconds=half / 2))
    offsets = st.integers(-2, 9).map(lambda day: timedelta(days=day)) if time == "date" else seconds
    odd = st.sampled_from([None, datetime(1, 1, 1, tzinfo=UTC)])
    moments = (
        st.one_of(offsets.map(lambda offset: base + offset), odd)
        if draw(st.integers(0, 3)) == 0
        else offsets.map(lambda offset: base + offset)
    )
    beyond = draw(st.integers(0, 3)) == 0
    keys, values = (
        VALUES[kind] + ([YEAR_10000[kind]] if beyond and kind in YEAR_10000 else []) for kind in (key, value)
    )
    row = st.tuples(moments, st.sampled_from(keys), st.sampled_from(values))
    return {
        "key": key, "value": value, "time": time,
        "files": draw(st.lists(st.lists(row, min_size=1, max_size=25), min_size=1, max_size=4)),
        "shape": draw(st.sampled_from(SHAPES)), "lag": draw(st.sampled_from(["0s", "2s", "1d"])),
        "bounds": draw(st.sampled_from(["(start, end]", "[start, end)"])),
        "offset": draw(st.sampled_from(["0s", "700ms"])),
        "tasks": draw(st.sampled_from([1, 3])), "by_key": draw(st.booleans()),
        "per_batch": draw(st.sampled_from([1, 2])),
        "dictionary": draw(st.booleans()), "folders": draw(st.booleans()),
        "row_group": draw(st.sampled_from([2, 7, None])),
        "ways": draw(st.sampled_from([(rows, columns) for rows in ROWS for columns in COLUMNS])),
    }  # fmt: skip


FOLDERS = ["1", "__HIVE_DEFAULT_PARTITION__", "2"]
"""The values of a column that is not in the files but in the names of their folders, which they are in by turns."""


def write(folder: Path, question: dict[str, Any]) -> str:
    """The files of a question; returns their columns."""
    columns = f"ts {question['time']}, k {question['key']}, v {question['value']}"
    for number, rows in enumerate(question["files"]):
        moments, keys, values = zip(*rows, strict=True)
        times = [None if moment is None else TIMES[question["time"]](moment) for moment in moments]
        arrays = [
            pa.array(each, field.type) for each, field in zip((times, keys, values), parse_schema(columns), strict=True)
        ]
        place = folder / f"p={FOLDERS[number % len(FOLDERS)]}" if question["folders"] else folder
        place.mkdir(exist_ok=True)
        path = place / f"{number}.parquet"
        pq.write_table(
            pa.table(arrays, names=["ts", "k", "v"]),
            path,
            use_dictionary=question["dictionary"],
            row_group_size=question["row_group"],
        )
        os.utime(path, (1_600_000_000 + number,) * 2)
    return f"{columns}, p int" if question["folders"] else columns


def aggregates_of(kind: str) -> dict[str, Any]:
    found = {"n": aggregates.count(), "present": aggregates.count("v"), "start": aggregates.window_start()}
    if kind in SUMMED:
        found |= {"sum": aggregates.sum("v"), "mean": aggregates.mean("v")}
    return found | {"least": aggregates.min("v"), "most": aggregates.max("v")}


def topology(folder: Path, columns: str, question: dict[str, Any]) -> tuple[Topology, MemorySink]:
    def frame(spark: SparkSession) -> Any:
        reader = spark.readStream.schema(columns).option("maxFilesPerTrigger", question["per_batch"])
        return reader.parquet(str(folder))

    builder, out = TopologyBuilder("sums"), sinks.memory()
    builder.set_spout("events", spouts.stream(frame, columns))
    by = (["k", "p"] if question["folders"] else ["k"]) if question["by_key"] else []
    bolt = AggregateBolt(by=by, **aggregates_of(question["value"]))
    length, slide = question["shape"]
    bolt = bolt.with_tumbling_window(length) if slide is None else bolt.with_window(length, slide)
    bolt = bolt.with_timestamp_field("ts").with_lag(question["lag"])
    bolt = bolt.with_alignment(bounds=question["bounds"], offset=question["offset"])
    declared = builder.set_bolt("sums", bolt, parallelism=question["tasks"] if question["by_key"] else 1)
    if question["by_key"]:
        declared.fields_grouping("events", "k")
    else:
        declared.global_grouping("events")
    builder.set_sink("out", out).from_("sums")
    return builder.build(), out


@contextmanager
def rows_in_python() -> Iterator[None]:
    with patch.object(source, "frame_sums", lambda topology: None):
        yield


@contextmanager
def as_on_a_cluster() -> Iterator[None]:
    """Tasks do not see the files of the driver: the job returns the sums to it."""
    with patch.object(runner, "is_cluster", lambda master: True):
        yield


@contextmanager
def watched() -> Iterator[list[bool]]:
    """Per batch, whether Spark has added it up."""
    found: list[bool] = []
    ingest = FrameAdder.ingest

    def noted(*given: Any) -> Any:
        outputs = ingest(*given)
        found.append(outputs is not None)
        return outputs

    with patch.object(FrameAdder, "ingest", noted):
        yield found


@contextmanager
def way_of(spark: SparkSession, way: str) -> Iterator[list[str]]:
    """Have Java read in a way. Yields how batches are read."""
    found, compiles = list[str](), "spark.sql.codegen.wholeStage"  # without it Spark reads no columns
    columns, in_job, before = FrameAdder._columns, summed._Java._sums_by_partition, spark.conf.get(compiles)

    def noted(*given: Any) -> Any:
        there = columns(*given)
        found.append("rows" if there is None else "columns")
        return replace(there, are_from_files=False) if there is not None and way == "columns, files" else there

    def noted_job(*given: Any) -> Any:
        found[-1] += ", job"
        return in_job(*given)

    spark.conf.set(compiles, str(way in COLUMNS).lower())
    with (
        patch.object(FrameAdder, "_columns", noted),
        patch.object(summed._Java, "_sums_by_partition", noted_job),
        as_on_a_cluster() if way.endswith("results") else nullcontext(),
    ):
        try:
            yield found
        finally:
            spark.conf.set(compiles, str(before))


HOW = {way: "columns" if way.endswith("driver") else f"{way.partition(',')[0]}, job" for way in (*ROWS, *COLUMNS)}
"""How each way is noted."""


def same(one: Any, other: Any) -> bool:
    """True for equal values; sums of doubles may differ in their last digits."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or one == other or math.isclose(one, other, rel_tol=1e-12)
    return bool(one == other)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str([row["start"], row.get("k"), row.get("p")]))


def usable(question: dict[str, Any], files: list[list[Any]]) -> bool:
    """True if all rows have a time that some window can hold, and none has another that Python has not."""
    read = slice(1 if question["by_key"] else 2, 3)
    return all(
        row[0] is not None
        and row[0].year > 1
        and not any(type(each) is int and each in YEAR_10000.values() for each in row[read])
        for rows in files
        for row in rows
    )


def answers(spark: SparkSession, question: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Any], str]:
    """The rows of a run, the accounts of each batch, and the error that ended it, if one did."""
    with tempfile.TemporaryDirectory() as folder:
        place, reports, error = Path(folder, "in"), list[Any](), ""
        place.mkdir()
        built, out = topology(place, write(place, question), question)
        try:
            run(built, Path(folder, "checkpoint"), on_report=reports.append)
        except (DataError, BoltError) as failure:
            error = str(failure)
        # How many windows are open is told as a bound, which depends on how rows are cut into sums.
        told = [({name: replace(bolt, open=None) for name, bolt in each.bolts.items()}, each.spouts, each.rows)
                for each in reports]  # fmt: skip
        return in_order(out.rows), told, error


@given(questions())
@examples(60, by_default=4, deadline=None)
def test_rows_and_accounts_are_those_of_the_rows_themselves(spark: SparkSession, question: dict[str, Any]) -> None:
    with rows_in_python():
        expected = answers(spark, question)
    decimals = question["by_key"] and question["key"] == "decimal(10,2)"
    for way in question["ways"]:
        with watched() as added_up, way_of(spark, way) as ways:
            found = answers(spark, question)
        if decimals or question["value"] in ("string", "decimal(10,2)"):
            assert not added_up
        else:
            assert added_up[0] is usable(question, question["files"][: question["per_batch"]])
            assert set(ways) == {HOW[way]}
        compare(found, expected)


def compare(found: Any, expected: Any) -> None:
    (rows, *others), (expected_rows, *expected_others) = found, expected
    assert len(rows) == len(expected_rows)
    for one, other in zip(rows, expected_rows, strict=True):
        assert one.keys() == other.keys()
        assert all(same(one[name], other[name]) for name in one), (one, other)
    assert others == expected_others


def test_each_way_to_read_has_the_same_rows_and_accounts(spark: SparkSession) -> None:
    """Of files with nulls, several row groups, dictionaries and columns in the names of folders."""
    rows = [
        second(at / 2, key, value)
        for at, (key, value) in enumerate(itertools.product(["a", None, "b"], [7, None, -(2**40)]))
    ]
    question = ASKED | {"files": [rows[::2], rows[1::2], rows[:9]], "row_group": 4, "folders": True, "per_batch": 2}
    with rows_in_python():
        expected = answers(spark, question)
    for way in (*ROWS, *COLUMNS):
        with way_of(spark, way) as ways:
            compare(answers(spark, question), expected)
        assert ways == [HOW[way]] * 2, way


ASKED: dict[str, Any] = {
    "key": "string", "value": "long", "time": "timestamp", "shape": ("10s", "5s"), "lag": "2s", "offset": "0s",
    "bounds": "[start, end)", "tasks": 3, "by_key": True, "per_batch": 1,
    "dictionary": True, "row_group": None, "folders": False,
}  # fmt: skip


def second(number: float, key: str | None = "a", value: int | None = 1) -> tuple[datetime, str | None, int | None]:
    """A row of this second."""
    return BASE + timedelta(seconds=number), key, value


SCANS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "fewer columns, renamed": (lambda frame: frame.selectExpr("v AS k", "ts", "k AS name"), "columns"),
    "the name of a file": (lambda frame: frame.selectExpr("ts", "_metadata.file_name AS name", "v AS k"), "rows, job"),
    "some rows": (lambda frame: frame.where("v > 0").selectExpr("ts", "v AS k", "k AS name"), "rows, job"),
    "a value that is computed": (lambda frame: frame.selectExpr("ts", "abs(v) AS k", "k AS name"), "rows, job"),
    "a value of another type": (lambda frame: frame.selectExpr("ts", "CAST(v AS int) AS k", "k AS name"), "rows, job"),
}


@pytest.mark.parametrize("scan", sampled(SCANS, 2))
def test_columns_are_read_where_a_frame_is_a_scan_and_no_more(spark: SparkSession, scan: str, tmp_path: Path) -> None:
    """Else values would be others than those of the frame, or there would be rows that it leaves out."""
    question = ASKED | {"files": [[second(at, "a", value) for at, value in enumerate([3, 3, 0, 5, None])]]}
    (scanned, how), place = SCANS[scan], made(tmp_path / "in")
    frame = scanned(spark.readStream.schema(write(place, question)).parquet(str(place)))
    builder, out = TopologyBuilder("sums"), sinks.memory()
    builder.set_spout("events", spouts.stream(frame))
    bolt = AggregateBolt(by=["k", "name"], n=aggregates.count()).with_tumbling_window("10s")
    bolt = bolt.with_timestamp_field("ts").with_alignment(bounds="[start, end)")
    builder.set_bolt("sums", bolt).fields_grouping("events", "k", "name")
    builder.set_sink("out", out).from_("sums")
    with way_of(spark, COLUMNS[0]) as ways:
        run(builder.build(), tmp_path / "checkpoint")
    assert ways == [how]
    assert {row["name"] for row in out.rows} == {"0.parquet" if scan == "the name of a file" else "a"}
    found = {row["k"]: row["n"] for row in out.rows}
    assert found == ({3: 2, 5: 1} if scan == "some rows" else {3: 2, 0: 1, 5: 1, None: 1})


def test_spark_counts_the_rows_that_the_driver_reads(spark: SparkSession, tmp_path: Path) -> None:
    question = ASKED | {"files": [[second(0), second(1)], [second(2)]], "shape": ("10s", None), "per_batch": 2}
    built, _ = topology(tmp_path / "in", write(made(tmp_path / "in"), question), question)
    queries: list[Any] = []
    with way_of(spark, COLUMNS[0]) as ways:
        run(built, tmp_path / "checkpoint", on_report=lambda report: queries.extend(spark.streams.active))
    assert ways == ["columns"]
    assert [progress.numInputRows for progress in queries[0].recentProgress if progress.numInputRows] == [3]


def test_columns_of_many_values_are_added_up(spark: SparkSession, tmp_path: Path) -> None:
    """Batches of columns have 4,096 rows; a dictionary that has become too large is left in the middle of a column."""
    place, count = made(tmp_path / "in"), 60_000
    keys = [None if at % 1_000 == 999 else f"key {at * 7 % 20_011:0100}" for at in range(count)]
    table = pa.table({"ts": pa.array([BASE] * count), "k": keys, "v": [at % 5 or None for at in range(count)]})
    pq.write_table(table, place / "0.parquet", dictionary_pagesize_limit=300_000, row_group_size=50_000)
    question = ASKED | {"shape": ("10s", None)}
    built, out = topology(place, "ts timestamp, k string, v long", question)
    with way_of(spark, COLUMNS[0]) as ways, watched() as added_up:
        run(built, tmp_path / "checkpoint")
    assert (ways, added_up) == (["columns"], [True])
    found = {row["k"]: (row["n"], row["present"], row["sum"]) for row in out.rows}
    expected: dict[str | None, tuple[int, int, int | None]] = {}
    for key, value in zip(keys, table["v"].to_pylist(), strict=True):
        n, present, total = expected.get(key, (0, 0, None))
        expected[key] = (n + 1, present, total) if value is None else (n + 1, present + 1, (total or 0) + value)
    assert found == expected


def test_rows_are_read_where_columns_cannot_be(spark: SparkSession, tmp_path: Path) -> None:
    """A Spark whose classes are others would otherwise have every batch go to Python."""
    question = ASKED | {"files": [[second(0)], [second(1)]], "shape": ("10s", None)}
    built, out = topology(tmp_path / "in", write(made(tmp_path / "in"), question), question)
    wrong = tmp_path / "ScannedColumns.java"
    source = summed._COLUMNS_SOURCE.read_text("utf-8")
    wrong.write_text(source.replace('"getLocalProperties"', '"getOtherProperties"'))
    with watched() as added_up, way_of(spark, COLUMNS[0]) as ways, patch.object(summed, "_COLUMNS_SOURCE", wrong):
        run(built, tmp_path / "checkpoint")
    assert added_up == [True, True]
    assert ways == ["columns, job", "rows, job"]
    assert [row["n"] for row in out.rows] == [2]


def test_a_query_that_is_stopped_while_columns_are_read_reads_nothing_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Neither in a job, of which nobody would know any more, nor in Python. The next run has each row."""
    question = ASKED | {"files": [[second(0)]], "shape": ("10s", None)}
    built, out = topology(tmp_path / "in", write(made(tmp_path / "in"), question), question)
    slow, plain = tmp_path / "ScannedColumns.java", summed._COLUMNS_SOURCE.read_text()
    endless = "while (true) { Thread.sleep(10L); begun.killTaskIfInterrupted(); }"
    slow.write_text(plain.replace("program.hasNext();", f"if (begun.partitionId() >= 0) {endless}"))
    assert endless in slow.read_text()

    def stop() -> None:
        while not any(thread.getName().startswith("windbolt-sums-") for thread in java_threads(spark)):
            time.sleep(0.01)
        for query in spark.streams.active:
            query.stop()

    stopping = threading.Thread(target=stop)
    with way_of(spark, COLUMNS[0]) as found, patch.object(summed, "_COLUMNS_SOURCE", slow), watched() as added_up:
        stopping.start()
        with suppress(WindboltError, Py4JError, PySparkException):
            run(built, tmp_path / "checkpoint")
        stopping.join()
    assert (found, added_up) == (["columns"], [])
    assert out.rows == []
    run(built, tmp_path / "checkpoint")
    assert [row["n"] for row in out.rows] == [1]


def java_threads(spark: SparkSession) -> list[Any]:
    threads: Any = spark._jvm.java.lang.Thread  # type: ignore[union-attr]
    return list(threads.getAllStackTraces().keySet())


def test_late_rows_that_somebody_reads_go_to_python(spark: SparkSession, tmp_path: Path) -> None:
    question = ASKED | {"files": [[second(0)], [second(60)], [second(1, "late"), second(61)]]}
    columns, late = write(tmp_path, question), sinks.memory()
    builder, out = TopologyBuilder("sums"), sinks.memory()
    reader = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
    builder.set_spout("events", spouts.stream(reader.parquet(str(tmp_path)), columns))
    bolt = AggregateBolt(by="k", n=aggregates.count()).with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("sums", bolt.with_late_tuple_stream("late")).global_grouping("events")
    builder.set_sink("out", out).from_("sums")
    builder.set_sink("late", late).from_("sums", "late")
    with watched() as added_up:
        run(builder.build(), tmp_path / "checkpoint")
    assert added_up[:3] == [True, True, False]
    assert [row["k"] for row in late.rows] == ["late"]
    assert [row["n"] for row in out.rows] == [1, 1, 1]


@pytest.mark.parametrize("where", ["value", "key", "time", "nested"])
def test_a_row_with_a_time_that_python_has_not_is_bad(spark: SparkSession, where: str, tmp_path: Path) -> None:
    """As in files; Java adds up no rows of a partition that has one."""
    place, year_10000 = tmp_path / "in", 253_402_300_800_000_000
    place.mkdir()
    wrong = pa.array([0, year_10000, None], pa.int64()).cast(pa.timestamp("us", "UTC"))
    times = wrong if where == "time" else pa.array([BASE] * 3)
    nested = pa.StructArray.from_arrays([wrong], ["deep"])
    pq.write_table(
        pa.table({"ts": times, "k": [1, 2, 3], "w": nested if where == "nested" else wrong}), place / "0.parquet"
    )
    kind = "struct<deep: timestamp>" if where == "nested" else "timestamp"
    frame = spark.readStream.schema(f"ts timestamp, k long, w {kind}").parquet(str(place))
    builder, out, bad = TopologyBuilder("sums"), sinks.memory(), sinks.memory()
    builder.set_spout("events", spouts.stream(frame))
    by = "w" if where == "key" else "k"
    made = {"value": aggregates.count("w"), "nested": aggregates.last("w")}.get(where, aggregates.count())
    bolt = AggregateBolt(by=by, n=made).with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("sums", bolt).fields_grouping("events", by)
    builder.set_sink("out", out).from_("sums")
    builder.set_sink("bad", bad).from_("events", "errors")
    run(builder.build(), tmp_path / "checkpoint")
    assert len(out.rows) == (1 if where == "time" else 2)
    (row,) = bad.rows
    assert ("cannot be read as struct" if where == "nested" else "outside the years 1 to 9999") in row["_reason"]


def test_rows_that_are_hardly_more_than_sums_go_to_python(spark: SparkSession, tmp_path: Path) -> None:
    place, count = tmp_path / "in", 70_000
    place.mkdir()
    question = ASKED | {"files": []}
    table = pa.table({"ts": pa.array([BASE] * count), "k": [str(at) for at in range(count)], "v": [1] * count})
    pq.write_table(table, place / "0.parquet")
    built, out = topology(place, "ts timestamp, k string, v long", question)
    with watched() as added_up:
        run(built, tmp_path / "checkpoint")
    assert added_up == [False]
    assert len(out.rows) == 2 * count


@pytest.mark.parametrize(("most", "in_java"), [(400, True), (300, False)])
def test_more_sums_than_a_job_may_return_go_to_python(
    spark: SparkSession, most: int, in_java: bool, tmp_path: Path
) -> None:
    """Each of two partitions may return half: they have a sum each, of 122 and, with a long key, of 200 bytes; texts
    count twice."""
    question = ASKED | {"files": [[second(0)], [second(0, "a" * 40)]], "shape": ("10s", None), "per_batch": 2}
    built, out = topology(tmp_path / "in", write(made(tmp_path / "in"), question), question)
    with watched() as added_up, as_on_a_cluster(), patch.object(summed, "_MOST_COLLECTED", most):
        run(built, tmp_path / "checkpoint")
    assert added_up == [in_java]
    assert sorted(row["k"] for row in out.rows) == ["a", "a" * 40]


def test_a_task_stops_reading_once_its_sums_are_too_large(spark: SparkSession, tmp_path: Path) -> None:
    """Its job would otherwise read the rest of a large partition, which Python then reads again."""
    count, parts = 2_000, list[tuple[int, int]]()
    question = ASKED | {"files": [[second(0, f"{at:01000}") for at in range(count)]], "shape": ("10s", None)}
    built, out = topology(tmp_path / "in", write(made(tmp_path / "in"), question), question)

    def collect(java: Any, rows: Any, plan: str, path: str) -> int:
        parts.extend(
            struct.unpack("=qq", row.getBinary(0)[:16]) for row in java._sums_by_partition(rows, plan).collect()
        )
        return min(sums for _, sums in parts)

    with (
        as_on_a_cluster(),
        patch.object(summed, "_MOST_COLLECTED", 100_000),
        patch.object(summed._Java, "collect", collect),
    ):
        run(built, tmp_path / "checkpoint")
    assert len(out.rows) == count
    ((read, sums),) = parts
    assert sums < 0
    assert 0 < read < 100


def test_where_java_fails_the_rows_go_to_python(spark: SparkSession, tmp_path: Path) -> None:
    """Also in the batches that follow: nobody waits for another failure in each."""
    question = ASKED | {"files": [[second(0)], [second(1)]], "shape": ("10s", None)}
    built, out = topology(tmp_path / "in", write(made(tmp_path / "in"), question), question)
    wrong = tmp_path / "FrameSums.java"
    wrong.write_text("public Object generate(Object[] references) { return new Missing(); }")
    with watched() as added_up, as_on_a_cluster(), patch.object(summed, "_SUMS_SOURCE", wrong):
        run(built, tmp_path / "checkpoint")
    assert added_up == [False, False]
    assert [row["n"] for row in out.rows] == [2]


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


OF_LITTLE_MEMORY = """
import sys
from pathlib import Path

from tests.spark import test_frame_sums as sums
from tests.spark.tools import CONF, run
from topologies.spark.classic_session import open_session

folder, width = Path(sys.argv[1]), int(sys.argv[2])
limit = {"spark.testing.memory": str(24 << 20), "spark.testing.reservedMemory": "1"}
session, _ = open_session("local[2,1]", CONF | limit)
rows = [sums.second(0, str(at).rjust(width)) for at in range(1_000)] * 2
question = sums.ASKED | {"files": [rows], "shape": ("10s", None)}
columns = sums.write(folder, question)
built, out = sums.topology(folder, columns, question)
with sums.watched() as added_up:
    run(built, folder / "checkpoint")
print(added_up, len(out.rows), {row["n"] for row in out.rows})
session.stop()
"""


@pytest.mark.extended
@pytest.mark.parametrize(("width", "in_java"), [(4, True), (40_000, False)])
def test_sums_beyond_the_memory_of_a_task_go_to_python(width: int, in_java: bool, tmp_path: Path) -> None:
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", OF_LITTLE_MEMORY, str(tmp_path), str(width)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"[{in_java}] 1000 {{2}}" in done.stdout
    assert "memory leak" not in done.stderr


def test_a_batch_that_breaks_after_it_was_added_up_is_in_the_result_once(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "in"
    place.mkdir()
    question = ASKED | {"files": [[second(0)], [second(1), second(2, "b")], [second(3, None)]]}
    built, out = topology(place, write(place, question), question)
    ingest, broken = FrameAdder.ingest, list[int]()

    def breaks(*given: Any) -> Any:
        outputs = ingest(*given)
        if given[3].batch == 1 and not broken:
            broken.append(1)
            raise Crash
        return outputs

    with patch.object(FrameAdder, "ingest", breaks), suppress(Exception):
        run(built, tmp_path / "checkpoint")
    assert broken
    run(built, tmp_path / "checkpoint")
    counted = {(row["start"], row["k"]): row["n"] for row in out.rows}
    assert {key: n for (start, key), n in counted.items() if start == BASE} == {"a": 2, "b": 1, None: 1}
    assert len(counted) == len(out.rows)


def test_the_description_says_who_adds_up(tmp_path: Path) -> None:
    question = ASKED | {"files": [[second(0)]]}
    assert "in Java where they are read, also on a cluster" in topology_text(
        topology(tmp_path, "ts timestamp, k string, v long", question)[0]
    )
    texts = topology(tmp_path, "ts timestamp, k string, v string", question | {"value": "string"})[0]
    assert "in Python: what is kept of v (string) is no sum of numbers" in topology_text(texts)


def test_it_also_says_who_looks_at_the_times_that_no_sum_is_of() -> None:
    """A row may be bad by them: where its errors are read, by any column, also inside others."""

    def built(columns: str, *, errors: bool = True, **asked: Any) -> Topology:
        builder = TopologyBuilder("sums")
        builder.set_spout("events", spouts.stream(lambda spark: None, f"ts timestamp, k long, {columns}"))
        bolt = AggregateBolt(by="k", n=aggregates.count(), **asked).with_tumbling_window("10s")
        builder.set_bolt("sums", bolt.with_timestamp_field("ts")).fields_grouping("events", "k")
        builder.set_sink("out", sinks.memory()).from_("sums")
        if errors:
            builder.set_sink("bad", sinks.memory()).from_("events", "errors")
        return builder.build()

    for kind in ("struct<deep: timestamp>", "array<date>"):
        why = "in Python: w .* may have times that Python has not, whose rows are bad"
        assert re.search(why, topology_text(built(f"w {kind}")))
        assert re.search(why, topology_text(built(f"w {kind}", errors=False, present=aggregates.count("w"))))
        assert "in Java" in topology_text(built(f"w {kind}", errors=False))
    for errors, looked_at in ((True, ["w"]), (False, [])):
        found = frame_sums(with_needed_columns(built("w timestamp", errors=errors)))
        assert found is not None
        assert [term.field for term in found.terms] == looked_at
