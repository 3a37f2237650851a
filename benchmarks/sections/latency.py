"""The time from an event to its results: from file to file, and from topic to topic.

**Files**: each file has 1,000 events of one second, and is the first to pass the window of the previous file. The
client waits for that window's rows before it adds the next file, so nothing queues. Both engines look for files as
often as they can.

**Kafka**: 1,000 records per second with 1,000 keys, in two partitions, with their creation times. A result is the
number of a key's records in a second of the clock. Its delay counts from the first moment at which it can be final: the
end of its second plus the lag of 100 ms. windbolt's watermark is the least of the partitions' marks; Spark only has the
greatest time of all. Records that an engine failed to count are listed beside its figures.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from benchmarks.contest import MAIN, SPARK, Arm, Bench, Entry, Job, Question, Taken, by_itself, measured
from benchmarks.events import FIRST_MS, SCHEMA, SEED, Events, InMemory
from benchmarks.questions import wired
from servers.kafka import Kafka, broker
from topologies.spark.running import run_on_spark
from topologies.topology import Topology
from windbolt import RunOptions, sinks, spouts
from windowing import SOURCE, AggregateBolt, BatchBolt, aggregates, millis

PATIENCE = 120.0
"""Seconds to wait for a result."""

# Shared by both sections: a query that counts the events of a key in a second, and a client in a process of its own,
# which feeds it and measures the times.


Engine = Callable[[Job, threading.Event], None]
"""Runs the query until the client has ended."""


def arms(
    bench: Bench,
    client: Callable[[dict[str, Any]], dict[str, Any]],
    task: Callable[[Job], dict[str, Any]],
    ours: Engine,
    spark: Engine,
) -> list[Arm]:
    """Returns windbolt's arm and Spark's own. ``task``: returns the client's task for a job."""

    def arm(name: str, engine: Engine) -> Arm:
        seeds = count(SEED)

        def run(job: Job) -> Taken:
            bench.session.settle()
            given, ended = {**task(job), "seed": next(seeds), "logged": name == SPARK}, threading.Event()
            end: Callable[[object], None] = lambda _: ended.set()  # noqa: E731
            with measured() as taken, get_context("spawn").Pool(1) as pool:
                found = pool.apply_async(client, [given], callback=end, error_callback=end)
                engine(job, ended)
                taken.note = found.get(0)
            return taken

        return Arm(name, run, by_itself, ours=name == MAIN)

    return [arm(MAIN, ours), arm(SPARK, spark)]


def run_ours(bench: Bench, topology: Topology, job: Job, ended: threading.Event) -> None:
    """Runs a topology that looks for input as often as possible."""
    options = RunOptions(str(job.scratch / "checkpoint"), every=millis(1), keep_open=True, stop=ended)
    run_on_spark(topology, options, spark=bench.session.spark)


def run_spark(rows: DataFrame, job: Job, ended: threading.Event, form: str, **to: str) -> None:
    """Runs a Spark query in the same way."""
    writer = rows.writeStream.outputMode("append").trigger(processingTime="1 milliseconds").format(form)
    query = writer.options(checkpointLocation=str(job.scratch / "checkpoint"), **to).start()
    try:
        while not ended.is_set() and not query.awaitTermination(0.1):  # type: ignore[arg-type]
            pass
    finally:
        query.stop()


def counted(field: str) -> AggregateBolt:
    """Returns a bolt that counts events by key and second."""
    bolt = AggregateBolt(by=["key"], until=aggregates.window_end(), events=aggregates.count())
    return bolt.with_tumbling_window("1s").with_alignment(bounds="[start, end)").with_timestamp_field(field)


def counted_by_spark(events: DataFrame, field: str, lag: str) -> DataFrame:
    """Returns Spark's counts by key and second."""
    groups = events.withWatermark(field, lag).groupBy(sf.window(field, "1 second"), "key")
    return groups.agg(sf.count("*").alias("events")).select(sf.col("window.end").alias("until"), "key", "events")


