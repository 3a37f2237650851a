"""Micro-batches of 500,000 events on a standalone cluster of Spark: a master, and two workers with a core each."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.contest import Entry
from benchmarks.sections.bench import Bench
from benchmarks.session import Session
from tests.spark.cluster.standalone import PYTHON, standalone

GOALS = {"W1": 3.0, "W2": 5.0, "W3": 4.0, "W4": 10.0}
MEMORY = 2
"""Gigabytes of a worker, of which its executor has three quarters."""


def cluster(bench: Bench) -> None:
    """All workloads, windbolt and Spark's own. Nothing of windbolt is installed on the workers."""
    before = bench.session
    before.stop()
    with tempfile.TemporaryDirectory() as folder, standalone(Path(folder), memory=f"{MEMORY}g") as found:
        settings = {
            "spark.pyspark.python": PYTHON,
            "spark.executor.memory": f"{MEMORY * 768}m",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            # For the functions of Spark's own arms.
            "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
        }
        bench.use(Session(master=found.url, more=settings))
        try:
            for workload in bench.workloads:
                entries = [Entry(arm, bench.sizes.batch) for arm in (bench.windbolt, bench.spark)]
                events = bench.events(bench.sizes.events)
                figures = bench.arena.contest("cluster", workload, entries, events, "data batches")
                bench.add(figures)
                bench.judge(figures, GOALS[workload.name], "Spark's own")
        finally:
            bench.session.stop()
            bench.use(before)
