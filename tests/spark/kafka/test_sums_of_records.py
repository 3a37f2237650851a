"""Sums that Java makes of the records of a topic are those that windbolt makes of the rows in Python (decision 141)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from servers.kafka import Kafka
from tests.spark.kafka.json_texts import SCHEMA
from tests.spark.kafka.test_kafka import ANY_TIME
from tests.spark.shop import at
from tests.spark.test_frame_sums import in_order, rows_in_python, watched
from tests.spark.tools import at_phase, run, run_until
from topologies.graph.describing import topology_text
from topologies.io.sinks import MemorySink
from topologies.spark import kafka_client
from topologies.spark.workers.pool import TASKS
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import AggregateBolt, aggregates
from windowing.schema import parse_schema

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(params=["pool", "spark"])
def tasks(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """What runs the tasks: processes of the driver's, whose Java then reads Kafka itself, or Spark."""
    spark.conf.set(TASKS, request.param)
    yield request.param
    spark.conf.unset(TASKS)


def built(
    kafka: Kafka, topic: str, *, per_batch: int | None = None, by: str = "k", schema: str = SCHEMA, **more: Any
) -> tuple[Topology, dict[str, MemorySink]]:
    """Sums of a topic's objects, and the records that are none."""
    out = {"out": sinks.memory(), "bad": sinks.memory()}
    builder = TopologyBuilder("sums")
    builder.set_spout("events", spouts.kafka(kafka.servers, topic, schema, records_per_batch=per_batch, **more))
    made: dict[str, Any] = {"events": aggregates.count(), "start": aggregates.window_start()}
    for field in parse_schema(schema):
        name = field.name
        made[f"{name}_present"] = aggregates.count(name)
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            made[f"{name}_sum"], made[f"{name}_least"] = aggregates.sum(name), aggregates.min(name)
    bolt = AggregateBolt(by=by, **made).with_window("10s", "5s").with_timestamp_field("ts").with_lag("3s")
    builder.set_bolt("sums", bolt, parallelism=2).fields_grouping("events", by)
    builder.set_sink("out", out["out"]).from_("sums")
    builder.set_sink("bad", out["bad"]).from_("events", "errors")
    return builder.build(), out


def answers(kafka: Kafka, topic: str, **asked: Any) -> tuple[list[dict[str, Any]], list[str], list[Any]]:
    """The rows of a run, the records that were bad, and the accounts of each batch."""
    found: list[Any] = []
    topology, out = built(kafka, topic, **asked)
    with TemporaryDirectory() as folder:
        run(topology, Path(folder, "checkpoint"), on_report=found.append)
    rows = in_order([row | {"k": row.get(asked.get("by", "k"))} for row in out["out"].rows])
    bad = sorted(json.dumps(row, default=str, sort_keys=True) for row in out["bad"].rows)
    return rows, bad, [(report.bolts, report.spouts, report.rows) for report in found]


def order(number: int, key: str = "a", **more: Any) -> str:
    """An object of this second."""
    return json.dumps({"ts": at(number).isoformat(), "k": key, "v": number} | more)


def test_a_record_that_java_does_not_read_makes_its_batch_go_to_python(
    kafka: Kafka, tmp_path: Path, tasks: str
) -> None:
    """And the next fifty ones too: nobody reads twice in each."""
    topic = kafka.topic("odd")
    kafka.produce(topic, [order(0), order(1), order(2), "no JSON", order(4), order(5)])
    topology, out = built(kafka, topic, per_batch=2)
    with watched() as added_up:
        run(topology, tmp_path / "checkpoint")
    assert added_up == [True, False, False]
    assert [row["_data"] for row in out["bad"].rows] == ["no JSON"]
    assert sum(row["v_sum"] for row in out["out"].rows) == 2 * (0 + 1 + 2 + 4 + 5)


def test_a_record_whose_timestamp_is_beyond_microseconds_is_invalid(kafka: Kafka, tmp_path: Path, tasks: str) -> None:
    topic = kafka.topic("nanoseconds", **ANY_TIME)
    kafka.produce(topic, [order(1)])
    kafka.produce(topic, [order(2)], timestamp=10**18)
    topology, out = built(kafka, topic)
    with watched() as added_up:
        run(topology, tmp_path / "checkpoint")
    assert added_up == [False]
    assert len(out["bad"].rows) == 1
    assert {row["v_sum"] for row in out["out"].rows} == {1}


