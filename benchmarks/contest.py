"""The contest of each section: arms, such as windbolt and Spark, take turns at the same work, after a check of their
results."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.events import Columns, Events, differences
from benchmarks.figures import ROOT, Basis, Figure, Results, Verdict, ratio
from servers.processes import cpu_seconds
from topologies.engine.report import BatchReport
from topologies.local import run_local
from topologies.spark.classic_session import open_session
from topologies.spark.running import run_on_spark
from topologies.spark.workers.pool import TASKS
from topologies.topology import Topology
from windbolt import RunOptions

MAIN, SPARK = "windbolt", "Spark's own"
"""The arm with goals, and the peer that always takes part."""


# Progress messages, with the seconds since the start.


_STARTED = time.monotonic()


def say(text: str) -> None:
    """Prints a progress message."""
    print(f"[{time.monotonic() - _STARTED:6.0f} s] {text}", file=sys.stderr, flush=True)


# The Spark session that windbolt and Spark's own arms share.


CORES = 2


def with_project() -> dict[str, str]:
    """Returns the environment of processes that import the project."""
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


class Session:
    """A session that is opened on first use, and reopened if it has died."""

    def __init__(
        self, *, kafka: bool = False, master: str = f"local[{CORES}]", more: Mapping[str, str] | None = None
    ) -> None:
        self.kafka, self.master = kafka, master
        self.conf = {
            "spark.sql.shuffle.partitions": str(CORES),
            "spark.driver.memory": f"{driver_gigabytes()}g",
            "spark.sql.streaming.numRecentProgressUpdates": "100000",
        } | dict(more or {})
        self._opened: SparkSession | None = None

    @property
    def spark(self) -> SparkSession:
        """Returns a live session."""
        os.environ.update(with_project())  # the workers import the functions of the arms
        self._opened, _ = open_session(self.master, self.conf, kafka=self.kafka)
        return self._opened

    def settle(self) -> SparkSession:
        """Returns the session after collecting its garbage, so that an earlier run does not slow the next one."""
        spark = self.spark
        jvm: Any = spark._jvm
        jvm.System.gc()
        return spark

    def stop(self) -> None:
        """Stops the session, if it is open."""
        if self._opened is not None:
            with suppress(Exception):  # it may have died
                self._opened.stop()
            self._opened = None


def driver_gigabytes() -> int:
    """Returns the heap of the JVM in GiB: just under half of the machine's memory, since Python needs the rest; at most
    12."""
    return max(1, min(12, int(psutil.virtual_memory().total / 2**30 * 0.45)))


# The work of arms, and its results.


@dataclass(frozen=True)
class Question:
    """Work for arms."""

    name: str
    title: str = ""
    answer: Callable[[Events], Columns] | None = None
    """Returns the right rows, computed independently of arms; None if an arm has a check of its own."""
    ways: Mapping[str, Callable[[Job], Topology]] = field(default_factory=dict, hash=False)
    """Topologies for windbolt's arm, by its name after ``windbolt``. The name ``bolt`` stands for a user's bolt on
    events."""
    spark: Callable[[SparkSession, Job], DataFrame] | None = None
    """Spark's query for the same question."""
    order: tuple[str, ...] = ("until", "key")
    """Columns that identify a row of the result, and by which it is sorted."""
    due_only: bool = False
    """True if arms may emit rows of windows after ``last_end``, which are not compared: for sessions that end within a
    second, and for Spark's join, which waits for no window."""
    kind: str = ""
    length: int = 0
    """Length of the windows in seconds."""


