"""Records that the driver's own Java reads are those that Spark reads, and what it cannot read is left to Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewPartitions
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from servers.kafka import TO_NEW_TOPICS, Kafka
from tests.spark.tools import run
from topologies.engine.kafka_records import OffsetRange
from topologies.io.kafka import KafkaSpout
from topologies.spark import kafka_client
from topologies.spark.java import compile_class, new_object
from topologies.spark.source import StreamSource
from topologies.spark.workers.pool import TASKS
from windbolt import TopologyBuilder, sinks, spouts

MOMENT = 1_714_564_801_500


@pytest.fixture(autouse=True)
def on_this_machine(spark: SparkSession) -> Iterator[None]:
    """The tasks are processes of the driver's, which then reads Kafka itself."""
    spark.conf.set(TASKS, "pool")
    yield
    spark.conf.unset(TASKS)


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The batches that Spark has read."""
    found: list[str] = []
    original = StreamSource._ingest_by_spark

    def noted(self: StreamSource, batch: Any, executor: Any, context: Any, *rest: Any) -> Any:
        found.append(context.key)
        return original(self, batch, executor, context, *rest)

    monkeypatch.setattr(StreamSource, "_ingest_by_spark", noted)
    return found


def read(kafka: Kafka, topic: str, checkpoint: Path, **more: Any) -> list[dict[str, Any]]:
    """The rows of a run to the present end of a topic."""
    builder, rows = TopologyBuilder("reading"), sinks.memory()
    builder.set_spout("in", spouts.kafka(kafka.servers, topic, **more))
    builder.set_sink("rows", rows).from_("in")
    run(builder.build(), checkpoint, keep_open=True)
    return rows.rows


def fill(kafka: Kafka, topic: str) -> None:
    """All that records may be: without key, value or headers, with empty and with large ones, more than fit in one
    piece."""
    kafka.produce(topic, ["a", None, "", "ä" * 300_000], 0, timestamp=MOMENT)
    kafka.produce(topic, ["b", None], 0, key=b"", timestamp=MOMENT + 1)
    kafka.produce(topic, ["c"], 0, key=b"\xff", headers=[("x", b"1"), ("ü", None), ("x", b"")], timestamp=MOMENT + 2)
    kafka.produce_all(topic, [(2, MOMENT + number // 100, str(number)) for number in range(34_000)])


def test_the_records_are_those_that_spark_reads(
    kafka: Kafka, tmp_path: Path, by_spark: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic("ranges", 3)
    fill(kafka, topic)
    asked: list[dict[str, Any]] = [
        {},
        {"records_per_batch": 20_000},
        {"key": "text", "starting": {topic: {2: 33_000}}},
    ]
    mine = [read(kafka, topic, tmp_path / f"mine-{at}", **more) for at, more in enumerate(asked)]
    assert by_spark == []
    monkeypatch.setattr(kafka_client, "_is_usual", lambda options: False)
    theirs = [read(kafka, topic, tmp_path / f"theirs-{at}", **more) for at, more in enumerate(asked)]
    assert len(by_spark) > len(asked)
    assert mine == theirs
    assert [len(rows) for rows in mine] == [34_007, 34_007, 1_006]
    segments = [name for _, _, names in os.walk(tmp_path) for name in names if name.endswith(".records")]
    assert segments == [], "what the driver has read is deleted"


def test_batch_after_batch_is_read_without_gaps_or_repeats(kafka: Kafka, tmp_path: Path, by_spark: list[str]) -> None:
    topic = kafka.topic("batches", 2)
    for part in range(3):
        for partition in range(2):
            kafka.produce(topic, [f"{part} {number}" for number in range(57)], partition)
        rows = read(kafka, topic, tmp_path / "checkpoint", value="text", records_per_batch=10)
        assert sorted((row["partition"], row["offset"], row["value"]) for row in rows) == [
            (partition, 57 * part + number, f"{part} {number}") for partition in range(2) for number in range(57)
        ]
    assert by_spark == []


def test_what_transactions_leave_out_is_left_out(kafka: Kafka, tmp_path: Path, by_spark: list[str]) -> None:
    topic = kafka.topic("transactions")
    producer = Producer({**TO_NEW_TOPICS, "bootstrap.servers": kafka.servers, "transactional.id": topic})
    producer.init_transactions(30)
    for number, ends in enumerate(["commit", "abort", "commit", "abort"]):
        producer.begin_transaction()
        for at in range(3):
            producer.produce(topic, f"{ends} {number} {at}", partition=0)
        producer.flush(30)
        producer.commit_transaction(30) if ends == "commit" else producer.abort_transaction(30)
    expected = [f"commit {number} {at}" for number in (0, 2) for at in range(3)]
    for per_batch in (None, 3, 1):
        rows = read(kafka, topic, tmp_path / f"checkpoint-{per_batch}", value="text", records_per_batch=per_batch)
        assert [row["value"] for row in rows] == expected
    rows = read(kafka, topic, tmp_path / "all", value="text", isolation="read_uncommitted")
    assert len(rows) == 12
    assert by_spark == []


def test_what_cannot_be_read_here_is_read_by_spark(
    kafka: Kafka, tmp_path: Path, by_spark: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic("left")
    kafka.produce(topic, ["1", "2", "3"])
    monkeypatch.setattr(kafka_client, "_PATIENCE_MS", 0)  # nothing comes in no time
    assert [row["value"] for row in read(kafka, topic, tmp_path / "one", value="text")] == ["1", "2", "3"]
    assert len(by_spark) == 1
    monkeypatch.undo()
    (tmp_path / "KafkaRanges.java").write_text("public class KafkaRanges {", "utf-8")
    monkeypatch.setattr(kafka_client, "_RANGES_SOURCE", tmp_path / "KafkaRanges.java")
    assert [row["value"] for row in read(kafka, topic, tmp_path / "two", value="text")] == ["1", "2", "3"]


def test_a_partition_that_is_added_is_read_from_its_first_record(
    kafka: Kafka, tmp_path: Path, by_spark: list[str]
) -> None:
    topic = kafka.topic("grows")
    kafka.produce(topic, ["1"])
    assert len(read(kafka, topic, tmp_path / "checkpoint")) == 1
    kafka.admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    kafka = Kafka(kafka.servers)  # whose producer knows of the new one
    kafka.produce(topic, ["2"], 1)
    assert [row["value"] for row in read(kafka, topic, tmp_path / "checkpoint")] == [b"2"]
    kafka.produce(topic, ["3"], 1)
    assert [row["value"] for row in read(kafka, topic, tmp_path / "checkpoint")] == [b"3"]
    assert by_spark == []


CONSUMERS = """
package windbolt;

