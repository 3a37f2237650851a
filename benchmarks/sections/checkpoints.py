"""The cost of a batch without its tasks: requests to an object store with the checkpoint, and the driver's work.

The question ``16x100`` is a batch of 100 pieces of input for a bolt of 16 tasks, on the local engine. A piece has few
rows, because requests and pieces are counted; the number of pieces is that of a cluster with as many slots.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from benchmarks.contest import Arm, Bench, Entry, Job, Question, Taken, by_itself, measured
from benchmarks.events import FIRST_MS, SEED, InMemory, orders
from benchmarks.questions import wired
from manager.storage import segment_files
from manager.storage.checkpoint import FileCheckpoint
from servers.s3 import S3, s3_server
from topologies.engine.batch import Context, InProcessExecutor, InProcessRunExecutor
from topologies.engine.report import BatchReport
from topologies.local import run_local
from topologies.run.options import RunOptions
from windbolt import TupleWindow, WindowedBolt, sinks, spouts

ROWS = 64
"""Rows per piece."""
SIZE = re.compile(r"\d+x\d+")


class Counted(WindowedBolt):
    """Counts the events of a window."""

    outputs = "n long"

    def execute(self, window: TupleWindow) -> list[tuple[int]]:
        return [(len(window.get()),)]


def run(
    folder: Path, place: Callable[[str], str], size: str, batches: int, note: Callable[[BatchReport], None], *with_: Any
) -> None:
    """Runs the topology of a size over some batches of a minute each, with output and checkpoint at a place. ``with_``:
    patches for the duration of the run."""
    tasks, pieces = map(int, size.split("x"))
    chance, files = Random(SEED), folder / "in"
    files.mkdir(parents=True)
    for number in range(batches * pieces):
        begin = FIRST_MS // 60_000 * 60 + 60 * (number // pieces)
        (files / f"{number:06d}.jsonl").write_text(orders(chance, begin, 60, ROWS, users=1_000_000), "utf-8")

    def checked(report: BatchReport) -> None:
        received, right = report.bolts["bolt"].accounts["received"], (report.batch + 1) * pieces * ROWS
        if received != right:
            raise RuntimeError(f"{received:,} events were received, of {right:,}")
        note(report)

    source = spouts.files(f"{files}/*.jsonl", schema="user string, ts timestamp", files_per_batch=pieces)
    # Some of these windows end in each batch, and two of them need the events.
    bolt = Counted().with_window("60s", "30s").with_timestamp_field("ts")
    made = wired(source, bolt, sinks.files(place("out"), format="jsonl"), "user", tasks)
    with ExitStack() as stack:
        for each in (patch.object(InProcessRunExecutor, "slots", pieces), *with_):
            stack.enter_context(each)
        run_local(made, RunOptions(checkpoint=place("ck"), on_report=checked, keep_open=True))


def contests(bench: Bench, section: str, sizes: Sequence[str], arms: Sequence[Arm], batches: int) -> None:
    """Runs a contest for all arms and the requested sizes."""
    for size in [name for name in bench.named if SIZE.fullmatch(name)] or sizes:
        events = InMemory(batches * int(size.split("x")[1]) * ROWS)
        bench.contest(section, [Entry(arm, Question(size, "tasks and pieces"), events) for arm in arms], "whole run")


# Requests of the second of three batches, counted by a server on this machine; the first batch makes the checkpoint.


def apart(self: InProcessRunExecutor, function: Any, items: Sequence[Any], context: Context) -> list[Any]:
    """Runs each task like a process that has read nothing yet."""
    found: list[Any] = []
    for item in items:
        segment_files.forget_pieces()
        found += InProcessExecutor.map(self, function, [item], context)
    segment_files.forget_pieces()
    return found


EXCHANGE = "topologies.engine.micro_batch.exchange"
"""Function that gathers the sections of many tasks (decision 88)."""
LATER = 0.025
"""Additional seconds per request, as for a store on another machine."""
WAYS: dict[str, Callable[[], list[Any]]] = {
    "in one process": lambda: [patch(EXCHANGE)],
    "in one process, 25 ms later": lambda: [patch(EXCHANGE)],
    "each task apart": lambda: [patch.object(InProcessRunExecutor, "map", apart)],
    "apart, as written": lambda: [patch.object(InProcessRunExecutor, "map", apart), patch(EXCHANGE)],
}


def requests(bench: Bench) -> None:
    """Measures requests: one process runs all tasks, with a near store and a distant one; tasks do not share the
    sections that they have read; or sections are not gathered."""
    with s3_server() as store:

        def arm(name: str) -> Arm:
            def take(job: Job) -> Taken:
                store.wait(LATER if name.endswith("later") else 0.0)
                with measured() as taken:
                    counted, seconds = second_batch(store, job.scratch, job.question.name, name)
                taken.note = {"requests": counted.total(), "seconds": seconds, **counted}
                return taken

            return Arm(name, take, by_itself)

        contests(bench, "requests", ("2x10", "16x100"), [arm(name) for name in WAYS], 3)


def second_batch(store: S3, folder: Path, size: str, way: str = "in one process") -> tuple[Counter[str], float]:
    """Returns the requests of one batch, by kind, and the seconds between its commit and the previous one."""
    reports: list[tuple[Counter[str], float]] = []

    def note(report: BatchReport) -> None:
        reports.append((store.count(), time.perf_counter()))

    run(folder, lambda name: store.uri(f"{folder.name}/{name}"), size, 3, note, *WAYS[way]())
    return reports[1][0], reports[1][1] - reports[0][1]


# The driver: processor time of a batch outside tasks, which one process spends for all of them. It plans the batch,
# hands on the sections that tasks have written, decides which tasks have work, and commits. Superfluous files are
# deleted at the same time (on Spark, while Spark works, decision 81), and counted separately.


def driver(bench: Bench) -> None:
    """Measures the driver with a checkpoint in a local folder, over the last three of five batches."""
    contests(bench, "driver", ("16x100", "128x1000"), [Arm("windbolt, in-process", _driver, by_itself)], 5)


def _driver(job: Job) -> Taken:
    within, deleting, ends = [0.0], [0.0], list[tuple[float, float]]()
    run_tasks, clean = InProcessExecutor.map, FileCheckpoint.clean

    def cleaned(self: FileCheckpoint) -> None:
        began = time.process_time()
        clean(self)
        deleting[0] += time.process_time() - began

    def timed(
        self: InProcessExecutor, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context
    ) -> Any:
        began = time.process_time()
        try:
            return run_tasks(self, function, items, context)
        finally:
            within[0] += time.process_time() - began

    def note(_: BatchReport) -> None:
        ends.append((time.process_time() - within[0] - deleting[0], deleting[0]))

    patches = patch.object(InProcessExecutor, "map", timed), patch.object(FileCheckpoint, "clean", cleaned)
    with measured() as taken:
        run(job.scratch, lambda name: f"{job.scratch}/{name}", job.question.name, 5, note, *patches)
    spent = [(end[0] - before[0], end[1] - before[1]) for before, end in pairwise(ends)][-3:]
    driving, deleted = (", ".join(f"{1_000 * each[at]:.0f}" for each in spent) for at in (0, 1))
    taken.note = {"driver ms": driving, "deleting ms": deleted}
    return taken
