"""The machine: what it is, and the time and memory that processes take on it."""

from __future__ import annotations

import os
import platform
import subprocess
import threading
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# CPU time of this process and everything it started: the JVM, Spark's Python daemon, and its workers (Linux).


_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(root: int | None = None) -> float:
    """User and system time of a process and its descendants, those included that have ended and been reaped."""
    top, stats = os.getpid() if root is None else root, _stats()
    return sum(stats[pid][1] for pid in [top, *_below(top, stats)] if pid in stats) / _TICK


def own_seconds(pid: int) -> float:
    """User and system time of a process alone, with that of its children that have ended and been reaped."""
    return _stats().get(pid, (0, 0))[1] / _TICK


def descendants(root: int) -> list[int]:
    """The processes below one, at any depth."""
    return _below(root, _stats())


def children(parent: int) -> list[int]:
    """The processes that a process has started, and that run."""
    return [pid for pid, (above, _) in _stats().items() if above == parent]


def _below(root: int, stats: dict[int, tuple[int, int]]) -> list[int]:
    by_parent: dict[int, list[int]] = {}
    for pid, (parent, _) in stats.items():
        by_parent.setdefault(parent, []).append(pid)
    found, waiting = [], [root]
    while waiting:
        here = by_parent.get(waiting.pop(), [])
        found += here
        waiting += here
    return found


def _stats() -> dict[int, tuple[int, int]]:
    """Of every process: its parent, and its clock ticks with those of its reaped children."""
    found: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue  # it has just ended; its parent has its time now, or will
            fields = text.rpartition(")")[2].split()  # the command in front may hold anything
            found[int(entry.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    return found


# The most memory that the Python workers had in a run (Linux).


_EVERY = 0.25
_KIB = 1024


class PeakMemory:
    """Within the block: the greatest resident set of any Python process below this one, looked at four times a second.

    ``VmHWM`` counts the pages of mapped files too; ``RssAnon`` only what a process has of its own. The kernel is asked
    to start over with the peaks of workers that are there already.
    """

    def __init__(self) -> None:
        self.resident: dict[int, int] = {}
        """Bytes by process."""
        self.own: dict[int, int] = {}
        """The same without mapped files, as far as it was seen."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        for pid in workers():
            try:
                Path(f"/proc/{pid}/clear_refs").write_text("5")
            except OSError:
                continue  # it has ended
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def figures(self) -> dict[str, float | list[float]]:
        """In MiB, of the worker with the most; and of each, the most first."""
        return {
            "peak_mib_by_worker": [round(each / 2**20, 1) for each in sorted(self.resident.values(), reverse=True)],
            "peak_worker_mib": round(max(self.resident.values(), default=0) / 2**20, 1),
            "peak_worker_own_mib": round(max(self.own.values(), default=0) / 2**20, 1),
        }

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY):
            self._look()

    def _look(self) -> None:
        for pid in workers():
            found = status_of(pid)
            self.resident[pid] = max(self.resident.get(pid, 0), found.get("VmHWM", 0))
            self.own[pid] = max(self.own.get(pid, 0), found.get("RssAnon", 0))


def workers() -> list[int]:
    """The Python processes below this one, at any depth."""
    return [pid for pid in descendants(os.getpid()) if _is_python(pid)]


def _is_python(pid: int) -> bool:
    try:
        return "python" in os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False


def status_of(pid: int) -> dict[str, int]:
    """The memory of a process, in bytes, by the names that the kernel gives; empty for one that has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {}
    lines = (line.split() for line in text.splitlines())
    return {words[0].rstrip(":"): int(words[1]) * _KIB for words in lines if len(words) == 3 and words[2] == "kB"}


# What the figures were taken on.


PACKAGES = ("pyspark", "pyarrow", "numpy", "pandas", "bytewax", "duckdb", "matplotlib")
_ROOT = Path(__file__).parents[1]


def machine() -> dict[str, Any]:
    """Processors, memory, load, and the versions of everything; to be asked before anything runs."""
    return {
        "processors": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "load_before": [round(each, 2) for each in os.getloadavg()],
        "python": platform.python_version(),
        "java": _said("java", "-version").partition("\n")[0],
        "packages": {name: _version(name) for name in PACKAGES},
        "commit": _said("git", "-C", str(_ROOT), "rev-parse", "--short", "HEAD"),
        "changed_since": bool(_said("git", "-C", str(_ROOT), "status", "--porcelain", "--untracked-files=no")),
    }


def in_words(found: dict[str, Any]) -> str:
    """The same in a sentence."""
    packages = ", ".join(f"{name} {number}" for name, number in found["packages"].items() if number)
    return (
        f"{found['processors']} processors ({found['processor']}), {found['memory_gib']} GiB, load before"
        f" {found['load_before'][0]}; Python {found['python']}, {found['java']}, {packages}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _said(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip() if done.returncode == 0 else ""
