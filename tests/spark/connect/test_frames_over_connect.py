"""Streaming DataFrames over Spark Connect: a query of the server's keeps their rows, and each is in one batch."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servers.spark import ConnectServer, connect_server
from tests.helpers.places import ROOT
from tests.spark.connect.framed import SCHEMA, counts, frame_of
from topologies.checkpoints.going_back import go_back
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.rescale import move_tasks
from topologies.checkpoints.savepoint import take_savepoint
from topologies.spark.frames import _pack_rows
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, run_on_spark, sinks, spouts, windowed
from windowing import AggregateBolt, Spout
from windowing.aggregates import count, last
from windowing.aggregates import max as most
from windowing.errors import CheckpointError, ConfigError, WindboltError

ROWS = 60


def write(folder: Path, numbers: range) -> None:
    """A file a minute."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        rows = [
            {"user": f"u{row % 3}", "amount": row, "ts": f"2024-01-01T06:{number:02}:{row:02}Z"} for row in range(ROWS)
        ]
        draft, path = folder / f".{number}.json", folder / f"{number}.json"
        draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(draft, (1_600_000_000 + number, 1_600_000_000 + number))
        draft.rename(path)


def expected(orders: Path) -> list[str]:
    """The rows of a local run over the files themselves."""
    out = sinks.memory()
    run_local(counts(spouts.files(orders / "*.json", SCHEMA, files_per_batch=1), out))
    return said(out)


def said(out: Any) -> list[str]:
    return sorted(map(str, out.rows))


def written(folder: Path) -> list[str]:
    return sorted(str(json.loads(line)) for path in folder.glob("*.jsonl") for line in path.open())


def expected_files(orders: Path, folder: Path) -> list[str]:
    """The rows that a local run over the files themselves writes."""
    out = sinks.files(folder, "jsonl")
    run_local(counts(spouts.files(orders / "*.json", SCHEMA, files_per_batch=1), out))
    return written(folder)


def written_alone(frame: Any, built: Topology, checkpoint: Path) -> Any:
    """The query that a run whose client is dead has left behind."""
    place, schema = f"file://{checkpoint}/spouts/orders", built.spouts["orders"].outputs["default"]
    writer = _pack_rows(frame, schema).writeStream.format("parquet")
    writer = writer.option("path", f"{place}/rows").option("checkpointLocation", f"{place}/query")
    return writer.trigger(availableNow=True).start()


def kept(checkpoint: Path) -> list[str]:
    """The files that Spark has written and that no batch has had."""
    return [path.name for path in (checkpoint / "spouts" / "orders" / "rows").glob("part-*")]


def test_two_runs_give_the_rows_of_a_local_run(session: Any, tmp_path: Path) -> None:
    """The first ends with windows open, the second with a function in place of the DataFrame; Spark's log is joined at
    its tenth entry, and nothing of what was read is left."""
    orders, checkpoint, out = tmp_path / "orders", tmp_path / "ck", sinks.memory()
    write(orders, range(7))
    first = counts(spouts.stream(frame_of(session, orders)), out)
    begun = run_on_spark(first, RunOptions(str(checkpoint), keep_open=True), spark=session)
    assert (begun.batches, begun.rows) == (7, 7 * ROWS)
    write(orders, range(7, 12))
    second = counts(spouts.stream(lambda spark: frame_of(spark, orders), SCHEMA), out)
    ended = run_on_spark(second, RunOptions(str(checkpoint)), spark=session)
    assert (ended.batches, ended.rows) == (5 + 1, 5 * ROWS)
    assert said(out) == expected(orders)
    assert kept(checkpoint) == []


