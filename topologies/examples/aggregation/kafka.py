"""A client of Kafka for the example's tools: without Java, by the package confluent-kafka (``windbolt[kafka]``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Annotated, Any

import typer

from topologies.engine.kafka_records import check_topics, ranges_between
from topologies.engine.librdkafka import Admins, RangeReader, Topics, need_confluent, send_messages
from topologies.io import spouts

Servers = Annotated[str, typer.Option(metavar="HOST:PORT", help="Kafka.")]


def send(servers: str, topic: str, messages: Iterable[Mapping[str, Any]]) -> int:
    """Send messages (``key``, ``value``, ``headers``) to a topic, in their order; returns how many. ConfigError where
    there is no such topic."""
    need_confluent("this tool writes it")
    check_topics(Admins().of, topic, spouts.kafka(servers, topic))
    return send_messages(servers, topic, messages)


def messages_in(servers: str, topic: str) -> Iterator[dict[str, Any]]:
    """The messages of a topic, partition by partition. ConfigError where there is no such topic."""
    need_confluent("this tool reads it")
    spout, admins = spouts.kafka(servers, topic), Admins()
    check_topics(admins.of, topic, spout)
    topics = Topics(topic, spout, admins)
    before = topics.first()
    with closing(RangeReader(topic, spout, admins)) as reader:
        for ends, _ in topics.all_batches(before):
            records, _ = reader.read(ranges_between(before, ends))
            for each in records:
                for part in each.parts:
                    yield from part.select(["topic", "key", "value", "headers"]).to_pylist()
            before = ends
