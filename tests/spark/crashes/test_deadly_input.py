"""A run continues without the rows on which its workers die."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.tools import run, run_until
from topologies.io.sinks import MemorySink
from topologies.spark.workers.pool import TASKS
from topologies.spark.workers.processes import WorkerDied
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import Bolt, WindowedBolt


@pytest.fixture(autouse=True)
def on_the_pool(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(TASKS, "pool")
    yield
    spark.conf.unset(TASKS)


class Fragile(Bolt):
    outputs = "name string, ts timestamp"

    def __init__(self, deaths: str) -> None:
        self.deaths = deaths

    def execute(self, row: Any) -> Any:
        if row["name"] == "boom":
            with open(self.deaths, "ab") as counted:
                counted.write(b".")
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGSEGV)
        return {"name": row["name"], "ts": row["ts"]}


class Names(WindowedBolt):
    outputs = "names string"

    def execute(self, window: Any) -> Any:
        names = window.table.column("name").to_pylist()
        if "bang" in names:
            os._exit(9)
        return {"names": " ".join(names)}


def fragile(folder: Path) -> tuple[Topology, MemorySink, MemorySink]:
    builder, out, errors = TopologyBuilder("fragile"), sinks.memory(), sinks.memory()
    builder.set_spout("rows", spouts.files(f"{folder}/in/*.jsonl", schema="name string, ts timestamp"))
    builder.set_bolt("fragile", Fragile(str(folder / "deaths"))).shuffle_grouping("rows")
    builder.set_bolt("names", Names().with_tumbling_window("1h").with_timestamp_field("ts")).global_grouping("fragile")
    builder.set_sink("out", out).from_("names")
    builder.set_sink("errors", errors).from_("names", "errors")
    return builder.build(), out, errors


def write(folder: Path, names: list[str]) -> None:
    (folder / "in").mkdir()
    lines = [json.dumps({"name": name, "ts": f"2024-05-01T00:00:{at + 1:02}Z"}) for at, name in enumerate(names)]
    (folder / "in/a.jsonl").write_text("\n".join(lines), "utf-8")


def test_a_row_on_which_a_worker_dies_is_invalid_also_when_the_batch_runs_again(tmp_path: Path) -> None:
    write(tmp_path, ["a", "boom", "b"])
    topology, _, _ = fragile(tmp_path)
    run_until(topology, tmp_path / "checkpoint", lambda attempt, phase: phase == "commit")
    deaths = (tmp_path / "deaths").stat().st_size
    assert deaths > 1

    topology, out, errors = fragile(tmp_path)
    summary = run(topology, tmp_path / "checkpoint")
    assert (tmp_path / "deaths").stat().st_size == deaths, "it was found, and need not be found again"
    assert [row["names"] for row in out.rows] == ["a b"]
    (error,) = errors.rows
    assert (error["_row"], error["_reason"]) == (1, "the worker process that read it crashed (SIGSEGV)")
    assert json.loads(error["_data"])["name"] == "boom"
    assert summary.last is not None
    accounts = summary.last.bolts["names"].accounts
    assert (accounts["received"], accounts["windowed"], accounts["invalid"]) == (3, 2, 1)


def test_a_window_on_which_a_worker_dies_stops_the_run(tmp_path: Path) -> None:
    write(tmp_path, ["a", "bang"])
    topology, _, _ = fragile(tmp_path)
    with pytest.raises(WorkerDied, match=r"ended with status 9 in fire of names\.0") as caught:
        run(topology, tmp_path / "checkpoint")
    assert "on the window from 2024-05-01T00:00:00" in str(caught.value)