def test_a_row_with_a_time_that_python_has_not_is_bad(session: Any, tmp_path: Path) -> None:
    """As in a classic session, wherever the time is."""
    folder, wrong = tmp_path / "in", {1: 253_402_300_800_000_000, 2: 2**63 - 1, 3: -(2**63)}
    folder.mkdir()
    times = [
        pa.array([wrong[row] if row == bad else 0 for row in range(4)], pa.int64()).cast(pa.timestamp("us", "UTC"))
        for bad in wrong
    ]
    nested = pa.StructArray.from_arrays([times[2]], ["deep"])
    pq.write_table(pa.table({"k": [0, 1, 2, 3], "ts": times[0], "w": times[1], "n": nested}), folder / "0.parquet")
    schema = "k long, ts timestamp, w timestamp, n struct<deep: timestamp>"
    builder, out, bad = TopologyBuilder("far"), sinks.memory(), sinks.memory()
    builder.set_spout("events", spouts.stream(session.readStream.schema(schema).parquet(str(folder))))
    greatest = AggregateBolt(by="k", greatest=most("w"), last=last("n")).with_tumbling_window("10s")
    builder.set_bolt("greatest", greatest.with_timestamp_field("ts")).fields_grouping("events", "k")
    builder.set_sink("out", out).from_("greatest")
    builder.set_sink("bad", bad).from_("events", "errors")
    run_on_spark(builder.build(), RunOptions(str(tmp_path / "ck")), spark=session)
    assert [row["k"] for row in out.rows] == [0]
    assert [row["_row"] for row in bad.rows] == [1, 2, 3]
    assert all(str(number) in row["_reason"] for number, row in zip(wrong.values(), bad.rows, strict=True))


