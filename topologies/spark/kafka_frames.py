"""Kafka through Spark's connector: topics as a streaming DataFrame, rows as records, and topics that were made anew."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from manager.storage.files import UNREADABLE
from manager.storage.sealed_files import SealedFolder
from manager.storage.segments import SegmentStore
from topologies.checkpoints.spark_checkpoint import OffsetRange, SourceLog
from topologies.engine.batch import Context
from topologies.engine.kafka_records import OUTGOING, outgoing
from topologies.engine.work import SinkBatch, SinkRows
from topologies.graph.graph import SinkNode
from topologies.graph.topology import Topology
from topologies.io.kafka import KafkaSink, KafkaSpout, redirect_missing
from topologies.io.topics.encode import encode
from topologies.spark.spark_errors import run_for_java, unreachable
from topologies.spark.spark_executor import spark_failures
from windowing.errors import ConfigError, DataError, UnreachableError, WindboltError, nearest

# Kafka through Spark's connector: topics as a streaming DataFrame, rows as records.


_RECORDS_PER_BATCH = 500_000
"""Default maximum number of records per batch; without one the first batch would be a whole topic."""
_EARLIEST = -2
"""A partition's earliest record, in Spark's offsets."""

READING = {
    "failOnDataLoss": "true",
    "kafka.default.api.timeout.ms": "20000",  # Spark asks three times
    "kafka.request.timeout.ms": "15000",
    "kafkaConsumer.pollTimeoutMs": "60000",
    # After each poll Spark asks the broker for offsets, in two requests; by default a poll has at most 500 records.
    # max.partition.fetch.bytes still limits it.
    "kafka.max.poll.records": "10000",
}
"""Default options for reading."""
WRITING = {
    "kafka.max.block.ms": "15000",  # a task is tried up to four times
    "kafka.request.timeout.ms": "15000",
    "kafka.delivery.timeout.ms": "60000",
}
"""Default timeouts for writing: about a minute, long enough for a broker's restart, but not several."""

_FIRST = {"default.api.timeout.ms": "10000", "request.timeout.ms": "5000"}
"""Default timeouts for the first answer."""


def reaches_kafka(topology: Topology) -> bool:
    """True if a topology needs Spark's connector."""
    spouts = any(isinstance(node.spout, KafkaSpout) for node in topology.spouts.values())
    return spouts or any(isinstance(node.sink, KafkaSink) for node in topology.sinks.values())


def read_records(spark: SparkSession, name: str, spout: KafkaSpout) -> DataFrame:
    """The records of a spout as a streaming DataFrame. Raises ConfigError where a topic is missing,
    UnreachableError where Kafka does not answer."""
    topics = _described(spark, f"spout {name!r}", spout)
    reader = spark.readStream.format("kafka").options(**{**READING, **spout.options})
    reader = reader.option("kafka.bootstrap.servers", spout.servers).option(
        "includeHeaders", "headers" in spout.record.names
    )
    if spout.pattern is not None:
        reader = reader.option("subscribePattern", spout.pattern)
    else:
        reader = reader.option("subscribe", ",".join(spout.topics))
    reader = reader.option("maxOffsetsPerTrigger", spout.records_per_batch or _RECORDS_PER_BATCH)
    for option, value in _start(spout, topics).items():
        reader = reader.option(option, value)
    return reader.load().select(*[F.col(column) for column in spout.record.names])


def check_sinks(spark: SparkSession, topology: Topology) -> None:
    """Raise UnreachableError where a sink's Kafka does not answer, ConfigError where topics are missing.

    If the brokers create topics themselves, none is missing.
    """
    missing: list[str] = []
    narrow: list[str] = []
    for name, node in topology.sinks.items():
        sink = node.sink
        if not isinstance(sink, KafkaSink):
            continue
        with admin_of(spark, f"sink {name!r}", sink.servers, sink.options) as admin:
            there = set(admin.listTopics().names().get())
            wanted = [topic for topic in (sink.topic, *sink.topics) if topic is not None and topic not in there]
            if wanted and not _makes_topics(spark, admin):
                missing.append(f"{', '.join(map(repr, wanted))} of sink {name!r} at {sink.servers}")
            narrow.extend(_narrow(spark, admin, name, sink, there))
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


