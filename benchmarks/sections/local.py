"""The in-process runner beside floors: plain programs that read the same files at once."""

from __future__ import annotations

from benchmarks.arms.arm import Arm
from benchmarks.arms.floors import DuckFloor, NumpyFloor
from benchmarks.arms.windbolt import WindboltLocal
from benchmarks.contest import Entry
from benchmarks.figures import Verdict, ratio
from benchmarks.sections.bench import Bench

WITHIN = 3.0


def local(bench: Bench) -> None:
    """All workloads."""
    for workload in bench.workloads:
        statistics = workload.kind == "statistics"
        floors: list[Arm] = [DuckFloor(1), DuckFloor(2)] if statistics else [NumpyFloor()]
        general: list[Arm] = [WindboltLocal("general")] if statistics and not bench.sizes.main_arms_only else []
        ours: list[Arm] = [WindboltLocal(), *general]
        entries = [Entry(arm, bench.sizes.local_batch) for arm in ours] + [Entry(arm, None) for arm in floors]
        figures = bench.arena.contest("local", workload, entries, bench.events(bench.sizes.local), "whole run")
        bench.add(figures)
        beside = ratio(figures[0], [figure for figure in figures if not figure.ours])
        goal = f"at most {WITHIN:g} x slower than the fastest floor"
        value = None if beside is None else 1 / beside
        bench.results.verdicts.append(Verdict("local", workload.name, goal, WITHIN, value, at_most=True))
