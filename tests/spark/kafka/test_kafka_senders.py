"""Rows that the driver's own Java writes to Kafka are those that Spark writes, and what it cannot write is Spark's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from manager.storage.segment_files import FileSegments
from servers.kafka import Kafka
from tests.spark.tools import run
from topologies.engine.kafka_records import outgoing
from topologies.io.kafka import KafkaSink
from topologies.spark import kafka_client, runner
from topologies.spark.kafka_client import KafkaSenders
from topologies.spark.workers.pool import TASKS
from windbolt import TopologyBuilder, sinks, spouts
from windowing.errors import WindboltError
from windowing.schema import parse_schema

COLUMNS = "key binary, value binary, topic string, partition int, headers array<struct<key: string, value: binary>>"
NOTHING: dict[str, Any] = dict.fromkeys(parse_schema(COLUMNS).names)


@pytest.fixture(autouse=True)
def on_this_machine(spark: SparkSession) -> Iterator[None]:
    """The tasks are processes of the driver's, which then writes small batches itself."""
    spark.conf.set(TASKS, "pool")
    yield
    spark.conf.unset(TASKS)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each batch that the driver was to write, whether it could."""
    found: list[bool] = []
    original = KafkaSenders.send

    def noted(
        self: KafkaSenders, name: str, sink: KafkaSink, tables: Sequence[pa.Table], store: FileSegments, folder: str
    ) -> bool:
        found.append(original(self, name, sink, tables, store, folder))
        return found[-1]

    monkeypatch.setattr(KafkaSenders, "send", noted)
    return found


def write(kafka: Kafka, rows: list[dict[str, Any]], checkpoint: Path, topic: str | None) -> None:
    builder = TopologyBuilder("writing")
    given = [tuple({**NOTHING, **row}.values()) for row in rows]
    builder.set_spout("in", spouts.memory(COLUMNS, given))
    builder.set_sink("out", sinks.kafka(kafka.servers, topic)).from_("in")
    run(builder.build(), checkpoint)


def test_the_records_are_those_that_spark_writes(
    kafka: Kafka, tmp_path: Path, written: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for way in ("driver", "spark"):
        default, other = kafka.topic("default", 2), kafka.topic("other", 2)
        rows: list[dict[str, Any]] = [
            {"value": b"plain", "partition": 1},
            {"value": None, "key": b"k"},
            {"value": b"", "key": b"", "partition": 0},
            {"value": "ä".encode() * 50_000, "topic": other, "partition": 0},
            {"value": b"x", "headers": [{"key": "a", "value": b"1"}, {"key": "ü", "value": None}], "partition": 1},
            {"value": b"y", "topic": other, "headers": [], "partition": 1},
        ]
        write(kafka, rows, tmp_path / way, default)
        records = kafka.records(default, other)
        found.append(
            [
                (each.topic == other, each.partition, each.key, each.value, each.headers[:-1], each.id)
                for each in sorted(records, key=lambda record: record.id)
            ]
        )
        monkeypatch.setattr(runner, "MOST_ROWS_OF_DRIVER", -1)
    assert written == [True]
    assert len(found[0]) == 6
    assert found[0] == found[1]


def test_a_session_writes_in_each_of_its_runs(kafka: Kafka, spark: SparkSession, tmp_path: Path) -> None:
    topic, store = kafka.topic("again"), FileSegments(str(tmp_path))
    (tmp_path / "batch").mkdir()
    records = outgoing(pa.table({"value": [b"small"]}), topic, "again/1", 0)
    for _ in range(2):
        senders = KafkaSenders(spark)
        assert senders.send("out", KafkaSink(kafka.servers, topic), [records], store, "batch")
        senders.close()
    assert len(kafka.records(topic)) == 2


def test_what_the_driver_cannot_write_is_spark_s(
    kafka: Kafka, tmp_path: Path, written: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic("left")
    with pytest.raises(WindboltError, match=r"sink 'out'"):
        write(kafka, [{"value": bytes(2_000_000)}], tmp_path / "large", topic)
    assert written == [False]
    (tmp_path / "KafkaSender.java").write_text("public class KafkaSender {", "utf-8")
    monkeypatch.setattr(kafka_client, "_SENDER_SOURCE", tmp_path / "KafkaSender.java")
    write(kafka, [{"value": b"small"}], tmp_path / "small", topic)
    assert written == [False, False]
    assert [record.value for record in kafka.records(topic)] == [b"small"]
    assert list(tmp_path.rglob("*.records")) == []