def _narrow(spark: SparkSession, admin: Any, name: str, sink: KafkaSink, there: set[str]) -> Iterator[str]:
    """The topics of a sink that accept smaller records than its rows were made to fit; empty where that may not be
    queried."""
    topics = [topic for topic in sink.topics if topic in there]
    if sink.largest is None or not topics:
        return
    jvm: Any = spark._jvm
    kind = jvm.org.apache.kafka.common.config.ConfigResource
    asked = jvm.java.util.ArrayList()
    for topic in topics:
        asked.add(kind(kind.Type.TOPIC, topic))
    try:
        configs = admin.describeConfigs(asked).all().get()
    except Py4JJavaError:
        return
    for resource in configs:
        entry = configs[resource].get("max.message.bytes")
        limit = None if entry is None else int(entry.value())
        if limit is not None and limit < sink.largest:
            yield (
                f"sink {name!r}: topic {resource.name()!r} takes messages of {limit:,} bytes, and its connection "
                f"those of {sink.largest:,}"
            )


def _makes_topics(spark: SparkSession, admin: Any) -> bool:
    """True if brokers create a topic when it is first written to, or if they do not say."""
    jvm: Any = spark._jvm
    kind = jvm.org.apache.kafka.common.config.ConfigResource
    try:
        broker = admin.describeCluster().nodes().get().iterator().next().idString()
        asked = jvm.java.util.ArrayList()
        asked.add(kind(kind.Type.BROKER, broker))
        broker_config = next(iter(admin.describeConfigs(asked).all().get().values()))
        entry = broker_config.get("auto.create.topics.enable")
        return entry is None or str(entry.value()).lower() != "false"
    except Py4JJavaError:  # not every user may query this
        return True


Send = Callable[[list[pa.Table]], bool]
"""Writes records in another way than by Spark; whether that was possible."""


def send_records(
    spark: SparkSession,
    node: SinkNode,
    batch: SinkBatch,
    sink_rows: list[SinkRows],
    store: SegmentStore,
    send: Send | None = None,
) -> None:
    """Write rows to Kafka: by ``send``, if it can, or from the workers, one task per reference."""
    sink, schema = node.sink, node.schema
    assert isinstance(sink, KafkaSink)
    topic, named = (
        sink.topic,
        [(batch_rows.ref, batch.record_name(node.name, batch_rows), batch_rows.first) for batch_rows in sink_rows],
    )
    missing, instead = _missing_topics(spark, node.name, sink, sink_rows, store), sink.undeliverable

    def records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch_rows in batches:
            for number in batch_rows.column("id").to_pylist():
                yield from run_for_java(of_one, number, None)

    def made(number: int) -> pa.Table:
        ref, name, first = named[number]
        rows = encode(sink.records, store.read(ref).cast(schema))
        if missing and instead is not None:
            rows = redirect_missing(rows, missing, instead)
        return outgoing(rows, topic, name, first)

    def of_one(number: int, _: Context) -> list[pa.RecordBatch]:
        records: list[pa.RecordBatch] = made(number).to_batches(_ROWS)
        return records

    count = len(named)
    if send is not None:
        with _naming_sink(node.name):
            if send([made(number) for number in range(count)]):
                return
    frame = spark.range(0, count, 1, count).mapInArrow(records, OUTGOING)
    options = {**WRITING, **sink.options, "kafka.bootstrap.servers": sink.servers}
    with _naming_sink(node.name), spark_failures():
        frame.write.format("kafka").options(**options).save()


@contextmanager
def _naming_sink(name: str) -> Iterator[None]:
    """Add to an error which sink it is about."""
    try:
        yield
    except WindboltError as error:
        named = f"sink {name!r}: {error.what}"
        raise type(error)(named, why=error.why, do=error.do, transient=error.transient) from error


