"""A run from topic to topic goes on with the other engine, wherever it ended: one checkpoint for both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from servers.kafka import Kafka
from tests.helpers.examples import sampled
from tests.spark import tools as on_spark
from tests.spark.kafka import local_tools as local
from tests.spark.kafka.kafka_shop import (
    ORDERS,
    PARTITIONS,
    PER_BATCH,
    expected_revenue,
    once,
    reading,
    said,
    shop,
    some_orders,
)
from tests.spark.kafka.test_kafka_ranges import fill
from tests.spark.tools import at_phase
from topologies.spark.workers.pool import TASKS
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts

pytestmark = pytest.mark.usefixtures("spark")
ENGINES: dict[str, Any] = {"local": local, "spark": on_spark}


@pytest.mark.parametrize("first", sampled(["local", "spark"], 2))
def test_a_run_that_ends_anywhere_goes_on_with_the_other_engine(kafka: Kafka, tmp_path: Path, first: str) -> None:
    """What comes between is read by the one that goes on; the batch that was planned is read as it was planned."""
    one, other = (ENGINES[name] for name in (first, "spark" if first == "local" else "local"))
    topic, out, copies = kafka.topic("orders", PARTITIONS), kafka.topic("revenue"), kafka.topic("copies", PARTITIONS)
    there = some_orders(kafka, topic, range(ORDERS // 2))

    def topology() -> Topology:
        return shop(kafka, topic, out, copies)

    checkpoint = tmp_path / "checkpoint"
    one.run_until(topology(), checkpoint, at_phase(0, "ingest"))
    other.run_until(topology(), checkpoint, at_phase(0, "commit"))
    there += some_orders(kafka, topic, range(ORDERS // 2, ORDERS))
    one.run_until(topology(), checkpoint, at_phase(1, "commit"))
    other.run_until(topology(), checkpoint, at_phase(2, "sinks"))
    one.run_until(topology(), checkpoint, at_phase(3, "committed"))
    other.run(topology(), checkpoint)
    revenue, copied = kafka.records(out), kafka.records(copies)
    assert said(once(revenue)) == expected_revenue(there)
    begun = {(record.id.rsplit("/")[-2], record.origin) for record in [*revenue, *copied]}
    assert len(begun) == len({batch for batch, _ in begun}), "a batch that goes on in another run keeps its ids"
    assert len(once(copied)) == ORDERS
    # The first two batches were written twice before they were committed.
    assert len(copied) == ORDERS + 2 * PER_BATCH
    one.run(topology(), checkpoint)
    assert len(kafka.records(copies)) == len(copied)


BEGUN = {"earliest": ["0", "1", "2", "more"], "latest": ["more"], "offsets": ["1", "2", "more"]}


@pytest.mark.parametrize("start", sampled([*BEGUN], 2))
@pytest.mark.parametrize("first", ["local", "spark"])
def test_where_the_first_engine_began_the_other_goes_on(kafka: Kafka, tmp_path: Path, first: str, start: str) -> None:
    one, other = (ENGINES[name] for name in (first, "spark" if first == "local" else "local"))
    topic = kafka.topic("begun", 2)
    kafka.produce(topic, ["0", "1", "2"])
    starting: Any = {topic: {0: 1}} if start == "offsets" else start
    topology, out = reading(records=spouts.kafka(kafka.servers, topic, value="text", starting=starting))
    one.run_until(topology, tmp_path / "checkpoint", at_phase(0, "ingest"))
    kafka.produce(topic, ["more"], 1)
    other.run(topology, tmp_path / "checkpoint", keep_open=True)
    assert [row["value"] for row in out["records"].rows] == BEGUN[start]


def test_the_records_are_those_that_spark_reads(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("same", 3)
    fill(kafka, topic)
    asked: list[dict[str, Any]] = [
        {},
        {"records_per_batch": 20_000},
        {"key": "text", "starting": {topic: {2: 33_000}}},
    ]
    for number, more in enumerate(asked):
        mine, theirs = (batches(run, kafka, topic, tmp_path / f"{name}-{number}", more) for name, run in RUNS.items())
        assert mine == theirs


RUNS: dict[str, Callable[..., Any]] = {"local": local.run, "spark": on_spark.run}


def batches(
    run: Callable[..., Any], kafka: Kafka, topic: str, checkpoint: Path, more: dict[str, Any]
) -> list[list[dict[str, Any]]]:
    """The rows of a run to the present end of a topic, batch by batch."""
    topology, out = reading(records=spouts.kafka(kafka.servers, topic, **more))
    run(topology, checkpoint, keep_open=True)
    return [table.to_pylist() for table in out["records"].batches.values()]


@pytest.mark.parametrize("tasks", sampled(["pool", "spark"], 2))
def test_a_key_is_in_the_same_partition_whoever_writes_it(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, tasks: str
) -> None:
    keys = [f"key-{number}" for number in range(50)] + ["", "ä", "x" * 101]
    spark.conf.set(TASKS, tasks)
    try:
        found = [written(run, kafka, keys, tmp_path / name) for name, run in RUNS.items()]
    finally:
        spark.conf.unset(TASKS)
    assert found[0] == found[1]
    assert len(set(found[0].values())) == 7


def written(run: Callable[..., Any], kafka: Kafka, keys: list[str], checkpoint: Path) -> dict[bytes | None, int]:
    """The partition of each key in a topic with seven."""
    topic = kafka.topic("keyed", 7)
    builder = TopologyBuilder("keyed")
    builder.set_spout("in", spouts.memory("key string, value string", pa.table({"key": keys, "value": keys})))
    builder.set_sink("out", sinks.kafka(kafka.servers, topic)).from_("in")
    run(builder.build(), checkpoint)
    return {record.key: record.partition for record in kafka.records(topic)}
