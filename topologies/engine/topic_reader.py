"""Reads topics in local runs: up to which offset each batch reads, and the records of ranges of offsets."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from topologies.engine.kafka_records import MILLISECONDS, Records
from topologies.engine.kafka_topics import (
    OffsetRange,
    Place,
    deleted_unread,
    ends_earlier,
    matching,
    no_answer,
    since_1970,
)
from topologies.engine.librdkafka import NO_TOPIC, Admins, LibrdkafkaAdmin, confluent, made, reading_settings
from topologies.io.kafka import KafkaSpout
from topologies.io.kafka_options import (
    READING,
    RECORDS_PER_BATCH,
    kafka_settings,
    may_lose,
    milliseconds,
)
from topologies.io.topics.declared import RECORD
from windowing.errors import DataError, UnreachableError

# What a batch reads of the topics of a spout: planned as Spark's connector does.


Ends = dict[Place, int]
"""Per partition, the offset behind the last record that batches have."""


class Topics:
    """The topics of a spout during a run."""

    def __init__(self, name: str, spout: KafkaSpout, admins: Admins) -> None:
        """Raises ConfigError for a pattern that Python does not read."""
        self.name, self.spout, self._admins = name, spout, admins
        self.latest: Ends = {}
        """Where each partition ended when that was last asked."""
        self._committed = kafka_settings(READING, spout.options).get("isolation.level") == "read_committed"

    def first(self) -> Ends:
        """Where a new run begins."""
        return dict(self._ask(self._first))

    def all_batches(self, before: Ends) -> Iterator[tuple[Ends, list[str]]]:
        """The ends of each batch up to the present end of the topics, with what is to be said about it."""
        until, said = self._until(before)
        while True:
            ends = self._limited(before, until)
            yield ends, said
            if ends == until:
                return
            before, said = ends, []

    def next_batch(self, before: Ends) -> tuple[Ends, list[str]]:
        """The ends of the next batch; ``before`` where nothing is new; with what is to be said about it."""
        until, said = self._until(before)
        return self._limited(before, until), said

    def _until(self, before: Ends) -> tuple[Ends, list[str]]:
        """The present ends, and what of the topics is gone. DataError where the spout may lose nothing."""
        self.latest = latest = dict(self._ask(self._latest))
        losing, said, gone = may_lose(self.spout.options), list[str](), dict[str, list[int]]()
        for topic, partition in sorted(before.keys() - latest.keys()):
            gone.setdefault(topic, []).append(partition)
        if gone and not losing:
            topic, numbers = next(iter(gone.items()))
            raise _of_spout(self.name, deleted_unread(f"topic {topic!r} has no partition {numbers[0]} any more"))
        for topic, numbers in gone.items():
            those = f"partition{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
            said.append(f"{self.name}: topic {topic}, {those}: deleted; what was not read of it is lost")
        back = [place for place, end in sorted(before.items()) if latest.get(place, end) < end]
        if back and not losing:
            topic, partition = back[0]
            moved = f"partition {partition} of topic {topic!r} ended at {before[back[0]]}, and ends at "
            raise _of_spout(self.name, ends_earlier(f"{moved}{latest[back[0]]} now"))
        for topic, partition in back:
            said.append(
                f"{self.name}: topic {topic}, partition {partition}: it ends at offset {latest[topic, partition]}, and "
                f"was read up to {before[topic, partition]}; what is new before that is not read"
            )
        return latest, said

    def _limited(self, before: Ends, until: Ends) -> Ends:
        """The ends of a batch of at most as many records as the spout has them, shared out by how many each partition
        has waiting: the arithmetic is that of Spark's connector."""
        limit = self.spout.records_per_batch or RECORDS_PER_BATCH
        waiting = {place: size for place, end in until.items() if (size := end - before.get(place, 0)) > 0}
        total = sum(waiting.values())
        found = dict(until)
        for place, size in waiting.items():
            share = limit * (size / total)
            number = -int(-share // 1) if share < 1 else int(share)
            found[place] = min(until[place], before.get(place, 0) + number)
        return found

    def _ask(self, question: Callable[[LibrdkafkaAdmin], Ends]) -> Ends:
        spout = self.spout
        found: Ends = self._admins.patiently(f"spout {self.name!r}", spout.servers, spout.options, question)
        return found

    def _first(self, admin: LibrdkafkaAdmin) -> Ends:
        places, starting = self._places(admin), self.spout.starting
        match starting:
            case "earliest":
                return admin.ends(places, first=True)
            case "latest":
                return self._present(admin, places)
            case datetime():
                found = admin.at(places, since_1970(starting), committed=self._committed)
                ends = self._present(admin, [place for place, offset in found.items() if offset < 0])
                return found | ends
            case offsets:
                assert not isinstance(offsets, str)
                given = {(topic, number): at for topic in offsets for number, at in offsets[topic].items()}
                return admin.ends([place for place in places if place not in given], first=True) | given

    def _latest(self, admin: LibrdkafkaAdmin) -> Ends:
        return self._present(admin, self._places(admin))

    def _present(self, admin: LibrdkafkaAdmin, places: Collection[Place]) -> Ends:
        return admin.ends(places, committed=self._committed)

    def _places(self, admin: LibrdkafkaAdmin) -> list[Place]:
        there = admin.topics()
        wanted = there & {*self.spout.topics, *matching(self.spout.pattern, there)}
        found = admin.describe(wanted)
        return [(topic, number) for topic in sorted(found) for number in range(found[topic].partitions)]


def _of_spout(name: str, error: DataError) -> DataError:
    return DataError(f"spout {name!r}: {error.what}", why=error.why, do=error.do)


# Reads ranges of offsets.


_POLL = 0.1
"""Seconds to wait for the first of the next records."""
_AT_ONCE = 10_000
"""Records taken over from librdkafka at a time."""
_AHEAD = 50_000
"""Records of a partition, beyond the range that is read, from which on no more are fetched of it."""


class RangeReader:
    """A consumer of the topics of a spout, which stays connected from batch to batch, and keeps what came beyond the
    end of a batch."""

    def __init__(self, name: str, spout: KafkaSpout, admins: Admins) -> None:
        self._name, self._spout, self._admins = name, spout, admins
        self._schema = pa.schema(
            [each.with_type(MILLISECONDS) if each.name == "timestamp" else each for each in spout.record]
        )
        options = {**READING, **spout.options}
        self._patience = milliseconds(options, "kafkaConsumer.pollTimeoutMs") / 1000
        self._errors: deque[Any] = deque(maxlen=1)
        self._consumer: Any = None
        self._partitions: dict[Place, _Partition] = {}

    def read(self, ranges: Iterable[OffsetRange]) -> tuple[list[Records], list[str]]:
        """The records of ranges that have some, in order of topic and partition, and what is to be said of records
        that are gone. Raises DataError where the spout may lose none, UnreachableError where none came for long."""
        wanted = {(each.topic, each.partition): each for each in ranges}
        if not wanted:
            return [], []
        said: list[str] = []
        self._go_to(wanted)
        last = time.monotonic()
        while unread := [place for place, each in wanted.items() if self._partitions[place].reached < each.end]:
            messages = self._consumer.consume(1, _POLL)
            messages += self._consumer.consume(_AT_ONCE, 0) if messages else []
            if self._take(messages, wanted, said):
                last = time.monotonic()
            elif time.monotonic() - last > self._patience:
                raise self._silent(wanted[unread[0]])
        return [self._cut(wanted[place]) for place in sorted(wanted) if self._has_records(wanted[place])], said

    def close(self) -> None:
        """Disconnect."""
        consumer, self._consumer, self._partitions = self._consumer, None, {}
        if consumer is not None:
            consumer.close()

    def _go_to(self, wanted: Mapping[Place, OffsetRange]) -> None:
        """Have records fetched from where these ranges begin."""
        here = self._partitions
        if self._consumer is not None and all(
            place in here and here[place].at == each.start for place, each in wanted.items()
        ):
            paused = [place for place in wanted if here[place].paused]
            for place in paused:
                here[place].paused = False
            if paused:
                self._consumer.resume(self._named(paused))
            return
        if self._consumer is None:
            whose = f"spout {self._name!r}"
            settings = reading_settings(whose, self._spout.servers, self._spout.options)
            self._consumer = made("Consumer", whose, {**settings, "error_cb": self._errors.append})
        for place in here.keys() | wanted.keys():
            start = wanted[place].start if place in wanted else here[place].at
            here[place] = _Partition(start, start)
        self._assign()

    def _assign(self) -> None:
        """Have records fetched from where each partition has come to."""
        places = self._partitions.items()
        self._consumer.assign([confluent().TopicPartition(*place, each.reached) for place, each in places])
        paused = [place for place, each in places if each.paused]
        for place in paused:
            self._partitions[place].paused = False
        if paused:
            self._consumer.resume(self._named(paused))

    def _take(self, messages: Sequence[Any], wanted: Mapping[Place, OffsetRange], said: list[str]) -> bool:
        """Keep what came; True if that was progress."""
        by_place: dict[Place, list[Any]] = {}
        events: list[Any] = []
        for message in messages:
            if message.error() is None:
                by_place.setdefault((message.topic(), message.partition()), []).append(message)
            else:
                events.append(message)
        progress = False
        for place, those in by_place.items():
            partition = self._partitions.get(place)
            if partition is None:
                continue
            partition.add(_table(place, those, self._schema))
            progress = True
            if place not in wanted or partition.reached >= wanted[place].end:
                self._hold_back(place, partition)
        for event in events:  # after the records: the end of a partition comes behind them
            progress |= self._take_event(event, wanted, said)
        return progress

    def _hold_back(self, place: Place, partition: _Partition) -> None:
        if partition.rows > _AHEAD and not partition.paused:
            partition.paused = True
            self._consumer.pause(self._named([place]))

    def _take_event(self, message: Any, wanted: Mapping[Place, OffsetRange], said: list[str]) -> bool:
        """The end of a partition, or an error; True if that was progress."""
        error, place = message.error(), (message.topic(), message.partition())
        partition = self._partitions.get(place)
        if partition is None:
            self._errors.append(error)
            return False
        match error.name():
            case "_PARTITION_EOF":
                partition.reached = max(partition.reached, message.offset())
            case "_AUTO_OFFSET_RESET" | "OFFSET_OUT_OF_RANGE":
                partition.out_of_range = True
            case name if name in NO_TOPIC:
                raise _of_spout(self._name, deleted_unread(f"topic {place[0]!r} has no partition {place[1]} any more"))
            case _:
                self._errors.append(error)
                return False
        if place not in wanted:
            return False
        if partition.reached < wanted[place].end:
            return self._look(partition, wanted[place], said)
        return True

    def _look(self, partition: _Partition, wanted: OffsetRange, said: list[str]) -> bool:
        """Go on behind records that are gone, where a partition begins behind them, or ends before them; True if some
        are."""
        place, spout, at = (wanted.topic, wanted.partition), self._spout, partition.reached
        first, end = self._admins.patiently(
            f"spout {self._name!r}", spout.servers, spout.options, lambda admin: _bounds(admin, place)
        )
        if end < wanted.end:  # not so where a replica has answered that is behind
            moved = f"partition {place[1]} of topic {place[0]!r} was to be read up to {wanted.end}, and ends at {end}"
            error, gone, go_on = ends_earlier(moved), wanted.end - max(at, end), wanted.end
        elif partition.out_of_range and first > at:
            gone = min(first, wanted.end) - at
            where = f"topic {place[0]!r}, partition {place[1]}: {gone:,} records from offset {at} on are gone"
            error, go_on = deleted_unread(where), max(first, at)
        else:
            return False
        if not may_lose(spout.options):
            raise _of_spout(self._name, error)
        lost_from = wanted.end - gone if go_on == wanted.end else at
        said.append(
            f"{self._name}: topic {place[0]}, partition {place[1]}: {gone:,} records from offset {lost_from} on were "
            "deleted before they were read"
        )
        partition.reached, partition.out_of_range = go_on, False
        self._assign()
        return True

    def _has_records(self, wanted: OffsetRange) -> bool:
        """True if a range has records; without any, its partition has come to its end."""
        partition = self._partitions[wanted.topic, wanted.partition]
        if any(table.column("offset")[0].as_py() < wanted.end for table in partition.tables):
            return True
        partition.at = wanted.end
        return False

    def _cut(self, wanted: OffsetRange) -> Records:
        partition = self._partitions[wanted.topic, wanted.partition]
        return Records(self._name, partition.take(wanted.end))

    def _named(self, places: Iterable[Place]) -> list[Any]:
        return [confluent().TopicPartition(*place) for place in places]

    def _silent(self, wanted: OffsetRange) -> UnreachableError:
        what = f"no record of topic {wanted.topic!r}, partition {wanted.partition}, came for {self._patience:g} seconds"
        last = f"; {self._errors[-1].str()}" if self._errors else ""
        self.close()
        return no_answer(f"spout {self._name!r}", self._spout.servers, f"{what}{last}", transient=True)


def _bounds(admin: LibrdkafkaAdmin, place: Place) -> tuple[int, int]:
    """The offsets of the first record of a partition and behind its last one."""
    return admin.ends([place], first=True)[place], admin.ends([place])[place]


class _Partition:
    """A partition that is read."""

    def __init__(self, at: int, reached: int) -> None:
        self.at = at
        """Where the next range is expected to begin."""
        self.reached = reached
        """All records before this offset have come."""
        self.tables: list[pa.Table] = []
        self.paused = False
        self.out_of_range = False
        """True if the broker does not have the record at ``reached``."""

    @property
    def rows(self) -> int:
        """Number of records that no range has taken."""
        return sum(len(table) for table in self.tables)

    def add(self, table: pa.Table) -> None:
        """Keep further records; some may have come before, where the consumer was paused."""
        offsets = table.column("offset").to_numpy()
        known = int(np.searchsorted(offsets, self.reached))
        if known < len(offsets):
            self.tables.append(table.slice(known))
            self.reached = int(offsets[-1]) + 1

    def take(self, end: int) -> list[pa.Table]:
        """The records before an offset, at which the next range is expected to begin."""
        taken: list[pa.Table] = []
        left: list[pa.Table] = []
        for table in self.tables:
            before = int(np.searchsorted(table.column("offset").to_numpy(), end))
            taken += [table.slice(0, before)] if before else []
            left += [table.slice(before)] if before < len(table) else []
        self.tables, self.at = left, end
        return taken


def _table(place: Place, messages: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """Records of one partition as columns; the timestamps are Kafka's own numbers of milliseconds."""
    rows = len(messages)
    columns: dict[str, pa.Array] = {
        "topic": pa.repeat(pa.scalar(place[0], pa.string()), rows),
        "partition": pa.repeat(pa.scalar(place[1], pa.int32()), rows),
        "offset": pa.array([message.offset() for message in messages], pa.int64()),
        "timestamp": pa.array([message.timestamp()[1] for message in messages], pa.int64()).cast(MILLISECONDS),
        "value": pa.array([message.value() for message in messages], pa.binary()),
    }
    if "key" in schema.names:
        columns["key"] = pa.array([message.key() for message in messages], pa.binary())
    if "headers" in schema.names:
        columns["headers"] = _headers([message.headers() for message in messages])
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _headers(of_records: Sequence[Sequence[tuple[str, bytes | None]] | None]) -> pa.Array:
    kind = RECORD.field("headers").type
    pairs = [[{"key": key, "value": value} for key, value in each] if each else None for each in of_records]
    return pa.array(pairs, kind)
