"""The machine: what it is, the time and memory that processes take on it; and the Spark session that arms share."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from topologies.spark.classic_session import open_session

ROOT = Path(__file__).parents[1]
"""The folder of the project."""

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
        self._opened: SparkSession | None = None

    @property
    def spark(self) -> SparkSession:
        """A session that lives."""
        os.environ.update(with_project())  # the workers import the functions of the arms
        self._opened, _ = open_session(self.master, self.conf, kafka=self.kafka)
        return self._opened

    def settle(self) -> SparkSession:
        """The session after a collection of garbage: what an earlier run has left is no cost of the next one."""
        spark = self.spark
        jvm: Any = spark._jvm
        jvm.System.gc()
        return spark

    def stop(self) -> None:
        """End it, if there is one."""
        if self._opened is not None:
            with suppress(Exception):  # it has died, and cannot say goodbye
                self._opened.stop()
            self._opened = None


def driver_gigabytes() -> int:
    """The JVM's heap: under half of what the machine has, the rest is for Python; 12 GiB at most."""
    return max(1, min(12, int(psutil.virtual_memory().total / 2**30 * 0.45)))
