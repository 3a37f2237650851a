"""The pairs of wide rows of two streams that are in the same window and have equal keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.arms.windbolt import LAG, sink
from benchmarks.queries.query import Query
from benchmarks.queries.wide import COLUMNS, read_wide
from topologies import TopologyBuilder, spouts
from windowing import WindowJoin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.arms.arm import Job
    from topologies.graph.topology import Topology

KEYS = 10_000


def topology(job: Job) -> Topology:
    """A window join."""
    join = WindowJoin(
        "a", "b", on="key", end="until", outputs="until timestamp, key int, a_id long, b_id long, a_url string"
    )
    join = join.with_tumbling_window("1s").with_alignment(bounds="[start, end)")
    join = join.with_timestamp_field("event_time").with_lag("2s")
    builder = TopologyBuilder("joined")
    for side in ("a", "b"):
        pattern = f"{job.folder}/{side}/*.parquet"
        builder.set_spout(side, spouts.files(pattern, COLUMNS, files_per_batch=job.batch_files))
    builder.set_bolt("bolt", join, parallelism=2).fields_grouping("a", "key").fields_grouping("b", "key")
    builder.set_sink("out", sink(job)).from_("bolt")
    return builder.build()


def query(spark: SparkSession, job: Job) -> DataFrame:
    """Spark's join of two streams, by the window and the key."""
    from pyspark.sql import functions as sf

    def of(side: str) -> DataFrame:
        events = read_wide(spark, f"{job.folder}/{side}", job.batch_files).withWatermark("event_time", LAG)
        window = sf.window("event_time", "1 second").alias("window")
        return events.select(window, "key", sf.col("id").alias(f"{side}_id"), sf.col("url").alias(f"{side}_url"))

    pairs = of("a").join(of("b"), ["window", "key"])
    return pairs.select(sf.col("window.end").alias("until"), "key", "a_id", "b_id", "a_url")


SQL = """
    select (a.event_time // 1000 + 1) * 1000000 as until, a.key as key, a.id as a_id, b.id as b_id, a.url as a_url
    from events a join events b on a.key = b.key and a.event_time // 1000 = b.event_time // 1000
    where a.stream = 'a' and b.stream = 'b' and (a.event_time // 1000 + 1) * 1000 <= {due} order by 1, 2, 3, 4
"""

JOINED = Query(
    "joined", f"join of two streams per 1 s, wide rows, {KEYS:,} keys", topology, query, SQL, (5.0, 2.5),
    order=("until", "key", "a_id", "b_id"), due_only=True,
)  # fmt: skip