import java.lang.management.ManagementFactory;
import javax.management.ObjectName;

public class Consumers {
    public Consumers() {
    }

    public int connected() throws Exception {
        ObjectName consumers = new ObjectName("kafka.consumer:type=consumer-metrics,*");
        return ManagementFactory.getPlatformMBeanServer().queryNames(consumers, null).size();
    }
}
"""


def test_where_a_partition_cannot_be_read_the_others_stay_connected(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To connect takes longer than to read a small batch."""
    topic = kafka.topic("one-fails", 3)
    for partition in range(3):
        kafka.produce(topic, ["a", "b"], partition)
    reader = kafka_client.KafkaRanges(spark, {"in": KafkaSpout(kafka.servers, topics=(topic,))}, threads=2)
    (tmp_path / "Consumers.java").write_text(CONSUMERS, "utf-8")
    consumers = new_object(spark, compile_class(spark, tmp_path / "Consumers.java"))
    before = consumers.connected()

    def read(*ends: int) -> None:
        reader.in_memory({"in": [OffsetRange(topic, partition, 0, end) for partition, end in enumerate(ends)]})

    monkeypatch.setattr(kafka_client, "_LAST_PATIENCE_MS", 2_000)
    try:
        read(2, 2, 2)
        assert consumers.connected() - before == 3
        with pytest.raises(Py4JJavaError, match=r"one-fails.*-1: no record came"):
            read(2, 3, 2)
        assert consumers.connected() - before == 2
        read(2, 2, 2)
        assert consumers.connected() - before == 3
        with pytest.raises(Py4JJavaError, match=r"one-fails.*-0: no record came"):
            read(3)  # by the one thread that there is
        assert consumers.connected() - before == 2
    finally:
        reader.close()
    assert consumers.connected() == before
