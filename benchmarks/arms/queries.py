"""Spark's own ways to answer the workloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from benchmarks.events import SCHEMA
from benchmarks.workloads import Workload, middle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
