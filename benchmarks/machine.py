"""The machine: what it is, the time and memory that processes take on it; and the Spark session that arms share."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
from psutil import Process
from pyspark.sql import SparkSession

from topologies.spark.jvm.session import open_session

ROOT = Path(__file__).parents[1]
"""The folder of the project."""

# The time and the memory that processes take (Linux).


def tree(root: int | None = None, program: str = "") -> list[Process]:
    """A process, or this one, and those below it at any depth; only those of a program, if it is named."""
    top = Process(root)
    return [each for each in [top, *top.children(recursive=True)] if program in _asked(each.name, "")]


def cpu_seconds(root: int | None = None) -> float:
    """User and system time of a process, or this one, and its descendants: the JVM, Spark's Python daemon, its workers.

    Those are included that have ended and been reaped.
    """
    return sum(map(own_seconds, tree(root)))


def own_seconds(process: Process) -> float:
    """User and system time of a process alone, with that of its children that have ended and been reaped."""
    return sum(_asked(process.cpu_times, (0.0,))[:4])


def _asked(question: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return question()
    except psutil.Error:  # it has just ended; its parent has its time now, or will
        return otherwise


def memory_of(pid: int) -> dict[str, int]:
    """The memory of a process, in bytes, by the names that the kernel gives; empty for one that has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {}
    lines = (line.split() for line in text.splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3 and words[2] == "kB"}


@contextmanager
def repeated(action: Any, seconds: float) -> Iterator[None]:
    """Call something every so many seconds, in a thread of its own, until the end of the block."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(seconds):
            action()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def peak_memory() -> Iterator[dict[str, Any]]:
    """The most memory that any Python process below this one had within the block, in MiB; looked at four times a
    second.

    ``VmHWM`` counts the pages of mapped files too; ``RssAnon`` only what a process has of its own. The kernel is asked
    to start over with the peaks of workers that are there already.
    """
    found: dict[str, Any] = {}
    resident, own = Counter[int](), Counter[int]()
    for process in tree(program="python"):
        with suppress(OSError):  # it has ended
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")

    def look() -> None:
        for process in tree(program="python")[1:]:
            now = memory_of(process.pid)
            resident[process.pid] = max(resident[process.pid], now.get("VmHWM", 0))
            own[process.pid] = max(own[process.pid], now.get("RssAnon", 0))

    with repeated(look, 0.25):
        yield found
    look()
    found["peak_worker_mib"] = mib(max(resident.values(), default=0))
    found["peak_worker_own_mib"] = mib(max(own.values(), default=0))


def mib(size: float) -> float:
    """Bytes in MiB."""
    return round(size / 2**20, 1)


# What the figures were taken on.


PACKAGES = ("pyspark", "pyarrow", "numpy", "pandas", "duckdb", "matplotlib")


def machine() -> dict[str, Any]:
    """Processors, memory, load, and the versions of everything; to be asked before anything runs."""
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return {
        "processors": os.cpu_count(),
        "processor": next(iter(names), "unknown"),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "load_before": [round(each, 2) for each in os.getloadavg()],
        "python": platform.python_version(),
        "java": _output("java", "-version").partition("\n")[0],
        "packages": {name: version(name) if find_spec(name) else None for name in PACKAGES},
        "commit": _output("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"),
        "changed_since": bool(_output("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no")),
    }


def in_words(found: dict[str, Any]) -> str:
    """The same in a sentence."""
    packages = ", ".join(f"{name} {number}" for name, number in found["packages"].items() if number)
    return (
        f"{found['processors']} processors ({found['processor']}), {found['memory_gib']} GiB, load before"
        f" {found['load_before'][0]}; Python {found['python']}, {found['java']}, {packages}"
    )


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip() if done.returncode == 0 else ""


_STARTED = time.monotonic()


def say(text: str) -> None:
    """A line of progress."""
    print(f"[{time.monotonic() - _STARTED:6.0f} s] {text}", file=sys.stderr, flush=True)


# The one Spark session that windbolt and Spark's own arms share.


CORES = 2


def with_project() -> dict[str, str]:
    """The environment of processes that import the project."""
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


class Session:
    """Opened when it is first needed, and again should it have died."""

    def __init__(
        self, *, kafka: bool = False, master: str = f"local[{CORES}]", more: Mapping[str, str] | None = None
    ) -> None:
        self.kafka, self.master = kafka, master
        self.conf = {
            "spark.sql.shuffle.partitions": str(CORES),
            "spark.driver.memory": f"{driver_gigabytes()}g",
            "spark.sql.streaming.numRecentProgressUpdates": "100000",
        } | dict(more or {})
        self._spark: SparkSession | None = None

    @property
    def spark(self) -> SparkSession:
        """A session that lives."""
        if self._spark is None or not _alive(self._spark):
            self.stop()
            os.environ.update(with_project())  # the workers import the functions of the arms
            self._spark, _ = open_session(self.master, self.conf, kafka=self.kafka)
        return self._spark

    def settle(self) -> SparkSession:
        """The session after a collection of garbage: what an earlier run has left is no cost of the next one."""
        spark = self.spark
        jvm: Any = spark._jvm
        jvm.System.gc()
        return spark

    def stop(self) -> None:
        """End it, if there is one."""
        if self._spark is not None:
            try:
                self._spark.stop()
            except Exception:  # it has died, and cannot say goodbye
                SparkSession._instantiatedSession = None
            self._spark = None


def driver_gigabytes() -> int:
    """The JVM's heap: under half of what the machine has, the rest is for Python; 12 GiB at most."""
    return max(1, min(12, int(psutil.virtual_memory().total / 2**30 * 0.45)))


def _alive(spark: SparkSession) -> bool:
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except Exception:  # the JVM is gone
        return False
