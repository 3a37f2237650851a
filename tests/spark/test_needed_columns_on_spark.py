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
from topologies import RunOptions, TopologyBuilder, run_local, sinks, spouts
from topologies.compose.needed_columns import with_needed_columns
from topologies.topology import Topology
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
