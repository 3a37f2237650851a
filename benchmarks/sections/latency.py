"""Small batches: from the moment a file appears to the moment its results are in the folder of the sink.

Each file has 1,000 events of one second, and is the first to pass the window of the file before it, whose rows are then
waited for; the next file comes after that, so nothing queues. Both engines look for files as often as they can.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as sf

from benchmarks.contest import Probe, fail, probed, run_until_end, say, scratch, stop_after
from benchmarks.figures import Figure, milliseconds
from benchmarks.sections.bench import MAIN, Bench
from benchmarks.workloads import FIRST_MS, SCHEMA, SEED
from topologies import RunOptions, TopologyBuilder, sinks, spouts
from topologies.spark.runner import run_on_spark
from windowing import AggregateBolt, aggregates, millis, seconds

ROWS, KEYS = 1_000, 100

Engine = Callable[[Bench, Path, Probe], None]
"""Runs a query over ``input`` into ``sink``, below a folder, until the probe has ended."""


def latency(bench: Bench) -> None:
    """windbolt and Spark's own in turn; median and 99th percentile."""
    engines: dict[str, Engine] = {MAIN: _windbolt, bench.spark.name: _spark}
    title = f"keyed tumbling 1 s, {ROWS:,} events a file"
    counted = bench.sizes.latency_files - 1 - bench.sizes.latency_warm
    figures = {
        name: Figure("latency", "1 s", title, name, name == MAIN, counted * ROWS, ROWS, "whole run") for name in engines
    }
    spent: dict[str, list[list[float]]] = {name: [] for name in engines}
    for run in range(bench.sizes.runs):
        for name, engine in engines.items():
            if figures[name].status == "ok":
                say(f"latency {name}: run {run + 1} of {bench.sizes.runs}")
                try:
                    spent[name].append(_run(bench, engine, name != MAIN, run)[bench.sizes.latency_warm :])
                except Exception as error:
                    fail(figures[name], error)
    for name, figure in figures.items():
        if figure.status == "ok":
            figure.note = summary(spent[name])
    bench.add(list(figures.values()))


def summary(runs: list[list[float]]) -> dict[str, object]:
    """In milliseconds: over the values of all runs, and the median of each run."""
    return {**milliseconds(runs), "values_ms": [[round(value, 1) for value in run] for run in runs]}


def _run(bench: Bench, engine: Engine, logged: bool, run: int) -> list[float]:
    """The milliseconds of each file but the first."""
    bench.session.settle()
    with scratch(bench.data) as folder:
        for name in ("ready", "input", "sink"):
            (folder / name).mkdir()
        write_files(folder / "ready", bench.sizes.latency_files)
        task = {
            "ready": str(folder / "ready"), "input": str(folder / "input"), "sink": str(folder / "sink"),
            "logged": logged, "rows": ROWS, "first": FIRST_MS // 1_000, "seed": SEED + run,
        }  # fmt: skip
        answer = probed("benchmarks.probe", task, lambda probe: engine(bench, folder, probe))
    return [float(value) for value in json.loads(answer)]


def write_files(folder: Path, files: int) -> None:
    """One second of events in each, in order; seeded."""
    random = np.random.default_rng(SEED)
    for number in range(files):
        times = FIRST_MS + number * 1_000 + np.arange(ROWS) * 1_000 // ROWS
        columns = {
            "event_time": pa.array(times).cast(pa.timestamp("ms", "UTC")),
            "key": pa.array(random.integers(0, KEYS, ROWS, dtype=np.int32)),
            "value": pa.array(random.random(ROWS)),
            "stream": pa.array(["a"] * ROWS),
        }
        pq.write_table(pa.table(columns), folder / f"part-{number:05d}.parquet")


def _windbolt(bench: Bench, folder: Path, probe: Probe) -> None:
    bolt = AggregateBolt(by=["key"], until=aggregates.window_end(), events=aggregates.count())
    timed = (
        bolt.with_tumbling_window(seconds(1)).with_alignment(bounds="[start, end)").with_timestamp_field("event_time")
    )
    builder = TopologyBuilder("latency")
    columns = "event_time timestamp, key int"
    builder.set_spout("events", spouts.files(str(folder / "input"), columns, format="parquet"))
    builder.set_bolt("bolt", timed, parallelism=2).fields_grouping("events", "key")
    builder.set_sink("out", sinks.files(folder / "sink", "parquet")).from_("bolt")
    options = RunOptions(checkpoint=str(folder / "checkpoint"), every=millis(1), keep_open=True)
    stop_after(probe, options.stop)
    run_on_spark(builder.build(), options, spark=bench.session.spark)


def _spark(bench: Bench, folder: Path, probe: Probe) -> None:
    events = bench.session.spark.readStream.schema(SCHEMA).parquet(str(folder / "input"))
    groups = events.withWatermark("event_time", "0 seconds").groupBy(sf.window("event_time", "1 second"), "key")
    found = groups.agg(sf.count("value").alias("events"))
    rows = found.select(sf.col("window.end").alias("until"), "key", "events")
    writer = rows.writeStream.outputMode("append").trigger(processingTime="1 milliseconds")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.format("parquet").option("path", str(folder / "sink")).start()
    run_until_end(probe, query)
