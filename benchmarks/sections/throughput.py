"""The sections that measure throughput over windows: on Spark, on a cluster, and in one process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from benchmarks import contest
from benchmarks.contest import (
    CORES,
    MAIN,
    Arm,
    Bench,
    Entry,
    Job,
    Question,
    Session,
    Taken,
    by_itself,
    fewer,
    measured,
    say,
    spark_own,
    windbolt,
    windbolt_in_process,
)
from benchmarks.events import Bursts, Events, PairedEvents, WideEvents
from benchmarks.figures import ROOT, Figure, ratio
from benchmarks.questions import (
    HIGHEST,
    JOINED,
    QUERIES,
    W1,
    W2,
    W3,
    W4,
    WORKLOADS,
    out,
    read,
    spout,
    statistics_question,
    wired,
)
from servers.processes import peak_memory
from servers.spark import PYTHON, standalone
from windbolt import Topology
from windowing import Session as Gaps
from windowing import TupleWindow, WindowedBolt, presets

EVENTS, BATCH = 5_000_000, 500_000
"""Events of most sections, and of a micro-batch."""

# Micro-batches of 500,000 events: a query that keeps up with its input.


BATCHES_GOALS = {"W1": 1.5, "W2": 3.0, "W3": 2.5, "W4": 15.0}


def batches(bench: Bench) -> None:
    """Measures all workloads and all arms. Speeds are those of the batches that read events.

    Spark fires the windows of a batch in the next batch, and the windows of the last batch in a batch without events,
    which is not counted: it fires the windows of nine batches in the time of ten. windbolt fires them in the same
    batch.
    """
    session = bench.session
    for workload in bench.chosen(WORKLOADS):
        arms = [windbolt(session), spark_own(session)]
        if not bench.quick:
            arms[1:1] = [windbolt(session, way) for way in workload.ways if way]
        figures = bench.compare("batches", arms, workload, Events(bench.scaled(EVENTS)), BATCH)
        bench.judge(figures, BATCHES_GOALS[workload.name])


# A backlog: each system with its best size of batches.


DRAINING_GOALS = {"W1": 4.0, "W2": 8.0, "W3": 5.0, "W4": 30.0}

SIZES = {f"{size:,}": size for size in (500_000, 2_500_000, 5_000_000, 10_000_000)} | {"all": None}
Trial = dict[str, float | str]
"""By size of the batches: events per second, or why there are none."""


def drain(bench: Bench) -> None:
    """Measures all workloads, for windbolt and for Spark's own windows. Speeds are those of all batches, because
    Spark's last batch only fires windows."""
    for workload in bench.chosen(WORKLOADS):
        slow = bench.scaled(5_000_000) if workload.kind == "medians" else None
        arms = [windbolt(bench.session), spark_own(bench.session, slow)]
        drained(bench, "drain", workload, arms, Events(bench.scaled(50_000_000)), DRAINING_GOALS[workload.name])


def drained(bench: Bench, section: str, workload: Question, arms: Sequence[Arm], events: Events, goal: float) -> None:
    """Runs a contest of the arms, each with its best size."""
    trials = {arm.name: trial(bench, section, workload, arm, events) for arm in arms if bench.arms(arm.name)}
    entries = [bench.entry(arm, workload, events, best(trials.get(arm.name, {}))) for arm in arms]
    figures = bench.contest(section, entries, "all batches")
    for figure in figures:
        figure.note["trial_events_per_second_by_batch"] = trials[figure.arm]
    bench.judge(figures, goal)


