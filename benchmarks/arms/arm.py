"""What an arm is asked, and what it gives back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from benchmarks.events import Events
from benchmarks.process_tree import cpu_seconds
from benchmarks.workloads import Question, Workload


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
    """Whether it read events: Spark's last one may only fire windows."""


@dataclass
class Taken:
    """What a run took."""

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
    """Whether it is windbolt."""
    batched: bool
    """Whether it works in micro-batches of a size that can be set."""
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
    """What to say of modules that are not there."""
    absent = [name for name in modules if find_spec(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else None
