"""windbolt: the bolts of the workloads, and two ways to run them."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.arms.arm import Batch, Job, Taken, measured
from benchmarks.arms.queries import read_events
from benchmarks.session import Session
from benchmarks.workloads import Workload, middle
from topologies import RunOptions, TopologyBuilder, sinks, spouts
from topologies.engine.batch.report import BatchReport
from topologies.local import run_local
from topologies.spark.runner import run_on_spark
from topologies.topology import Topology
from windowing import AggregateBolt, TupleWindow, WindowedBolt, aggregates, seconds
from windowing.data.schema import TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

COUNT_AND_SUM = [("value", "count"), ("value", "sum")]


class Statistics(WindowedBolt):
    """Count, sum and mean per key, from all events of a window."""

    outputs = "until timestamp, key int, events long, total double, mean double"

    def execute(self, window: TupleWindow) -> pa.Table:
        groups = window.table.group_by("key", use_threads=False).aggregate(COUNT_AND_SUM)
        key, events, total = groups.columns
        mean = pc.divide(total, events)
        columns = {"until": until(window, len(key)), "key": key, "events": events, "total": total, "mean": mean}
        return pa.table(columns)


class MiddlePerKey(WindowedBolt):
    """A Python function of the values of each key."""

    outputs = "until timestamp, key int, events long, middle double"

    def execute(self, window: TupleWindow) -> pa.Table:
        groups = [(key, len(values), middle(values.tolist())) for key, values in window.groups("key", "value")]
        keys, events, found = zip(*groups, strict=True)
        return pa.table({"until": until(window, len(keys)), "key": keys, "events": events, "middle": found})


class Median(WindowedBolt):
    """A Python function of all values."""

    outputs = "until timestamp, events long, median double"
    parallel_windows = True

    def execute(self, window: TupleWindow) -> tuple[Any, int, float]:
        return window.end, len(window), float(np.median(window.column("value")))


def until(window: TupleWindow, rows: int) -> pa.Array:
    """The end of the window, so many times."""
    return pa.repeat(pa.scalar(window.end_timestamp, TIMESTAMP), rows)


def bolt_of(workload: Workload, *, declared: bool) -> WindowedBolt:
    """The bolt that answers a workload; ``declared``: with ready aggregates, where they can."""
    match workload.kind:
        case "statistics" if declared:
            return AggregateBolt(
                by=["key"],
                until=aggregates.window_end(),
                events=aggregates.count(),
                total=aggregates.sum("value"),
                mean=aggregates.mean("value"),
            )
        case "statistics":
            return Statistics()
        case "middles":
            return MiddlePerKey()
        case "medians":
            return Median()


def topology_of(workload: Workload, spout: Any, sink: Any, *, declared: bool) -> Topology:
    """Spout, bolt and sink."""
    bolt = bolt_of(workload, declared=declared)
    bolt = bolt.with_window(seconds(workload.length), seconds(1)).with_alignment(bounds="[start, end)")
    bolt = bolt.with_timestamp_field("event_time").with_lag(seconds(2))
    builder = TopologyBuilder(workload.name)
    builder.set_spout("events", spout)
    part = builder.set_bolt("bolt", bolt, parallelism=2 if workload.keyed else 1)
    if workload.keyed:
        part.fields_grouping("events", "key")
    else:
        part.global_grouping("events")
    builder.set_sink("out", sink).from_("bolt")
    return builder.build()


def columns_of(workload: Workload) -> str:
    """The columns that are read: those that a workload needs, as Spark's own queries do."""
    return "event_time timestamp, key int, value double" if workload.keyed else "event_time timestamp, value double"


@dataclass
class WindboltOnSpark:
    """A topology on Spark Structured Streaming."""

    session: Session
    bolt: Literal["declared", "general"] = "declared"
    reads: Literal["files", "frame"] = "files"
    """``frame``: the files come as a streaming DataFrame of Spark, as any source could."""
    ours: bool = True
    batched: bool = True
    most: int | None = None

    @property
    def name(self) -> str:
        """As the table shows it."""
        return "windbolt" if self.bolt == "declared" else "windbolt, general bolt"

    def missing(self) -> str | None:
        """It is always there."""
        return None

    def run(self, job: Job) -> Taken:
        """Run to the end of the files; windows that the watermark has not passed stay open."""
        topology = topology_of(job.workload, self._spout(job), sink(job), declared=self.bolt == "declared")
        return on_spark(self.session.settle(), topology, job)

    def _spout(self, job: Job) -> Any:
        if self.reads == "files":
            pattern = f"{job.folder}/*.parquet"
            return spouts.files(pattern, columns_of(job.workload), files_per_batch=job.batch_files)
        return spouts.stream(
            lambda spark: read_events(spark, str(job.folder), job.batch_files), columns_of(job.workload)
        )


@dataclass
class WindboltLocal:
    """A topology in this process, without Spark."""

    bolt: Literal["declared", "general"] = "declared"
    ours: bool = True
    batched: bool = True
    most: int | None = None

    @property
    def name(self) -> str:
        """As the table shows it."""
        return "windbolt, in-process" + ("" if self.bolt == "declared" else ", general bolt")

    def missing(self) -> str | None:
        """It is always there."""
        return None

    def run(self, job: Job) -> Taken:
        """Run to the end of the files; windows that the watermark has not passed stay open."""
        spout = spouts.files(f"{job.folder}/*.parquet", columns_of(job.workload), files_per_batch=job.batch_files)
        declared = self.bolt == "declared"
        return in_process(lambda: topology_of(job.workload, spout, sink(job), declared=declared), job)


def on_spark(spark: SparkSession, topology: Topology, job: Job) -> Taken:
    """Run a topology to the end of the files; windows that the watermark has not passed stay open."""
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
    return taken


def in_process(build: Callable[[], Topology], job: Job) -> Taken:
    """The same in this process, without Spark; that the topology is built is counted too."""
    reports: list[BatchReport] = []
    with measured() as taken:
        run_local(build(), RunOptions(keep_open=True, on_report=reports.append))
    check_accounts(reports, job)
    taken.batches = [Batch(report.seconds["total"], data=report.rows > 0) for report in reports]
    taken.phases = phases(reports)
    return taken


def sink(job: Job) -> Any:
    """Where the rows go."""
    return sinks.discard() if job.keep is None else sinks.files(job.keep, "parquet")


def check_accounts(reports: list[BatchReport], job: Job) -> None:
    """RuntimeError unless each event was received, and none was late or unusable."""
    accounts = reports[-1].bolts["bolt"].accounts
    if accounts["received"] != job.events.count or accounts["late"] or accounts["invalid"]:
        raise RuntimeError(f"the accounts are wrong: {accounts}")


def phases(reports: list[BatchReport]) -> dict[str, float]:
    """Seconds by phase, of all batches together."""
    names = dict.fromkeys(name for report in reports for name in report.seconds)
    return {name: sum(report.seconds.get(name, 0.0) for report in reports) for name in names}


def batches_of(query: StreamingQuery, data: Container[int] | None = None) -> list[Batch]:
    """The micro-batches of a query that has ended, as Spark itself reports them.

    ``data``: those that read events; for windbolt's, where Spark sees the names of files at most. Else Spark knows.
    """
    found: list[Batch] = []
    for progress in query.recentProgress:
        spent = progress.durationMs
        if "addBatch" in spent:  # otherwise Spark looked for new input, and ran no batch
            read = progress.numInputRows > 0 if data is None else progress.batchId in data
            found.append(Batch(spent["triggerExecution"] / 1e3, read))
    return found