def trial(bench: Bench, section: str, workload: Question, arm: Arm, events: Events) -> Trial:
    """Returns the speed of each size, tried once over a part of the events; empty if there is no choice."""
    part = fewer(fewer(events, arm.most), bench.scaled(20_000_000))
    found: Trial = {}
    for label, size in () if bench.quick else SIZES.items():
        if size is not None and size >= part.count:
            continue  # that is all events
        say(f"{section} {workload.name} {arm.name}: trying batches of {label} over {part.count:,} events")
        figure = Figure(section, workload.name, "", arm.name, arm.ours, part.count, size, "all batches")
        taken = bench.run(figure, Entry(arm, workload, part, size), part)
        found[label] = figure.reason if taken is None else round(part.count / taken.in_batches(data_only=False))
    return found


def best(found: Trial) -> int | None:
    """Returns the size with the highest speed; None, for all events, if none was tried."""
    speeds = {name: speed for name, speed in found.items() if not isinstance(speed, str)}
    return SIZES[max(speeds, key=lambda name: speeds[name], default="all")]


# Many keys, and input from a DataFrame.


def keys(bench: Bench) -> None:
    """Measures W2 and W3 with 100,000 keys, in micro-batches and with a backlog."""
    events = Events(bench.scaled(EVENTS), 100_000)
    for workload in bench.chosen((W2, W3)):
        arms = [windbolt(bench.session), spark_own(bench.session)]
        named = replace(workload, title=f"{workload.title}, {events.keys:,} keys")
        bench.judge(bench.compare("keys", arms, named, events, BATCH), 2.0)
        if not bench.quick:
            drained(bench, "keys, draining", named, arms, replace(events, count=2 * events.count), 4.0)


FRAMES_GOALS = {"W1": (3.0, 5.0), "W2": (6.0, 12.0)}


def frames(bench: Bench) -> None:
    """Measures W1 and W2 with a streaming DataFrame as windbolt's input.

    There are fifty micro-batches: in both systems only Java runs, and in the first ten its compiler takes more time
    than the events.
    """
    events = Events(bench.scaled(5 * EVENTS))
    for workload in bench.chosen((W1, W2)):
        arms = [windbolt(bench.session, framed=True), spark_own(bench.session)]
        named = replace(workload, title=f"{workload.title}, from a DataFrame")
        bench.judge(bench.compare("frames", arms, named, events, BATCH), FRAMES_GOALS[workload.name][0])


def frames_drain(bench: Bench) -> None:
    """Measures the same with a backlog."""
    events = Events(bench.scaled(10 * EVENTS))
    for workload in bench.chosen((W1, W2)):
        arms = [windbolt(bench.session, framed=True), spark_own(bench.session)]
        named = replace(workload, title=f"{workload.title}, from a DataFrame")
        drained(bench, "frames, draining", named, arms, events, FRAMES_GOALS[workload.name][1])


# Ordinary queries beside Spark's own, in micro-batches of 500,000 events.


AS_SPARK_TASKS = f"{MAIN}, Spark's tasks"
QUERIES_GOALS = {"sessions": (4.0, 3.0), "highest": (3.0, 2.0), "joined": (8.0, 5.0), "hottest": (4.0, 2.0)}


def queries(bench: Bench) -> None:
    """Measures each query with windbolt's own workers, with Spark's tasks, and with Spark's own query."""
    session = bench.session
    many = {"sessions": 65_000, "joined": 10_000}
    kinds: dict[str, type[Events]] = {HIGHEST.name: WideEvents, JOINED.name: PairedEvents}
    for query in bench.chosen(QUERIES):
        kind = kinds.get(query.name, Events)
        events = kind(bench.scaled(EVENTS), many.get(query.name, 1_000))
        ours = [windbolt(session, way) for way in query.ways]
        arms = [*ours, windbolt(session, name=AS_SPARK_TASKS, tasks="spark"), spark_own(session)]
        figures = bench.compare("queries", arms, query, events, BATCH)
        own, as_tasks = QUERIES_GOALS[query.name]
        bench.judge(figures, own, "Spark's own")
        bench.judge(figures, as_tasks, "Spark's own, as Spark's tasks", AS_SPARK_TASKS)


# Does speed depend on the size of the state, and on the number of windows with an event?


