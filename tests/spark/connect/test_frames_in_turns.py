"""A checkpoint with a DataFrame, over Spark Connect and in classic sessions: each row is in one batch, whoever dies."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manager.remote import s3a_settings
from servers.s3 import S3, s3_server
from servers.spark import ConnectServer, connect_server
from tests.helpers.hadoop_aws import spark_jars
from tests.helpers.places import ROOT
from tests.spark.connect.framed import SCHEMA, counts, frame_of, slowly
from tests.spark.connect.test_frames_over_connect import (
    ROWS,
    expected,
    expected_files,
    kept,
    killed,
    said,
    write,
    written,
    written_alone,
)
from topologies.engine.report import BatchReport
from topologies.run.options import Restart
from windbolt import RunOptions, run_on_spark, sinks, spouts
from windowing.errors import CheckpointError


@pytest.fixture
def classic(session: Any, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A classic session, beside the one over Connect: pyspark.sql.functions are of the former's kind."""
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
    return spark


@pytest.mark.extended
def test_runs_in_a_classic_session_are_stopped(session: Any, classic: Any, tmp_path: Path) -> None:
    """While the query of the DataFrame is in the middle of a batch, and while it starts or finds nothing new."""
    orders, checkpoint, out = tmp_path / "orders", tmp_path / "ck", sinks.memory()
    write(orders, range(1))
    built = counts(spouts.stream(lambda spark: slowly(frame_of(spark, orders), 0.2), SCHEMA), out)
    run_on_spark(built, RunOptions(str(checkpoint), keep_open=True), spark=session)
    write(orders, range(1, 9))
    run = built.start(str(checkpoint), every="100ms", spark=classic)
    while not run.summary.batches:
        time.sleep(0.01)
    assert run.stop().rows < 8 * ROWS
    assert not classic.streams.active
    run_on_spark(built, RunOptions(str(checkpoint), keep_open=True), spark=classic)
    chance = random.Random(36)
    for number in range(9, 12):
        run = built.start(str(checkpoint), every="100ms", spark=classic)
        while len(classic.streams.active) < 2:
            assert not run.ended
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.7))
        write(orders, range(number, number + 1))
        time.sleep(chance.uniform(0, 0.2))
        run.stop()
        assert not classic.streams.active
    run_on_spark(built, RunOptions(str(checkpoint)), spark=classic)
    assert said(out) == expected(orders)
    assert kept(checkpoint) == []


@pytest.mark.extended
def test_two_runs_at_once_over_connect(session: Any, tmp_path: Path) -> None:
    """The first one goes on."""
    orders, checkpoint, out = tmp_path / "orders", tmp_path / "ck", sinks.memory()
    write(orders, range(1))
    built = counts(spouts.stream(lambda spark: frame_of(spark, orders), SCHEMA), out)
    run = built.start(str(checkpoint), every="100ms", spark=session)
    while not run.summary.batches:
        time.sleep(0.01)
    with pytest.raises(CheckpointError, match="in use"):
        run_on_spark(built, RunOptions(str(checkpoint)), spark=session)
    write(orders, range(1, 2))
    while run.summary.rows < 2 * ROWS:
        time.sleep(0.01)
    run.stop()
    run_on_spark(built, RunOptions(str(checkpoint)), spark=session)
    assert said(out) == expected(orders)


@pytest.mark.extended
def test_another_query_goes_on_beside_that_of_a_run(session: Any, classic: Any, tmp_path: Path) -> None:
    """As that of a dead client does in its server: Spark writes each batch of the two once."""
    orders, checkpoint, out = tmp_path / "orders", tmp_path / "ck", sinks.memory()
    write(orders, range(1))
    built = counts(spouts.stream(lambda spark: slowly(frame_of(spark, orders), 0.5), SCHEMA), out)
    run_on_spark(built, RunOptions(str(checkpoint), keep_open=True), spark=session)
    write(orders, range(1, 12))
    queries: list[Any] = []
    failures: list[str] = []

    def begins(_: BatchReport) -> None:
        if not queries:
            queries.append(written_alone(slowly(frame_of(session, orders), 0.5), built, checkpoint))

    options = RunOptions(
        str(checkpoint),
        restart=Restart(initial_backoff="1s"),
        on_report=begins,
        on_restart=lambda coming: failures.append(str(coming.error)),
    )
    run_on_spark(built, options, spark=classic)
    assert all("another query of Spark's writes the rows" in each for each in failures)
    assert failures or queries[0].exception() is not None
    assert said(out) == expected(orders)


