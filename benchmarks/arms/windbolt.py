"""The arms of windbolt, the queries of its workloads, and floors below which no engine comes."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as sf

from benchmarks.arms.arm import Batch, Job, Taken, measured, not_installed
from benchmarks.session import Session
from benchmarks.workloads import SCHEMA, Events, Workload, middle, starts_of_groups
from topologies import RunOptions, TopologyBuilder, sinks, spouts
from topologies.engine.report import BatchReport
from topologies.graph.topology import Topology
from topologies.local import run_local
from topologies.spark.runner import run_on_spark
from windowing import AggregateBolt, TupleWindow, WindowedBolt, aggregates, seconds
from windowing.schema import TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


# Spark's own ways to answer the workloads.


LAG = "2 seconds"
SLIDE = "1 second"


def read_events(spark: SparkSession, folder: str, batch_files: int) -> DataFrame:
    """The files as a stream."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", batch_files)
    return reader.parquet(folder)


def own_query(workload: Workload, events: DataFrame) -> DataFrame:
    """Spark's own windows."""
    match workload.kind:
        case "statistics":
            return statistics(events, f"{workload.length} seconds")
        case "middles":
            return middles(events)
        case "medians":
            return medians(events, f"{workload.length} seconds")


def statistics(events: DataFrame, length: str) -> DataFrame:
    """Count, sum and mean per key and window, by Spark's aggregation."""
    groups = events.withWatermark("event_time", LAG).groupBy(sf.window("event_time", length, SLIDE), "key")
    count, total, mean = sf.count("value"), sf.sum("value"), sf.avg("value")
    found = groups.agg(count.alias("events"), total.alias("total"), mean.alias("mean"))
    return found.select(sf.col("window.end").alias("until"), "key", "events", "total", "mean")


def middles(events: DataFrame) -> DataFrame:
    """Spark's way to a Python function of a group: gather the values, then a function of Arrow arrays."""

    def found(lists: pa.Array) -> pa.Array:
        return pa.array([middle(values) for values in lists.to_pylist()], pa.float64())

    groups = events.withWatermark("event_time", LAG).groupBy(sf.window("event_time", "1 second"), "key")
    gathered = groups.agg(sf.count("value").alias("events"), sf.collect_list("value").alias("values"))
    function = _arrow_udf(found)
    return gathered.select(sf.col("window.end").alias("until"), "key", "events", function("values").alias("middle"))


def medians(events: DataFrame, length: str) -> DataFrame:
    """The same over all events of a window."""

    def found(lists: pa.Array) -> pa.Array:
        return pa.array([float(np.median(row.values.to_numpy())) for row in lists], pa.float64())

    groups = events.withWatermark("event_time", LAG).groupBy(sf.window("event_time", length, SLIDE))
    gathered = groups.agg(sf.count("value").alias("events"), sf.collect_list("value").alias("values"))
    function = _arrow_udf(found)
    return gathered.select(sf.col("window.end").alias("until"), "events", function("values").alias("median"))


def stateful_medians(events: DataFrame, length: int) -> DataFrame:
    """The same by a stateful processor in Python, which keeps the values of each second and has a timer per window."""
    from benchmarks.arms.processor import Medians

    rows = events.withWatermark("event_time", LAG).select("event_time", "value", sf.lit(0).alias("all"))
    return rows.groupBy("all").transformWithStateInPandas(
        statefulProcessor=Medians(length),
        outputStructType="until timestamp, events long, median double",
        outputMode="append",
        timeMode="EventTime",
    )


def _arrow_udf(function: Callable[[pa.Array], pa.Array]) -> Any:
    """As a function of columns."""
    functions: Any = sf
    return functions.arrow_udf(function, "double")


# windbolt: the bolts of the workloads, and two ways to run them.


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


# Floors: one process over the whole files at once, with no stream, no state and no late events.


@dataclass
class DuckFloor:
    """W1 and W2 in SQL; W2 by panes of a second, each summed up once."""

    threads: int
    ours: bool = False
    batched: bool = False
    most: int | None = None

    @property
    def name(self) -> str:
        """As the table shows it."""
        return f"DuckDB, {self.threads} thread{'s' if self.threads > 1 else ''}"

    def missing(self) -> str | None:
        """Names the packages that are not installed; None if all are."""
        return not_installed("duckdb")

    def run(self, job: Job) -> Taken:
        """One query."""
        duckdb: Any = import_module("duckdb")
        with measured() as taken:
            connection = duckdb.connect(config={"threads": self.threads})
            found = connection.execute(
                f"""
                with panes as (
                    select epoch_ms(event_time) // 1000 as second, key, count(value) as n, sum(value) as total
                    from read_parquet('{job.folder}/*.parquet') group by all
                ), placed as (
                    select second + place + 1 as until, key, n, total
                    from panes, range({job.workload.length}) as places(place)
                )
                select make_timestamp(until * 1000000) as until, key,
                    sum(n)::bigint as events, sum(total) as total, sum(total) / sum(n) as mean
                from placed where until <= {job.events.last_end} group by all
                """
            ).to_arrow_table()
            keep(found, job)
        connection.close()
        return taken


@dataclass
class NumpyFloor:
    """W3 and W4 with arrays: sorted once, and the Python function called for each window."""

    name: str = "NumPy"
    ours: bool = False
    batched: bool = False
    most: int | None = None

    def missing(self) -> str | None:
        """It is always there."""
        return None

    def run(self, job: Job) -> Taken:
        """Over all files."""
        names = [column.split()[0] for column in columns_of(job.workload).split(", ")]
        with measured() as taken:
            table = pq.read_table(job.folder, columns=names)
            times = table.column("event_time").cast(pa.int64()).to_numpy()
            values = table.column("value").to_numpy()
            if job.workload.kind == "middles":
                found = _middles(times // 1000, table.column("key").to_numpy(), values, job.events)
            else:
                found = _medians(times, values, job.events, job.workload.length)
            keep(found, job)
        return taken


def _middles(seconds: np.ndarray, keys: np.ndarray, values: np.ndarray, events: Events) -> pa.Table:
    due = seconds < events.last_end
    seconds, keys, values = seconds[due], keys[due], values[due]
    order = np.argsort((seconds - seconds.min()) * events.keys + keys, kind="stable")
    seconds, keys, values = seconds[order], keys[order], values[order]
    starts = starts_of_groups(seconds, keys)
    bounds = [*starts.tolist(), len(values)]
    plain = values.tolist()
    found = [middle(plain[start:stop]) for start, stop in pairwise(bounds)]
    ends = pa.array((seconds[starts] + 1) * 1_000_000).cast(pa.timestamp("us", "UTC"))
    return pa.table({"until": ends, "key": keys[starts], "events": np.diff(bounds), "middle": found})


def _medians(times: np.ndarray, values: np.ndarray, events: Events, length: int) -> pa.Table:
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    ends = np.arange(times[0] // 1_000 + 1, events.last_end + 1)
    starts = np.searchsorted(times, (ends - length) * 1_000).tolist()
    stops = np.searchsorted(times, ends * 1_000).tolist()
    found = [float(np.median(values[start:stop])) for start, stop in zip(starts, stops, strict=True)]
    until = pa.array(ends * 1_000_000).cast(pa.timestamp("us", "UTC"))
    return pa.table({"until": until, "events": np.subtract(stops, starts), "median": found})


def keep(rows: pa.Table, job: Job) -> None:
    """Write the rows, if they are to be kept."""
    if job.keep is not None:
        Path(job.keep).mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, job.keep / "rows.parquet")
