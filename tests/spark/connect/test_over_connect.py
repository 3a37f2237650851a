"""A run over Spark Connect: it answers as a local one, and goes on with the checkpoints of other engines."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast
from weakref import WeakSet

import pyarrow as pa
import pytest
from pyspark.sql.connect.session import SparkSession

from servers.processes import free_port
from servers.spark import ConnectServer
from tests.helpers.damage import BATCHES, rows_of, topology, write_input
from tests.spark.shop import Revenue, shop_in_memory, write_orders
from tests.spark.tools import Trap, memory_rows
from topologies.checkpoints.going_back import inspect
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.spark import connect_run, tables
from topologies.spark.connect_run import connect_session
from windbolt import RunOptions, TopologyBuilder, run_local, run_on_spark, sinks, spouts
from windowing import AggregateBolt, Bolt, Spout, Tuple, WindowedBolt
from windowing.aggregates import count
from windowing.errors import BoltError, ConfigError, UnreachableError
from windowing.schema import EmittedRows

SHOP = "user string, amount double, ts timestamp"


class Ends(WindowedBolt):
    """How many events a window holds, and where it ends."""

    outputs = "n long, until timestamp"

    def execute(self, window: Any) -> EmittedRows:
        return len(window), window.end


def test_it_takes_turns_with_a_local_run_on_a_checkpoint(session: Any, tmp_path: Path) -> None:
    """Windows of all kinds, with state that is open at each change."""
    files, whole, turns = tmp_path / "all", tmp_path / "whole", tmp_path / "turns"
    write_input(files)
    run_local(topology(files, whole / "out"), RunOptions(str(whole / "ck")))
    here = tmp_path / "in"
    here.mkdir()
    for number, path in enumerate(sorted(files.iterdir())):
        shutil.copy2(path, here)
        built = topology(here, turns / "out")
        options = RunOptions(str(turns / "ck"), keep_open=number < BATCHES - 1)
        last = number == BATCHES - 1
        summary = run_on_spark(built, options, spark=session) if number % 2 == 0 else run_local(built, options)
        assert summary.batches == 1 + last
    assert rows_of(turns / "out") == rows_of(whole / "out")
    assert all(rows_of(turns / "out").values())
    look = inspect(PairedCheckpoint(str(turns / "ck")))
    assert not look.damage
    assert not look.refused


class Numbers(Spout):
    """Counts to thirty, ten at a time."""

    schema = "n long"
    rows_per_batch = 10

    def read(self, offset: Any, limit: int) -> Any:
        first = offset or 0
        return ([(number,) for number in range(first, first + 10)], first + 10) if first < 30 else None


def test_a_spout_of_the_users_begins_a_checkpoint(session: Any, tmp_path: Path) -> None:
    """The folder of its rows is made with the first batch."""
    builder, out = TopologyBuilder("numbers"), sinks.memory()
    builder.set_spout("numbers", Numbers())
    builder.set_sink("out", out).from_("numbers")
    run_on_spark(builder.build(), RunOptions(str(tmp_path / "ck")), spark=session)
    assert [row["n"] for row in out.rows] == list(range(30))


def test_a_task_that_fails_once_is_repeated_by_spark(session: Any, tmp_path: Path) -> None:
    write_orders(tmp_path / "orders", range(2))
    marker = tmp_path / "trap"
    built, out = shop_in_memory(tmp_path / "orders", revenue=Revenue(trap=Trap(str(marker))))
    run_on_spark(built, RunOptions(str(tmp_path / "ck")), spark=session)
    assert marker.exists()
    plain, expected = shop_in_memory(tmp_path / "orders")
    run_local(plain)
    assert memory_rows(out) == memory_rows(expected)


class _Adding(Protocol):
    """A module of the user's, as it is now."""

    Add: type[Bolt]


