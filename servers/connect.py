"""A Spark Connect server on this machine, from the jars that PySpark brings: ``python -m servers.connect PORT``."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark

from servers import java_classes
from servers.processes import DIES_WITH_PARENT, free_port

SPARK = Path(pyspark.__file__).parent
_START = 120
"""Seconds in which it must answer."""


class ConnectServer:
    """A server in a process of its own, which can be killed and started again at its address."""

    def __init__(self, folder: Path, port: int | None = None, conf: Mapping[str, str] | None = None) -> None:
        """``folder`` takes what it writes: its log, and what it is sent. ``conf``: more settings of Spark's."""
        self.folder, self.port, self.conf = folder, port or free_port(), conf or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": java_classes.options(),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.pyspark.python": sys.executable,
            **self.conf,
        }
        command = [*DIES_WITH_PARENT, f"{SPARK}/bin/spark-submit", "--master", "local[2,4]"]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        environment = {**os.environ, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_DIRS": str(self.folder / "local")}
        environment.pop("PYTHONPATH", None)  # its workers have the code that they are sent
        environment.pop("SPARK_REMOTE", None)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "spark-internal"],
                env=environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + _START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the Connect server did not start: see {self.folder}/server.log")
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill it with its workers, as a machine that fails would."""
        if self._process is None:
            return
        with suppress(psutil.NoSuchProcess):
            below = psutil.Process(self._process.pid).children(recursive=True)
            os.killpg(self._process.pid, signal.SIGKILL)
            for each in below:  # a worker may have a group of its own
                with suppress(psutil.NoSuchProcess):
                    each.kill()
        self._process.wait()
        self._process = None

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


@contextmanager
def connect_server(
    folder: Path, port: int | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[ConnectServer]:
    """A server until the end of the block."""
    server = ConnectServer(folder, port, conf)
    try:
        server.start()
        yield server
    finally:
        server.kill()


if __name__ == "__main__":
    import tempfile

    with (
        tempfile.TemporaryDirectory(prefix="windbolt-connect-") as name,
        connect_server(Path(name), int(sys.argv[1]) if len(sys.argv) > 1 else None) as running,
        suppress(KeyboardInterrupt),
    ):
        print(running.address, flush=True)
        signal.pause()
