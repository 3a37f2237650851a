"""What the tests of the Spark runner share: runs, traps, and what lies in folders."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq
import pytest

import topologies.spark.classic_session
from manager.storage.checkpoint import FileCheckpoint
from servers.java import QUICK
from topologies.checkpoints.checkpointed_run import CheckpointedRun
from topologies.engine.micro_batch import MicroBatch
from topologies.graph.graph import Graph
from topologies.io.sinks import MemorySink
from topologies.run.options import RunOptions
from topologies.run.summary import Summary
from topologies.spark.classic_session import open_session
from topologies.spark.runner import SparkRun
from topologies.spark.running import run_on_spark

_LOG = Path(topologies.spark.classic_session.__file__).with_name("log4j2.properties")
CONF = {
    "spark.driver.extraJavaOptions": f"{QUICK} -Dlog4j2.configurationFile=file:{_LOG}",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
}


class Crash(Exception):
    """Stands for the end of the process."""


@dataclass(frozen=True)
class Trap:
    """Goes off the first time it is stepped on, in whichever process, and never again."""

    marker: str
    action: str = "raise"
    pid: int = 0

    def step_on(self) -> None:
        """Raise an error, or kill: the process ``pid``, or this one if it is 0."""
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        if self.action == "raise":
            raise RuntimeError("the trap has gone off")
        if self.action == "killpg":
            os.killpg(self.pid, signal.SIGKILL)
        os.kill(self.pid or os.getpid(), signal.SIGKILL)

    @property
    def went_off(self) -> bool:
        return os.path.exists(self.marker)


def run(topology: Graph, checkpoint: Path, **options: Any) -> Summary:
    """Run on the session that is there."""
    return run_on_spark(topology, RunOptions(str(checkpoint), **options))


Run = TypeVar("Run", bound=CheckpointedRun)
Ending = Callable[[Run, str], bool]
"""Says of a run and a phase that begins whether all ends here."""


def run_until(topology: Graph, checkpoint: Path, crash: Ending[SparkRun], **options: Any) -> None:
    """Run until ``crash`` says of a phase that all ends here; nothing is left then but what lies on the disk."""
    session, _ = open_session(None, {})
    crashed(SparkRun(session, topology, RunOptions(str(checkpoint), **options)), crash)


def crashed(attempt: Run, crash: Ending[Run]) -> None:
    """Run an attempt until ``crash`` says of a phase that all ends here; AssertionError if it never does."""

    def hook(phase: str) -> None:
        if crash(attempt, phase):
            raise Crash(phase)

    try:
        with attempt:
            attempt.micro_batch.hook = hook
            attempt.run()
    except Crash:
        return
    raise AssertionError("the run came to its end")


def at_phase(batch: int, wanted: str) -> Ending[CheckpointedRun]:
    """A crash as a phase of the step after ``batch - 1`` begins."""
    return lambda attempt, phase: phase == wanted and attempt.micro_batch.manifest.batch == batch - 1


def in_order(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Rows in an order of their own, as texts that show where two lists differ."""
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)


def memory_rows(sinks: dict[str, MemorySink]) -> dict[str, list[str]]:
    """What memory sinks hold."""
    return {name: in_order(sink.rows) for name, sink in sinks.items()}


def file_rows(folder: Path) -> list[str]:
    """What the files of a sink's folder hold."""
    rows: list[dict[str, Any]] = []
    for path in published(folder):
        if path.endswith(".parquet"):
            rows.extend(pq.read_table(folder / path).to_pylist())
        else:
            rows.extend(json.loads(line) for line in (folder / path).read_text("utf-8").splitlines())
    return in_order(rows)


def published(folder: Path) -> list[str]:
    """The names of the files that a reader of a sink's folder sees."""
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


def drafts(folder: Path) -> list[str]:
    """The names that are hidden in a sink's folder."""
    return sorted(name for name in os.listdir(folder) if name.startswith("."))


def orphans(checkpoint: Path) -> list[str]:
    """Segments that no manifest still kept names; the last step's own stay until the next."""
    root = checkpoint / "windbolt"
    ours = FileCheckpoint(str(root))
    ours.latest()
    named = set().union(*(manifest.segments() for manifest in ours._kept_manifests))
    last = max(name.removesuffix(".json") for name in os.listdir(root / "manifests") if not name.startswith("."))
    found = {
        f"{folder}/{name}"
        for folder in os.listdir(root / "segments")
        if folder != last
        for name in os.listdir(root / "segments" / folder)
    }
    assert named <= found | {name for name in named if name.startswith(last)}, "a segment that is needed is missing"
    return sorted(found - named)


def with_batches_that_fail(monkeypatch: pytest.MonkeyPatch, *failing: int) -> None:
    """Batches with these numbers, counted from 0 over all runs and attempts, raise an OSError before they begin."""
    batch, numbers = MicroBatch.run, itertools.count()

    def run_or_fail(*given: Any, **named: Any) -> Any:
        if next(numbers) in failing:
            raise OSError(5, "lost")
        return batch(*given, **named)

    monkeypatch.setattr(MicroBatch, "run", run_or_fail)
