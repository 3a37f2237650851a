"""Whether speed depends on how much state there is, and on how many windows hold an event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.arms.arm import Arm, Taken
from benchmarks.contest import Entry, Start
from benchmarks.figures import Figure, Verdict
from benchmarks.memory import PeakMemory
from benchmarks.sections.bench import Bench
from benchmarks.workloads import W2, W4, Workload

FLAT, OVERLAP = 1.5, 2.0


def growth(bench: Bench) -> None:
    """The same number of events, in windows that hold more and more of them; the sizes in turn, run by run."""
    general = [] if bench.sizes.main_arms_only else [(W2, bench.general)]
    for workload, arm in [(W2, bench.windbolt), *general, (W4, bench.windbolt)]:
        if workload in bench.workloads:
            _by_state(bench, workload, arm)
    if W2 in bench.workloads:
        _by_overlap(bench)


def _by_state(bench: Bench, workload: Workload, arm: Arm) -> None:
    sizes = bench.sizes
    entry = Entry(arm, sizes.growth_batch)
    live = [rate * workload.length for rate in sizes.growth_rates]
    starts = [
        Start(
            entry, workload, bench.events(sizes.growth, per_second=rate), f"{workload.title}; {held:,} live events",
            max(sizes.check, min(15 * rate, sizes.growth)),  # windows are full after 10 seconds
        )
        for rate, held in zip(sizes.growth_rates, live, strict=True)
    ]  # fmt: skip
    found = bench.arena.race("growth", starts, "all batches", with_memory)
    for figure, held in zip(found, live, strict=True):
        figure.note["live_events"] = held
    bench.add(found)
    goal = f"{arm.name}: up to {live[-1]:,} live events at most {FLAT:g} x slower"
    bench.results.verdicts.append(Verdict("growth", workload.name, goal, FLAT, slowdown(found), at_most=True))


def _by_overlap(bench: Bench) -> None:
    sizes = bench.sizes
    entry, events = Entry(bench.windbolt, sizes.growth_batch), bench.events(sizes.overlap)
    starts = []
    for length in sizes.overlaps:
        title = f"keyed sliding {length} s / 1 s"
        workload = Workload(f"W2, overlap {length}", title, "statistics", length)
        starts.append(Start(entry, workload, events, title, sizes.check))
    found = bench.arena.race("growth", starts, "all batches")
    bench.add(found)
    goal = f"overlap {sizes.overlaps[-1]} at most {OVERLAP:g} x slower than {sizes.overlaps[0]}"
    bench.results.verdicts.append(Verdict("growth", "W2", goal, OVERLAP, slowdown(found), at_most=True))


def slowdown(figures: Sequence[Figure]) -> float | None:
    """How many times slower than the first the slowest of them is; None if one is not there."""
    speeds = [figure.speed for figure in figures]
    known = [speed for speed in speeds if speed is not None]
    return known[0] / min(known) if known and len(known) == len(speeds) else None


def with_memory(run: Callable[[], Taken]) -> tuple[Taken, dict[str, Any]]:
    """A run, and the most memory that a worker had."""
    with PeakMemory() as peak:
        taken = run()
    return taken, peak.figures()
