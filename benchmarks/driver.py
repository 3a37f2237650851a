"""What a batch costs the driver beside its tasks: ``python -m benchmarks.driver 16x100 128x1000``.

``128x1000`` is a batch of 1,000 pieces of input for a bolt of 128 tasks, on the local engine with a checkpoint in a
local folder. Processor time within tasks is not counted, so what is left is what one process does for all of them: it
plans the batch, hands on what tasks have written, decides which have work, commits and deletes. Of five batches the
last three are shown.
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
from topologies import local
from topologies.engine.batch.context import Context
from topologies.engine.batch.executor import InProcess
from topologies.engine.batch.report import BatchReport
from topologies.local import run_local
from topologies.run.options import RunOptions

BATCHES, SHOWN = 5, 3


def measure(tasks: int, pieces: int) -> list[float]:
    """Milliseconds of processor time of the driver, in each of the batches that are shown."""
    within, ends = [0.0], list[float]()
    run_tasks = InProcess.map

    def timed(self: InProcess, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> Any:
        began = time.process_time()
        try:
            return run_tasks(self, function, items, context)
        finally:
            within[0] += time.process_time() - began

    def note(_: BatchReport) -> None:
        ends.append(time.process_time() - within[0])

    with tempfile.TemporaryDirectory() as folder:
        write_pieces(f"{folder}/in", BATCHES, pieces)
        made = topology(f"{folder}/in", f"{folder}/out", tasks, pieces)
        with patch.object(local._Here, "slots", pieces), patch.object(InProcess, "map", timed):
            run_local(made, RunOptions(checkpoint=f"{folder}/ck", on_report=note, flush=False))
    return [1000 * (end - before) for before, end in pairwise(ends)][-SHOWN:]


def main() -> None:
    """Measure what the arguments name, and print a line for each."""
    for asked in sys.argv[1:] or ["16x100", "128x1000"]:
        tasks, pieces = map(int, asked.split("x"))
        took = ", ".join(f"{each:.0f}" for each in measure(tasks, pieces))
        print(f"{asked}: {took} ms of processor time of the driver", flush=True)


if __name__ == "__main__":
    main()
