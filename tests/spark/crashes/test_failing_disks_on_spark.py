"""Disks that are full or fail on Spark: tasks are tried again; then the run ends in words, and the next continues."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from tests.helpers.places import ROOT
from tests.spark.shop import Revenue, shop_in_files, shop_in_memory
from tests.spark.tools import file_rows, memory_rows, run
from topologies.run.options import RunOptions
from topologies.spark.runner import SparkRun
from topologies.spark.workers.pool import TASKS
from windbolt import run_local
from windowing import TupleWindow
from windowing.errors import StorageError
from windowing.schema import EmittedRows

LONG_ROWS = """
from windbolt import TopologyBuilder, sinks, spouts
from windowing import Bolt

class Long(Bolt):
    outputs = "x long, text string"
    def execute(self, event):
        yield event["x"], "abcd" * event["length"]

builder = TopologyBuilder("long")
builder.set_spout("in", spouts.files("in", "x long, length long", format="jsonl", files_per_batch=1))
builder.set_bolt("long", Long()).shuffle_grouping("in")
builder.set_sink("out", sinks.files("out", "jsonl")).from_("long")
topology = builder.build()
"""
MOST = 1 << 18
"""Bytes that a file may have."""


@pytest.fixture(params=["pool", pytest.param("spark", marks=pytest.mark.extended)])
def tasks(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Who runs the tasks."""
    spark.conf.set(TASKS, request.param)
    yield request.param
    spark.conf.unset(TASKS)


@pytest.mark.usefixtures("tasks")
def test_the_error_of_a_task_comes_to_the_driver_and_the_next_run_goes_on(
    spark: SparkSession, orders: Path, tmp_path: Path
) -> None:
    there, expected = shop_in_memory(orders)
    run_local(there)
    topology, found = shop_in_memory(orders)
    segments, away = tmp_path / "checkpoint/windbolt/segments", tmp_path / "away"
    attempt = SparkRun(spark, topology, RunOptions(str(tmp_path / "checkpoint")))

    def hook(phase: str) -> None:
        if phase == "fire" and attempt.micro_batch.manifest.batch == 0 and not away.exists():
            segments.rename(away)
            segments.touch()

    with attempt:
        attempt.micro_batch.hook = hook
        with pytest.raises(StorageError) as raised:
            attempt.run()
    said = rf"firing the windows of batch 1 failed: bolt 'revenue', task \d: {segments}/000000000"
    assert re.match(said, raised.value.what), raised.value.what
    assert raised.value.why == "Not a directory (ENOTDIR)"
    assert raised.value.do.endswith("rerun: batch 1 was not committed, and runs again; nothing is lost")
    segments.unlink()
    away.rename(segments)
    run(topology, tmp_path / "checkpoint")
    assert memory_rows(found) == memory_rows(expected)


@dataclass
class Blocking(Revenue):
    """In the first attempt at a task of Spark's the folder of the sink is gone when the task has come to its end."""

    folder: str = ""

    def execute(self, window: TupleWindow) -> EmittedRows:
        away, task = f"{self.folder}-away", TaskContext.get()
        assert task is not None
        if task.attemptNumber() == 0 and not os.path.exists(f"{self.folder}-met"):
            Path(f"{self.folder}-met").touch()
            os.rename(self.folder, away)
            Path(self.folder).touch()
        elif task.attemptNumber() > 0 and os.path.exists(away):
            os.remove(self.folder)
            os.rename(away, self.folder)
        yield from super().execute(window)


def test_a_task_of_spark_whose_disk_fails_is_tried_again(spark: SparkSession, orders: Path, tmp_path: Path) -> None:
    run_local(shop_in_files(orders, tmp_path / "right", parallelism=1))
    folder = tmp_path / "out/revenue"
    topology = shop_in_files(orders, tmp_path / "out", parallelism=1, revenue=Blocking(folder=str(folder)))
    spark.conf.set(TASKS, "spark")
    try:
        run(topology, tmp_path / "checkpoint")
    finally:
        spark.conf.unset(TASKS)
    assert os.path.exists(f"{folder}-met")
    for name in ("revenue", "late", "best"):
        assert file_rows(tmp_path / "out" / name) == file_rows(tmp_path / "right" / name)


@pytest.mark.extended
def test_a_run_whose_files_cannot_grow_ends_in_three_lines_and_the_next_goes_on(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text(LONG_ROWS)
    (tmp_path / "in").mkdir()
    for number, length in enumerate([1, MOST, 2]):
        path = tmp_path / "in" / f"{number}.jsonl"
        path.write_text(json.dumps({"x": number, "length": length}) + "\n")
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
    command = [
        sys.executable,
        "-m",
        "windbolt",
        "run",
        "long.py:topology",
        "--checkpoint",
        "ck",
        "--master",
        "local[2]",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}

    def windbolt(most: int) -> subprocess.CompletedProcess[str]:
        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

        return subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            preexec_fn=limit,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    ended = windbolt(MOST)
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    what, why, do = ended.stderr.splitlines()[-3:]
    assert what.startswith(f"error: reading the input of batch 1 failed: sink 'out': {tmp_path}/out/.0000000001-")
    assert why == "  why: File too large (EFBIG)"
    remedy, after = "allow larger files (ulimit -f)", "batch 1 was not committed, and runs again; nothing is lost"
    assert do == f"  do:  {remedy}, then rerun: {after}"
    again = windbolt(resource.RLIM_INFINITY)
    assert again.returncode == 0, again.stderr
    rows = [json.loads(row) for row in file_rows(tmp_path / "out")]
    assert sorted((row["x"], len(row["text"])) for row in rows) == [(0, 4), (1, 4 * MOST), (2, 8)]
