"""Spark on this machine, from the jars that PySpark brings: a standalone cluster, and a Connect server.

The cluster is a master and two workers, as on three machines. The workers have hosts, folders and environments of
Python of their own. Where the system lets them have a view of the file system of their own too (mount namespaces), they
see neither windbolt's source nor the driver's folder.

``python -m servers.spark PORT`` starts a Connect server.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark

from servers import java
from servers.java import ROOT
from servers.processes import DIES_WITH_PARENT, free_port, listens, wait_for

SPARK = Path(pyspark.__file__).parent

# A standalone cluster.


WINDBOLT = ("windbolt", "windowing", "policies", "manager", "topologies")
PYTHON = "python-of-the-cluster"
"""The workers' Python, which each of them finds on its own PATH."""
NOT_THERE = ("windbolt", "_editable", "__editable__", "pyspark", "py4j", "xmltodict")
"""Prefixes of names that the workers' environments lack. What they need of pyspark, Spark brings along."""
_JVM = java.options()
CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": _JVM,
    "spark.driver.memory": "700m",
    "spark.driver.extraJavaOptions": _JVM,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.task.maxFailures": "8",
}


@dataclass
class Worker:
    """One of the workers."""

    host: str
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "PATH": f"{self.folder}/env/bin:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "JAVA_HOME": os.environ.get("JAVA_HOME", ""),
            "SPARK_HOME": str(SPARK),
            "SPARK_LOCAL_HOSTNAME": self.host,
            "SPARK_LOCAL_DIRS": f"{self.folder}/local",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _JVM,
        }


