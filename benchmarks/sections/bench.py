"""The sections of the benchmark that measure throughput, and what they share."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.arms.arm import FLINK, Absent, Arm, Bytewax, Taken
from benchmarks.arms.spark import AS_TASKS, Asked, SparkArm, spark_own, spark_stateful
from benchmarks.arms.windbolt import DuckFloor, NumpyFloor, WindboltLocal, WindboltOnSpark
from benchmarks.contest import Arena, Entry, Start, say
from benchmarks.figures import Figure, Results, Verdict, ratio
from benchmarks.machine import PeakMemory
from benchmarks.queries import highest, hottest, joined, sessions
from benchmarks.queries.query import Query
from benchmarks.queries.wide import PairedEvents, WideEvents
from benchmarks.session import Session
from benchmarks.workloads import W1, W2, W3, W4, WORKLOADS, Events, Sizes, Workload
from servers.standalone import PYTHON, standalone

# What the sections share.


MAIN = "windbolt"
"""The arm that the goals are about."""


@dataclass
class Bench:
    """One run of the benchmark."""

    data: Path
    sizes: Sizes
    results: Results
    workloads: Sequence[Workload] = WORKLOADS
    session: Session = field(default_factory=Session)
    arena: Arena = field(init=False)

    def __post_init__(self) -> None:
        self.arena = Arena(self.data, self.sizes.runs, self.sizes.check, check_once=self.sizes.main_arms_only)
        self.use(self.session)

    def use(self, session: Session) -> None:
        """Have all arms run in a session."""
        self.session = session
        self.windbolt = WindboltOnSpark(self.session)
        self.general = WindboltOnSpark(self.session, "general")
        self.framed = WindboltOnSpark(self.session, reads="frame")
        self.spark: SparkArm = spark_own(self.session)

    def arms(self, workload: Workload) -> list[Arm]:
        """All that answer a workload, windbolt first."""
        if self.sizes.main_arms_only:
            return [self.windbolt, self.spark]
        general: list[Arm] = [self.general] if workload.kind == "statistics" else []
        stateful: list[Arm] = (
            [spark_stateful(self.session, self.sizes.slow_spark)] if workload.kind == "medians" else []
        )
        return [
            self.windbolt, *general, self.spark, *stateful, Bytewax(self.sizes.slow), Absent("Flink", FLINK)
        ]  # fmt: skip

    def chosen(self, *workloads: Workload) -> list[Workload]:
        """Those of a section that were asked for."""
        return [workload for workload in workloads if workload in self.workloads]

    def events(self, count: int, keys: int = 1_000, per_second: int = 10_000) -> Events:
        """So many events."""
        return Events(count, keys, per_second, self.sizes.file_rows)

    def check_of(self, events: Events) -> int:
        """How many of them the checked run has at most."""
        return self.sizes.check_many_keys if events.keys > 10_000 else self.sizes.check

    def add(self, figures: Sequence[Figure]) -> None:
        """Take figures over."""
        self.results.figures += figures

    def judge(self, figures: Sequence[Figure], goal: float, text: str = "the best peer") -> None:
        """The main arm is to be so many times as fast as the best of the peers."""
        main = next(figure for figure in figures if figure.arm == MAIN)
        peers = [figure for figure in figures if not figure.ours]
        verdict = Verdict(main.section, main.workload, f"at least {goal:g} x {text}", goal, ratio(main, peers))
        self.results.verdicts.append(verdict)


# A backlog: each system with the size of batches that suits it best.


DRAINING_GOALS = {"W1": 4.0, "W2": 8.0, "W3": 5.0, "W4": 30.0}

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
        bench.judge(figures, DRAINING_GOALS[workload.name])


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


# Micro-batches of 500,000 events: what a query does that keeps up.


BATCHES_GOALS = {"W1": 1.5, "W2": 3.0, "W3": 2.5, "W4": 15.0}


def batches(bench: Bench) -> None:
    """All workloads, all arms. Speeds are of the batches that read events.

    Spark fires the windows of a batch in the next one, those of the last batch in one without events, which is not
    counted: it has windows of nine batches in the time of ten. windbolt fires them in the same batch.
    """
    for workload in bench.workloads:
        entries = [Entry(arm, bench.sizes.batch) for arm in bench.arms(workload)]
        figures = bench.arena.contest("batches", workload, entries, bench.events(bench.sizes.events), "data batches")
        bench.add(figures)
        bench.judge(figures, BATCHES_GOALS[workload.name])


# Micro-batches of 500,000 events on a standalone cluster of Spark: a master, and two workers with a core each.


CLUSTER_GOALS = {"W1": 3.0, "W2": 5.0, "W3": 4.0, "W4": 10.0}
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
                bench.judge(figures, CLUSTER_GOALS[workload.name], "Spark's own")
        finally:
            bench.session.stop()
            bench.use(before)


# Whether speed depends on how much state there is, and on how many windows hold an event.


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


# The in-process runner beside floors: plain programs that read the same files at once.


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


# Ordinary queries beside Spark's own, in micro-batches of 500,000 events.


AS_SPARK_TASKS = f"{MAIN}, Spark's tasks"


def queries(bench: Bench) -> None:
    """Each on windbolt's own workers, as Spark's tasks, and by Spark's own."""
    sizes = bench.sizes
    rate, rows = 10_000, sizes.file_rows
    for query, events in (
        (sessions.SESSIONS, Events(sizes.events, sessions.KEYS, rate, rows)),
        (highest.HIGHEST, WideEvents(sizes.events, 1_000, rate, rows)),
        (joined.JOINED, PairedEvents(sizes.events, joined.KEYS, rate, rows)),
        (hottest.HOTTEST, Events(sizes.events, 1_000, rate, rows)),
    ):
        entries = [Entry(arm, sizes.batch) for arm in arms(bench, query)]
        figures = bench.arena.contest("queries", query, entries, events, "data batches", check=sizes.check)
        bench.add(figures)
        peers = [figure for figure in figures if not figure.ours]
        for arm, goal in zip((MAIN, AS_SPARK_TASKS), query.goals, strict=True):
            found = next(figure for figure in figures if figure.arm == arm)
            text = f"at least {goal:g} x Spark's own" + ("" if arm == MAIN else ", as Spark's tasks")
            bench.results.verdicts.append(Verdict("queries", query.name, text, goal, ratio(found, peers)))


def arms(bench: Bench, query: Query) -> list[Arm]:
    """All that answer a query, windbolt first."""
    found: list[Arm] = [Asked(MAIN, bench.session, query.topology)]
    if query.advised is not None:
        found.append(Asked(f"{MAIN}, reads declared", bench.session, query.advised))
    found.append(Asked(AS_SPARK_TASKS, bench.session, query.topology, AS_TASKS))
    return [*found, SparkArm("Spark's own", bench.session, query.spark)]


# Many keys, and input that comes through a DataFrame.


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