FLAT, OVERLAP = 1.5, 2.0


def growth(bench: Bench) -> None:
    """Measures the same number of events in windows of increasing size."""
    ours = with_memory(windbolt(bench.session))
    general = [] if bench.quick else [(W2, with_memory(windbolt(bench.session, "general bolt")))]
    for workload, arm in [(W2, ours), *general, (W4, ours)]:
        if workload in bench.chosen((W2, W4)):
            _by_state(bench, workload, arm)
    if W2 in bench.chosen((W2,)):
        events, entries = Events(bench.scaled(10_000_000)), []
        for length in (1, 10, 100):
            workload = statistics_question(f"W2, overlap {length}", f"keyed sliding {length} s / 1 s", length)
            entries.append(bench.entry(windbolt(bench.session), workload, events, events.count // 4))
        found = bench.contest("growth", entries, "all batches")
        bench.goal(
            "growth", "W2", f"overlap 100 at most {OVERLAP:g} x slower than 1", OVERLAP, slowdown(found), at_most=True
        )


def _by_state(bench: Bench, workload: Question, arm: Arm) -> None:
    count, entries = bench.scaled(30_000_000), []
    rates = [count // 3_000, count // 300, count // 30]
    for rate in rates:
        asked = replace(workload, title=f"{workload.title}; {rate * workload.length:,} live events")
        check = max(5_000_000, 15 * rate)  # windows are full after 10 seconds
        entries.append(bench.entry(arm, asked, Events(count, per_second=rate), count // 12, check))
    found = bench.contest("growth", entries, "all batches")
    goal = f"{arm.name}: up to {rates[-1] * workload.length:,} live events at most {FLAT:g} x slower"
    bench.goal("growth", workload.name, goal, FLAT, slowdown(found), at_most=True)


def slowdown(figures: Sequence[Figure]) -> float | None:
    """Returns the speed of the first figure divided by the least speed; None if a figure was not measured."""
    speeds = [figure.speed for figure in figures]
    known = [speed for speed in speeds if speed is not None]
    return known[0] / min(known) if known and len(known) == len(speeds) else None


def with_memory(arm: Arm) -> Arm:
    """Returns an arm that also records the peak memory of a worker."""

    def run(job: Job) -> Taken:
        with peak_memory() as peak:
            taken = arm.run(job)
        taken.note |= peak
        return taken

    return replace(arm, run=run)


# The in-process runner beside floors: plain programs that read the same files at once.


WITHIN = 3.0


def local(bench: Bench) -> None:
    """Measures all workloads."""
    for workload in bench.chosen(WORKLOADS):
        floors = [contest.duckdb(1), contest.duckdb(2)] if workload.kind == "statistics" else [contest.numpy()]
        ours = [windbolt_in_process(way) for way in workload.ways if not (way and bench.quick)]
        events = Events(bench.scaled(EVENTS))
        entries = [bench.entry(arm, workload, events, events.count // 2) for arm in ours]
        entries += [bench.entry(arm, workload, events) for arm in floors]
        figures = bench.contest("local", entries, "whole run")
        beside = ratio(figures[0], [figure for figure in figures if not figure.ours]) if figures else None
        goal = f"at most {WITHIN:g} x slower than the fastest floor"
        bench.goal("local", workload.name, goal, WITHIN, None if beside is None else 1 / beside, at_most=True)


# Micro-batches of 500,000 events on a standalone cluster of Spark: a master, and two workers with a core each.


CLUSTER_GOALS = {"W1": 3.0, "W2": 5.0, "W3": 4.0, "W4": 10.0}
FROM_A_FRAME = f"{MAIN}, from a DataFrame"
MEMORY = 2
"""Gigabytes of memory per worker; its executor has three quarters of them."""


def cluster(bench: Bench) -> None:
    """Measures all workloads, windbolt and Spark's own. Nothing of windbolt is installed on the workers."""
    bench.session.stop()
    with tempfile.TemporaryDirectory() as folder, standalone(Path(folder), memory=f"{MEMORY}g") as found:
        settings = {
            "spark.pyspark.python": PYTHON,
            "spark.executor.memory": f"{MEMORY * 768}m",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.executorEnv.PYTHONPATH": str(ROOT),  # for functions of Spark's own arms
        }
        session = Session(master=found.url, more=settings)
        try:
            for workload in bench.chosen(WORKLOADS):
                framed = [windbolt(session, name=FROM_A_FRAME, framed=True)] if workload in (W1, W2) else []
                arms = [windbolt(session), *framed, spark_own(session)]
                figures = bench.compare("cluster", arms, workload, Events(bench.scaled(EVENTS)), BATCH)
                bench.judge(figures, CLUSTER_GOALS[workload.name], "Spark's own")
        finally:
            session.stop()


# Cost of a micro-batch before any window: queries of Spark with ``foreachBatch``. No engine in Python that is called by
# it can be faster than the first, and none whose input is a DataFrame faster than the second. The others read the files
# of the highest row with Arrow, in as many processes as there are cores: all columns, or those that the query names.


EachBatch = Callable[[DataFrame, int], None]
NAMED = ["event_time", "key", "value", "id", "url"]
"""Columns that the query of the highest row names."""


def limits(bench: Bench) -> None:
    """What Spark does around a batch, passing rows to Python, and reading, sorting and writing them with Arrow."""
    narrow, wide = Events(bench.scaled(EVENTS)), WideEvents(bench.scaled(EVENTS))
    with ProcessPoolExecutor(CORES, get_context("spawn")) as pool:

        def processes(job: Job, columns: Sequence[str] | None, folder: Path | None) -> EachBatch:
            def each(frame: DataFrame, batch: int) -> None:
                list(pool.map(partial(_rows_of, columns=columns, folder=folder), _files(job, batch)))

            return each

        def tasks(job: Job, columns: Sequence[str] | None, folder: Path | None) -> EachBatch:
            def each(frame: DataFrame, batch: int) -> None:
                files = frame.sparkSession.sparkContext.parallelize(_files(job, batch), job.batch_files)
                files.map(partial(_rows_of, columns=columns, folder=folder)).collect()

            return each

        arms: dict[str, tuple[Callable[[Job], EachBatch], Events]] = {
            "does nothing": (lambda job: lambda frame, batch: None, narrow),
            "hands the rows to Python": (lambda job: _hand_over, narrow),
        }
        for name, columns in {"eight columns": None, "five columns": NAMED}.items():
            arms[f"reads {name}"] = (partial(processes, columns=columns, folder=None), wide)
            arms[f"reads {name}, as Spark's tasks"] = (partial(tasks, columns=columns, folder=None), wide)
            arms[f"reads {name}, sorts and writes them"] = (
                lambda job, columns=columns: processes(job, columns, job.scratch),  # type: ignore[misc]
                wide,
            )
        entries = [
            Entry(
                _of_batches(bench, name, each),
                Question(HIGHEST.name if events is wide else "W2", "foreachBatch"),
                events,
                BATCH,
                events,
            )
            for name, (each, events) in arms.items()
        ]
        bench.contest("limits", entries, "data batches", lambda notes: {
            "ms a batch": ", ".join(f"{ms:.0f}" for note in notes for ms in note["ms a batch"])
        })  # fmt: skip


def _of_batches(bench: Bench, name: str, each_batch: Callable[[Job], EachBatch]) -> Arm:
    """Returns an arm that calls a function with each batch of a query of Spark's."""

    def run(job: Job) -> Taken:
        spark = bench.session.settle()
        with measured() as taken:
            writer = read(spark, job).writeStream.foreachBatch(each_batch(job)).trigger(availableNow=True)
            query = writer.option("checkpointLocation", str(job.scratch / "checkpoint")).start()
            query.awaitTermination()
        taken.batches = contest.batches_of(query)
        taken.note = {"ms a batch": [1_000 * median(batch.seconds for batch in taken.batches)]}
        return taken

    return Arm(name, run, by_itself, ours=False)


def _hand_over(frame: DataFrame, batch: int) -> None:
    """Passes the rows of W2 to Python as Arrow, which counts them."""

    def count(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [sum(batch.num_rows for batch in rows)]})

    frame.select("event_time", "key", "value").mapInArrow(count, "n long").collect()


def _files(job: Job, batch: int) -> list[Path]:
    """Returns the files of a batch."""
    return sorted(Path(job.source).glob("*.parquet"))[batch * job.batch_files : (batch + 1) * job.batch_files]


def _rows_of(file: Path, columns: Sequence[str] | None, folder: Path | None) -> int:
    """Reads columns of a file with Arrow, all of them for None; writes the rows to ``folder``, if given, in order of
    time. Returns the number of rows."""
    rows = pq.read_table(file, columns=columns, use_threads=False).combine_chunks()
    if folder is not None:
        rows = rows.take(pc.sort_indices(rows, [("event_time", "ascending")]))
        with pa.OSFile(str(folder / file.name), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
    return int(rows.num_rows)


# Time rules beside Storm's plain windows: watermarks per event, substreams, sessions.


class Number(WindowedBolt):
    """Emits the number of events in a window."""

    outputs = "events long"

    def execute(self, window: TupleWindow) -> tuple[int]:
        return (len(window),)


def rules(bench: Bench) -> None:
    """Measures events in bursts of 20 of one key; two files per batch, two tasks, output discarded."""
    ten, atlas, number = "10s", presets.atlas("2s"), Number().with_timestamp_field("event_time")
    azure = number.with_time(presets.azure(out_of_order="2s", late="10s", early=None, arrival_field="arrival"))
    storm, every_100 = number.with_tumbling_window(ten).with_lag("2s"), presets.streaminsight(100, "2s")
    substreams = azure.with_tumbling_window(ten).with_key("key").with_watermark(per_key=True)
    by_key = number.with_time(atlas).with_window(Gaps("200ms")).with_key("key")
    few = {
        "Storm, tumbling 10 s": storm,
        "Atlas, tumbling 10 s": number.with_time(atlas).with_tumbling_window(ten),
        "Atlas, hopping 10 s / 1 s": number.with_time(atlas).with_window(ten, "1s"),
        "StreamInsight, every 100": number.with_time(every_100).with_tumbling_window(ten),
        "Azure, tumbling 10 s": azure.with_tumbling_window(ten),
    }
    many = {
        "Storm, tumbling 10 s per key": storm.with_key("key"),
        "Azure, substreams, tumbling 10 s": substreams,
        "Azure, sessions of 200 ms": azure.with_window(Gaps("200ms")).with_key("key"),
        "Atlas, sessions of 200 ms": by_key,
    }
    columns, entries = "event_time timestamp, arrival timestamp, key int, value double", []

    def ours(job: Job, bolt: Any) -> Topology:
        return wired(spout(job, columns), bolt, out(job))

    for keys, bolts in ((1_000, few | many), (100_000, many)):
        events = Bursts(bench.scaled(100_000) * 20, keys)
        for name, bolt in bolts.items():
            asked = Question(
                f"{keys:,} keys",
                ways={"": partial(ours, bolt=bolt)},
                kind="rules",
            )
            arm = replace(windbolt(bench.session, name=name), check=by_itself)
            entries.append(Entry(arm, asked, events, 2 * events.file_rows, events))
    figures = bench.contest("rules", entries, "whole run")
    for figure in figures:
        if figure.cpu and figures[0].cpu:
            figure.note["CPU beside Storm"] = round(figure.cpu / figures[0].cpu, 2)
