"""Writes records to topics in local runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from manager.storage.segments import SegmentStore
from topologies.engine.kafka_records import outgoing
from topologies.engine.kafka_topics import (
    AdminOf,
    missing_topics,
    naming,
    no_partition,
    no_topic,
    not_delivered,
    too_large,
)
from topologies.engine.librdkafka import NO_TOPIC, confluent, is_passing, made, writing_settings
from topologies.engine.work import SinkBatch, SinkRows
from topologies.graph.graph import SinkNode
from topologies.io.kafka import KafkaSink, redirect_missing
from topologies.io.topics.encode import encode
from windowing.errors import UnreachableError, WindboltError

# Writes rows of sinks.


_POLL = 0.1
"""Seconds to wait for answers."""
_AT_ONCE = 10_000
"""Records handed over to librdkafka at a time."""


class Senders:
    """Producers of the sinks of one run, which stay connected from batch to batch."""

    def __init__(self, opened: AdminOf) -> None:
        self._opened = opened
        self._producers: dict[str, Any] = {}
        self._known: dict[str, set[str]] = {}
        """Per sink, the topics of which its producer has been told."""
        self._errors: deque[Any] = deque(maxlen=1)

    def send(self, node: SinkNode, batch: SinkBatch, sink_rows: Sequence[SinkRows], store: SegmentStore) -> None:
        """Write rows to Kafka, and wait until all are written. Raises the first error of one that is not."""
        sink = node.sink
        assert isinstance(sink, KafkaSink)
        missing = missing_topics(self._opened, node.name, sink, (store.read(rows.ref) for rows in sink_rows))
        with naming(f"sink {node.name!r}"):
            try:
                failed: list[tuple[str, Any]] = []
                producer = self._producer(node.name, sink)
                known = self._known.setdefault(node.name, set())
                for rows in sink_rows:
                    table = encode(sink.records, store.read(rows.ref).cast(node.schema))
                    if missing and sink.undeliverable is not None:
                        table = redirect_missing(table, missing, sink.undeliverable)
                    records = outgoing(table, sink.topic, batch.record_name(node.name, rows), rows.first)
                    for topic in sorted(set(pc.unique(records.column("topic")).to_pylist()) - known):
                        # Else the first records of a topic wait half a second, for a timer of librdkafka's.
                        with suppress(confluent().KafkaException):  # which sending tells too
                            producer.list_topics(topic, 1)
                        known.add(topic)
                    for part in records.to_batches(_AT_ONCE):
                        _produce(producer, part, failed)
                while producer.flush(_POLL) and not failed:
                    pass
            except BaseException:
                self._forget(node.name)
                raise
            if failed:
                self._forget(node.name)
                raise _failure(*failed[0], self._errors[-1].str() if self._errors else "")

    def close(self) -> None:
        """Disconnect."""
        for name in list(self._producers):
            self._forget(name)

    def _producer(self, name: str, sink: KafkaSink) -> Any:
        if name not in self._producers:
            whose = f"sink {name!r}"
            settings = writing_settings(whose, sink.servers, sink.options)
            self._producers[name] = made("Producer", whose, {**settings, "error_cb": self._errors.append})
        return self._producers[name]

    def _forget(self, name: str) -> None:
        """Let go of a producer, with what it has not sent."""
        producer = self._producers.pop(name, None)
        self._known.pop(name, None)
        if producer is not None:
            producer.purge()
            producer.flush(_POLL)


def send_messages(servers: str, topic: str, messages: Iterable[Mapping[str, Any]]) -> int:
    """Send messages (``key``, ``value``, ``headers``) to a topic, in their order; returns how many. Raises the first
    error of one that was not written."""
    whose = f"topic {topic!r}"
    producer, failed, number = made("Producer", whose, writing_settings(whose, servers, {})), list[tuple[str, Any]](), 0
    for number, message in enumerate(messages, 1):
        pairs = [(header["key"], header["value"]) for header in message.get("headers") or ()]
        _hand_over(producer, failed, topic, message["value"], message["key"], pairs, None)
        if not number % _AT_ONCE:
            producer.poll(0)
    while producer.flush(_POLL) and not failed:
        pass
    if failed:
        raise _failure(*failed[0])
    return number


def _produce(producer: Any, records: pa.RecordBatch, failed: list[tuple[str, Any]]) -> None:
    """Hand over records, and note those that are refused."""
    columns = records.to_pydict()
    for topic, partition, key, value, headers in zip(
        columns["topic"], columns["partition"], columns["key"], columns["value"], columns["headers"], strict=True
    ):
        pairs = [(header["key"], header["value"]) for header in headers]
        _hand_over(producer, failed, topic, value, key, pairs, partition)
    producer.poll(0)


def _hand_over(
    producer: Any,
    failed: list[tuple[str, Any]],
    topic: str,
    value: bytes | None,
    key: bytes | None,
    headers: list[tuple[str, bytes | None]],
    partition: int | None,
) -> None:
    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append((message.topic(), error))

    where = {} if partition is None else {"partition": partition}
    while not failed:
        try:
            producer.produce(topic, value, key, on_delivery=delivered, headers=headers, **where)
            return
        except BufferError:  # as many are waiting as librdkafka keeps
            producer.poll(_POLL)
        except confluent().KafkaException as error:
            failed.append((topic, error.args[0]))


def _failure(topic: str, error: Any, connection: str = "") -> WindboltError:
    """The error for a record that was not written; ``connection``: what happened to connections last."""
    why = f"topic {topic!r}: {error.str()}"
    if "SIZE_TOO_LARGE" in error.name() or error.name() == "RECORD_LIST_TOO_LARGE":
        return too_large(why)
    if error.name() == "_UNKNOWN_PARTITION":
        return no_partition(why)
    if error.name() in NO_TOPIC:
        return no_topic(why)
    if is_passing(error):
        return not_delivered(f"{why}; {connection}" if connection else why)
    return UnreachableError(
        "Kafka does not take a record",
        why=why,
        do="see what its brokers and the rights of this user say, then rerun: the batch was not committed, and "
        "runs again",
    )
