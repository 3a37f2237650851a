"""A real HDFS on this machine: a NameNode and two DataNodes in one Java, of Maven Central's jars and pyspark's."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from servers.java import java_command
from servers.processes import wait_for
from topologies.spark.java import jars

_JARS = Path(__file__).with_name("hdfs.txt")
_OF_SPARK = ("hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "log4j-", "jcl-over-slf4j")
"""The jars of pyspark that it needs, by the beginnings of their names; the first two have to be of its own version."""
_START = 120
"""Seconds in which it must be up."""
_MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"
_SETTINGS = ("-datanodes", "2", "-D", "dfs.namenode.file.close.num-committed-allowed=1")
"""With two DataNodes a file may be closed before the NameNode has heard of its last block from one of them. On one
machine it hears of it a little later than from the client, and hdfs-native would wait half a second each time."""
_JAVA = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_UNTIL_EOF = '("$@"; kill -9 0) & read _; kill -9 0'
"""Runs a command, and kills its group at the end of the standard input: when the process that started it has ended,
however. It ends with the command, too."""


class Hdfs:
    """An HDFS that runs, with what a test puts there and looks at; it can be away for a while."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, 0
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def address(self) -> str:
        """Where the NameNode listens."""
        return f"127.0.0.1:{self._port}"

    def uri(self, path: str = "") -> str:
        """The URI of a path."""
        return f"hdfs://{self.address}/{path}"

    def start(self) -> None:
        """Start it, with what it had and at the address it had, if any; returns once files can be written."""
        details = self._folder / "details.json"
        details.unlink(missing_ok=True)
        first = () if self._port else ("-format",)
        command = [java_command(), *_JAVA, "-cp", _classpath(), _MAIN, *first, "-nnport", str(self._port)]
        command += ["-writeDetails", str(details), "-D", f"hdfs.minidfs.basedir={self._folder / 'data'}", *_SETTINGS]
        log = self._folder / "said"
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                ["sh", "-c", _UNTIL_EOF, "sh", *command],
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        try:
            wait_for("HDFS", lambda: details.read_text("utf-8").endswith("}"), _START, self._process, log)
        except RuntimeError:
            self.stop()
            raise
        self._port = int(json.loads(details.read_text("utf-8"))["namenode_port"])

    def stop(self) -> None:
        """Kill it, as a machine that fails would; what it was given stays on its disk."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def put(self, path: str, data: bytes) -> None:
        """Write a file."""
        with self._client().create(f"/{path}") as file:
            file.write(data)

    def body(self, path: str) -> bytes:
        """The content of a file."""
        return bytes(self._client().read(f"/{path}").read())

    def names(self, folder: str = "") -> list[str]:
        """The paths of all files below a folder."""
        found = self._client().list_status(f"/{folder}", True)
        return sorted(status.path.lstrip("/") for status in found if not status.isdir)

    def _client(self) -> Any:
        from hdfs_native import Client

        return Client(self.uri())


@contextmanager
def hdfs() -> Iterator[Hdfs]:
    """An HDFS that ends with the block, or with this process."""
    folder = Path(tempfile.mkdtemp(prefix="windbolt-hdfs-"))
    running = None
    try:
        running = Hdfs(folder)
        yield running
    finally:
        if running is not None:
            running.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _classpath() -> str:
    of_spark = Path(pyspark.__file__).parent / "jars"
    found = [str(path) for path in sorted(of_spark.glob("*.jar")) if path.name.startswith(_OF_SPARK)]
    wanted = re.findall(r"minicluster-([\d.]+)\.jar", _JARS.read_text("utf-8"))
    if not any(f"hadoop-client-api-{version}.jar" in path for version in wanted for path in found):
        raise RuntimeError(f"pyspark {pyspark.__version__} has another Hadoop than {wanted}: bring {_JARS} up to date")
    return os.pathsep.join([*jars(_JARS), *found])
