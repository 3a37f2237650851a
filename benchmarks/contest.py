"""A contest of arms: each measured alone, its answers checked; and clients in processes of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.arms.arm import Arm, Job, Taken
from benchmarks.figures import Basis, Figure
from benchmarks.workloads import Columns, Events, Question, differences

# Arms in turn over the same work: each is checked before any is timed.


Around = Callable[[Callable[[], Taken]], tuple[Taken, dict[str, Any]]]
"""Calls a function that runs an arm, and finds something else out meanwhile."""


@dataclass(frozen=True)
class Entry:
    """An arm, and the size of the batches that it gets."""

    arm: Arm
    batch_events: int | None
    """None: all at once."""


@dataclass(frozen=True)
class Start:
    """An arm at the start of a race: what it is to do."""

    entry: Entry
    workload: Question
    events: Events
    title: str
    check: int
    """How many events its checked run has at most."""

    @property
    def given(self) -> Events:
        """The events of the arm: fewer for one that takes minutes for more."""
        return fewer(self.events, self.entry.arm.most)


@dataclass
class Arena:
    """State that all contests share: the files, the answers, and the arms that have been found right."""

    cache: Path
    """Where the files of events are kept."""
    runs: int
    check_events: int
    """How many events the checked run has at most."""
    check_once: bool = False
    """True if an arm that was right is taken to be right at other sizes of batches too."""
    _checked: dict[tuple[Any, ...], str | None] = field(default_factory=dict)
    _answers: dict[tuple[Question, Events], Columns] = field(default_factory=dict)

    def contest(
        self,
        section: str,
        workload: Question,
        entries: Sequence[Entry],
        events: Events,
        basis: Basis,
        *,
        title: str = "",
        around: Around | None = None,
        check: int | None = None,
    ) -> list[Figure]:
        """Check all arms, over ``check`` events at most, then run them in turn. One that is wrong is not timed."""
        most = check or self.check_events
        starts = [Start(entry, workload, events, title or workload.title, most) for entry in entries]
        return self.race(section, starts, basis, around)

    def race(self, section: str, starts: Sequence[Start], basis: Basis, around: Around | None = None) -> list[Figure]:
        """The same, where each may have work of its own."""
        figures = []
        for start in starts:
            arm, given, size = start.entry.arm, start.given, start.entry.batch_events
            batch = min(size or given.count, given.count) if arm.batched else None
            name = start.workload.name
            found = Figure(section, name, start.title, arm.name, arm.ours, given.count, batch, basis)
            self._check(found, start)
            figures.append(found)
        for run in range(self.runs):
            for start, figure in zip(starts, figures, strict=True):
                if figure.status == "ok":
                    say(f"{section} {figure.workload} {figure.arm}: run {run + 1} of {self.runs}")
                    self._time(figure, start, around)
        return figures

    def take(self, arm: Arm, workload: Question, events: Events, batch: int | None, keep: Path | None = None) -> Taken:
        """One run."""
        folder = events.files(self.cache)
        files = -(-events.count // events.file_rows) if batch is None else max(1, batch // events.file_rows)
        with scratch(self.cache) as temporary:
            return arm.run(Job(workload, events, folder, files, temporary, keep))

    def _time(self, figure: Figure, start: Start, around: Around | None) -> None:
        def run() -> Taken:
            return self.take(start.entry.arm, start.workload, start.given, start.entry.batch_events)

        try:
            taken, found = (run(), {}) if around is None else around(run)
        except Exception as error:
            fail(figure, error)
        else:
            figure.runs.append(taken.to_json())
            figure.note |= {name: max(value, figure.note.get(name, value)) for name, value in found.items()}

    def _check(self, figure: Figure, start: Start) -> None:
        """Mark the figure unless each row of the arm is what NumPy says."""
        arm, workload, size = start.entry.arm, start.workload, start.entry.batch_events
        about = f"{figure.section} {workload.name} {arm.name}"
        why = arm.missing()
        if why is not None:
            figure.status, figure.reason = "missing", why
            say(f"{about}: {why}")
            return
        few = fewer(start.given, start.check)
        place = (arm.name, getattr(arm, "reads", None), workload, few, None if self.check_once else size)
        if place not in self._checked:
            say(f"{about}: checking {few.count:,} events")
            try:
                self._checked[place] = self._wrong(start.entry, workload, few)
            except Exception as error:
                fail(figure, error)
                return
        wrong = self._checked[place]
        figure.note["checked_events"] = few.count
        if wrong is not None:
            figure.status, figure.reason = "wrong", f"wrong, and not timed: {wrong}"
            say(f"{about}: {figure.reason}")

    def _wrong(self, entry: Entry, workload: Question, events: Events) -> str | None:
        with scratch(self.cache) as keep:
            self.take(entry.arm, workload, events, entry.batch_events, keep / "rows")
            files = sorted((keep / "rows").glob("[!_.]*.parquet"))
            rows = pq.ParquetDataset([str(file) for file in files]).read() if files else None
        if rows is None:
            return "no rows"
        if workload.due_only:
            due = pa.scalar(events.last_end * 1_000_000, pa.int64()).cast(pa.timestamp("us", "UTC"))
            rows = rows.filter(pc.less_equal(rows.column("until").cast(due.type), due))
        return differences(rows, self._answer(workload, events), workload.order)

    def _answer(self, workload: Question, events: Events) -> Columns:
        place = (workload, events)
        if place not in self._answers:
            if len(self._answers) > 4:
                self._answers.clear()
            self._answers[place] = workload.answer(events)
            events.forget()
        return self._answers[place]


def fewer(events: Events, most: int | None) -> Events:
    """So many of such events at most."""
    return events if most is None or most >= events.count else replace(events, count=most)


def fail(figure: Figure, error: Exception) -> None:
    """Note that an arm broke down; what it did before is no figure."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    figure.status, figure.reason, figure.runs = "failed", f"{type(error).__name__}: {first}"[:300], []
    say(f"{figure.section} {figure.workload} {figure.arm}: failed: {figure.reason}")


