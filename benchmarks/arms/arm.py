"""The arms of a contest: what each is asked and answers, one that is not installed, and bytewax."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from benchmarks.machine import cpu_seconds
from benchmarks.workloads import Events, Question, Workload

# What an arm is asked, and what it gives back.


@dataclass(frozen=True)
class Job:
    """One run of an arm: a question, over files that are there already."""

    question: Question
    events: Events
    folder: Path
    """Of the files."""
    batch_files: int
    """How many files a micro-batch may take."""
    scratch: Path
    """An empty folder for checkpoints and the like."""
    keep: Path | None = None
    """Where the rows of the result go, as Parquet files; None: they are thrown away."""

    @property
    def workload(self) -> Workload:
        """The question, of an arm that knows the workloads."""
        assert isinstance(self.question, Workload)
        return self.question


@dataclass(frozen=True)
class Batch:
    """A micro-batch, by the engine's own clock."""

    seconds: float
    data: bool
    """True if it read events: Spark's last one may only fire windows."""


@dataclass
class Taken:
    """Times of a run."""

    seconds: float = 0.0
    """End to end: with the start and the stop of the query."""
    cpu: float = 0.0
    """CPU-seconds of the tree of processes, meanwhile."""
    batches: list[Batch] = field(default_factory=list)
    """Empty where an engine has none."""
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds by phase, where the engine says them."""

    def in_batches(self, *, data_only: bool) -> float:
        """Seconds without the start and the stop of the query."""
        chosen = [batch.seconds for batch in self.batches if batch.data or not data_only]
        return sum(chosen) if chosen else self.seconds

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "seconds": round(self.seconds, 6),
            "cpu_seconds": round(self.cpu, 3),
            "data_batch_seconds": round(self.in_batches(data_only=True), 6),
            "all_batch_seconds": round(self.in_batches(data_only=False), 6),
            "batches": len(self.batches),
            "phases": {name: round(seconds, 4) for name, seconds in self.phases.items()},
        }


class Arm(Protocol):
    """One way to answer a workload."""

    ours: bool
    """True if it is windbolt."""
    batched: bool
    """True if it works in micro-batches of a size that can be set."""
    most: int | None
    """How many events it is given at most; None: as many as the others."""

    @property
    def name(self) -> str:
        """As the table shows it."""

    def missing(self) -> str | None:
        """Why it cannot run here; None if it can."""

    def run(self, job: Job) -> Taken:
        """Do the job once."""


@contextmanager
def measured() -> Iterator[Taken]:
    """The time and the CPU time of the block."""
    taken = Taken()
    cpu, started = cpu_seconds(), time.perf_counter()
    yield taken
    taken.seconds, taken.cpu = time.perf_counter() - started, cpu_seconds() - cpu


def not_installed(*modules: str) -> str | None:
    """Names the modules that are not installed; None if all are."""
    absent = [name for name in modules if find_spec(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


# Peers that are named, and cannot be run from here.


FLINK = "apache-flink 2.3 wants an apache-beam that wants pyarrow under 17, so it cannot be installed beside windbolt"


@dataclass
class Absent:
    """A peer, and why it is not here."""

    name: str
    why: str
    ours: bool = False
    batched: bool = False
    most: int | None = None

    def missing(self) -> str | None:
        """Always the reason."""
        return self.why

    def run(self, job: Job) -> Taken:
        """Never called."""
        raise NotImplementedError(self.why)


# bytewax: its own windows, in processes of its own, each with a part of the keys.


_ROOT = Path(__file__).parents[2]


@dataclass
class Bytewax:
    """Keyed workloads run in two processes, which share the keys and exchange nothing; others in one."""

    most: int | None
    name: str = "bytewax"
    ours: bool = False
    batched: bool = False

    def missing(self) -> str | None:
        """Names the packages that are not installed; None if all are."""
        return not_installed("bytewax")

    def run(self, job: Job) -> Taken:
        """Run to the end of the files. The start of the processes is counted in neither time: they report their own."""
        parts = 2 if job.workload.keyed else 1
        running = [self._start(job, part, parts) for part in range(parts)]
        told = [process.communicate() for process in running]
        for process, (_, complaint) in zip(running, told, strict=True):
            if process.returncode:
                raise RuntimeError(f"bytewax ended with {process.returncode}: {complaint.strip()[-400:]}")
        reports = [json.loads(answer.splitlines()[-1]) for answer, _ in told]
        seconds = max(report["stop"] for report in reports) - min(report["start"] for report in reports)
        return Taken(seconds, sum(report["cpu"] for report in reports), [Batch(seconds, data=True)])

    def _start(self, job: Job, part: int, parts: int) -> subprocess.Popen[str]:
        task = {
            "kind": job.workload.kind, "length": job.workload.length, "folder": str(job.folder),
            "part": part, "parts": parts, "last_end": job.events.last_end,
            "keep": None if job.keep is None else str(job.keep / f"part-{part}.parquet"),
        }  # fmt: skip
        if job.keep is not None:
            job.keep.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.arms.bytewax_flow", json.dumps(task)]
        return subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
