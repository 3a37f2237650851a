"""Micro-batches of 500,000 events: what a query does that keeps up."""

from __future__ import annotations

from benchmarks.contest import Entry
from benchmarks.sections.bench import Bench

GOALS = {"W1": 1.5, "W2": 3.0, "W3": 2.5, "W4": 15.0}


def batches(bench: Bench) -> None:
    """All workloads, all arms. Speeds are of the batches that read events.

    Spark fires the windows of a batch in the next one, those of the last batch in one without events, which is not
    counted: it has windows of nine batches in the time of ten. windbolt fires them in the same batch.
    """
    for workload in bench.workloads:
        entries = [Entry(arm, bench.sizes.batch) for arm in bench.arms(workload)]
        figures = bench.arena.contest("batches", workload, entries, bench.events(bench.sizes.events), "data batches")
        bench.add(figures)
        bench.judge(figures, GOALS[workload.name])
