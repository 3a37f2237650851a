"""Counts the requests of a batch whose checkpoint is in an object store: ``python -m benchmarks.requests 2x10 16x100``.

``--wait 0.025``: each request takes 25 ms longer, as to a store that is not on this machine. ``--apart``: every task
runs as in a process of its own, which finds nothing that another has read; else one process runs all of them.
``--as-written``: with that, but without laying together what was written (decision 88).

``2x10`` is a batch of 10 pieces of input for a bolt of 2 tasks, on the local engine, against a server on this machine.
What counts is the second batch of three, by kind of request, as the server sees it: the first one makes the checkpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from manager.storage import segment_files
from servers.s3 import S3, s3_server
from topologies.engine.batch import Context, InProcess, RunInProcess
from topologies.engine.report import BatchReport
from topologies.graph.topology import Topology
from topologies.local import run_local
from topologies.run.options import RunOptions
from windbolt import TopologyBuilder, TupleWindow, WindowedBolt, seconds, sinks, spouts

ROWS = 64
"""Rows of a piece of input: few, since it is requests that are counted."""


class Counted(WindowedBolt):
    """How many events a window holds."""

    outputs = "n long"

    def execute(self, window: TupleWindow) -> list[tuple[int]]:
        return [(len(window.get()),)]


def topology(files: str, out: str, tasks: int, pieces: int) -> Topology:
    """Windows of which some end in each batch, and whose events are there for two of them."""
    builder = TopologyBuilder("requests")
    schema = "user string, ts timestamp"
    builder.set_spout("in", spouts.files(f"{files}/*.jsonl", schema=schema, files_per_batch=pieces))
    bolt = Counted().with_window(seconds(60), seconds(30)).with_timestamp_field("ts")
    builder.set_bolt("count", bolt, parallelism=tasks).fields_grouping("in", "user")
    builder.set_sink("out", sinks.files(out, format="jsonl")).from_("count")
    return builder.build()


def write_pieces(folder: str, batches: int, pieces: int) -> None:
    """Write the input of some batches, a minute each."""
    os.makedirs(folder, exist_ok=True)
    for number in range(batches * pieces):
        with open(f"{folder}/{number:06d}.jsonl", "w", encoding="utf-8") as file:
            for row in range(ROWS):
                ts = f"2024-01-01T00:{number // pieces:02d}:{row % 60:02d}Z"
                file.write(json.dumps({"user": f"u{number * 7 + row}", "ts": ts}) + "\n")


def apart(self: RunInProcess, function: Any, items: Sequence[Any], context: Context) -> list[Any]:
    """Run each task as a process would that has read nothing yet."""
    found: list[Any] = []
    for item in items:
        segment_files.forget()
        found += InProcess.map(self, function, [item], context)
    segment_files.forget()
    return found


def measure(
    store: S3, tasks: int, pieces: int, alone: bool = False, together: bool = True
) -> tuple[Counter[str], float]:
    """The requests of one batch, and the seconds between its commit and the one before it."""
    reports: list[tuple[Counter[str], float]] = []

    def note(report: BatchReport) -> None:
        reports.append((store.count(), time.perf_counter()))

    with tempfile.TemporaryDirectory() as files:
        write_pieces(files, 3, pieces)
        name = f"{tasks}x{pieces}"
        made = topology(files, store.uri(f"{name}/out"), tasks, pieces)
        with ExitStack() as patches:
            # As many pieces as a cluster of so many slots cuts.
            patches.enter_context(patch.object(RunInProcess, "slots", pieces))
            if alone:
                patches.enter_context(patch.object(RunInProcess, "map", apart))
            if not alone or not together:
                patches.enter_context(patch("topologies.engine.micro_batch.exchange"))
            run_local(made, RunOptions(checkpoint=store.uri(f"{name}/ck"), on_report=note, keep_open=True))
    return reports[1][0], reports[1][1] - reports[0][1]


def main() -> None:
    """Measure what the arguments name, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", default=["2x10", "16x100"])
    parser.add_argument("--wait", type=float, default=0.0)
    parser.add_argument("--apart", action="store_true", help="every task as in a process of its own")
    parser.add_argument("--as-written", action="store_true", help="without laying together what was written")
    given = parser.parse_args()
    with s3_server() as store:
        store.wait(given.wait)
        for asked in given.sizes:
            tasks, pieces = map(int, asked.split("x"))
            counted, spent = measure(store, tasks, pieces, given.apart, not given.as_written)
            kinds = ", ".join(f"{kind} {times}" for kind, times in sorted(counted.items(), key=lambda kind: -kind[1]))
            print(f"{asked}: {counted.total()} requests in {spent:.1f} s: {kinds}", flush=True)


if __name__ == "__main__":
    main()
