"""The key with the most events of each hopping window: an aggregation, and a bolt behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.arms.windbolt import LAG, read_events, sink
from benchmarks.queries.query import Query
from topologies import TopologyBuilder, spouts
from windowing import AggregateBolt, TupleWindow, WindowedBolt, aggregates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.arms.arm import Job
    from topologies.graph.topology import Topology


class Hottest(WindowedBolt):
    """The key with the most events; of several the least key."""

    outputs = "until timestamp, key int, events long"

    def execute(self, window: TupleWindow) -> tuple[Any, ...]:
        keys, events = window.column("key"), window.column("events")
        first = np.lexsort((keys, -events))[0]
        return window.end, int(keys[first]), int(events[first])


def topology(job: Job) -> Topology:
    """Counts per key, and a bolt behind them."""
    counts = AggregateBolt(by="key", events=aggregates.count())
    counts = counts.with_window("10s", "1s").with_alignment(bounds="[start, end)")
    counts = counts.with_timestamp_field("event_time").with_lag("2s")
    builder = TopologyBuilder("hottest")
    columns = "event_time timestamp, key int"
    builder.set_spout("events", spouts.files(f"{job.folder}/*.parquet", columns, files_per_batch=job.batch_files))
    builder.set_bolt("bolt", counts, parallelism=2).fields_grouping("events", "key")
    builder.set_bolt("hottest", Hottest().with_tumbling_window("1s")).global_grouping("bolt")
    builder.set_sink("out", sink(job)).from_("hottest")
    return builder.build()


def query(spark: SparkSession, job: Job) -> DataFrame:
    """Two aggregations, one behind the other."""
    from pyspark.sql import functions as sf

    events = read_events(spark, str(job.folder), job.batch_files).withWatermark("event_time", LAG)
    counts = events.groupBy(sf.window("event_time", "10 seconds", "1 second"), "key").agg(sf.count("*").alias("events"))
    best = sf.max(sf.struct("events", (-sf.col("key")).alias("negative"))).alias("best")
    found = counts.groupBy("window").agg(best)
    return found.select(
        sf.col("window.end").alias("until"), (-sf.col("best.negative")).alias("key"), sf.col("best.events")
    )


SQL = """
    with panes as (
        select event_time // 1000 as second, key, count(*) as events from events group by all
    ), counts as (
        select second + place + 1 as until, key, sum(events)::bigint as events
        from panes, range(10) as places(place) where (second + place + 1) * 1000 <= {due} group by all
    )
    select until * 1000000 as until, arg_max(key, events * 1000000 - key) as key, max(events) as events
    from counts group by until order by until
"""

HOTTEST = Query(
    "hottest", "the hottest key per 10 s / 1 s: an aggregation, then a bolt", topology, query, SQL, (4.0, 2.0),
    order=("until",),
)  # fmt: skip