@dataclass
class Standalone:
    """The cluster: all have the folder ``shared``; ``driver`` is for the driver alone."""

    root: Path
    apart: list[str]
    """The command that gives a process a view of the file system of its own; empty if that is not possible."""
    port: int = 0
    pages: int = 0
    memory: str = "1g"
    """Of a worker."""
    patience: float = 600
    """Seconds that a command may take."""
    workers: list[Worker] = field(default_factory=list)
    master: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    @property
    def shared(self) -> Path:
        return self.root / "shared"

    @property
    def driver(self) -> Path:
        return self.root / "driver"

    def start(self) -> None:
        """Start the processes that do not run, and wait until the master knows them. A master that died returns at its
        address, with the state in its folder."""
        if self.master is None or self.master.poll() is not None:
            if not self.port:
                self.port, self.pages = free_port(), free_port()
            ports = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.pages)]
            kept = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={self.root}/kept"
            environment = {**self.workers[0].environment, "SPARK_LOCAL_HOSTNAME": "127.0.0.1"}
            environment["SPARK_DAEMON_JAVA_OPTS"] = f"{_JVM} {kept}"
            self.master = _daemon("master.Master", ports, environment, self.root / "master.log")
        for worker in self.workers:
            if worker.process is None or worker.process.poll() is not None:
                folders = ["--host", worker.host, "--work-dir", f"{worker.folder}/work", "--webui-port", "0"]
                size = ["--cores", "1", "--memory", self.memory, self.url]
                log = worker.folder / "worker.log"
                worker.process = _daemon("worker.Worker", folders + size, worker.environment, log, self._within())
        wait_for("the cluster", lambda: self._alive() == len(self.workers), 60, log=self.root / "master.log")

    def stop(self) -> None:
        for process in [worker.process for worker in self.workers] + [self.master]:
            if process is not None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # a worker's group has its executors
                process.wait()

    def kill(self, who: str) -> None:
        """Kill the master, the first worker with all that it has started, or its executor."""
        match who:
            case "master":
                assert self.master is not None
                self.master.kill()
                self.master.wait()
            case "worker":
                process = self.workers[0].process
                assert process is not None
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            case "executor":
                for pid in _executors(self.workers[0].host):
                    os.kill(pid, signal.SIGKILL)

    def there(self, worker: Worker, code: str) -> subprocess.CompletedProcess[str]:
        """Python on a worker."""
        command = [*self._within(), f"{worker.folder}/env/bin/{PYTHON}", "-c", code]
        settings = {name: value for name, value in worker.environment.items() if value}
        return subprocess.run(command, env=settings, cwd=worker.folder, capture_output=True, text=True, check=False)

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the driver's machine, in its folder."""
        own = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": f"{self.root}/conf"}
        own |= {"PYSPARK_PYTHON": PYTHON, "PYSPARK_DRIVER_PYTHON": sys.executable}
        known = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "PYTHONPATH"))}
        settings = {**known, **own, **environment}
        return subprocess.run(
            command, cwd=self.driver, env=settings, capture_output=True, text=True, timeout=self.patience, check=False
        )

    def _within(self) -> list[str]:
        """Returns the start of a command that is to run as on a worker's machine."""
        if not self.apart:
            return []
        empty = self.root / "empty"
        hidden = [
            self.driver,
            *(ROOT / name for name in ("windbolt", "windowing", "policies", "manager", "topologies")),
        ]
        mounts = " && ".join(f"mount --bind {empty} {folder}" for folder in hidden)
        return [*self.apart, "sh", "-c", f'{mounts} && exec "$@"', "sh"]

    def _alive(self) -> int:
        page = f"http://127.0.0.1:{self.pages}/json/"  # while a master starts, it answers with something else
        with suppress(OSError, ValueError), urllib.request.urlopen(page, timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
        return 0


@contextmanager
def standalone(root: Path, memory: str = "1g", program: Path | None = None) -> Iterator[Standalone]:
    """A cluster in a folder. ``program``: a folder of which the driver has a copy."""
    cluster = Standalone(root, _apart(root), memory=memory)
    for folder in (cluster.shared, cluster.root / "empty", cluster.root / "conf"):
        folder.mkdir()
    if program is None:
        cluster.driver.mkdir()
    else:
        shutil.copytree(program, cluster.driver, ignore=shutil.ignore_patterns("__pycache__"))
    settings = "\n".join(f"{name} {value}" for name, value in CONF.items())
    (cluster.root / "conf" / "spark-defaults.conf").write_text(settings)
    for number in (2, 3):
        folder = root / f"worker-{number}"
        _environment(folder / "env")
        cluster.workers.append(Worker(f"127.0.0.{number}", folder))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _environment(folder: Path) -> None:
    """Makes an environment of Python without windbolt; its packages are those of the driver's."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (folder / "bin" / PYTHON).symlink_to("python")
    packages = next((folder / "lib").glob("python3*/site-packages"))
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(NOT_THERE):
            (packages / entry.name).symlink_to(entry)


def _apart(root: Path) -> list[str]:
    """Returns the command that gives a process mounts of its own: as root at once, otherwise in a user namespace; empty
    if that is not allowed."""
    for command in (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"]):
        tried = [*command, "sh", "-c", f"mount --bind {root} {root}"]
        with suppress(OSError):
            if subprocess.run(tried, capture_output=True, check=False).returncode == 0:
                return command
    return []


def _daemon(
    what: str, options: list[str], environment: Mapping[str, str], log: Path, within: list[str] | None = None
) -> subprocess.Popen[bytes]:
    program = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *options]
    command = [*(within or []), *DIES_WITH_PARENT, *program]
    settings = {name: value for name, value in environment.items() if value}
    with log.open("ab") as file:
        return subprocess.Popen(
            command,
            env=settings,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def _executors(host: str) -> list[int]:
    """Returns the processes of executors on one of the machines."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = entry.read_bytes().decode(errors="replace").split("\0")
            if any(word.endswith("ExecutorBackend") for word in words) and host in words:
                found.append(int(entry.parent.name))
    return found


# A Spark Connect server.


_START = 120
"""Seconds in which it must answer."""


class ConnectServer:
    """A server in a process of its own, which can be killed and started again at its address."""

    def __init__(self, folder: Path, port: int | None = None, conf: Mapping[str, str] | None = None) -> None:
        """``folder``: for its log and the files that it is sent. ``conf``: more settings of Spark's."""
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
            "spark.driver.extraJavaOptions": java.options(),
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
        log = self.folder / "server.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, "spark-internal"],
                env=environment,
                cwd=self.folder,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        wait_for("the Connect server", lambda: listens(self.port), _START, self._process, log)

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