def test_it_is_joined_with_a_table_beside_files_and_a_clock_of_sparks(session: Any, tmp_path: Path) -> None:
    """Columns may have odd names, lack values, and be missing where they have a default."""
    orders = tmp_path / "orders"
    write(orders, range(2))

    def joined(spark: Any) -> Any:
        users = spark.createDataFrame([("u0", "ann"), ("u1", None)], "user string, `full.name` string")
        return frame_of(spark, orders).join(users, "user").drop("amount")

    def ticks(spark: Any) -> Any:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 7)
        source = source.option("startTimestamp", 1_704_088_800_000).load()
        return source.selectExpr("'x' AS user", "timestamp AS ts")

    columns = "user string, `full.name` string, amount double, ts timestamp"
    defaults = {"full.name": "nobody", "amount": 2.5}
    builder, out, ticked = TopologyBuilder("joined"), sinks.memory(), sinks.memory()
    builder.set_spout("joined", spouts.stream(joined, columns, defaults=defaults))
    builder.set_spout("files", spouts.files(orders / "*.json", SCHEMA))
    builder.set_spout("ticks", spouts.stream(ticks, "user string, ts timestamp"))
    builder.set_sink("out", out).from_("joined")
    builder.set_sink("ticked", ticked).from_("ticks")
    counted = AggregateBolt(n=count()).with_tumbling_window("1h").with_timestamp_field("ts")
    totals = sinks.memory()
    builder.set_bolt("counted", counted).global_grouping("files").global_grouping("joined")
    builder.set_sink("totals", totals).from_("counted")
    run_on_spark(builder.build(), RunOptions(str(tmp_path / "ck")), spark=session)
    assert sorted((row["user"], row["full.name"], row["amount"]) for row in out.rows) == (
        [("u0", "ann", 2.5)] * (2 * ROWS // 3) + [("u1", "nobody", 2.5)] * (2 * ROWS // 3)
    )
    assert len(ticked.rows) == 7
    assert sum(row["n"] for row in totals.rows) == 2 * ROWS + 4 * ROWS // 3


def test_one_bolt_over_a_dataframe(session: Any, tmp_path: Path) -> None:
    orders = tmp_path / "orders"
    write(orders, range(2))
    bolt = AggregateBolt(by="user", n=count()).with_tumbling_window("20s").with_timestamp_field("ts")
    run = windowed(frame_of(session, orders), bolt, checkpoint=tmp_path / "ck")
    run.wait()
    found = sorted(str(row) for row in run.frame().toArrow().to_pylist())
    assert found == [text for text in expected(orders) if text]


def test_what_cannot_be_read_is_refused_before_the_first_batch(session: Any, tmp_path: Path) -> None:
    orders = tmp_path / "orders"
    write(orders, range(1))
    rate = session.readStream.format("rate").load().selectExpr("'x' user", "1.0D amount", "timestamp AS ts")
    for frame, why in (
        (rate, "reads 'rate', which has no end"),
        (session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load(), "has no column 'user'"),
        (session.range(3), "not a streaming DataFrame"),
    ):
        built = counts(spouts.stream(partial(_given, frame), SCHEMA), sinks.memory())
        with pytest.raises(ConfigError, match=why):
            run_on_spark(built, RunOptions(str(tmp_path / "ck")), spark=session)
    summed = frame_of(session, orders).groupBy("user", "ts").sum("amount").withColumnRenamed("sum(amount)", "amount")
    with pytest.raises(WindboltError, match=r"Spark's query over its DataFrame failed"):
        run_on_spark(counts(spouts.stream(summed), sinks.memory()), RunOptions(str(tmp_path / "summed")), spark=session)
    assert not list(tmp_path.glob("*/windbolt/manifests/*"))


def _given(frame: Any, _: Any) -> Any:
    return frame


def test_it_takes_turns_with_a_classic_session(
    session: Any, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is beside files whose spout comes behind it by name: each source keeps its place."""
    orders, others, checkpoint, out = tmp_path / "orders", tmp_path / "others", tmp_path / "ck", sinks.memory()
    for turn in range(3):
        for folder in (orders, others):
            write(folder, range(turn, turn + 1))
        built = _beside_files(spouts.stream(lambda spark: frame_of(spark, orders), SCHEMA), others, out)
        options = RunOptions(str(checkpoint), keep_open=turn < 2)
        if turn % 2 == 0:
            ended = run_on_spark(built, options, spark=session)
        else:
            with monkeypatch.context() as classic:
                classic.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
                ended = run_on_spark(built, options, spark=spark)
        assert ended.rows == 2 * ROWS
        assert kept(checkpoint) == []
    whole = sinks.memory()
    run_local(_beside_files(spouts.files(orders / "*.json", SCHEMA, files_per_batch=1), others, whole))
    assert said(out) == said(whole)


def _beside_files(spout: Any, others: Path, out: Any) -> Topology:
    """How many orders each user has in a minute, of two spouts."""
    builder = TopologyBuilder("beside")
    builder.set_spout("orders", spout)
    builder.set_spout("others", spouts.files(others / "*.json", SCHEMA, files_per_batch=1))
    bolt = AggregateBolt(by="user", n=count()).with_tumbling_window("1m").with_timestamp_field("ts")
    builder.set_bolt("counts", bolt, 2).fields_grouping("orders", "user").fields_grouping("others", "user")
    builder.set_sink("out", out).from_("counts")
    return builder.build()


def test_a_checkpoint_that_was_begun_in_a_classic_session_is_refused(
    session: Any, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it was read is in the log of the query over all input."""
    orders = tmp_path / "orders"
    write(orders, range(1))
    built = counts(spouts.stream(lambda spark: frame_of(spark, orders), SCHEMA), sinks.memory())
    with monkeypatch.context() as classic:
        classic.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
        run_on_spark(built, RunOptions(str(tmp_path / "ck"), keep_open=True), spark=spark)
    with pytest.raises(CheckpointError, match="the checkpoint was begun in a classic session"):
        run_on_spark(built, RunOptions(str(tmp_path / "ck")), spark=session)


@pytest.mark.parametrize("lost", ["query", "rows", "query/offsets", "rows/_spark_metadata"])
def test_what_the_query_noted_is_gone(lost: str, session: Any, tmp_path: Path) -> None:
    """It would begin with its batch 0 again, and leave out as many new batches as it has written before."""
    orders, checkpoint = tmp_path / "orders", tmp_path / "ck"
    write(orders, range(2))
    built = counts(spouts.stream(frame_of(session, orders)), sinks.memory())
    run_on_spark(built, RunOptions(str(checkpoint), keep_open=True), spark=session)
    shutil.rmtree(checkpoint / "spouts" / "orders" / lost)
    write(orders, range(2, 4))
    with pytest.raises(CheckpointError, match=r"what Spark's query noted of its batches is not there"):
        run_on_spark(built, RunOptions(str(checkpoint)), spark=session)


@pytest.mark.extended
def test_a_query_that_has_gone_on_alone_for_long(session: Any, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Spark deletes its notes of single batches; those of all of them together say which files are of which."""
    orders, checkpoint, out = tmp_path / "orders", tmp_path / "ck", sinks.memory()
    often = {"fileSink.log.cleanupDelay": "0", "fileSink.log.compactInterval": "2", "minBatchesToRetain": "1"}
    for name, value in often.items():
        session.conf.set(f"spark.sql.streaming.{name}", value)
        request.addfinalizer(partial(session.conf.unset, f"spark.sql.streaming.{name}"))
    write(orders, range(1))
    built = counts(spouts.stream(frame_of(session, orders)), out)
    run_on_spark(built, RunOptions(str(checkpoint), keep_open=True), spark=session)
    write(orders, range(1, 5))
    written_alone(frame_of(session, orders).repartition(2), built, checkpoint).awaitTermination()
    noted = {path.name for path in (checkpoint / "spouts" / "orders" / "rows" / "_spark_metadata").glob("[0-9]*")}
    assert noted == {"3.compact", "4"}
    ended = run_on_spark(built, RunOptions(str(checkpoint)), spark=session)
    assert (ended.batches, ended.rows) == (4 + 1, 4 * ROWS)
    assert said(out) == expected(orders)
    assert kept(checkpoint) == []


@pytest.mark.extended
def test_columns_that_are_added(session: Any, tmp_path: Path) -> None:
    """Rows that were written and not read, by a run that had not declared the new ones, get the default too; a column
    that the DataFrame has no more is missed."""
    orders, checkpoint = tmp_path / "orders", tmp_path / "ck"

    def built(out: Any, columns: str, **defaults: Any) -> Topology:
        frame = session.readStream.schema(columns).json(str(orders))
        builder = TopologyBuilder("added")
        builder.set_spout("orders", spouts.stream(frame, columns, defaults=defaults))
        builder.set_sink("out", out).from_("orders")
        return builder.build()

    write(orders, range(1))
    before = built(sinks.memory(), SCHEMA)
    run_on_spark(before, RunOptions(str(checkpoint)), spark=session)
    write(orders, range(1, 2))
    written_alone(frame_of(session, orders), before, checkpoint).awaitTermination()
    write(orders, range(2, 3))
    out = sinks.memory()
    run_on_spark(built(out, f"{SCHEMA}, shop string", shop="none"), RunOptions(str(checkpoint)), spark=session)
    assert [(row["ts"].minute, row["shop"]) for row in out.rows] == [(1, "none")] * ROWS + [(2, "none")] * ROWS
    lacking = spouts.stream(frame_of(session, orders).drop("amount"), SCHEMA)
    with pytest.raises(ConfigError, match="has no column 'amount'"):
        run_on_spark(counts(lacking, sinks.memory()), RunOptions(str(tmp_path / "other")), spark=session)


class Stops(Spout):
    """Stops the run that reads it."""

    schema = SCHEMA

    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop

    def read(self, offset: Any, limit: int) -> Any:
        self.stop.set()
        return ([("u0", 1.0, datetime(2024, 1, 1, 6, tzinfo=UTC))], 1) if offset is None else None


@pytest.mark.extended
def test_a_run_that_is_stopped_before_it_has_asked_for_rows(session: Any, tmp_path: Path) -> None:
    """Its first batch has those of another spout. That the rows of the DataFrame are kept, the next run knows."""
    orders, out, stop = tmp_path / "orders", sinks.memory(), threading.Event()
    write(orders, range(1))
    builder = TopologyBuilder("stopped")
    builder.set_spout("orders", spouts.stream(frame_of(session, orders)))
    builder.set_spout("stops", Stops(stop))
    builder.set_sink("out", out).from_("orders").from_("stops")
    built = builder.build()
    first = run_on_spark(built, RunOptions(str(tmp_path / "ck"), every="1s", stop=stop), spark=session)
    second = run_on_spark(built, RunOptions(str(tmp_path / "ck")), spark=session)
    assert first.rows + second.rows == len(out.rows) == 1 + ROWS


@pytest.mark.extended
def test_savepoints_and_going_back(session: Any, tmp_path: Path) -> None:
    """A savepoint and its checkpoint go on, each for itself; what was gone back over comes again, from what is kept."""
    orders, checkpoint, out = tmp_path / "orders", tmp_path / "ck", sinks.memory()
    write(orders, range(4))
    built = counts(spouts.stream(frame_of(session, orders)), out)
    run_on_spark(built, RunOptions(str(checkpoint), keep_open=True, keep_batches=20), spark=session)
    take_savepoint(PairedCheckpoint(str(checkpoint)), str(tmp_path / "saved"))
    before = list(out.rows)
    write(orders, range(4, 7))
    run_on_spark(built, RunOptions(str(checkpoint), keep_batches=20), spark=session)
    assert said(out) == expected(orders)
    go_back(PairedCheckpoint(str(checkpoint)), "0000000003")
    again = run_on_spark(built, RunOptions(str(checkpoint), keep_batches=20), spark=session)
    assert again.rows == 3 * ROWS
    there = sinks.memory()
    run_on_spark(
        counts(spouts.stream(frame_of(session, orders)), there), RunOptions(str(tmp_path / "saved")), spark=session
    )
    assert sorted(map(str, [*before, *there.rows])) == expected(orders)


@pytest.mark.extended
def test_another_number_of_tasks(session: Any, tmp_path: Path) -> None:
    """The state of open windows is spread anew, and the DataFrame is read on."""
    orders, checkpoint, out = tmp_path / "orders", tmp_path / "ck", sinks.memory()
    write(orders, range(2))
    built = counts(spouts.stream(frame_of(session, orders)), out)
    run_on_spark(built, RunOptions(str(checkpoint), keep_open=True), spark=session)
    move_tasks(PairedCheckpoint(str(checkpoint)), {"counts": 3})
    write(orders, range(2, 4))
    built = counts(spouts.stream(frame_of(session, orders)), out, tasks=3)
    assert run_on_spark(built, RunOptions(str(checkpoint)), spark=session).rows == 2 * ROWS
    assert said(out) == expected(orders)


@pytest.mark.extended
def test_clients_that_are_killed(server: ConnectServer, tmp_path: Path) -> None:
    """At drawn moments; the query of one that is dead may go on, until that of the next one stops it."""
    orders, folder = tmp_path / "orders", tmp_path / "run"
    folder.mkdir()
    command = [sys.executable, "-m", "tests.spark.connect.framed", server.address, str(orders), str(folder)]
    with (folder / "client.log").open("ab") as log:

        def begun(_: int, *how: str) -> subprocess.Popen[bytes]:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            return subprocess.Popen([*command, *how], env=environment, stdout=log, stderr=log)

        kills = killed(begun, orders, folder, lambda _: signal.SIGKILL, random.Random(35))
    assert kills >= 4
    assert written(folder / "out") == expected_files(orders, tmp_path / "expected")
    assert kept(folder / "ck") == []


def killed(
    begun: Callable[..., subprocess.Popen[bytes]],
    orders: Path,
    folder: Path,
    by: Callable[[int], signal.Signals],
    chance: random.Random,
) -> int:
    """Five runs that go on where the one before was killed, each with two new files, and one that ends; how many were
    killed. One that is too quick to be killed has ended well."""
    kills = 0
    for turn in range(6):
        write(orders, range(2 * turn, 2 * turn + 2))
        last, before = turn == 5, _progress(folder)
        process = begun(turn, *["open"] * (not last))
        while not last and process.poll() is None and _progress(folder) == before:
            time.sleep(0.01)
        if not last:
            time.sleep(chance.uniform(0, 0.4))
        if last or process.poll() is not None:
            assert process.wait(300) == 0, (folder / "client.log").read_text()[-2000:]
        else:
            process.send_signal(by(turn))
            process.wait(120)
            kills += 1
    return kills


@pytest.mark.extended
def test_a_server_that_is_killed_and_comes_back(tmp_path: Path) -> None:
    """Its query goes on in a new session, from its own checkpoint."""
    orders, folder = tmp_path / "orders", tmp_path / "run"
    write(orders, range(8))
    folder.mkdir()
    with connect_server(tmp_path / "server") as server, (folder / "client.log").open("ab") as log:
        command = [
            sys.executable,
            "-m",
            "tests.spark.connect.framed",
            server.address,
            str(orders),
            str(folder),
            "restart",
        ]
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=log)
        while _progress(folder)[1] < 1:
            assert process.poll() is None, (folder / "client.log").read_text()[-2000:]
            time.sleep(0.01)
        server.kill()
        server.start()
        assert process.wait(300) == 0, (folder / "client.log").read_text()[-2000:]
    assert written(folder / "out") == expected_files(orders, tmp_path / "expected")
    assert kept(folder / "ck") == []


def _progress(folder: Path) -> tuple[int, int, int]:
    """How many batches there are: of Spark's query, kept, and committed."""
    checkpoint = folder / "ck"
    return (
        len(list(checkpoint.glob("spouts/orders/query/offsets/[0-9]*"))),
        max([int(path.stem) for path in checkpoint.glob("spouts/orders/*.arrow")], default=-1),
        max([int(path.stem[:10]) for path in checkpoint.glob("windbolt/manifests/*.json")], default=-1),
    )
