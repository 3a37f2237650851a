"""Sessions per key: count, sum and mean of each, of 65,000 keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.arms.windbolt import LAG, read_events, sink
from benchmarks.queries.query import Query
from topologies import TopologyBuilder, spouts
from windowing import AggregateBolt, Session, aggregates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.arms.arm import Job
    from topologies.graph.topology import Topology

KEYS = 65_000
COLUMNS = "event_time timestamp, key int, value double"


def topology(job: Job) -> Topology:
    """A declared bolt; like Spark's, its sessions hold events that are exactly the gap apart."""
    bolt = AggregateBolt(
        by="key",
        until=aggregates.window_end(),
        events=aggregates.count(),
        total=aggregates.sum("value"),
        mean=aggregates.mean("value"),
    )
    bolt = (
        bolt.with_window(Session("5s", touching=True)).with_key("key").with_timestamp_field("event_time").with_lag("2s")
    )
    builder = TopologyBuilder("sessions")
    builder.set_spout("events", spouts.files(f"{job.folder}/*.parquet", COLUMNS, files_per_batch=job.batch_files))
    builder.set_bolt("bolt", bolt, parallelism=2).fields_grouping("events", "key")
    builder.set_sink("out", sink(job)).from_("bolt")
    return builder.build()


def query(spark: SparkSession, job: Job) -> DataFrame:
    """Spark's session windows."""
    from pyspark.sql import functions as sf

    events = read_events(spark, str(job.folder), job.batch_files).withWatermark("event_time", LAG)
    groups = events.groupBy(sf.session_window("event_time", "5 seconds").alias("session"), "key")
    found = groups.agg(sf.count("value").alias("events"), sf.sum("value").alias("total"), sf.avg("value").alias("mean"))
    return found.select(sf.col("session.end").alias("until"), "key", "events", "total", "mean")


SQL = """
    with marked as (
        select *, event_time - lag(event_time) over (partition by key order by event_time) as gap from events
    ), numbered as (
        select *, count(*) filter (where gap is null or gap > 5000)
            over (partition by key order by event_time rows unbounded preceding) as number
        from marked
    )
    select (max(event_time) + 5000) * 1000 as until, key, count(*) as events, sum(value) as total, avg(value) as mean
    from numbered group by key, number having max(event_time) + 5000 <= {due} order by until, key
"""

SESSIONS = Query("sessions", f"sessions per key, {KEYS:,} keys: count, sum, mean", topology, query, SQL, (4.0, 2.0),
    due_only=True,
)  # fmt: skip
