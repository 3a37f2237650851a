"""Topics of Kafka before and during a run: which there are, whether a sink can write to them, and where reading begins.

Each engine has a client of its own; the requests are the same.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from topologies.graph.graph import Graph
from topologies.io.kafka import KafkaSink, KafkaSpout
from windowing.errors import ConfigError, DataError, EnvironmentMissing, UnreachableError, WindboltError, nearest


class OffsetRange(NamedTuple):
    """The records of one partition that a batch has: from offset ``start`` up to, not including, ``end``."""

    topic: str
    partition: int
    start: int
    end: int


def ranges_between(before: Mapping[Place, int], ends: Mapping[Place, int]) -> list[OffsetRange]:
    """The offsets between the ends of two batches, in order of topic and partition, where there are any; a new
    partition begins with its first record."""
    sizes = ((place, before.get(place, 0), end) for place, end in sorted(ends.items()))
    return [OffsetRange(*place, start, end) for place, start, end in sizes if start < end]


Place = tuple[str, int]
"""A topic and a partition of it."""
_PAUSES = (0.2, 0.5)
"""Seconds before topics that are missing are asked for again."""
UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of a topic of a broker that gives none, before Kafka 2.8."""


class TopicInfo(NamedTuple):
    """A topic that exists."""

    id: str
    """As Java writes it; ``UNKNOWN_ID`` where the broker gives none."""
    partitions: int


class Admin(Protocol):
    """A client of Kafka for requests about topics; it raises errors of its own, which the context it is from turns
    into UnreachableError."""

    def topics(self) -> set[str]:
        """The names of all topics but Kafka's own."""
        ...

    def describe(self, topics: Collection[str]) -> dict[str, TopicInfo]:
        """What topics that exist are."""
        ...

    def ends(self, places: Collection[Place], *, first: bool = False) -> dict[Place, int]:
        """The offset after the last record of partitions, or that of the ``first`` one."""
        ...

    def limits(self, topics: Collection[str]) -> dict[str, int]:
        """The size in bytes of the largest message that topics take; empty where that may not be queried."""
        ...

    def makes_topics(self) -> bool:
        """True if brokers create a topic when it is first written to, or if they do not say."""
        ...


AdminOf = Callable[[str, str, Mapping[str, str]], AbstractContextManager[Admin]]
"""Opens a client, given whose it is (for messages), the servers and the options."""


def check_topics(opened: AdminOf, name: str, spout: KafkaSpout) -> dict[str, int]:
    """The topics that a spout names, and the number of partitions of each. Raises ConfigError where one is missing,
    UnreachableError where Kafka does not answer."""
    whose = f"spout {name!r}"
    with opened(whose, spout.servers, spout.options) as admin:
        there = _topics(admin, spout.topics)
        missing = [topic for topic in spout.topics if topic not in there]
        if missing:
            near = nearest(missing[0], sorted(there), most=3) or sorted(there)[:10]
            raise ConfigError(
                f"{whose}: there is no topic {', '.join(map(repr, missing))} at {spout.servers}",
                why=f"there {'is' if len(near) == 1 else 'are'} {', '.join(near)}" if near else "there are no topics",
                do="create it first, or correct the name",
            )
        found = admin.describe(spout.topics) if spout.topics else {}
        partitions = {topic: found[topic].partitions for topic in spout.topics}
    offsets = spout.starting if isinstance(spout.starting, Mapping) else {}
    strange = [f"{topic} {each}" for topic in offsets for each in offsets[topic] if each >= partitions[topic]]
    if strange:
        raise ConfigError(f"starting names partition {strange[0]}, which does not exist", do="correct the number")
    return partitions


def _topics(admin: Admin, wanted: Iterable[str]) -> set[str]:
    """All topics; asked again where one is missing that is wanted: a broker hears of a new topic a moment after the
    one that has made it."""
    there, wanted = admin.topics(), set(wanted)
    for pause in _PAUSES:
        if wanted <= there:
            break
        time.sleep(pause)
        there = admin.topics()
    return there


