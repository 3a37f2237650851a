"""Ordinary queries beside Spark's own, in micro-batches of 500,000 events."""

from __future__ import annotations

from benchmarks.arms.arm import Arm
from benchmarks.arms.asked import AS_TASKS, Asked
from benchmarks.arms.spark import SparkArm
from benchmarks.contest import Entry
from benchmarks.events import Events
from benchmarks.figures import Verdict, ratio
from benchmarks.queries import highest, hottest, joined, sessions
from benchmarks.queries.query import Query
from benchmarks.queries.wide import PairedEvents, WideEvents
from benchmarks.sections.bench import MAIN, Bench

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