@pytest.mark.extended
def test_runs_that_are_killed_go_on_in_the_other_kind_of_session(server: ConnectServer, tmp_path: Path) -> None:
    """By turns, at drawn moments, each with new files; two are interrupted."""
    orders, folder = tmp_path / "orders", tmp_path / "run"
    chance = random.Random(36)
    folder.mkdir()
    with (folder / "client.log").open("ab") as log:

        def begun(turn: int, *how: str) -> subprocess.Popen[bytes]:
            master = server.address if turn % 2 == 0 else "local[2,4]"
            return run(log, master, orders, folder, "restart", *how)

        kills = killed(begun, orders, folder, lambda turn: signal.SIGINT if turn in (1, 2) else signal.SIGKILL, chance)
    assert kills >= 3
    assert written(folder / "out") == expected_files(orders, tmp_path / "expected")


def run(log: Any, master: str, orders: Path, folder: object, *how: str, **more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.connect.framed", master, str(orders), str(folder), *how]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT), **more}, stdout=log, stderr=log)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """An object store that this process, and those that it starts, know by their environment."""
    with s3_server() as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://{running.address}")
        yield running


@pytest.fixture
def server_with_store(store: S3, tmp_path: Path) -> Iterator[ConnectServer]:
    """A server whose Hadoop knows the store too."""
    settings = {
        f"spark.hadoop.fs.s3a.bucket.bucket.{name}": value for name, value in s3a_settings("s3://bucket/ck").items()
    }
    with connect_server(tmp_path / "server", conf={"spark.jars": spark_jars(), **settings}) as server:
        yield server


@pytest.mark.extended
def test_turns_on_a_checkpoint_in_a_store(server_with_store: ConnectServer, store: S3, tmp_path: Path) -> None:
    orders = tmp_path / "orders"
    more = {"PYSPARK_SUBMIT_ARGS": f"--jars {spark_jars()} pyspark-shell"}
    with (tmp_path / "client.log").open("ab") as log:
        for turn, master in enumerate((server_with_store.address, "local[2,4]", server_with_store.address)):
            write(orders, range(turn * 2, turn * 2 + 2))
            process = run(log, master, orders, "s3://bucket/run", *["open"] * (turn < 2), **more)
            assert process.wait(300) == 0, (tmp_path / "client.log").read_text()[-2000:]
    names = [name for name in store.names() if name.startswith("run/out/") and name.endswith(".jsonl")]
    lines = [line for name in names for line in store.body(name).splitlines()]
    assert sorted(str(json.loads(line)) for line in lines) == expected_files(orders, tmp_path / "expected")


@pytest.mark.extended
@pytest.mark.usefixtures("store")
def test_a_run_takes_the_checkpoint_over_in_a_store(server_with_store: ConnectServer, tmp_path: Path) -> None:
    """Where there is no lock: the run that had it is told so."""
    orders, out = tmp_path / "orders", sinks.memory()
    write(orders, range(2))
    built = counts(spouts.stream(lambda spark: frame_of(spark, orders), SCHEMA), out)
    first = built.start("s3://bucket/ck", every="100ms", master=server_with_store.address)
    while first.summary.batches < 2:
        assert not first.ended
        time.sleep(0.01)
    write(orders, range(2, 5))
    run_on_spark(built, RunOptions("s3://bucket/ck"), master=server_with_store.address)
    with pytest.raises(CheckpointError, match="taken over"):
        first.wait(120)
    assert said(out) == expected(orders)
