"""A backlog: each system with the size of batches that suits it best."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.arms.arm import Arm
from benchmarks.arms.spark import spark_own
from benchmarks.contest import Entry, say
from benchmarks.events import Events
from benchmarks.figures import Figure
from benchmarks.sections.bench import Bench
from benchmarks.workloads import Workload

GOALS = {"W1": 4.0, "W2": 8.0, "W3": 5.0, "W4": 30.0}

Trial = dict[str, float | str]
"""Events per second, or why not, by the size of the batches."""


def drain(bench: Bench) -> None:
    """All workloads, windbolt beside Spark's own. Speeds are of all batches: Spark's last one fires windows only."""
    for workload in bench.workloads:
        peer = bench.spark
        if workload.kind == "medians":
            peer = spark_own(bench.session)
            peer.most = bench.sizes.drain_slow
        arms: list[Arm] = [bench.windbolt, peer]
        figures = drained(bench, "drain", workload, arms, bench.events(bench.sizes.drain))
        bench.add(figures)
        bench.judge(figures, GOALS[workload.name])


def drained(
    bench: Bench, section: str, workload: Workload, arms: Sequence[Arm], events: Events, title: str = ""
) -> list[Figure]:
    """The arms, each at its best size."""
    trials = {arm.name: trial(bench, section, workload, arm, events) for arm in arms}
    entries = [Entry(arm, best(trials[arm.name], bench.sizes.drain_sizes)) for arm in arms]
    figures = bench.arena.contest(
        section, workload, entries, events, "all batches", title=title, check=bench.check_of(events)
    )
    for figure in figures:
        figure.note["trial_events_per_second_by_batch"] = trials[figure.arm]
    return figures


def trial(bench: Bench, section: str, workload: Workload, arm: Arm, events: Events) -> Trial:
    """Each size once, over a part; nothing where there is no choice."""
    sizes = bench.sizes.drain_sizes
    if len(sizes) == 1 or arm.missing():
        return {}
    few = min(bench.sizes.drain_trial, events.count, arm.most or events.count)
    part = Events(few, events.keys, events.per_second, events.file_rows)
    found: Trial = {}
    for size in sizes:
        if size is not None and size >= few:
            continue  # that is all of them
        say(f"{section} {workload.name} {arm.name}: trying batches of {label(size)} over {few:,} events")
        try:
            taken = bench.arena.take(arm, workload, part, size)
        except Exception as error:
            found[label(size)] = f"{type(error).__name__}: {str(error).strip()[:200]}"
        else:
            found[label(size)] = round(few / taken.in_batches(data_only=False))
    return found


def best(found: Trial, sizes: Sequence[int | None]) -> int | None:
    """The size with the highest speed; the first where none was tried."""
    speeds = {name: speed for name, speed in found.items() if not isinstance(speed, str)}
    if not speeds:
        return sizes[0]
    winner = max(speeds, key=lambda name: speeds[name])
    return next(size for size in sizes if label(size) == winner)


def label(size: int | None) -> str:
    """A size in words."""
    return "all" if size is None else f"{size:,}"
