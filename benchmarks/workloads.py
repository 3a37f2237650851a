"""The four workloads: as windowed bolts, as Spark's own queries, and what both must answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from benchmarks.events import Columns, Events
from topologies import TopologyBuilder, spouts
from topologies.model import Topology
from windowing import WindowedBolt, seconds
from windowing.schema import TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAG = "2 seconds"
COUNT_AND_SUM = [("value", "count"), ("value", "sum")]


def middle(values: list[float]) -> float:
    """The Python function of W3: nothing that an engine could know."""
    return sorted(values)[len(values) // 2]


class Statistics(WindowedBolt):
    """Count, sum and mean per key."""

    outputs = "until timestamp, key int, events long, total double, mean double"

    def execute(self, window):
        groups = window.table.group_by("key", use_threads=False).aggregate(COUNT_AND_SUM)
        key, events, total = groups.columns
        mean = pc.divide(total, events)
        columns = {"until": until(window, len(key)), "key": key, "events": events, "total": total, "mean": mean}
        return pa.table(columns)


class MiddlePerKey(WindowedBolt):
    """A Python function of the values of each key."""

    outputs = "until timestamp, key int, events long, middle double"

    def execute(self, window):
        groups = [(key, len(values), middle(values.tolist())) for key, values in window.groups("key", "value")]
        keys, events, middles = zip(*groups, strict=True)
        return pa.table({"until": until(window, len(keys)), "key": keys, "events": events, "middle": middles})


class Median(WindowedBolt):
    """A Python function of all values."""

    outputs = "until timestamp, events long, median double"

    def execute(self, window):
        return window.end, len(window), float(np.median(window.column("value")))


def until(window, rows):
    """The end of the window, so many times."""
    return pa.repeat(pa.scalar(window.end_timestamp, TIMESTAMP), rows)


def spark_statistics(length: str) -> Callable[[DataFrame], DataFrame]:
    """Spark's own aggregation: count, sum and mean per key and window."""

    def query(events: DataFrame) -> DataFrame:
        groups = events.withWatermark("event_time", LAG).groupBy(sf.window("event_time", length, "1 second"), "key")
        count, total, mean = sf.count("value"), sf.sum("value"), sf.avg("value")
        found = groups.agg(count.alias("events"), total.alias("total"), mean.alias("mean"))
        return found.select(sf.col("window.end").alias("until"), "key", "events", "total", "mean")

    return query


def spark_middles(events: DataFrame) -> DataFrame:
    """Spark's way to a Python function of a group: gather the values, then a function of Arrow arrays."""

    def middles(lists: pa.Array) -> pa.Array:
        return pa.array([middle(values) for values in lists.to_pylist()], pa.float64())

    groups = events.withWatermark("event_time", LAG).groupBy(sf.window("event_time", "1 second"), "key")
    found = groups.agg(sf.count("value").alias("events"), sf.collect_list("value").alias("values"))
    function = sf.arrow_udf(middles, "double")
    return found.select(sf.col("window.end").alias("until"), "key", "events", function("values").alias("middle"))


def spark_medians(events: DataFrame) -> DataFrame:
    """The same over all events of a window."""

    def medians(lists: pa.Array) -> pa.Array:
        return pa.array([float(np.median(row.values.to_numpy())) for row in lists], pa.float64())

    groups = events.withWatermark("event_time", LAG).groupBy(sf.window("event_time", "10 seconds", "1 second"))
    found = groups.agg(sf.count("value").alias("events"), sf.collect_list("value").alias("values"))
    function = sf.arrow_udf(medians, "double")
    return found.select(sf.col("window.end").alias("until"), "events", function("values").alias("median"))


@dataclass(frozen=True)
class Workload:
    """One question, asked of both."""

    name: str
    title: str
    length: int
    """Of the windows, in seconds; they slide by one."""
    keyed: bool
    bolt: WindowedBolt
    query: Callable[[DataFrame], DataFrame]
    answer: Callable[[Events], Columns]

    def topology(self, folder: str, batch_files: int, sink: Any) -> Topology:
        """The topology of the bolt; it reads the columns that it needs, as Spark's query does."""
        bolt = self.bolt.with_window(seconds(self.length), seconds(1)).with_bounds("[start, end)")
        bolt = bolt.with_timestamp_field("event_time").with_lag(seconds(2))
        columns = "event_time timestamp, key int, value double" if self.keyed else "event_time timestamp, value double"
        builder = TopologyBuilder(self.name)
        builder.set_spout("events", spouts.files(f"{folder}/*.parquet", columns, files_per_batch=batch_files))
        declared = builder.set_bolt("bolt", bolt, parallelism=2 if self.keyed else 1)
        if self.keyed:
            declared.fields_grouping("events", "key")
        else:
            declared.global_grouping("events")
        builder.set_sink("out", sink).from_("bolt")
        return builder.build()


WORKLOADS = (
    Workload(
        "W1", "keyed tumbling 1 s: count, sum, mean", 1, True,
        Statistics(),
        spark_statistics("1 second"),
        lambda events: events.statistics(1),
    ),
    Workload(
        "W2", "keyed sliding 10 s / 1 s: count, sum, mean", 10, True,
        Statistics(),
        spark_statistics("10 seconds"),
        lambda events: events.statistics(10),
    ),
    Workload(
        "W3", "keyed tumbling 1 s: Python function per key", 1, True,
        MiddlePerKey(),
        spark_middles,
        Events.middles,
    ),
    Workload(
        "W4", "un-keyed sliding 10 s / 1 s: Python function", 10, False,
        Median(),
        spark_medians,
        lambda events: events.medians(10),
    ),
)  # fmt: skip
