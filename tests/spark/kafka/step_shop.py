"""What the tests of aggregation steps on Kafka share: files of steps, messages, and a clock that goes by batches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from servers.kafka import ID, TO_NEW_TOPICS, Kafka, Record
from topologies.graph.graph import Graph
from topologies.step.compile_step import step_topology
from topologies.step.config_files import load_step

OURS = ("windbolt-reason", "windbolt-topic", "windbolt-partition", "windbolt-offset")
SECOND = 1_000_000
EIGHT = 1_714_550_400 * SECOND
"""2024-05-01T08:00:00Z."""

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Message:
    """A message to be written, or one that failed: what is to be found of it."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int = 0


@dataclass(frozen=True)
class Letter:
    """A dead letter as it was found, or is expected: the message that failed, where it was, and why."""

    message: Message
    topic: str
    offset: int
    reason: str = field(compare=False)

    @classmethod
    def of(cls, record: Record) -> Letter:
        """The letter in a record."""
        *kept, reason, topic, partition, offset, own = record.headers
        assert tuple(name for name, _ in (reason, topic, partition, offset, own)) == (*OURS, ID)
        said = [(value or b"").decode() for _, value in (reason, topic, partition, offset)]
        assert said[0].strip()
        assert len(said[0].splitlines()) == 1
        message = Message(record.value, record.key, tuple(kept), int(said[2]))
        return cls(message, said[1], int(said[3]), said[0])


def write(kafka: Kafka, topic: str, messages: Iterable[Message]) -> dict[tuple[int, int], Message]:
    """Write messages to a new topic; where each is, by partition and offset."""
    more: dict[str, str | int] = {"bootstrap.servers": kafka.servers, "linger.ms": 5, "message.max.bytes": 2**21}
    producer = Producer({**TO_NEW_TOPICS, **more})
    places: dict[tuple[int, int], Message] = {}
    ends: dict[int, int] = {}
    for each in messages:
        producer.produce(topic, each.value, each.key, each.partition, headers=list(each.headers))
        offset = ends.get(each.partition, 0)
        places[each.partition, offset], ends[each.partition] = each, offset + 1
    assert producer.flush(60) == 0
    return places


def expected_letters(topic: str, failed: Mapping[tuple[int, int], Message]) -> dict[tuple[int, int], Letter]:
    """What the dead letters of messages must be; headers of an earlier step's dead letters are replaced."""

    def letter(message: Message, offset: int) -> Letter:
        kept = tuple(each for each in message.headers if each[0] not in (*OURS, ID))
        return Letter(replace(message, headers=kept), topic, offset, "any")

    return {place: letter(message, place[1]) for place, message in failed.items()}


def letters(kafka: Kafka, topic: str) -> dict[tuple[int, int], Letter]:
    """The dead letters of a topic, each of which is there once, by partition and offset of their messages."""
    found = [Letter.of(record) for record in kafka.records(topic)]
    placed = {(letter.message.partition, letter.offset): letter for letter in found}
    assert len(placed) == len(found)
    return placed


def emptied(kafka: Kafka, topic: str) -> str:
    """A topic of just this name, with nothing in it."""
    made = kafka.admin.create_topics([NewTopic(topic, 1, 1)])[topic]
    if made.exception(30) is not None:
        for done in kafka.admin.delete_records([TopicPartition(topic, 0, -1)]).values():
            done.result(30)
    return topic


def topic_of(kafka: Kafka, topic: str, *, largest: int) -> str:
    """A topic for messages of up to so many bytes."""
    kafka.admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": str(largest)})])[topic].result(30)
    return topic


def built(path: Path, *overlays: Path) -> Graph:
    """The topology of a step's file."""
    return step_topology(load_step(path, overlays=overlays))


@dataclass(frozen=True)
class BatchClock:
    """A clock that stands still in a batch, and says the same when the batch comes again."""

    checkpoint: Path
    moments: Sequence[int]
    """In microseconds, batch by batch; the last one holds for those that follow."""

    def __call__(self) -> int:
        begun = [int(name) for name in os.listdir(self.checkpoint / "spark" / "offsets") if name.isdigit()]
        return self.moments[min(max(begun), len(self.moments) - 1)]