def since_1970(moment: datetime) -> int:
    """The first whole millisecond that is not before a moment."""
    return -((datetime(1970, 1, 1, tzinfo=UTC) - moment) // timedelta(milliseconds=1))


def check_sinks(opened: AdminOf, topology: Graph) -> None:
    """Raise UnreachableError where a sink's Kafka does not answer, ConfigError where topics are missing.

    If the brokers create topics themselves, none is missing.
    """
    missing: list[str] = []
    narrow: list[str] = []
    for name, node in topology.sinks.items():
        sink = node.sink
        if not isinstance(sink, KafkaSink):
            continue
        with opened(f"sink {name!r}", sink.servers, sink.options) as admin:
            named = [topic for topic in (sink.topic, *sink.topics) if topic is not None]
            there = _topics(admin, named)
            wanted = [topic for topic in named if topic not in there]
            if wanted and not admin.makes_topics():
                missing.append(f"{', '.join(map(repr, wanted))} of sink {name!r} at {sink.servers}")
            narrow.extend(_narrow(admin, name, sink, there))
    if missing:
        raise ConfigError(
            f"there is no topic {'; nor '.join(missing)}",
            why="the brokers do not create topics, and the first record for one would end the run",
            do="create them first, or correct their names",
        )
    if narrow:
        raise ConfigError(
            "; ".join(narrow),
            why="a message that the topic refuses would stop the run, and every rerun",
            do="raise max.message.bytes of the topic, or lower max.request.size of its connection to that: larger dead "
            "letters are then cut, and larger results become dead letters",
        )


def missing_topics(opened: AdminOf, name: str, sink: KafkaSink, tables: Iterable[pa.Table]) -> frozenset[str]:
    """The missing topics that rows name, where such rows have another place to go."""
    if sink.undeliverable is None:
        return frozenset()
    named: set[str] = set()
    for table in tables:
        if "topic" in table.column_names:
            named.update(topic for topic in pc.unique(table.column("topic")).to_pylist() if topic is not None)
    unknown = named.difference(sink.topics)
    if not unknown:
        return frozenset()
    with opened(f"sink {name!r}", sink.servers, sink.options) as admin:
        unknown -= admin.topics()
        return frozenset() if unknown and admin.makes_topics() else frozenset(unknown)


def _narrow(admin: Admin, name: str, sink: KafkaSink, there: set[str]) -> Iterator[str]:
    """The topics of a sink that accept smaller records than its rows were made to fit; empty where that may not be
    queried."""
    topics = [topic for topic in sink.topics if topic in there]
    if sink.largest is None or not topics:
        return
    for topic, limit in admin.limits(topics).items():
        if limit < sink.largest:
            yield (
                f"sink {name!r}: topic {topic!r} takes messages of {limit:,} bytes, and its connection "
                f"those of {sink.largest:,}"
            )


def matching(pattern: str | None, names: Iterable[str]) -> list[str]:
    """The names that a pattern of Java's matches, as far as Python reads it alike."""
    if pattern is None:
        return []
    try:
        return [name for name in names if re.fullmatch(pattern, name)]
    except re.error:
        return []


# Errors of Kafka in words, whichever client has met them.


def no_answer(whose: str, servers: str, why: str, *, transient: bool) -> UnreachableError:
    """The error for servers that do not answer, or not as expected."""
    return UnreachableError(
        f"{whose}: Kafka at {servers} does not answer",
        why=why,
        do="start it, or correct the servers; encryption and passwords are options={'kafka.security.protocol': ...}",
        transient=transient,
    )


def deleted_unread(why: str) -> DataError:
    """The error for records that are gone, where a spout may lose none."""
    return DataError(
        "Kafka has deleted records before they were read",
        why=why,
        do="Kafka deletes by age and size: keep records longer, or run more often. To continue without them, "
        "give the spout options={'failOnDataLoss': False}; or start with a new checkpoint",
    )


def ends_earlier(why: str) -> DataError:
    """The error for a partition that ends before what was read of it, where a spout may lose nothing."""
    return DataError(
        "a topic of Kafka's ends before what was read of it",
        why=f"{why}: it was deleted and made anew, or its brokers have lost records",
        do="start the run again: it then says whether the topic is another one, and how to go on. If it is the "
        "same, options={'failOnDataLoss': False} of the spout goes on at its end",
    )


def too_large(why: str) -> DataError:
    """The error for a record that a producer or a topic does not take."""
    return DataError(
        "a record is too large for Kafka",
        why=why,
        do="let the producer take more (max.request.size) and the topic too (max.message.bytes), then rerun: "
        "the batch was not committed, and runs again. A dead letter is larger than its message, by its headers",
    )


def no_topic(why: str) -> EnvironmentMissing:
    """The error for a topic that is missing."""
    return EnvironmentMissing("a topic of Kafka's is not there", why=why, do="make it, or correct its name")


def no_partition(why: str) -> DataError:
    """The error for a row whose partition is missing."""
    return DataError(
        "a row for Kafka names a partition that its topic does not have",
        why=why,
        do="correct its column 'partition', or add partitions to the topic, then rerun: the batch was not committed, "
        "and runs again",
    )


def not_delivered(why: str) -> UnreachableError:
    """The error for records that brokers have not taken in time."""
    return UnreachableError(
        "Kafka does not answer, or does not have the topic",
        why=why,
        do="check the brokers and topics, then rerun: the batch was not committed, and runs again",
        transient=True,
    )


@contextmanager
def naming(whose: str) -> Iterator[None]:
    """Add to an error which spout or sink it is about, such as ``sink 'out'``."""
    try:
        yield
    except WindboltError as error:
        named = f"{whose}: {error.what}"
        raise type(error)(named, why=error.why, do=error.do, transient=error.transient) from error
