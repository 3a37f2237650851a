"""Many keys, and input that comes through a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.arms.arm import Arm
from benchmarks.contest import Entry
from benchmarks.sections.bench import Bench
from benchmarks.sections.draining import drained
from benchmarks.workloads import W1, W2, W3, Workload

MANY_KEYS = 100_000
KEYS_GOAL, KEYS_DRAIN_GOAL = 2.0, 4.0
FRAME_GOALS = {"W1": (1.5, 1.0), "W2": (4.0, 2.0)}


def keys(bench: Bench) -> None:
    """W2 and W3 with 100,000 keys."""
    for workload in bench.chosen(W2, W3):
        arms: list[Arm] = [bench.windbolt, bench.spark]
        _both(bench, "keys", workload, arms, MANY_KEYS, (KEYS_GOAL, KEYS_DRAIN_GOAL))


def frames(bench: Bench) -> None:
    """W1 and W2 where windbolt's input is a streaming DataFrame of Spark."""
    for workload in bench.chosen(W1, W2):
        arms: list[Arm] = [bench.framed, bench.spark]
        _both(bench, "frames", workload, arms, 1_000, FRAME_GOALS[workload.name])


def _both(
    bench: Bench, section: str, workload: Workload, arms: Sequence[Arm], many: int, goals: tuple[float, float]
) -> None:
    """In micro-batches, and draining."""
    note = f", {many:,} keys" if section == "keys" else ", from a DataFrame"
    events = bench.events(bench.sizes.side, many)
    entries = [Entry(arm, bench.sizes.batch) for arm in arms]
    figures = bench.arena.contest(
        section, workload, entries, events, "data batches",
        title=workload.title + note, check=bench.check_of(events),
    )  # fmt: skip
    bench.add(figures)
    bench.judge(figures, goals[0])
    if not bench.sizes.drain_side:
        return
    name, backlog = f"{section}, draining", bench.events(bench.sizes.drain_side, many)
    figures = drained(bench, name, workload, arms, backlog, workload.title + note)
    bench.add(figures)
    bench.judge(figures, goals[1])