def _missing_topics(
    spark: SparkSession, name: str, sink: KafkaSink, sink_rows: list[SinkRows], store: SegmentStore
) -> frozenset[str]:
    """The missing topics that rows name, where such rows have another place to go."""
    if sink.undeliverable is None:
        return frozenset()
    named: set[str] = set()
    for rows in sink_rows:
        table = store.read(rows.ref)
        if "topic" in table.column_names:
            named.update(topic for topic in pc.unique(table.column("topic")).to_pylist() if topic is not None)
    unknown = named.difference(sink.topics)
    if not unknown:
        return frozenset()
    with admin_of(spark, f"sink {name!r}", sink.servers, sink.options) as admin:
        unknown -= set(admin.listTopics().names().get())
        return frozenset() if unknown and _makes_topics(spark, admin) else frozenset(unknown)


_ROWS = 10_000
"""Number of records given to Spark at a time."""


def _start(spout: KafkaSpout, topics: Mapping[str, int]) -> dict[str, str]:
    """The starting offsets of a new query, in Spark's format."""
    match spout.starting:
        case str() as word:
            return {"startingOffsets": word}
        case datetime() as moment:
            milliseconds = -((datetime(1970, 1, 1, tzinfo=UTC) - moment) // timedelta(milliseconds=1))
            return {"startingTimestamp": str(milliseconds), "startingOffsetsByTimestampStrategy": "latest"}
        case offsets:
            every = {
                topic: {
                    str(partition): offsets.get(topic, {}).get(partition, _EARLIEST) for partition in range(partitions)
                }
                for topic, partitions in topics.items()
            }
            strange = [
                f"{topic} {partition}"
                for topic in offsets
                for partition in offsets[topic]
                if partition >= topics[topic]
            ]
            if strange:
                raise ConfigError(
                    f"starting names partition {strange[0]}, which does not exist", do="correct the number"
                )
            return {"startingOffsets": json.dumps(every)}


def _described(spark: SparkSession, whose: str, spout: KafkaSpout) -> dict[str, int]:
    """The named topics, and the number of partitions of each."""
    with admin_of(spark, whose, spout.servers, spout.options) as admin:
        there = set(admin.listTopics().names().get())
        missing = [topic for topic in spout.topics if topic not in there]
        if missing:
            near = nearest(missing[0], sorted(there), most=3) or sorted(there)[:10]
            raise ConfigError(
                f"{whose}: there is no topic {', '.join(map(repr, missing))} at {spout.servers}",
                why=f"there {'is' if len(near) == 1 else 'are'} {', '.join(near)}" if near else "there are no topics",
                do="create it first, or correct the name",
            )
        if not spout.topics:
            return {}
        jvm: Any = spark._jvm
        asked = jvm.java.util.ArrayList()
        for topic in spout.topics:
            asked.add(topic)
        topics = admin.describeTopics(asked).allTopicNames().get()
        return {topic: topics[topic].partitions().size() for topic in spout.topics}


@contextmanager
def admin_of(spark: SparkSession, whose: str, servers: str, options: Mapping[str, str]) -> Iterator[Any]:
    """Kafka's own client for queries about topics. Raises UnreachableError where no server answers."""
    jvm: Any = spark._jvm
    properties = jvm.java.util.Properties()
    given = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    for name, value in {**_FIRST, **given, "bootstrap.servers": servers}.items():
        properties.setProperty(name, value)
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        try:
            yield admin
        finally:
            admin.close(jvm.java.time.Duration.ofSeconds(0))
    except Py4JJavaError as error:
        raise unreachable(whose, servers, str(error.java_exception)) from error


# Topics that were deleted and made anew since a checkpoint has read them, and records that were deleted unread.
#
# Spark knows a topic by its name, and goes on at the offset where it stopped: the first records of a new topic would
# be passed over, in silence where it has more of them than were read of the old one. So the ids that Kafka gives to
# topics are noted in the checkpoint, and compared when a run starts.


TOPICS = "topics"
"""The note of the topics that were read: spout, topic, id, and after which batch that was found."""
_UNKNOWN = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of a topic of a broker that gives none, before Kafka 2.8."""

Offsets = Mapping[str, Mapping[int, int]]


@dataclass
class ReadTopics:
    """The topics of the Kafka spouts of a run."""

    spark: SparkSession
    spouts: Mapping[str, KafkaSpout]
    ids: dict[str, dict[str, str]] = field(default_factory=dict)
    """Per spout, the ids of its topics as the run began."""

    def begin(self, files: SealedFolder, log: SourceLog, batch: int, check_owner: Callable[[], None]) -> list[str]:
        """Compare the topics with those that the checkpoint has read up to ``batch``, the last that was committed.

        One that was made anew is read from its beginning, where its spout lets records be lost: returns what is to be
        said of that. DataError where it does not.
        """
        noted, said = _noted(files), []
        for name, spout in self.spouts.items():
            offsets = log.kafka_offsets(name)
            known = {topic: found for whose, topic, found, since in noted if whose == name and since <= batch}
            with admin_of(self.spark, f"spout {name!r}", spout.servers, spout.options) as admin:
                now = _topics(self.spark, admin, spout, offsets)
                self.ids[name] = {topic: found for topic, (found, _) in now.items() if found != _UNKNOWN}
                remade = [
                    topic
                    for topic, read in offsets.items()
                    if topic in now and self._is_remade(admin, topic, read, known.get(topic), now[topic])
                ]
            if remade and not may_lose(spout):
                raise _refused(name, remade[0], offsets[remade[0]])
            if remade:
                check_owner()
                skipped = log.read_from_beginning(name, {topic: now[topic][1] for topic in remade}, batch)
                said += [_said(name, topic, skipped[topic]) for topic in remade]
            noted += [
                [name, topic, found, batch] for topic, found in self.ids[name].items() if known.get(topic) != found
            ]
        if noted != _noted(files):
            files.write(TOPICS, {"topics": noted})
        return said

    def lost(self, ranges: Mapping[str, Sequence[OffsetRange] | None]) -> list[str]:
        """Say which records of a batch were deleted before they were read, where that does not stop the run. DataError
        where a topic was made anew since the run began.

        Called before the records of a batch are read. A broker that does not answer now is asked before the next one:
        its topics are compared before a further batch is committed, or when the next run starts.
        """
        said: list[str] = []
        for name, spout in self.spouts.items():
            of_spout = ranges.get(name) or ()
            earliest: dict[tuple[str, int], int] = {}
            passing = nullcontext() if may_lose(spout) else suppress(UnreachableError)
            with passing, admin_of(self.spark, f"spout {name!r}", spout.servers, spout.options) as admin:
                self._refuse_remade(admin, name, of_spout)
                if may_lose(spout):
                    earliest = _ends(self.spark, admin, [(each.topic, each.partition) for each in of_spout], first=True)
            for each in of_spout:
                gone = min(earliest.get((each.topic, each.partition), each.start), each.end) - each.start
                if gone > 0:
                    said.append(
                        f"{name}: topic {each.topic}, partition {each.partition}: {gone:,} records from offset "
                        f"{each.start} on were deleted before they were read"
                    )
        return said

    def _refuse_remade(self, admin: Any, name: str, ranges: Sequence[OffsetRange]) -> None:
        """Raise DataError for a topic of a spout that is another one than when the run began."""
        spout, ids = self.spouts[name], self.ids[name]
        for topic, (found, _) in _topics(self.spark, admin, spout, ids).items():
            if ids.get(topic, found) == found:
                continue
            if may_lose(spout):
                raise DataError(
                    f"spout {name!r}: topic {topic!r} was deleted and made anew while the run read it",
                    why="its records have other offsets now",
                    do="start the run again: it reads the new topic from its beginning",
                )
            read = {each.partition: each.start for each in ranges if each.topic == topic}
            raise DataError(
                f"spout {name!r}: topic {topic!r} was deleted and made anew while the run read it",
                why=f"the old one was read in {_places(read)}; the new one would be read from there on, without the "
                "records before"
                if read
                else "its records have other offsets now",
                do=_GO_ON,
            )

    def _is_remade(
        self, admin: Any, topic: str, read: Mapping[int, int], known: str | None, now: tuple[str, int]
    ) -> bool:
        """True if a topic is not the one that was read: by its id, or if that is unknown, because it ends before the
        records that were read."""
        found, partitions = now
        if known is not None and found != _UNKNOWN:
            return known != found
        ends = _ends(self.spark, admin, [(topic, partition) for partition in read if partition < partitions])
        return any(read[partition] > end for (_, partition), end in ends.items())


def may_lose(spout: KafkaSpout) -> bool:
    """True if a spout goes on where records are gone."""
    return spout.options.get("failOnDataLoss", "true") == "false"


_GO_ON = (
    "give the spout options={'failOnDataLoss': False}: the run then goes on with the new topic from its "
    "beginning, and what had not been read of the old one is lost. Or start with a new checkpoint"
)


def _refused(name: str, topic: str, read: Mapping[int, int]) -> DataError:
    return DataError(
        f"spout {name!r}: topic {topic!r} is another one than the checkpoint has read: it was deleted and made anew",
        why=f"the old one was read in {_places(read)}; the new one would be read from there on, without the records "
        "before",
        do=_GO_ON,
    )


def _places(read: Mapping[int, int]) -> str:
    return ", ".join(f"partition {partition} up to offset {offset}" for partition, offset in sorted(read.items())[:5])


def _said(name: str, topic: str, skipped: int) -> str:
    records = f"{skipped:,} record{'' if skipped == 1 else 's'}"
    lost = f"; up to {records} of the old one that a batch was to read {'is' if skipped == 1 else 'are'} lost"
    return f"{name}: topic {topic} was deleted and made anew, and is read from its beginning{lost if skipped else ''}"


def _noted(files: SealedFolder) -> list[list[Any]]:
    """The topics that runs have read. A note that cannot be read is made again: ids are then not known."""
    with suppress(*UNREADABLE):
        note = files.read(TOPICS)
        return [] if note is None else list(note["topics"])
    return []


def _topics(spark: SparkSession, admin: Any, spout: KafkaSpout, read: Iterable[str]) -> dict[str, tuple[str, int]]:
    """The id and the number of partitions of the topics of a spout that exist."""
    there = set(admin.listTopics().names().get())
    wanted = there & {*spout.topics, *read, *_matching(spout.pattern, there)}
    jvm: Any = spark._jvm
    asked = jvm.java.util.ArrayList()
    for topic in sorted(wanted):
        asked.add(topic)
    found = admin.describeTopics(asked).allTopicNames().get()
    return {topic: (str(found[topic].topicId().toString()), int(found[topic].partitions().size())) for topic in wanted}


def _matching(pattern: str | None, names: Iterable[str]) -> list[str]:
    """The names that a pattern of Java's matches, as far as Python reads it alike."""
    if pattern is None:
        return []
    try:
        return [name for name in names if re.fullmatch(pattern, name)]
    except re.error:
        return []


def _ends(
    spark: SparkSession, admin: Any, places: Iterable[tuple[str, int]], *, first: bool = False
) -> dict[tuple[str, int], int]:
    """The offset after the last record of partitions, or that of the ``first`` one."""
    jvm: Any = spark._jvm
    kinds, asked = jvm.org.apache.kafka.clients.admin.OffsetSpec, jvm.java.util.HashMap()
    partitions = {place: jvm.org.apache.kafka.common.TopicPartition(*place) for place in places}
    for partition in partitions.values():
        asked.put(partition, kinds.earliest() if first else kinds.latest())
    found = admin.listOffsets(asked).all().get() if partitions else {}
    return {place: int(found[partition].offset()) for place, partition in partitions.items()}
