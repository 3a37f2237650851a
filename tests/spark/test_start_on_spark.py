"""Topologies that run in the background on a user's own session, or on one that windbolt opens for them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.helpers.places import ROOT
from tests.spark.shop import shop_in_files, write_orders
from tests.spark.tools import drafts, file_rows
from tests.topologies.background.test_start import Broken, Reached, shop
from tests.topologies.background.test_start import write_orders as write_amounts
from windbolt import BoltError, CheckpointError, RunPhase, runs

NAMES = ("revenue", "late", "best")


@pytest.fixture
def right(spark: SparkSession, tmp_path: Path) -> dict[str, list[str]]:
    """What a run over all the orders writes."""
    write_orders(tmp_path / "orders", range(4))
    out = tmp_path / "whole"
    shop_in_files(tmp_path / "orders", out).run(out / "checkpoint", spark=spark)
    return {name: file_rows(out / name) for name in NAMES}


def test_a_run_in_the_background_stops_between_batches_and_goes_on(
    spark: SparkSession, right: dict[str, list[str]], tmp_path: Path
) -> None:
    out, half = tmp_path / "out", tmp_path / "half"
    write_orders(half, range(2))
    reached = Reached()
    run = shop_in_files(half, out).start(out / "checkpoint", spark=spark, every="100ms", on_report=reached)
    reached.wait_for(1)
    assert run.status.phase is RunPhase.RUNNING
    assert run.status.rows > 0
    with pytest.raises(CheckpointError, match="is in use by process"):
        shop_in_files(half, tmp_path / "other").start(out / "checkpoint", spark=spark).wait()
    summary = run.stop()
    assert summary.stopped
    assert (run.status.phase, runs()) == (RunPhase.STOPPED, [])
    assert spark.streams.active == []
    write_orders(half, range(2, 4))
    shop_in_files(half, out).run(out / "checkpoint")  # the session is the active one
    for name in NAMES:
        assert file_rows(out / name) == right[name] != []
        assert drafts(out / name) == []


def test_two_runs_in_one_session_do_not_disturb_each_other(
    spark: SparkSession, right: dict[str, list[str]], tmp_path: Path
) -> None:
    outs = [tmp_path / "one", tmp_path / "two"]
    started = [
        shop_in_files(tmp_path / "orders", out).start(out / "checkpoint", spark=spark, keep_open=False) for out in outs
    ]
    assert len({run.wait().rows for run in started}) == 1
    for out in outs:
        assert {name: file_rows(out / name) for name in NAMES} == right


def test_a_bolts_error_is_raised_by_whoever_waits(spark: SparkSession, tmp_path: Path) -> None:
    write_amounts(tmp_path / "in", 0, 1, 12)
    topology, _ = shop(tmp_path / "in", Broken())
    run = topology.start(tmp_path / "ck", spark=spark, every="100ms")
    for ask in (run.wait, run.stop):
        with pytest.raises(BoltError, match=r"'revenue' failed in task 0.*no such thing"):
            ask()
    assert run.status.phase is RunPhase.FAILED
    assert spark.streams.active == []


LEAVES = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.spark.crashes.test_stop import descendants
from tests.spark.tools import CONF
from tests.topologies.background.test_start import Reached, shop
import os

folder = Path(sys.argv[1])
builder = SparkSession.builder.master("local[2]")
for name, value in CONF.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
reached = Reached()
topology, _ = shop(folder / "in")
run = topology.start(folder / "ck", spark=spark, every="100ms", on_report=reached)
reached.wait_for(1)
print(*descendants(os.getpid()))
"""
STOPPED = (
    LEAVES.rpartition("print")[0]
    + """
spark.stop()
try:
    run.wait(300)
except Exception as error:
    print(error)
"""
)
TOGETHER = """
import sys
from pathlib import Path
from tests.spark.tools import CONF
from tests.topologies.background.test_start import Reached, shop

folder = Path(sys.argv[1])
long, short = shop(folder / "in"), shop(folder / "in")
reached = Reached()
first = short[0].start(folder / "short", master="local[2]", conf=CONF)
second = long[0].start(folder / "long", master="local[2]", conf=CONF, every="100ms", on_report=reached)
print(first.wait().rows)
reached.wait_for(1)
print(second.stop().rows, second.status.phase)
from pyspark import SparkContext
print(SparkContext._active_spark_context)
"""


def program(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A process of its own that is given the folder."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.extended
def test_a_session_that_is_stopped_ends_the_runs_that_wait_for_input(tmp_path: Path) -> None:
    write_amounts(tmp_path / "in", 0, 1, 12)
    done = program(STOPPED, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the Spark session of the run has been stopped"), done.stdout + done.stderr


def test_a_process_that_ends_meanwhile_leaves_no_process_and_no_batch_behind(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_amounts(tmp_path / "in", 0, 1, 12)
    done = program(LEAVES, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "windbolt:" not in done.stderr
    left = [int(number) for number in done.stdout.split()]
    assert len(left) > 1, "Java, and workers of windbolt's own"
    deadline = time.monotonic() + 30
    while (living := [each for each in left if alive(each)]) and time.monotonic() < deadline:
        time.sleep(0.02)  # Java takes a moment to see that its driver has ended
    assert living == []
    write_amounts(tmp_path / "in", 1, 14, 31)
    topology, sink = shop(tmp_path / "in")
    assert topology.run(tmp_path / "ck", spark=spark).rows == 2
    assert [row["revenue"] for row in sink.rows] == [2.0, 1.0]


@pytest.mark.extended
def test_the_session_that_runs_share_ends_with_the_last_of_them(tmp_path: Path) -> None:
    write_amounts(tmp_path / "in", 0, 1, 12)
    done = program(TOGETHER, tmp_path)
    assert done.stdout.splitlines() == ["2", "2 stopped", "None"], done.stderr


def alive(process: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2][:3]
    except (FileNotFoundError, ProcessLookupError):
        return False