@dataclass(frozen=True)
class Job:
    """One run of an arm."""

    question: Question
    events: Events
    source: str
    """The place of the events: a folder, or a topic."""
    batch: int | None
    """Events per micro-batch; None: all."""
    scratch: Path
    """An empty folder, for checkpoints and other files."""
    keep: Path | None = None
    """Folder for the rows of the result, as Parquet files; None: they are discarded."""
    framed: bool = False
    """True if windbolt's input is a streaming DataFrame of Spark."""

    @property
    def batch_files(self) -> int:
        """Returns the most files in a micro-batch."""
        rows = self.events.file_rows
        return -(-self.events.count // rows) if self.batch is None else max(1, self.batch // rows)


@dataclass(frozen=True)
class Batch:
    """A micro-batch, with times by the engine's own clock."""

    seconds: float
    data: bool
    """True if it read events: Spark's last batch may only fire windows."""


@dataclass
class Taken:
    """The measurements of a run."""

    seconds: float = 0.0
    """Seconds from start to end, including the start and stop of the query."""
    cpu: float = 0.0
    """CPU-seconds of the process tree in that time."""
    batches: list[Batch] = field(default_factory=list)
    """The micro-batches; empty if the engine has none."""
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds by phase, if the engine reports phases."""
    note: dict[str, Any] = field(default_factory=dict)
    """Further results, by name."""

    def in_batches(self, *, data_only: bool) -> float:
        """Returns the seconds without the start and stop of the query. ``data_only``: count only batches that read
        events."""
        chosen = [batch.seconds for batch in self.batches if batch.data or not data_only]
        return sum(chosen) if chosen else self.seconds

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return {
            "seconds": round(self.seconds, 6),
            "cpu_seconds": round(self.cpu, 6),
            "data_batch_seconds": round(self.in_batches(data_only=True), 6),
            "all_batch_seconds": round(self.in_batches(data_only=False), 6),
            "batches": len(self.batches),
            "phases": {name: round(seconds, 4) for name, seconds in self.phases.items()},
        }


@contextmanager
def measured(clock: Callable[[], float] = cpu_seconds) -> Iterator[Taken]:
    """Yields an object that gets the time and CPU time of the block. ``clock``: another clock for CPU time, such as
    that of this process."""
    taken = Taken()
    cpu, started = clock(), time.perf_counter()
    yield taken
    taken.seconds, taken.cpu = time.perf_counter() - started, clock() - cpu


# Checking results.


@lru_cache(4)
def right_rows(question: Question, events: Events) -> Columns:
    """Returns the right rows of a question."""
    assert question.answer is not None, question.name
    return question.answer(events)


def compared(job: Job, taken: Taken) -> str | None:
    """Returns the difference between the kept rows and the right ones; None if they agree, or none were kept."""
    if job.keep is None:
        return None
    files = sorted(job.keep.glob("[!_.]*.parquet"))
    if not files:
        return "no rows"
    rows = pq.ParquetDataset([str(file) for file in files]).read()
    if job.question.due_only:
        due = pa.scalar(job.events.last_end * 1_000_000, pa.int64()).cast(pa.timestamp("us", "UTC"))
        rows = rows.filter(pc.less_equal(rows.column("until").cast(due.type), due))
    return differences(rows, right_rows(job.question, job.events), job.question.order)


def by_itself(job: Job, taken: Taken) -> None:
    """Checks nothing, for an arm that raises an error if its result is wrong."""


def keep(rows: pa.Table, job: Job) -> None:
    """Writes rows to the job's folder, if it has one."""
    if job.keep is not None:
        job.keep.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, job.keep / "rows.parquet")


@dataclass(frozen=True)
class Arm:
    """A way to do the work of a question. To add an arm, make one and list it in a section."""

    name: str
    """Its name in tables."""
    run: Callable[[Job], Taken]
    """Does the job once. An exception means failure."""
    check: Callable[[Job, Taken], str | None] = compared
    """Called after each run; returns a description of errors."""
    ours: bool = True
    """True if it is windbolt."""
    needs: tuple[str, ...] = ()
    """Modules that it needs, or programs by path; if one is missing, the arm is missing."""
    batched: bool = True
    """True if it works in micro-batches of a configurable size."""
    most: int | None = None
    """Most events for this arm, if more would take minutes."""

    @property
    def missing(self) -> str | None:
        """Returns why it cannot run here; None if it can."""
        absent = [name for name in self.needs if find_spec(name) is None]
        return f"not installed: {', '.join(absent)}" if absent else None


@dataclass(frozen=True)
class Entry:
    """An arm with its work in a contest."""

    arm: Arm
    question: Question
    events: Events
    batch: int | None = None
    """Events per micro-batch; None: all at once."""
    check: Events | None = None
    """The events of the first run, whose rows are checked; None: there is no such run."""

    @property
    def given(self) -> Events:
        """The events of a timed run."""
        return fewer(self.events, self.arm.most)


