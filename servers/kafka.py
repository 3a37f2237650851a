"""A client of a broker of Kafka: makes topics, writes records, reads all that topics hold."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from servers.broker import TO_NEW_TOPICS

ID = "windbolt-id"
"""The header that has the id of a record of windbolt's."""


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
        """Without the part that names the run."""
        topology, _, *rest = self._id.split("/")
        return "/".join([topology, *rest])

    @property
    def origin(self) -> str:
        """The part of the id that names the run in which the batch was begun."""
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
        self.produce_with_keys(topic, ((partition, at, None, value) for partition, at, value in records))

    def produce_with_keys(self, topic: str, records: Iterable[tuple[int, int, bytes | None, bytes | str]]) -> None:
        """The same with keys in front of the values; timestamp 0 is now."""
        for partition, timestamp, key, value in records:
            while True:
                try:
                    self._producer.produce(topic, value, key, partition, timestamp=timestamp)
                    break
                except BufferError:  # so many are under way
                    self._producer.poll(0.1)
            self._producer.poll(0)
        assert self._producer.flush(120) == 0

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
