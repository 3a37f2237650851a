"""The row with the highest value of each tumbling window, of wide rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.arms.windbolt import LAG, sink
from benchmarks.queries.query import Query
from benchmarks.queries.wide import COLUMNS, read_wide
from topologies import TopologyBuilder, spouts
from windowing import TupleWindow, WindowedBolt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.arms.arm import Job
    from topologies.graph.topology import Topology


class Highest(WindowedBolt):
    """A bolt of one's own."""

    outputs = "until timestamp, id long, key int, value double, url string"

    def execute(self, window: TupleWindow) -> tuple[Any, ...]:
        row = window.table.slice(int(window.column("value").argmax()), 1).to_pylist()[0]
        return window.end, row["id"], row["key"], row["value"], row["url"]


class HighestOfFew(Highest):
    """The same; it says what it reads."""

    reads = "id, key, value, url"


def topology(job: Job) -> Topology:
    """As written."""
    return _topology(job, Highest())


def advised(job: Job) -> Topology:
    """With ``reads``."""
    return _topology(job, HighestOfFew())


def _topology(job: Job, bolt: WindowedBolt) -> Topology:
    bolt = bolt.with_tumbling_window("10s").with_alignment(bounds="[start, end)")
    bolt = bolt.with_timestamp_field("event_time").with_lag("2s")
    builder = TopologyBuilder("highest")
    builder.set_spout("events", spouts.files(f"{job.folder}/*.parquet", COLUMNS, files_per_batch=job.batch_files))
    builder.set_bolt("bolt", bolt).global_grouping("events")
    builder.set_sink("out", sink(job)).from_("bolt")
    return builder.build()


def query(spark: SparkSession, job: Job) -> DataFrame:
    """The greatest of structs that begin with the value."""
    from pyspark.sql import functions as sf

    events = read_wide(spark, str(job.folder), job.batch_files).withWatermark("event_time", LAG)
    greatest = sf.max(sf.struct("value", "id", "key", "url")).alias("row")
    found = events.groupBy(sf.window("event_time", "10 seconds")).agg(greatest)
    return found.select(sf.col("window.end").alias("until"), "row.id", "row.key", "row.value", "row.url")


SQL = """
    select (event_time // 10000 + 1) * 10000000 as until, arg_max(id, value) as id, arg_max(key, value) as key,
        max(value) as value, arg_max(url, value) as url
    from events where (event_time // 10000 + 1) * 10000 <= {due} group by 1 order by 1
"""

HIGHEST = Query(
    "highest", "tumbling 10 s: the row with the highest value, of wide rows", topology, query, SQL, (4.0, 2.0),
    order=("until",), advised=advised,
)  # fmt: skip
