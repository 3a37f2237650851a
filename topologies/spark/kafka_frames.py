"""Kafka through Spark's connector: topics as a streaming DataFrame, rows as records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from manager.storage.segments.segments import SegmentStore
from topologies.engine.batch.context import Context
from topologies.engine.rows.sink_rows import SinkBatch, SinkRows
from topologies.graph.nodes.sink import SinkNode
from topologies.io.dead_letters import redirect_missing
from topologies.io.kafka import KafkaSink, KafkaSpout
from topologies.sources.records import OUTGOING, outgoing
from topologies.spark.spark_errors import unreachable
from topologies.spark.spark_executor import spark_failures
from topologies.spark.through_java import run_for_java
from topologies.topology import Topology
from windowing.errors import ConfigError, WindboltError
from windowing.suggestions import nearest

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
    """Whether a topology needs Spark's connector."""
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
    """Whether brokers create a topic when it is first written to; True where they do not say."""
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
        rows = store.read(ref).cast(schema)
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
