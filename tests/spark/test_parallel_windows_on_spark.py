"""Windows that do not depend on each other, shared among the processes that Spark's machine has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.tools import run
from topologies.io import sinks, spouts
from topologies.topology import Topology
from windbolt import TopologyBuilder, run_local
from windowing import TupleWindow, WindowedBolt

pytestmark = pytest.mark.usefixtures("spark")


class Total(WindowedBolt):
    outputs: ClassVar[Any] = "until timestamp, total long, process long"
    parallel_windows: ClassVar[bool] = True

    def execute(self, window: TupleWindow) -> Any:
        return window.end, int(window.column("n").sum()), os.getpid()


def totals(folder: Path, out: sinks.MemorySink) -> Topology:
    builder = TopologyBuilder("totals")
    builder.set_spout("numbers", spouts.files(f"{folder}/*.parquet", "n long, ts timestamp", files_per_batch=1))
    bolt = Total().with_window("10s", "1s").with_timestamp_field("ts").with_lag("2s")
    builder.set_bolt("total", bolt).global_grouping("numbers")
    builder.set_sink("out", out).from_("total")
    return builder.build()


def test_two_processes_fire_them_and_rows_come_in_the_order_of_one(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    for number in range(3):
        times = np.sort(random.integers(0, 60_000_000, 5_000)) + number * 60_000_000
        ts = pa.array(times, pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"n": random.integers(0, 99, 5_000), "ts": ts}), tmp_path / f"{number}.parquet")
    here, there = sinks.memory(), sinks.memory()
    run_local(totals(tmp_path, here))
    run(totals(tmp_path, there), tmp_path / "checkpoint")
    assert len(here.rows) > 150
    assert [(row["until"], row["total"]) for row in there.rows] == [(row["until"], row["total"]) for row in here.rows]
    assert len({row["process"] for row in here.rows}) == 1
    assert len({row["process"] for row in there.rows}) == 2
