"""Cost of a batch for the driver beside its tasks: ``python -m benchmarks.driver 16x100 128x1000``.

``128x1000`` is a batch of 1,000 pieces of input for a bolt of 128 tasks, on the local engine with a checkpoint in a
local folder. Processor time within tasks is not counted, so the rest is the work of one process for all of them: it
plans the batch, hands on the sections that tasks have written, decides which have work, and commits. Files that a batch
has made superfluous are deleted at the same time, on Spark while Spark works (decision 81), and are counted apart. Of
five batches the last three are shown.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any
from unittest.mock import patch

from benchmarks.requests import topology, write_pieces
from manager.storage.checkpoint import FileCheckpoint
from topologies.engine.batch import Context, InProcess, RunInProcess
from topologies.engine.report import BatchReport
from topologies.local import run_local
from topologies.run.options import RunOptions

BATCHES, SHOWN = 5, 3


def measure(tasks: int, pieces: int) -> list[tuple[float, float]]:
    """Milliseconds of processor time of the driver, and of deleting, in each of the batches that are shown."""
    within, deleting, ends = [0.0], [0.0], list[tuple[float, float]]()
    run_tasks, clean = InProcess.map, FileCheckpoint.clean

    def cleaned(self: FileCheckpoint) -> None:
        began = time.process_time()
        clean(self)
        deleting[0] += time.process_time() - began

    def timed(self: InProcess, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> Any:
        began = time.process_time()
        try:
            return run_tasks(self, function, items, context)
        finally:
            within[0] += time.process_time() - began

    def note(_: BatchReport) -> None:
        ends.append((time.process_time() - within[0] - deleting[0], deleting[0]))

    with tempfile.TemporaryDirectory() as folder:
        write_pieces(f"{folder}/in", BATCHES, pieces)
        made = topology(f"{folder}/in", f"{folder}/out", tasks, pieces)
        slots, tasks_timed = patch.object(RunInProcess, "slots", pieces), patch.object(InProcess, "map", timed)
        with slots, tasks_timed, patch.object(FileCheckpoint, "clean", cleaned):
            run_local(made, RunOptions(checkpoint=f"{folder}/ck", on_report=note, keep_open=True))
    spent = [(1000 * (end[0] - before[0]), 1000 * (end[1] - before[1])) for before, end in pairwise(ends)]
    return spent[-SHOWN:]


def main() -> None:
    """Measure what the arguments name, and print a line for each."""
    for asked in sys.argv[1:] or ["16x100", "128x1000"]:
        tasks, pieces = map(int, asked.split("x"))
        found = measure(tasks, pieces)
        took, deleted = (", ".join(f"{each[place]:.0f}" for each in found) for place in (0, 1))
        print(f"{asked}: {took} ms of processor time of the driver; {deleted} of deleting", flush=True)


if __name__ == "__main__":
    main()
