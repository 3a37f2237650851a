"""What the Kafka tests share: a client of the broker, and a topology that reads and writes Kafka."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from servers.broker import TO_NEW_TOPICS
from tests.spark.shop import at
from topologies import TopologyBuilder, sinks, spouts
from topologies.graph.topology import Topology
from windowing import BatchBolt, TupleWindow, WindowedBolt
from windowing.schema import EmittedRows

ID = "windbolt-id"
PARTITIONS = 2
PER_BATCH = 40
ORDERS = 120
SCHEMA = "user string, amount double, ts timestamp"


@dataclass(frozen=True)
class Record:
    """A record that was read."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def id(self) -> str:
        """Without the part that is the checkpoint's own."""
        topology, _, *rest = self._id.split("/")
        return "/".join([topology, *rest])

    @property
    def origin(self) -> str:
        """The part of the id that is the checkpoint's own."""
        found = self._id.split("/")[1]
        assert re.fullmatch("[0-9a-f]{8}", found)
        return found

    @property
    def _id(self) -> str:
        name, value = self.headers[-1]
        assert name == ID
        assert value is not None
        return value.decode()


class Kafka:
    """The other side of the broker."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._producer = Producer({**TO_NEW_TOPICS, "bootstrap.servers": servers, "linger.ms": 0})
        self._number, self._lock = 0, threading.Lock()

    def close(self) -> None:
        """Let go of the broker."""
        del self.admin, self._producer

    def topic(self, name: str, partitions: int = 1, **config: str) -> str:
        """A new topic whose name nobody else has; ``config``: its settings, with underscores for dots."""
        with self._lock:
            self._number += 1
            topic = f"{name}-{self._number}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(30)
        return topic

    def make_anew(self, topic: str) -> Kafka:
        """Delete a topic and make one of its name; returns a client that knows nothing of the old one."""
        self.admin.delete_topics([topic])[topic].result(30)
        for left in reversed(range(300)):  # the broker is still deleting
            try:
                self.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
                break
            except KafkaException:
                if not left:
                    raise
                self.admin.list_topics(timeout=30)
        return Kafka(self.servers)

    def produce(self, topic: str, values: Iterable[bytes | str | None], partition: int = 0, **more: Any) -> None:
        """Write records to one partition; ``more``: key, headers, timestamp."""
        for value in values:
            self._producer.produce(topic, value, partition=partition, **more)
        assert self._producer.flush(30) == 0

    def produce_all(self, topic: str, records: Iterable[tuple[int, int, bytes | str]]) -> None:
        """Write records in this order: the partition, the timestamp in milliseconds, the value."""
        for partition, timestamp, value in records:
            self._producer.produce(topic, value, partition=partition, timestamp=timestamp)
            self._producer.poll(0)
        assert self._producer.flush(30) == 0

    def forget(self, topic: str, partition: int, before: int) -> None:
        """Delete records, as if they had become too old."""
        place = TopicPartition(topic, partition, before)
        for done in self.admin.delete_records([place]).values():
            done.result(30)

    def records(self, *topics: str) -> list[Record]:
        """All that topics hold."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "tests", "enable.auto.commit": False})
        found: list[Record] = []
        try:
            for topic in topics:
                for number in consumer.list_topics(topic, 30).topics[topic].partitions:
                    first, end = consumer.get_watermark_offsets(TopicPartition(topic, number), 30)
                    consumer.assign([TopicPartition(topic, number, first)])
                    left = end - first
                    while left:
                        for message in consumer.consume(left, 30):
                            assert message.error() is None
                            left -= 1
                            headers: Any = tuple(message.headers() or ())
                            found.append(Record(topic, number, message.key(), message.value(), headers))
        finally:
            consumer.close()
        return found


def as_json(user: str, amount: float, second: float) -> str:
    """An order."""
    return json.dumps({"user": user, "amount": amount, "ts": at(second).isoformat()})


def some_orders(kafka: Kafka, topic: str, numbers: Iterable[int] = range(ORDERS)) -> list[tuple[str, float, float]]:
    """Orders, one a second, in turn in the partitions of a topic; what was written."""
    orders = [("abcde"[number * 7 % 5], float(number % 11), float(number)) for number in numbers]
    for partition in range(PARTITIONS):
        kafka.produce(topic, [as_json(*order) for order in orders[partition::PARTITIONS]], partition)
    return orders


class Revenue(WindowedBolt):
    """Revenue per user, as records."""

    outputs = "key string, value string, headers map<string, string>"

    def execute(self, window: TupleWindow) -> EmittedRows:
        assert window.end is not None
        until = window.end.isoformat()
        for user, amounts in window.groups("user", "amount"):
            said = {"user": user, "revenue": float(amounts.sum()), "events": len(amounts), "until": until}
            yield user, json.dumps(said), {"kind": "revenue"}


class Copied(BatchBolt):
    """What came, as records, without a window."""

    outputs = "value string"

    def execute(self, batch: pa.Table) -> EmittedRows:
        return [(f"{row['user']} {row['amount']} {row['ts']}",) for row in batch.to_pylist()]


def shop(kafka: Kafka, orders: str, revenue: str, copies: str) -> Topology:
    """From JSON in a topic by windows, and past them, to two topics."""
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.kafka(kafka.servers, orders, SCHEMA, records_per_batch=PER_BATCH))
    bolt = Revenue().with_tumbling_window("20s").with_timestamp_field("ts").with_lag("10s")
    builder.set_bolt("revenue", bolt, 2).fields_grouping("orders", "user")
    builder.set_bolt("copied", Copied()).shuffle_grouping("orders")
    builder.set_sink("out", sinks.kafka(kafka.servers, revenue)).from_("revenue")
    builder.set_sink("copies", sinks.kafka(kafka.servers, copies)).from_("copied")
    return builder.build()


def expected_revenue(orders: Iterable[tuple[str, float, float]]) -> list[dict[str, Any]]:
    """What the windows come to, window by window."""
    windows: dict[tuple[float, str], list[float]] = {}
    for user, amount, second in orders:
        windows.setdefault((float(np.ceil(second / 20)) * 20, user), []).append(amount)
    return sorted(
        (
            {"user": user, "revenue": sum(amounts), "events": len(amounts), "until": at(end).isoformat()}
            for (end, user), amounts in windows.items()
        ),
        key=in_time,
    )


def in_time(row: Mapping[str, Any]) -> tuple[str, str]:
    """By the end of the window, then by user."""
    return row["until"], row["user"]


def said(records: Iterable[Record]) -> list[dict[str, Any]]:
    """The JSON of records, in order of time."""
    return sorted((json.loads(record.value or b"") for record in records), key=in_time)


def once(records: Iterable[Record]) -> list[Record]:
    """Without repeats; those with one id must be the same."""
    kept: dict[str, Record] = {}
    for record in records:
        before = kept.setdefault(record.id, record)
        assert (before.key, before.value, before.headers) == (record.key, record.value, record.headers)
    return list(kept.values())
