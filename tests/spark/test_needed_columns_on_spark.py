"""Files and DataFrames with more columns than anybody asks for: the answers are those of a run that reads them all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.helpers.examples import sampled
from tests.spark.tools import run
from topologies.graph.declarations import with_needed_columns
from topologies.run.summary import AdviceLimits, advice_on
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import TupleWindow, WindowedBolt, seconds

COLUMNS = "ts timestamp, user string, amount double, note string, extra string"
ROWS = 400


class Highest(WindowedBolt):
    outputs = "user string, amount double"
    reads = "user, amount"

    def execute(self, window: TupleWindow) -> Any:
        best = max(window.get(), key=lambda event: event["amount"])
        return best["user"], best["amount"]


def write(folder: Path) -> Path:
    folder.mkdir()
    for number in range(4):
        rows = range(number * ROWS // 4, (number + 1) * ROWS // 4)
        times = pa.array([1_700_000_000_000_000 + row * 50_000 for row in rows], pa.timestamp("us", "UTC"))
        columns = {
            "ts": times,
            "user": [f"u{row % 7}" for row in rows],
            "amount": [float(row * 7919 % 1009) for row in rows],
            "note": [f"note {row}" for row in rows],
            "extra": ["x" * 50 for _ in rows],
        }
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (1_600_000_000 + number,) * 2)
    return folder


def topology(source: Any, out: Any) -> Topology:
    builder = TopologyBuilder("wide")
    builder.set_spout("events", source)
    bolt = Highest().with_tumbling_window(seconds(2)).with_timestamp_field("ts")
    builder.set_bolt("highest", bolt, parallelism=2).fields_grouping("events", "user")
    builder.set_sink("out", out).from_("highest")
    return builder.build()


def rows(folder: Path) -> list[Any]:
    return sorted(tuple(row.values()) for path in folder.glob("*.parquet") for row in pq.read_table(path).to_pylist())


@pytest.mark.parametrize("frame", sampled([True, False], 2))
def test_rows_of_wide_input(spark: SparkSession, tmp_path: Path, frame: bool) -> None:
    folder = write(tmp_path / "in")
    files = spouts.files(f"{folder}/*.parquet", COLUMNS, files_per_batch=1)
    expected = sinks.memory()
    run_local(topology(files, expected), RunOptions())
    source: Any = files
    if frame:
        read = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        source = spouts.stream(lambda _: read.parquet(str(folder)), COLUMNS)
    built = topology(source, sinks.files(str(tmp_path / "out"), "parquet"))
    assert with_needed_columns(built).spouts["events"].schema.names == ["ts", "user", "amount"]
    run(built, tmp_path / "checkpoint", keep_open=False)
    assert rows(tmp_path / "out") == sorted(tuple(row.values()) for row in expected.rows)
    assert len(expected.rows) > 15


class ByName(WindowedBolt):
    outputs = "user string, amount double"

    def execute(self, window: TupleWindow) -> Any:
        for user, amounts in window.groups("user", "amount"):
            yield user, float(amounts.max())


def test_what_bolts_asked_for_is_known_at_the_end_of_a_run(spark: SparkSession, tmp_path: Path) -> None:
    """Tasks on Spark report it as tasks in this process do: the same columns, and bytes of the same events."""
    folder = write(tmp_path / "in")

    def of(engine: str) -> Any:
        builder = TopologyBuilder("wide")
        builder.set_spout("events", spouts.files(f"{folder}/*.parquet", COLUMNS, files_per_batch=2))
        bolt = ByName().with_tumbling_window(seconds(2)).with_timestamp_field("ts")
        builder.set_bolt("by_name", bolt, parallelism=2).fields_grouping("events", "user")
        builder.set_sink("out", sinks.files(str(tmp_path / engine), "parquet")).from_("by_name")
        built = builder.build()
        options = RunOptions(str(tmp_path / f"ck-{engine}"))
        summary = run_local(built, options) if engine == "local" else run(built, tmp_path / "ck-spark", keep_open=False)
        assert set(summary.work) == {"", "by_name"}
        assert all(work.seconds > 0 for work in summary.work.values())
        assert summary.advice == []  # it was short
        advice = advice_on(built, summary.work, AdviceLimits(0.0, 0, 0.0))
        assert advice[1].write == 'reads = "user, amount"'
        assert summary.work["by_name"].called == summary.this_run()["by_name"].fired
        return summary.work["by_name"].column_bytes

    of_columns = of("spark")
    assert of_columns == of("local")
    assert 8 * ROWS <= of_columns[2] < 9 * ROWS
    assert of_columns[4] > 50 * ROWS
