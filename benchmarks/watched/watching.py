"""One run in a process of its own: what it used of the processors and of the memory, and how long its batches took."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.memory import status_of
from benchmarks.process_tree import cpu_seconds, descendants, own_seconds

SHOP = Path(__file__).with_name("shop.py")
_ROOT = Path(__file__).parents[2]
_END = 120
"""Seconds in which a run must end that is asked to."""


@dataclass(frozen=True)
class Look:
    """The processes of a run at a moment."""

    at: float
    """Seconds on the monotonic clock."""
    cpu: float
    """Seconds of processor time so far, of the driver and of all that it started."""
    driver_cpu: float
    """The same of the driver's process alone."""
    driver_mib: float
    """Resident memory of the driver."""
    own_mib: float
    """Memory of all processes that is not shared with files."""


@dataclass(frozen=True)
class BatchTime:
    """A batch as its report has it."""

    at: float
    """When it was reported, on the monotonic clock."""
    seconds: float
    rows: int


@dataclass
class Watching:
    """A run, looked at once a second until it is stopped."""

    name: str
    folder: Path
    options: Sequence[str] = ()
    """Further options of ``windbolt run``."""
    looks: list[Look] = field(default_factory=list)
    batches: list[BatchTime] = field(default_factory=list)

    def start(self) -> None:
        """Start the run; its input is the folder ``in``."""
        self.inputs.mkdir(parents=True)
        command = [sys.executable, "-m", "windbolt", "run", f"{SHOP}:topology", "--checkpoint", "ck", "--json"]
        paths = [str(_ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        with open(self.folder / "stderr", "wb") as errors:
            self._process = subprocess.Popen(
                [*command, *self.options],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._read, self._look_each_second)]
        for thread in self._threads:
            thread.start()

    @property
    def inputs(self) -> Path:
        """Where its input lies."""
        return self.folder / "in"

    @property
    def ended(self) -> bool:
        """Whether its process has ended."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """End the run after the batch in hand. RuntimeError where it failed."""
        if not self.ended:
            self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(_END)
        for thread in self._threads:
            thread.join()
        if status:
            said = (self.folder / "stderr").read_text("utf-8", "replace")
            raise RuntimeError(f"the run {self.name!r} failed with status {status}:\n{said[-2000:]}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "batch" in told and told["rows"]:
                self.batches.append(BatchTime(time.monotonic(), told["seconds"]["total"], told["rows"]))

    def _look_each_second(self) -> None:
        while not self.ended:
            self.looks.append(look(self._process.pid))
            time.sleep(1)


def look(pid: int) -> Look:
    """A process and those below it, now."""
    driver = status_of(pid)
    own = sum(status_of(each).get("RssAnon", 0) for each in [pid, *descendants(pid)])
    cpu, driver_cpu = cpu_seconds(pid), own_seconds(pid)
    return Look(time.monotonic(), cpu, driver_cpu, driver.get("VmRSS", 0) / 2**20, own / 2**20)
