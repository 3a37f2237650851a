"""Kafka to Kafka: from the first moment at which a window can be final to the moment its results are read.

1,000 records a second with 1,000 keys, in two partitions, whose times are those at which they are created. A result is
the number of records of a key in a second of the clock. The lag is 100 ms; windbolt's watermark is the least of the
partitions', Spark has only the greatest time of all. What an engine has counted too few is said beside its figures.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from benchmarks.contest import Probe, fail, probed, run_until_end, say, scratch, stop_after
from benchmarks.figures import Figure, Verdict, milliseconds
from benchmarks.sections.bench import MAIN, Bench
from benchmarks.workloads import SEED
from servers.broker import broker
from topologies import RunOptions, TopologyBuilder, sinks, spouts
from topologies.spark.runner import run_on_spark
from windowing import SOURCE, AggregateBolt, BatchBolt, aggregates, millis, seconds

RATE, KEYS, PARTITIONS, LAG_MS = 1_000, 1_000, 2, 100
GOAL_MS = 300
TITLE = f"keyed tumbling 1 s, {RATE:,} records/s, {KEYS:,} keys"


class Topics:
    """Where a run reads and writes."""

    def __init__(self, servers: str, name: str) -> None:
        self.servers, self.input, self.output = servers, f"in-{name}", f"out-{name}"
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        wanted = [NewTopic(self.input, PARTITIONS, 1), NewTopic(self.output, 1, 1)]
        for made in admin.create_topics(wanted).values():
            made.result(30)


Engine = Callable[[SparkSession, Topics, Path, Probe], None]
"""Runs a query from topic to topic, with a folder of its own, until the probe has ended."""


class Lines(BatchBolt):
    """A record of each row: the key, and as value the end of the window and the count."""

    outputs = "key string, value string"

    def execute(self, batch: pa.Table) -> pa.Table:
        """Of these results."""
        until = pc.divide(batch["until"].cast(pa.int64()), 1_000).cast(pa.string())
        value = pc.binary_join_element_wise(until, batch["events"].cast(pa.string()), " ")
        return pa.table({"key": batch["key"], "value": value})


def kafka(bench: Bench) -> None:
    """windbolt and Spark's own in turn; median and 99th percentile."""
    engines: dict[str, Engine] = {MAIN: _windbolt, bench.spark.name: _spark}
    events = bench.sizes.kafka_seconds * RATE
    figures = {name: Figure("kafka", "1 s", TITLE, name, name == MAIN, events, None, "whole run") for name in engines}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in engines}
    with broker() as servers:
        for run in range(bench.sizes.runs):
            for name, engine in engines.items():
                if figures[name].status == "ok":
                    say(f"kafka {name}: run {run + 1} of {bench.sizes.runs}")
                    topics = Topics(servers, f"{run}-{'windbolt' if name == MAIN else 'spark'}")
                    try:
                        found[name].append(_run(bench, engine, topics, run))
                    except Exception as error:
                        fail(figures[name], error)
    for name, figure in figures.items():
        if figure.status == "ok":
            figure.note = summary(found[name])
    bench.add(list(figures.values()))
    main = figures[MAIN]
    measured = float(main.note["p99_ms"]) if main.status == "ok" else None
    bench.results.verdicts.append(Verdict("kafka", "1 s", f"99 % within {GOAL_MS} ms", GOAL_MS, measured, at_most=True))


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """In milliseconds: over the results of all runs, and the median of each run; records that were not counted."""
    return {
        **milliseconds([run["values_ms"] for run in runs]),
        "sent": sum(run["sent"] for run in runs),
        "not_counted": sum(run["sent"] - run["counted"] for run in runs),
    }


def _run(bench: Bench, engine: Engine, topics: Topics, run: int) -> dict[str, Any]:
    task: dict[str, Any] = {
        "servers": topics.servers, "input": topics.input, "output": topics.output, "rate": RATE, "keys": KEYS,
        "partitions": PARTITIONS, "lag_ms": LAG_MS, "seed": SEED + run,
        "warm": bench.sizes.kafka_warm, "seconds": bench.sizes.kafka_seconds,
    }  # fmt: skip
    with scratch(bench.data) as folder:
        folder.mkdir(parents=True, exist_ok=True)
        answer = probed(
            "benchmarks.kafka_probe", task, lambda probe: engine(bench.session.settle(), topics, folder, probe)
        )
    found: dict[str, Any] = json.loads(answer)
    return found


def _windbolt(spark: SparkSession, topics: Topics, folder: Path, probe: Probe) -> None:
    bolt = AggregateBolt(by=["key"], until=aggregates.window_end(), events=aggregates.count())
    timed = bolt.with_tumbling_window(seconds(1)).with_alignment(bounds="[start, end)")
    timed = timed.with_timestamp_field("timestamp").with_lag(millis(LAG_MS)).with_watermark(partition=SOURCE)
    builder = TopologyBuilder("latency")
    builder.set_spout("records", spouts.kafka(topics.servers, topics.input, key="text"))
    builder.set_bolt("counts", timed, parallelism=2).fields_grouping("records", "key")
    builder.set_bolt("lines", Lines()).shuffle_grouping("counts")
    builder.set_sink("out", sinks.kafka(topics.servers, topics.output)).from_("lines")
    options = RunOptions(checkpoint=str(folder / "checkpoint"), every=millis(1), keep_open=True)
    stop_after(probe, options.stop)
    run_on_spark(builder.build(), options, spark=spark)


def _spark(spark: SparkSession, topics: Topics, folder: Path, probe: Probe) -> None:
    place = {"kafka.bootstrap.servers": topics.servers}
    reader = spark.readStream.format("kafka").options(**place, subscribe=topics.input, startingOffsets="earliest")
    records = reader.load().select("timestamp", sf.col("key").cast("string").alias("key"))
    groups = records.withWatermark("timestamp", f"{LAG_MS} milliseconds").groupBy(
        sf.window("timestamp", "1 second"), "key"
    )
    until = sf.unix_millis("window.end").cast("string")
    value = sf.concat_ws(" ", until, sf.col("count").cast("string")).alias("value")
    writer = groups.count().select("key", value).writeStream.outputMode("append").format("kafka")
    writer = writer.options(**place, topic=topics.output, checkpointLocation=str(folder / "checkpoint"))
    query = writer.trigger(processingTime="1 milliseconds").start()
    run_until_end(probe, query)
