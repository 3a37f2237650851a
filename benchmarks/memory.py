"""The most memory that the Python workers had in a run (Linux)."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from benchmarks.process_tree import descendants

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
