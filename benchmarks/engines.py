"""windbolt and Spark's own streaming as arms, and floors below which no engine comes."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.contest import MAIN, SPARK, Arm, Batch, Job, Taken, keep, measured
from benchmarks.machine import Session
from topologies import RunOptions
from topologies.engine.report import BatchReport
from topologies.local import run_local
from topologies.spark.running import run_on_spark
from topologies.spark.workers.pool import TASKS
from topologies.topology import Topology

# windbolt, on Spark and in this process. Each runs to the end of the files; windows that the watermark has not passed
# stay open.


def windbolt(session: Session, way: str = "", *, name: str = "", framed: bool = False, tasks: str = "") -> Arm:
    """A way of a question on Spark. ``framed``: its input is a streaming DataFrame, as any source could be; ``tasks``:
    who runs them, such as ``spark``, which does on a cluster."""

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
    """The same without Spark; that the topology is built is counted too."""

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
    """Run a topology."""
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
    """RuntimeError unless each event was received, and is in a window or still pending."""
    accounts = reports[-1].bolts["bolt"].accounts
    kept = accounts["windowed"] + accounts["pending"]
    if not accounts["received"] == kept == job.events.count:
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
            has_data = progress.numInputRows > 0 if data is None else progress.batchId in data
            found.append(Batch(spent["triggerExecution"] / 1e3, has_data))
    return found


# Spark's own, in the same session as windbolt.


def spark_own(session: Session, most: int | None = None) -> Arm:
    """How Spark is asked: ``groupBy(window())`` for sums and counts, else ``collect_list`` and an Arrow UDF;
    HDFS-backed state."""

    def run(job: Job) -> Taken:
        assert job.question.spark is not None, job.question.name
        spark = session.settle()
        return spark_query(spark, job.question.spark, job)

    return Arm(SPARK, run, ours=False, most=most)


def spark_query(spark: SparkSession, query: Callable[[SparkSession, Job], DataFrame], job: Job) -> Taken:
    """Run a query to the end of the files."""
    with measured() as taken:
        writer = query(spark, job).writeStream.outputMode("append").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(job.scratch / "checkpoint"))
        writer = writer.format("noop") if job.keep is None else writer.format("parquet").option("path", str(job.keep))
        started = writer.start()
        started.awaitTermination()
    taken.batches = batches_of(started)
    return taken


# Floors: one process over the whole files at once, with no stream, no state and no late events.


def duckdb(threads: int) -> Arm:
    """W1 and W2 in SQL; W2 by panes of a second, each summed up once."""

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
    """W3 and W4 with arrays, sorted once: what the right rows are computed with. An oracle of the tests knows these."""

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