def summary(notes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns milliseconds over the values of all runs, the median of each run, and the numbers of sent and uncounted
    records."""
    runs = [note["values_ms"] for note in notes]
    median, worst = np.percentile([value for run in runs for value in run], (50, 99)).round(1).tolist()
    medians = [round(float(np.median(run)), 1) for run in runs]
    found = {"median_ms": median, "p99_ms": worst, "median_ms_by_run": medians, "values_ms": runs}
    sent, counted = (sum(note.get(name, 0) for note in notes) for name in ("sent", "counted"))
    return {**found, "sent": sent, "not_counted": sent - counted}


# From file to file.


ROWS = 1_000


def latency(bench: Bench) -> None:
    """Measures windbolt and Spark's own in turn; median and 99th percentile."""

    def task(job: Job) -> dict[str, Any]:
        shutil.copytree(job.source, job.scratch / "ready")
        for name in ("input", "sink"):
            (job.scratch / name).mkdir()
        places = {name: str(job.scratch / name) for name in ("ready", "input", "sink")}
        return {**places, "rows": ROWS, "first": FIRST_MS // 1_000, "warm": job.events.count // ROWS // 11}

    def ours(job: Job, ended: threading.Event) -> None:
        source = spouts.files(str(job.scratch / "input"), "event_time timestamp, key int", format="parquet")
        sink = sinks.files(job.scratch / "sink", "parquet")
        run_ours(bench, wired(source, counted("event_time"), sink), job, ended)

    def spark(job: Job, ended: threading.Event) -> None:
        events = bench.session.spark.readStream.schema(SCHEMA).parquet(str(job.scratch / "input"))
        rows = counted_by_spark(events, "event_time", "0 seconds")
        run_spark(rows, job, ended, "parquet", path=str(job.scratch / "sink"))

    events = Events(bench.scaled(110) * ROWS, 100, ROWS, file_rows=ROWS, late_ms=0)
    asked = Question("1 s", f"keyed tumbling 1 s, {ROWS:,} events a file")
    entries = [Entry(arm, asked, events, ROWS) for arm in arms(bench, feed_files, task, ours, spark)]
    bench.contest("latency", entries, "whole run", summary)


def feed_files(task: dict[str, Any]) -> dict[str, Any]:
    """Moves one file after another into a folder, at random moments, and checks every two milliseconds whether its
    resulting rows are visible in the folder of the sink. Returns the milliseconds between the two.

    A row is visible once its file has its published name and, if the sink is Spark's, once the log of the sink lists
    the file, because readers of the folder must not take it before that.
    """
    chance, sink = random.Random(task["seed"]), Path(task["sink"])
    known: set[str] = set()
    whole: dict[int, int] = defaultdict(int)
    spent: list[float] = []
    for number, path in enumerate(sorted(Path(task["ready"]).glob("*.parquet"))):
        time.sleep(chance.uniform(0, 0.2))
        os.utime(path)
        started = time.perf_counter()
        os.rename(path, Path(task["input"], path.name))
        if number == 0:
            continue  # the watermark does not pass its window, so it fires nothing
        window = task["first"] + number  # the end, in seconds, of the previous file's window
        while whole[window] < task["rows"]:
            seen = time.perf_counter()
            for found in logged(sink, known) if task["logged"] else published(sink, known):
                table = pq.read_table(found, columns=["until", "events"])
                ends = table.column("until").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
                for end, events in zip(ends, table.column("events").to_pylist(), strict=True):
                    whole[end // 1_000_000] += events
            if whole[window] >= task["rows"]:
                spent.append(round((seen - started) * 1e3, 1))
            elif seen - started > PATIENCE:
                raise RuntimeError(f"window {window} has {whole[window]} events of {task['rows']}")
            else:
                time.sleep(0.002)
    return {"values_ms": spent[task["warm"] :]}


def published(folder: Path, known: set[str]) -> Iterator[Path]:
    """Yields the new Parquet files in a folder, without hidden ones, and adds them to ``known``."""
    for entry in os.scandir(folder):
        if entry.name not in known and entry.name.endswith(".parquet") and entry.name[0] not in "._":
            known.add(entry.name)
            yield Path(entry.path)


def logged(folder: Path, known: set[str]) -> Iterator[Path]:
    """Yields the new files in the log of a Spark sink, and adds them to ``known``."""
    log = folder / "_spark_metadata"
    for entry in os.scandir(log) if log.exists() else ():
        number = entry.name.removesuffix(".compact")  # every tenth entry repeats those before it
        if number.isdigit() and number not in known:
            known.add(number)
            for line in Path(entry.path).read_text().splitlines()[1:]:
                path = unquote(urlparse(json.loads(line)["path"]).path)
                if path not in known:
                    known.add(path)
                    yield Path(path)


# From topic to topic.


RATE, KEYS, PARTITIONS, LAG_MS = 1_000, 1_000, 2, 100
GOAL_MS = 300


class Lines(BatchBolt):
    """Makes a record of each row: the key, and as value the end of the window and the count."""

    outputs = "key string, value string"

    def execute(self, batch: pa.Table) -> pa.Table:
        """Called with rows of results."""
        until = pc.divide(batch["until"].cast(pa.int64()), 1_000).cast(pa.string())
        value = pc.binary_join_element_wise(until, batch["events"].cast(pa.string()), " ")
        return pa.table({"key": batch["key"], "value": value})


def kafka(bench: Bench) -> None:
    """Measures windbolt and Spark's own in turn; median and 99th percentile."""
    seconds, topics = bench.scaled(60), dict[Path, tuple[str, str]]()
    with broker() as servers:
        client, place = Kafka(servers), {"kafka.bootstrap.servers": servers}

        def task(job: Job) -> dict[str, Any]:
            topics[job.scratch] = client.topic("in", PARTITIONS), client.topic("out")
            source, out = topics[job.scratch]
            return {"servers": servers, "input": source, "output": out, "warm": max(10, seconds // 3),
                    "seconds": seconds}  # fmt: skip

        def ours(job: Job, ended: threading.Event) -> None:
            topic, out = topics[job.scratch]
            bolt = counted("timestamp").with_lag(millis(LAG_MS)).with_watermark(partition=SOURCE)
            spout = spouts.kafka(servers, topic, key="text")
            run_ours(bench, wired(spout, bolt, sinks.kafka(servers, out), last=Lines()), job, ended)

        def spark(job: Job, ended: threading.Event) -> None:
            source, out = topics[job.scratch]
            reader = bench.session.spark.readStream.format("kafka").options(**place, subscribe=source)
            records = reader.option("startingOffsets", "earliest").load()
            keyed = records.select("timestamp", sf.col("key").cast("string").alias("key"))
            found = counted_by_spark(keyed, "timestamp", f"{LAG_MS} milliseconds")
            value = sf.concat_ws(" ", sf.unix_millis("until").cast("string"), sf.col("events").cast("string"))
            run_spark(found.select("key", value.alias("value")), job, ended, "kafka", **place, topic=out)

        asked = Question("1 s", f"keyed tumbling 1 s, {RATE:,} records/s, {KEYS:,} keys")
        entries = [Entry(arm, asked, InMemory(seconds * RATE)) for arm in arms(bench, feed_topic, task, ours, spark)]
        figures = bench.contest("kafka", entries, "whole run", summary)
    for figure in figures[:1]:
        text = f"99 % within {GOAL_MS} ms"
        bench.goal("kafka", "1 s", text, GOAL_MS, figure.note.get("p99_ms"), at_most=True)


def feed_topic(task: dict[str, Any]) -> dict[str, Any]:
    """Sends records to a topic at an even rate, and reads the topic of results at the same time.

    Counting begins ``warm`` seconds after the first result. Sending continues for a while after the counted seconds, so
    that a watermark passes them. Returns the milliseconds of every result of the counted seconds, the number of records
    sent in them, and the number counted by the results.
    """
    late_by: dict[int, list[float]] = defaultdict(list)
    events: dict[int, int] = defaultdict(int)
    sent: dict[int, int] = defaultdict(int)
    ended = threading.Event()
    consumer = Consumer({"bootstrap.servers": task["servers"], "group.id": "benchmark", "fetch.wait.max.ms": 5})
    consumer.assign([TopicPartition(task["output"], 0, 0)])

    def read() -> None:
        while not ended.is_set():
            for message in consumer.consume(1_000, 0.005):
                now = time.time() * 1e3
                end, counted = map(int, (message.value() or b"").split())
                late_by[end].append(now - end - LAG_MS)
                events[end] += counted

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    producer = Producer({"bootstrap.servers": task["servers"], "linger.ms": 0, "log_level": 0})
    chance, begun, number, ends = np.random.default_rng(task["seed"]), time.time(), 0, range(0)
    while not ends or time.time() * 1e3 < ends.stop + 10_000:
        passed = time.time() - begun
        if not ends and events:
            first = (int(time.time()) + task["warm"] + 1) * 1_000
            ends = range(first, first + task["seconds"] * 1_000, 1_000)
        elif passed > PATIENCE and not ends:
            raise RuntimeError(f"no result in {PATIENCE:.0f} s")
        for key in chance.integers(0, KEYS, int(passed * RATE) - number).tolist():
            now = int(time.time() * 1e3)
            producer.produce(task["input"], b"1", str(key), number % PARTITIONS, timestamp=now)
            sent[now // 1_000 * 1_000 + 1_000] += 1
            number += 1
        producer.poll(0)
        time.sleep(0.005)
    if producer.flush(30):
        raise RuntimeError("Kafka has not taken all records")
    ended.set()
    reader.join()
    missing = [end for end in ends if end not in events]
    if missing:
        raise RuntimeError(f"{len(missing)} of {len(ends)} seconds have no results")
    spent = [round(value, 1) for end in ends for value in late_by[end]]
    return {"values_ms": spent, "sent": sum(sent[end] for end in ends), "counted": sum(events[end] for end in ends)}
