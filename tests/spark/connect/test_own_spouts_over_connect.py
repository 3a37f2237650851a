"""Spouts that users write over Spark Connect: this process plans what is read, and tasks of the server read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.spark.crashes.test_partitioned_spouts_on_spark import Elsewhere
from tests.topologies.sources.test_partitioned_spouts import OneByOne, Parts, expected, numbers_in, plain
from windbolt import RunOptions, run_local, run_on_spark


def test_a_spout_of_one_partition_begins_over_connect(session: Any, tmp_path: Path) -> None:
    """Its folder in the checkpoint is not there yet when executors are asked what they see."""
    run_on_spark(plain(OneByOne({"a": 20}), tmp_path / "out"), RunOptions(str(tmp_path / "ck")), spark=session)
    assert numbers_in(tmp_path / "out") == expected({"a": 20})


def test_it_takes_turns_with_a_local_run(session: Any, tmp_path: Path) -> None:
    checkpoint, out = RunOptions(str(tmp_path / "ck"), keep_open=True), tmp_path / "out"
    sizes = {"a": 23, "b": 11}
    run_on_spark(plain(Elsewhere(sizes), out), checkpoint, spark=session)
    assert numbers_in(out) == expected(sizes)
    run_local(plain(Parts({**sizes, "c": 4}, "lists"), out), checkpoint)
    run_on_spark(plain(Elsewhere({"a": 30, "b": 11, "c": 9}), out), checkpoint, spark=session)
    assert numbers_in(out) == expected({"a": 30, "b": 11, "c": 9})
