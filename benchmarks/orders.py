"""Orders of shops in a topic of Kafka, and what the results of an aggregation of them must come to."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.workloads import SEED
from servers.broker import TO_NEW_TOPICS

PARTITIONS, BAD = 4, 1_000
Totals = tuple[dict[str, int], dict[str, int]]
"""Per shop, the number of its orders, and their cents."""
Read = Callable[[bytes, dict[str, bytes]], dict[str, Any]]
"""Reads a result from a message and its headers: it has a shop, its orders and their total."""


@dataclass(frozen=True)
class Orders:
    """So many orders of so many shops; one in a thousand of them is cut short."""

    events: int
    keys: int

    def __iter__(self) -> Iterator[tuple[int, bytes, bytes, int | None]]:
        """Partition, key and value of each, and its cents; None where it is cut short."""
        chance = np.random.default_rng(SEED)
        shops = chance.integers(0, self.keys, self.events).tolist()
        cents = chance.integers(100, 100_000, self.events).tolist()
        lasts = (chance.random(self.events) < 0.002).tolist()
        for number, (at, cent, last) in enumerate(zip(shops, cents, lasts, strict=True)):
            shop = f"shop-{at:06d}"
            order = {"id": number, "shop": shop, "amount": cent / 100, "customer": f"customer {number * 7919 % 65_537}"}
            text = json.dumps({**order, "last": True} if last else order)
            bad = number % BAD == BAD - 1
            yield at % PARTITIONS, shop.encode(), (text[:-2] if bad else text).encode(), None if bad else cent

    @cached_property
    def totals(self) -> Totals:
        """Returns the number of orders and the sum of cents, by key."""
        orders: dict[str, int] = defaultdict(int)
        cents: dict[str, int] = defaultdict(int)
        for _, key, _, cent in self:
            if cent is not None:
                orders[key.decode()] += 1
                cents[key.decode()] += cent
        return dict(orders), dict(cents)

    @property
    def bad(self) -> int:
        """How many are cut short."""
        return self.events // BAD

    def write(self, servers: str, topic: str) -> None:
        """Write them to a new topic."""
        make_topics(servers, topic)
        producer = Producer({**TO_NEW_TOPICS, "bootstrap.servers": servers, "linger.ms": 50})
        for number, (partition, key, value, _) in enumerate(self):
            while True:
                try:
                    producer.produce(topic, value, key, partition)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 10_000 == 0:
                producer.poll(0)
        if producer.flush(120):
            raise RuntimeError("Kafka has not taken all orders")

    def wrong(self, servers: str, output: str, dead: str, read: Read) -> str | None:
        """Describes mistakes in the results in one topic, and the dead letters in another; None if there are none."""
        orders: dict[str, int] = defaultdict(int)
        cents: dict[str, int] = defaultdict(int)
        for message in messages(servers, output):
            row = read(message.value() or b"", {name: value or b"" for name, value in message.headers() or ()})
            orders[row["shop"]] += row["orders"]
            cents[row["shop"]] += round(row["total"] * 100)
        lost = sum(1 for _ in messages(servers, dead))
        if (orders, cents, lost) == (*self.totals, self.bad):
            return None
        return (
            f"{sum(orders.values()):,} orders of {self.events - self.bad:,}, "
            f"{sum(cents.values()):,} cents of {sum(self.totals[1].values()):,}, "
            f"{lost:,} dead letters of {self.bad:,}"
        )


def make_topics(servers: str, *topics: str) -> None:
    """Make topics."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for done in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
        done.result(30)


def messages(servers: str, topic: str) -> Iterator[Message]:
    """All that a topic holds."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "benchmark", "enable.auto.commit": False})
    for partition in range(PARTITIONS):
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)
        consumer.assign([TopicPartition(topic, partition, first)])
        left = end - first
        while left:
            for message in consumer.consume(min(left, 10_000), 30):
                left -= 1
                yield message
    consumer.close()
