"""Whoever is killed, the client or a worker of the server's: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from servers.spark import ConnectServer
from tests.helpers.damage import rows_of, topology, write_input
from tests.helpers.places import ROOT
from tests.spark.shop import Revenue, shop_in_memory, write_orders
from tests.spark.tools import Trap, memory_rows
from topologies.checkpoints.going_back import inspect
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from windbolt import RunOptions, run_local, run_on_spark

KILLS = 2


def client(server: ConnectServer, files: Path, folder: Path) -> subprocess.Popen[bytes]:
    words = [server.address, str(files), str(folder)]
    command = [sys.executable, "-m", "tests.spark.connect.counting", *words]
    folder.mkdir(exist_ok=True)
    with (folder / "client.log").open("ab") as log:
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=log)


def committed(folder: Path) -> str:
    """The name of the last batch that a checkpoint has; empty for none."""
    manifests = folder / "ck" / "windbolt" / "manifests"
    found = [path.stem for path in manifests.glob("*.json")] if manifests.exists() else []
    return max(found, default="")


def expected(files: Path, folder: Path) -> dict[str, list[str]]:
    run_local(topology(files, folder / "out"), RunOptions(str(folder / "ck")))
    return rows_of(folder / "out")


@pytest.mark.extended
def test_a_worker_that_is_killed_within_a_bolt(session: Any, tmp_path: Path) -> None:
    """Spark gives its task to another one."""
    write_orders(tmp_path / "orders", range(2))
    trap = Trap(str(tmp_path / "trap"), "kill")
    built, out = shop_in_memory(tmp_path / "orders", revenue=Revenue(trap=trap))
    run_on_spark(built, RunOptions(str(tmp_path / "ck")), spark=session)
    assert trap.went_off
    plain, whole = shop_in_memory(tmp_path / "orders")
    run_local(plain)
    assert memory_rows(out) == memory_rows(whole)


@pytest.mark.extended
def test_clients_that_are_killed_at_drawn_moments(server: ConnectServer, tmp_path: Path) -> None:
    """Until there have been two; each goes on where the one before was killed, or begins anew."""
    files = tmp_path / "in"
    write_input(files)
    whole = expected(files, tmp_path / "whole")
    chance, kills, round_ = random.Random(36), 0, 0
    while kills < KILLS:
        folder = tmp_path / f"round{round_}"
        round_ += 1
        while True:
            process, before = client(server, files, folder), committed(folder)
            while process.poll() is None and committed(folder) == before:
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.4))
            if process.poll() is not None or kills == KILLS:
                assert process.wait() == 0, (folder / "client.log").read_text()[-2000:]
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        assert rows_of(folder / "out") == whole
        look = inspect(PairedCheckpoint(str(folder / "ck")))
        assert not look.damage
        assert not look.refused


@pytest.mark.extended
@pytest.mark.parametrize("whose", ["own", "given"])
def test_a_process_ends_though_its_server_has_ended_before(whose: str, tmp_path: Path) -> None:
    """PySpark alone asks the server for twenty minutes to forget the session."""
    command = [sys.executable, "-m", "tests.spark.connect.without_server", str(tmp_path), whose]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 1
    assert "UnreachableError: the server has ended" in ended.stderr
