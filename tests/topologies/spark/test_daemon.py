"""What Spark's daemon of Python workers prints when Spark hangs up on a worker: nothing."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

SECRET = b"secret"


def said_by(module: str, *, hang_up: bool) -> str:
    """The standard error of a daemon that has had one worker: Spark hangs up on it, or sends what it cannot read."""
    env = {**os.environ, "PYTHON_WORKER_FACTORY_SECRET": SECRET.decode(), "PYTHONPATH": str(ROOT)}
    env |= {"PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1"}  # as Spark sets it
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", module, "pyspark.worker"]
    with subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert daemon.stderr is not None
        (port,) = struct.unpack(">i", daemon.stdout.read(4))
        spark = socket.create_connection(("127.0.0.1", port))
        (worker,) = struct.unpack(">i", spark.recv(4))
        spark.sendall(struct.pack(">i", len(SECRET)) + SECRET)
        assert spark.recv(6, socket.MSG_WAITALL).endswith(b"ok")
        if hang_up:
            spark.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # at once
            spark.close()
        else:
            os.kill(worker, 2)  # SIGINT: an error of another kind
        while Path(f"/proc/{worker}").exists():
            os.sched_yield()
        spark.close()
        daemon.stdin.close()
        return daemon.stderr.read().decode()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="it looks for the worker in /proc")
def test_a_worker_that_spark_hangs_up_on_prints_no_traceback() -> None:
    assert said_by("topologies.spark.workers.daemon", hang_up=True) == ""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="it looks for the worker in /proc")
def test_another_error_of_a_worker_is_shown() -> None:
    assert "KeyboardInterrupt" in said_by("topologies.spark.workers.daemon", hang_up=False)