def test_a_thread_adds_up_several_partitions(kafka: Kafka, tmp_path: Path, tasks: str) -> None:
    topic = kafka.topic("many", 7)
    for partition in range(7):
        kafka.produce(topic, [order(number, "ab"[number % 2]) for number in range(partition, 20, 7)], partition)
    topology, out = built(kafka, topic)
    with watched() as added_up:
        summary = run(topology, tmp_path / "checkpoint")
    assert all(added_up)
    assert summary.rows == 20
    assert sum(row["v_sum"] for row in out["out"].rows) == 2 * sum(range(20))


@pytest.mark.parametrize("phase", ["ingest", "sinks", "commit"])
def test_a_run_that_ends_anywhere_has_each_record_in_its_sums_once(
    kafka: Kafka, tmp_path: Path, tasks: str, phase: str
) -> None:
    topic = kafka.topic("ends", 2)
    for partition in range(2):
        kafka.produce(topic, [order(number, "ab"[partition]) for number in range(30)], partition)
    with rows_in_python():
        expected = answers(kafka, topic, per_batch=20)[0]
    topology, out = built(kafka, topic, per_batch=20)
    with watched() as added_up:
        for batch in (1, 2):
            run_until(topology, tmp_path / "checkpoint", at_phase(batch, phase))
        run(topology, tmp_path / "checkpoint")
    assert added_up
    assert all(added_up)
    last = {(row["start"], row["k"]): row for row in out["out"].rows}  # a sink in memory may have repeats
    assert in_order(list(last.values())) == expected


def test_records_that_the_driver_cannot_read_are_read_by_spark(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.conf.set(TASKS, "pool")
    topic = kafka.topic("silent")
    kafka.produce(topic, [order(number) for number in range(4)])
    monkeypatch.setattr(kafka_client, "_PATIENCE_MS", 0)  # nothing comes in no time
    topology, out = built(kafka, topic)
    try:
        with watched() as added_up:
            run(topology, tmp_path / "checkpoint")
    finally:
        spark.conf.unset(TASKS)
    assert added_up == [False]
    assert sum(row["v_sum"] for row in out["out"].rows) == 2 * 6


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "in Java where Spark reads them"),
        ({"schema": "ts timestamp, k string, v float"}, "in Python: Java does not read v float in JSON"),
        ({"schema": "ts timestamp, k string, v array<long>"}, "in Python: Java does not read v array<long> in JSON"),
        ({"envelope": "debezium"}, "in Python: records of topic orders are no plain JSON"),
        ({"metadata": True}, "in Python: columns are from the keys or the metadata of records"),
        ({"key": "long", "key_columns": "number long"}, "in Python: columns are from the keys or the metadata"),
        ({"timezone": "Europe/Berlin"}, "in Python: how times are written is declared, or their zone"),
        ({"times": {"ts": "%d.%m.%Y %H:%M"}}, "in Python: how times are written is declared, or their zone"),
        ({"defaults": {"v": 1}}, "in Python: events has defaults for columns"),
    ],
)
def test_the_description_says_who_adds_up(more: dict[str, Any], said: str) -> None:
    class Nowhere:
        servers = "localhost:9092"

    nowhere: Any = Nowhere()
    text = topology_text(built(nowhere, "orders", **({"schema": "ts timestamp, k string, v long"} | more))[0])
    assert said in " ".join(text.split())


def test_what_is_no_json_at_all_says_nothing(kafka: Kafka) -> None:
    """Records as they are have no sums of columns to speak of."""
    builder = TopologyBuilder("records")
    builder.set_spout("events", spouts.kafka(kafka.servers, "orders"))
    bolt = AggregateBolt(by="topic", n=aggregates.count()).with_tumbling_window("10s").with_timestamp_field("timestamp")
    builder.set_bolt("sums", bolt).fields_grouping("events", "topic")
    builder.set_sink("out", sinks.memory()).from_("sums")
    assert "added up" not in topology_text(builder.build())