def test_a_module_that_is_changed_between_two_runs_in_a_session_is_there_as_it_is_now(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook, where it is loaded again: the topology itself is sent as the same bytes."""
    write_orders(tmp_path / "orders", range(1))
    monkeypatch.syspath_prepend(str(tmp_path))
    found = []
    for added in (10, 2000):
        text = f"return {{**tuple.values, 'amount': {added}.0}}"
        (tmp_path / "adding_over_connect.py").write_text(
            f"from windbolt import Bolt\n\nclass Add(Bolt):\n    outputs = {SHOP!r}\n\n"
            f"    def execute(self, tuple):\n        {text}\n"
        )
        monkeypatch.delitem(sys.modules, "adding_over_connect", raising=False)
        importlib.invalidate_caches()
        module = cast("_Adding", importlib.import_module("adding_over_connect"))
        out = sinks.memory()
        builder = TopologyBuilder("adding")
        builder.set_spout("orders", spouts.files(tmp_path / "orders" / "*.parquet", SHOP))
        builder.set_bolt("added", module.Add()).shuffle_grouping("orders")
        builder.set_sink("out", out).from_("added")
        run_on_spark(builder.build(), RunOptions(str(tmp_path / f"ck{added}")), spark=session)
        found.append({row["amount"] for row in out.rows})
    monkeypatch.delitem(sys.modules, "adding_over_connect")
    assert found == [{10.0}, {2000.0}]


@pytest.mark.usefixtures("session")
def test_a_run_finds_the_active_session(tmp_path: Path) -> None:
    """As the calls of a notebook do on a platform: no session is named, and no address."""
    write_orders(tmp_path / "orders", range(1))
    assert run_on_spark(_counts(tmp_path / "orders"), RunOptions(str(tmp_path / "ck"))).batches == 2


class Wrong(Bolt):
    """Divides by what may be zero."""

    outputs = SHOP

    def execute(self, tuple: Tuple) -> EmittedRows:
        return {**tuple.values, "amount": tuple["amount"] / (tuple["amount"] - tuple["amount"])}


def _wrong(orders: Path) -> Any:
    builder = TopologyBuilder("wrong")
    builder.set_spout("orders", spouts.files(orders / "*.parquet", SHOP))
    builder.set_bolt("divided", Wrong()).shuffle_grouping("orders")
    builder.set_sink("out", sinks.memory()).from_("divided")
    return builder.build()


def test_an_error_of_a_bolt_is_told_as_in_a_local_run(session: Any, tmp_path: Path) -> None:
    write_orders(tmp_path / "orders", range(1))
    with pytest.raises(BoltError) as here:
        run_local(_wrong(tmp_path / "orders"))
    with pytest.raises(BoltError) as there:
        run_on_spark(_wrong(tmp_path / "orders"), RunOptions(str(tmp_path / "ck")), spark=session)
    assert str(there.value) == str(here.value)


def test_a_function_of_a_sink_gets_a_frame_of_the_session(session: Any, tmp_path: Path) -> None:
    write_orders(tmp_path / "orders", range(3))
    frames: list[pa.Table] = []
    kinds: set[type] = set()

    def keep(frame: Any, batch: Any) -> None:
        kinds.add(type(frame))
        frames.append(frame.filter("n > 0").toArrow())

    builder = TopologyBuilder("frames")
    builder.set_spout("orders", spouts.files(tmp_path / "orders" / "*.parquet", SHOP, files_per_batch=1))
    builder.set_bolt("ends", Ends().with_tumbling_window("20s").with_timestamp_field("ts"), 2).fields_grouping(
        "orders", "user"
    )
    builder.set_sink("frames", sinks.foreach_batch(keep, frame="spark")).from_("ends")
    memory = sinks.memory()
    builder.set_sink("memory", memory).from_("ends")
    run_on_spark(builder.build(), RunOptions(str(tmp_path / "ck")), spark=session)
    assert {kind.__module__ for kind in kinds} == {"pyspark.sql.connect.dataframe"}
    found = sorted((row["n"], row["until"]) for frame in frames for row in frame.to_pylist())
    assert found == sorted((row["n"], row["until"]) for row in memory.rows)
    assert found


def program_in(folder: Path) -> str:
    """Write a program that counts the orders of a folder; what the command calls its topology."""
    program = f'''
from windbolt import *

builder = TopologyBuilder("counts")
builder.set_spout("orders", spouts.files({str(folder / "orders" / "*.parquet")!r}, "{SHOP}"))
bolt = AggregateBolt(n=aggregates.count()).with_tumbling_window("20s").with_timestamp_field("ts")
builder.set_bolt("counts", bolt).global_grouping("orders")
builder.set_sink("out", sinks.files({str(folder / "out" / "counts")!r}, "jsonl")).from_("counts")
topology = builder.build()
'''
    (folder / "counts.py").write_text(program)
    return f"{folder / 'counts.py'}:topology"


def test_the_command_runs_at_an_address(server: ConnectServer, tmp_path: Path) -> None:
    """And a session that windbolt opens ends with the run."""
    write_orders(tmp_path / "orders", range(2))
    reference = program_in(tmp_path)
    command = [sys.executable, "-m", "windbolt", "run", reference, "--checkpoint", str(tmp_path / "ck")]
    done = subprocess.run([*command, "--master", server.address], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    expected = sinks.memory()
    run_local(_counts(tmp_path / "orders", sink=expected))
    written = [json.loads(line) for line in rows_of(tmp_path / "out")["counts"]]
    assert sorted(row["n"] for row in written) == sorted(row["n"] for row in expected.rows)
    assert written


@pytest.mark.extended
def test_three_engines_take_turns_on_a_checkpoint(server: ConnectServer, tmp_path: Path) -> None:
    """Each in a process of its own: over Connect, in a classic session, locally."""
    write_orders(tmp_path / "all", range(3))
    here = ["--engine", "local"]
    expected = taking_turns(tmp_path, "here", [here, here, here])
    assert taking_turns(tmp_path, "turns", [["--master", server.address], ["--master", "local[2]"], here]) == expected
    assert expected


def taking_turns(folder: Path, name: str, turns: list[list[str]]) -> list[str]:
    """The rows of runs on one checkpoint, one for each of the files in ``all``."""
    place = folder / name
    (place / "orders").mkdir(parents=True)
    command = [sys.executable, "-m", "windbolt", "run", program_in(place), "--checkpoint", str(place / "ck")]
    files = sorted((folder / "all").iterdir())
    for path, turn in zip(files, turns, strict=True):
        shutil.copy2(path, place / "orders")
        ending = [] if path == files[-1] else ["--keep-open"]
        done = subprocess.run([*command, *turn, *ending], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return rows_of(place / "out")["counts"]


def _counts(orders: Path, **parts: Any) -> Any:
    builder = TopologyBuilder("counts")
    builder.set_spout("orders", parts.get("spout") or spouts.files(orders / "*.parquet", SHOP))
    bolt = AggregateBolt(n=count()).with_tumbling_window("20s").with_timestamp_field("ts")
    builder.set_bolt("counts", bolt).global_grouping("orders")
    builder.set_sink("out", parts.get("sink") or sinks.memory()).from_("counts")
    return builder.build()


def test_a_server_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    write_orders(tmp_path / "orders", range(1))
    master = f"sc://127.0.0.1:{free_port()}/;token=secret"
    with pytest.raises(
        UnreachableError, match=r"the Spark Connect server sc://127\.0\.0\.1:\d+ does not answer"
    ) as told:
        run_on_spark(_counts(tmp_path / "orders"), RunOptions(str(tmp_path / "ck")), master=master)
    assert told.value.transient
    assert "secret" not in str(told.value)


def test_a_session_is_left_once_at_the_end_however_many_attempts_have_failed(
    server: ConnectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at a host that does not answer takes ten seconds."""
    mine = SparkSession.builder.remote(server.address).create()
    at_exit, left = list[Callable[[], None]](), list[Any]()
    monkeypatch.setattr(threading, "_register_atexit", at_exit.append)
    monkeypatch.setattr(connect_run, "_WITHOUT_SERVER", WeakSet())
    monkeypatch.setattr(connect_run, "_leave", left.append)
    for _ in range(3):
        with pytest.raises(UnreachableError), connect_session(mine, None, {}):
            raise UnreachableError("the server does not answer")
    for called in at_exit:
        called()
    mine.stop()
    assert left == [mine]


def test_a_parquet_table_has_each_batch_once(session: Any, tmp_path: Path) -> None:
    write_orders(tmp_path / "orders", range(2))
    expected = sinks.memory()
    run_local(_counts(tmp_path / "orders", sink=expected))
    built = _counts(tmp_path / "orders", sink=sinks.table("counts_over_connect", format="parquet"))
    run_on_spark(built, RunOptions(str(tmp_path / "ck")), spark=session)
    run_on_spark(built, RunOptions(str(tmp_path / "ck")), spark=session)
    found = session.table("counts_over_connect").toArrow().column("n").to_pylist()
    assert sorted(found) == sorted(row["n"] for row in expected.rows)


def test_a_table_of_iceberg_is_refused_before_the_first_batch(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_orders(tmp_path / "orders", range(1))
    there = tables._checked_table
    monkeypatch.setattr(tables, "_checked_table", lambda *given: replace(there(*given), format="iceberg"))
    built = _counts(tmp_path / "orders", sink=sinks.table("refused_over_connect", format="parquet"))
    with pytest.raises(ConfigError, match="sink 'out' appends to refused_over_connect, a table of iceberg"):
        run_on_spark(built, RunOptions(str(tmp_path / "ck")), spark=session)
    assert not (tmp_path / "ck" / "windbolt" / "manifests").exists()
