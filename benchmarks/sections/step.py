"""Compares the ready aggregation step on Kafka with a Spark query for the same sums.

A separate broker has the orders before the clock starts. A run over a few orders comes first. After each run the output
is read back: the orders and the totals of every shop must be right, and every truncated order must be a dead letter.
CPU time is that of the driver, its JVM and the Python workers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from psutil import Process
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupState

from benchmarks.contest import MAIN, SPARK, Arm, Bench, Entry, Job, Question, Taken, measured
from benchmarks.events import SEED, Events
from servers.kafka import Kafka, broker
from servers.processes import cpu_seconds, own_seconds
from topologies.io.messages import AvroMessages, AvroSchema
from topologies.spark.running import run_on_spark
from topologies.step.compile_step import step_topology
from topologies.step.config_files import load_step
from windbolt import RunOptions

KEYS, WARMING, PARTITIONS, BAD = 10_000, 20_000, 4, 1_000
GOAL = 15.0
"""CPU-microseconds per event."""

TOPICS: dict[tuple[int, int], str] = {}
"""Topics with orders, by the number of orders and of shops."""
Read = Callable[[bytes, dict[str, bytes]], dict[str, Any]]
"""Reads a result, with its shop, its orders and their total, from a message and its headers."""


# The orders, in a topic, and the right results.


@dataclass(frozen=True)
class Orders(Events):
    """Orders of some shops; one in a thousand is truncated."""

    kafka: Kafka | None = None
    """The client of the broker with the orders."""

    def __iter__(self) -> Iterator[tuple[int, bytes, bytes, int | None]]:
        """Yields partition, key and value of each order, and its cents; None if it is truncated."""
        chance = np.random.default_rng(SEED)
        shops = chance.integers(0, self.keys, self.count).tolist()
        cents = chance.integers(100, 100_000, self.count).tolist()
        lasts = (chance.random(self.count) < 0.002).tolist()
        for number, (at, cent, last) in enumerate(zip(shops, cents, lasts, strict=True)):
            shop = f"shop-{at:06d}"
            order = {"id": number, "shop": shop, "amount": cent / 100, "customer": f"customer {number * 7919 % 65_537}"}
            text = json.dumps({**order, "last": True} if last else order)
            bad = number % BAD == BAD - 1
            yield at % PARTITIONS, shop.encode(), (text[:-2] if bad else text).encode(), None if bad else cent

    @cached_property
    def totals(self) -> tuple[Counter[str], Counter[str]]:
        """Returns the number of orders and the sum of cents, by shop."""
        return _added((key.decode(), 1, cent) for _, key, _, cent in self if cent is not None)

    def source(self, cache: Path) -> str:
        """Returns the topic with the orders, which are written on first use."""
        assert self.kafka is not None
        if (self.count, self.keys) not in TOPICS:
            topic = TOPICS[self.count, self.keys] = self.kafka.topic("orders", PARTITIONS)
            self.kafka.produce_with_keys(topic, ((at, 0, key, value) for at, key, value, _ in self))
        return TOPICS[self.count, self.keys]

    def wrong(self, output: str, dead: str, read: Read) -> str | None:
        """Describes mistakes in the results in one topic, and in the dead letters in another; None if there are
        none."""
        kafka = self.kafka
        assert kafka is not None

        def results() -> Iterator[tuple[str, int, int]]:
            for record in kafka.records(output):
                row = read(record.value or b"", {name: value or b"" for name, value in record.headers})
                yield row["shop"], row["orders"], round(row["total"] * 100)

        found, lost, bad = _added(results()), len(kafka.records(dead)), self.count // BAD
        if found == self.totals and lost == bad:
            return None
        (orders, cents), (wanted, right) = ((each.total() for each in both) for both in (found, self.totals))
        return f"{orders:,} orders of {wanted:,}, {cents:,} cents of {right:,}, {lost:,} dead letters of {bad:,}"


def _added(each: Iterator[tuple[str, int, int]]) -> tuple[Counter[str], Counter[str]]:
    orders, cents = Counter[str](), Counter[str]()
    for shop, number, cent in each:
        orders[shop] += number
        cents[shop] += cent
    return orders, cents


# Both engines.


READY = Path(__file__).parents[2] / "topologies" / "examples" / "aggregation"
SCHEMAS = ("path/to/default/avro/schema", "schemas/day_closed.avsc")
ORDER = "id long, shop string, amount double, customer string, last boolean, broken string"
Run = Callable[[SparkSession, Job, str, str, str], None]
"""Runs to the end of the topic: servers, topic of results, topic of dead letters."""


def run_ready(spark: SparkSession, job: Job, servers: str, out: str, dead: str) -> None:
    """Runs ``topologies/examples/aggregation/aggregation.conf`` unchanged.

    JSON in, Avro out; key, trigger and aggregation by Python rules; a timeout of 100 ms; dead letters.
    """
    around = job.scratch / "around.conf"
    around.write_text(
        f'source.topics: ["{job.source}"], source.maxOffsetsPerTrigger: {job.batch}\n'
        f'destination.topic: "{out}", error.topic: "{dead}"\n'
        f'connections.output.bootstrap.servers: "{servers}"\n',
        "utf-8",
    )
    topology = step_topology(load_step(READY / "aggregation.conf", overlays=[READY / "local.conf", around]))
    run_on_spark(topology, RunOptions(f"{job.scratch}/checkpoint"), spark=spark)


def avro() -> Read:
    """Returns a reader for results of the step."""
    schemas = AvroMessages(tuple(AvroSchema.parse((READY / name).read_text("utf-8")) for name in SCHEMAS))
    return lambda value, headers: dict(schemas.read(value, headers))


def run_spark(spark: SparkSession, job: Job, servers: str, out: str, dead: str) -> None:
    """Runs a Spark query with the same result: ``applyInPandasWithState`` with a timeout of 100 ms, JSON in and out,
    until all timeouts have passed. Spark calls it once for all orders of a shop in a batch. So it fires at the end of a
    batch with the last order of a day, or with a hundred orders, and calls no user's rule for single orders."""
    place = {"kafka.bootstrap.servers": servers}
    reader = spark.readStream.format("kafka").options(**place, subscribe=job.source, startingOffsets="earliest")
    records = reader.option("maxOffsetsPerTrigger", job.batch or 0).load()
    parsed = sf.from_json(sf.col("value").cast("string"), ORDER, {"columnNameOfCorruptRecord": "broken"})
    orders = records.select(parsed.alias("order")).select("order.*")
    shop = sf.when(sf.col("broken").isNull(), sf.col("shop")).alias("shop")
    groups = orders.select(shop, "amount", "last", "broken").groupBy("shop")

    def added(key: tuple[str | None], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        if key[0] is None:
            for frame in frames:
                yield pd.DataFrame({"topic": dead, "key": None, "value": frame["broken"]})
            return
        number, total = state.get if state.exists else (0, 0.0)
        due = state.hasTimedOut
        for frame in () if due else frames:
            number, total = number + len(frame), total + float(frame["amount"].sum())
            due = due or number >= 100 or bool(frame["last"].any())
        if not due:
            state.update((number, total))
            state.setTimeoutDuration(100)
            return
        if state.exists:
            state.remove()
        value = json.dumps({"shop": key[0], "orders": number, "total": round(total, 2)})
        yield pd.DataFrame({"topic": [out], "key": [key[0]], "value": [value]})

    result, kept = "topic string, key string, value string", "orders long, total double"
    found = groups.applyInPandasWithState(added, result, kept, "append", "ProcessingTimeTimeout")
    writer = found.writeStream.outputMode("append").format("kafka").options(**place)
    writer = writer.option("checkpointLocation", f"{job.scratch}/checkpoint").trigger(processingTime="1 milliseconds")
    query = writer.start()
    try:
        while not query.awaitTermination(0.05):  # type: ignore[arg-type]
            done = query.lastProgress
            if done and done.numInputRows == 0 and done.stateOperators and done.stateOperators[0].numRowsTotal == 0:
                break
    finally:
        query.stop()


# The contest.


def step(bench: Bench) -> None:
    """Measures both in turn."""
    mine, events = set(Process().children()), bench.scaled(1_000_000)
    with broker() as servers:
        (of_broker,) = set(Process().children()) - mine
        TOPICS.clear()
        kafka = Kafka(servers)
        asked = Question("step", f"JSON orders of {KEYS:,} shops, added up by key with a timeout")
        warming, orders = Orders(WARMING, KEYS // 10, kafka=kafka), Orders(events, KEYS, kafka=kafka)
        arms = [
            _arm(bench, MAIN, run_ready, avro(), None, kafka, of_broker),
            _arm(bench, SPARK, run_spark, lambda value, _: dict(json.loads(value)), events // 10, kafka, of_broker),
        ]
        entries = [Entry(arm, asked, orders, events // 4, warming) for arm in arms]
        figures = bench.contest("step", entries, "whole run", _by_process)
    for figure in figures:
        if figure.arm == MAIN:
            bench.goal("step", "step", f"at most {GOAL:g} CPU-µs an event", GOAL, figure.cpu, at_most=True)


def _arm(bench: Bench, name: str, run: Run, read: Read, slow: int | None, kafka: Kafka, of_broker: Process) -> Arm:
    def take(job: Job) -> Taken:
        out, dead = kafka.topic("output", PARTITIONS), kafka.topic("dead", PARTITIONS)
        spark = bench.session.settle()
        before = _cpu(of_broker)
        with measured() as taken:
            run(spark, job, kafka.servers, out, dead)
        spent = {process: after - before[process] for process, after in _cpu(of_broker).items()}
        taken.cpu = sum(spent.values())
        by_process = {process: round(each / job.events.count * 1e6, 2) for process, each in spent.items()}
        taken.note = {"topics": (out, dead), "cpu": by_process}
        return taken

    def check(job: Job, taken: Taken) -> str | None:
        assert isinstance(job.events, Orders)
        out, dead = taken.note["topics"]
        return job.events.wrong(out, dead, read)

    return Arm(name, take, check, ours=name == MAIN, most=slow)


def _by_process(notes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"cpu_microseconds_by_process": {name: [note["cpu"][name] for note in notes] for name in notes[0]["cpu"]}}


def _cpu(of_broker: Process) -> dict[str, float]:
    """Returns the CPU seconds so far of the driver, its JVM and the Python workers, without the broker."""
    driver = Process()
    mine = [each for each in driver.children() if each != of_broker]
    java = [each for each in mine if "java" in each.name()]
    python = [worker for each in java for worker in each.children()] + [each for each in mine if each not in java]
    return {
        "driver": own_seconds(driver),
        "JVM": sum(map(own_seconds, java)),
        "workers": sum(cpu_seconds(each.pid) for each in python),
    }