def fewer(events: Events, most: int | None) -> Events:
    """Returns at most ``most`` of these events."""
    return events if most is None or most >= events.count else replace(events, count=most)


# The contest.


def most(notes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merges the notes of several runs: the maximum of numbers, the last of other values."""
    found: dict[str, Any] = {}
    for note in notes:
        for name, value in note.items():
            numbers = isinstance(value, int | float) and isinstance(found.get(name), int | float)
            found[name] = max(found[name], value) if numbers else value
    return found


@dataclass
class Bench:
    """One run of the benchmark."""

    data: Path
    """Folder for files of events."""
    results: Results
    session: Session = field(default_factory=Session)
    runs: int = 3
    """Number of timed runs of each arm."""
    part: float = 1.0
    """Fraction of a section's usual number of events."""
    quick: bool = False
    """True for a quick benchmark: a million events at most, and only the main arms."""
    named: Sequence[str] = ()
    """The questions to measure, in sections with several; empty: all."""
    arms: Callable[[str], Any] = lambda name: True
    """Returns True if an arm takes part."""
    _checked: dict[tuple[Any, ...], tuple[Any, str]] = field(default_factory=dict)

    def scaled(self, usual: int) -> int:
        """Returns the number ``usual``, or the requested fraction of this number."""
        asked = max(1, round(usual * self.part))
        return min(asked, 1_000_000) if self.quick else asked

    def chosen(self, questions: Sequence[Question]) -> list[Question]:
        """Returns the requested questions."""
        return [each for each in questions if not self.named or each.name in self.named]

    def entry(
        self, arm: Arm, question: Question, events: Events, batch: int | None = None, check: int | None = None
    ) -> Entry:
        """Returns an entry for a contest. ``check``: most events in the checked run, if it is not the usual number."""
        many = events.keys > 65_000  # windows then have as many rows as events
        least, usual = (100_000, 1_000_000) if many else (250_000, 5_000_000)  # fewer may fill no window
        usual = least if self.quick else max(least, self.scaled(usual))
        return Entry(arm, question, events, batch, fewer(fewer(events, arm.most), check or usual))

    def contest(
        self,
        section: str,
        entries: Sequence[Entry],
        basis: Basis,
        merged: Callable[[Sequence[dict[str, Any]]], dict[str, Any]] = most,
    ) -> list[Figure]:
        """Checks all entries, then runs them in turn; a wrong one is not timed.

        ``merged``: merges the notes of an arm's runs.
        """
        taking_part = [each for each in entries if self.arms(each.arm.name)]
        figures = [self._entered(section, entry, basis) for entry in taking_part]
        notes: list[list[dict[str, Any]]] = [[] for _ in figures]
        for run in range(self.runs):
            for entry, figure, found in zip(taking_part, figures, notes, strict=True):
                if figure.status == "ok":
                    say(f"{section} {figure.workload} {figure.arm}: run {run + 1} of {self.runs}")
                    taken = self.run(figure, entry, entry.given)
                    if taken is not None:
                        figure.runs.append(taken.to_json())
                        found.append(taken.note)
        for figure, found in zip(figures, notes, strict=True):
            if figure.status == "ok":
                figure.note |= merged(found)
        self.results.figures += figures
        return figures

    def compare(
        self, section: str, arms: Sequence[Arm], question: Question, events: Events, batch: int
    ) -> list[Figure]:
        """Runs a contest of arms at the same work, in micro-batches."""
        return self.contest(section, [self.entry(arm, question, events, batch) for arm in arms], "data batches")

    def run(self, figure: Figure, entry: Entry, events: Events, *, kept: bool = False) -> Taken | None:
        """Runs an arm once, and checks it. Returns None if it was wrong or failed, which the figure then records."""
        # Files of the run are on the same disk as the events.
        with tempfile.TemporaryDirectory(dir=self.data, ignore_cleanup_errors=True) as name:
            try:
                folder, source = Path(name), events.source(self.data)
                job = Job(entry.question, events, source, entry.batch, folder, folder / "rows" if kept else None)
                taken = entry.arm.run(job)
                wrong = entry.arm.check(job, taken)
            except Exception as error:
                first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
                figure.status, figure.reason = "failed", f"{type(error).__name__}: {first}"[:300]
            else:
                if wrong is None:
                    return taken
                figure.status, figure.reason = "wrong", f"wrong, and not timed: {wrong}"
        figure.runs = []  # its earlier runs do not count
        say(f"{figure.section} {figure.workload} {figure.arm}: {figure.status}: {figure.reason}")
        return None

    def _entered(self, section: str, entry: Entry, basis: Basis) -> Figure:
        """Returns the figure of an entry, after its first run."""
        arm, question, given = entry.arm, entry.question, entry.given
        batch = min(entry.batch or given.count, given.count) if arm.batched else None
        figure = Figure(section, question.name, question.title, arm.name, arm.ours, given.count, batch, basis)
        if arm.missing is not None:
            figure.status, figure.reason = "missing", arm.missing
        elif entry.check is not None:
            # With --quick, an arm that is right once counts as right and warmed up in other sections too.
            place = (arm.name, question, entry.check, None if self.quick else (section, entry.batch))
            if place not in self._checked:
                say(f"{section} {question.name} {arm.name}: checking {entry.check.count:,} events")
                self.run(figure, entry, entry.check, kept=True)
                self._checked[place] = figure.status, figure.reason
            figure.status, figure.reason = self._checked[place]
            figure.note["checked_events"] = entry.check.count
        return figure

    def goal(
        self, section: str, question: str, text: str, bar: float, value: float | None, *, at_most: bool = False
    ) -> None:
        """Records a goal and its measured value."""
        self.results.verdicts.append(Verdict(section, question, text, bar, value, at_most))

    def judge(self, figures: Sequence[Figure], goal: float, text: str = "the best peer", arm: str = MAIN) -> None:
        """Records the goal that an arm is ``goal`` times as fast as the best peer."""
        peers = [figure for figure in figures if not figure.ours]
        for figure in figures:
            if figure.arm == arm:
                self.goal(figure.section, figure.workload, f"at least {goal:g} x {text}", goal, ratio(figure, peers))


# windbolt, on Spark and in this process. Each runs to the end of the files; windows that the watermark has not passed
# stay open.


def windbolt(session: Session, way: str = "", *, name: str = "", framed: bool = False, tasks: str = "") -> Arm:
    """Returns windbolt's arm on Spark for a topology of the question. ``framed``: its input is a streaming DataFrame,
    as any source could be; ``tasks``: the executor of tasks, such as ``spark``, as on a cluster."""

    def run(job: Job) -> Taken:
        spark = session.settle()
        if tasks:
            spark.conf.set(TASKS, tasks)
        try:
            return on_spark(spark, job.question.ways[way](replace(job, framed=framed)), job)
        finally:
            spark.conf.unset(TASKS)

    return Arm(name or (f"{MAIN}, {way}" if way else MAIN), run)


def windbolt_in_process(way: str = "") -> Arm:
    """Returns windbolt's arm without Spark; its time includes building the topology."""

    def run(job: Job) -> Taken:
        reports: list[BatchReport] = []
        with measured() as taken:
            run_local(job.question.ways[way](job), RunOptions(keep_open=True, on_report=reports.append))
        check_accounts(reports, job)
        taken.batches = [Batch(report.seconds["total"], data=report.rows > 0) for report in reports]
        taken.phases = phases(reports)
        return taken

    return Arm(f"{MAIN}, in-process" + (f", {way}" if way else ""), run)


def on_spark(spark: SparkSession, topology: Topology, job: Job) -> Taken:
    """Runs a topology, and returns its measurements."""
    reports: list[BatchReport] = []
    queries: list[StreamingQuery] = []

    def note(report: BatchReport) -> None:
        reports.append(report)
        if not queries:
            queries.extend(spark.streams.active)

    options = RunOptions(checkpoint=str(job.scratch / "checkpoint"), keep_open=True, on_report=note)
    with measured() as taken:
        run_on_spark(topology, options, spark=spark)
    check_accounts(reports, job)
    numbers = {report.batch for report in reports if report.rows}
    taken.batches = [batch for query in queries for batch in batches_of(query, numbers)]
    taken.phases = phases(reports)
    taken.note = {"windows": reports[-1].bolts["bolt"].fired}
    return taken


def check_accounts(reports: list[BatchReport], job: Job) -> None:
    """Raises RuntimeError unless each event was received, and is in a window or still pending."""
    accounts = reports[-1].bolts["bolt"].accounts
    kept = accounts["windowed"] + accounts["pending"]
    if not accounts["received"] == kept == job.events.count:
        raise RuntimeError(f"the accounts are wrong: {accounts}")


def phases(reports: list[BatchReport]) -> dict[str, float]:
    """Returns the seconds by phase, of all batches together."""
    names = dict.fromkeys(name for report in reports for name in report.seconds)
    return {name: sum(report.seconds.get(name, 0.0) for report in reports) for name in names}


def batches_of(query: StreamingQuery, data: Container[int] | None = None) -> list[Batch]:
    """Returns the micro-batches of a finished query, from Spark's reports. ``data``: the batches that read events; None
    if Spark's reports tell, which they do except for windbolt's queries."""
    found: list[Batch] = []
    for progress in query.recentProgress:
        spent = progress.durationMs
        if "addBatch" in spent:  # otherwise Spark only looked for new input
            has_data = progress.numInputRows > 0 if data is None else progress.batchId in data
            found.append(Batch(spent["triggerExecution"] / 1e3, has_data))
    return found


# Spark's own queries, in the same session as windbolt.


def spark_own(session: Session, most: int | None = None) -> Arm:
    """Returns Spark's arm: ``groupBy(window())`` for sums and counts, else ``collect_list`` and an Arrow UDF; state is
    HDFS-backed."""

    def run(job: Job) -> Taken:
        assert job.question.spark is not None, job.question.name
        spark = session.settle()
        return spark_query(spark, job.question.spark, job)

    return Arm(SPARK, run, ours=False, most=most)


def spark_query(spark: SparkSession, query: Callable[[SparkSession, Job], DataFrame], job: Job) -> Taken:
    """Runs a query to the end of the files."""
    with measured() as taken:
        writer = query(spark, job).writeStream.outputMode("append").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(job.scratch / "checkpoint"))
        writer = writer.format("noop") if job.keep is None else writer.format("parquet").option("path", str(job.keep))
        started = writer.start()
        started.awaitTermination()
    taken.batches = batches_of(started)
    return taken