@contextmanager
def scratch(above: Path) -> Iterator[Path]:
    """An empty folder, on the disk of the files; it is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="scratch-", dir=above))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_STARTED = time.monotonic()


def say(text: str) -> None:
    """A line of progress."""
    print(f"[{time.monotonic() - _STARTED:6.0f} s] {text}", file=sys.stderr, flush=True)


# Runs an engine beside a probe: a client in a process of its own, which feeds the engine and takes the times.


_ROOT = Path(__file__).parents[1]

Probe = subprocess.Popen[str]


def probed(module: str, task: Mapping[str, Any], engine: Callable[[Probe], None]) -> str:
    """Returns the output of ``python -m MODULE TASK``; the engine runs until that has ended. RuntimeError if it
    fails."""
    command = [sys.executable, "-m", module, json.dumps(task)]
    # Files, not pipes: nobody would read a pipe before the engine has ended, and the engine ends after the probe.
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as complaint:
        probe = subprocess.Popen(command, cwd=_ROOT, stdout=printed, stderr=complaint, text=True)
        try:
            engine(probe)
        finally:
            if probe.poll() is None:
                probe.kill()
            probe.wait()
        printed.seek(0)
        complaint.seek(0)
        if probe.returncode:
            raise RuntimeError(complaint.read().strip()[-300:] or f"{module} ended with status {probe.returncode}")
        return printed.read()


def stop_after(probe: Probe, stop: threading.Event) -> None:
    """Set ``stop``, which ends a run of windbolt's, when the probe has ended; returns at once."""

    def wait() -> None:
        probe.wait()
        stop.set()

    threading.Thread(target=wait, daemon=True).start()


def run_until_end(probe: Probe, query: StreamingQuery) -> None:
    """Let a query of Spark's run until the probe has ended."""
    try:
        while probe.poll() is None and not query.awaitTermination(0.1):  # type: ignore[arg-type]
            pass
    finally:
        query.stop()