# Floors: one process over all files at once, without streams, state or late events.


def duckdb(threads: int) -> Arm:
    """Returns an arm for W1 and W2 in SQL; W2 uses panes of a second, each added up once."""

    def run(job: Job) -> Taken:
        engine: Any = import_module("duckdb")
        with measured() as taken:
            connection = engine.connect(config={"threads": threads})
            found = connection.execute(
                f"""
                with panes as (
                    select epoch_ms(event_time) // 1000 as second, key, count(value) as n, sum(value) as total
                    from read_parquet('{job.source}/*.parquet') group by all
                ), placed as (
                    select second + place + 1 as until, key, n, total
                    from panes, range({job.question.length}) as places(place)
                )
                select make_timestamp(until * 1000000) as until, key,
                    sum(n)::bigint as events, sum(total) as total, sum(total) / sum(n) as mean
                from placed where until <= {job.events.last_end} group by all
                """
            ).to_arrow_table()
            keep(found, job)
        connection.close()
        return taken

    name = f"DuckDB, {threads} thread" + ("s" if threads > 1 else "")
    return Arm(name, run, ours=False, needs=("duckdb",), batched=False)


def numpy() -> Arm:
    """Returns an arm for W3 and W4 with arrays, sorted once. The right rows are computed with it, and an oracle of the
    tests checks it."""

    def run(job: Job) -> Taken:
        assert job.question.answer is not None
        names = ["event_time", "value", *([] if job.question.kind == "medians" else ["key"])]
        with measured() as taken:
            table, again = pq.read_table(job.source, columns=names), replace(job.events)
            columns = {name: table.column(name).to_numpy() for name in names[1:]}
            vars(again)["columns"] = {"event_time": table.column("event_time").cast(pa.int64()).to_numpy(), **columns}
            found = job.question.answer(again)
            until = pa.array(np.asarray(found["until"])).cast(pa.timestamp("us", "UTC"))
            keep(pa.table({**found, "until": until}), job)
        return taken

    return Arm("NumPy", run, ours=False, batched=False)
