"""Kafka through Spark's connector: topics as a streaming DataFrame, rows as records."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from manager.storage.segments import SegmentStore
from topologies.engine.batch import Context
from topologies.engine.kafka_records import OUTGOING, outgoing
from topologies.engine.kafka_topics import (
    Place,
    TopicInfo,
    check_topics,
    missing_topics,
    naming,
    since_1970,
)
from topologies.engine.work import SinkBatch, SinkRows
from topologies.graph.graph import Graph, SinkNode
from topologies.io.kafka import KafkaSink, KafkaSpout, redirect_missing
from topologies.io.kafka_options import FIRST, READING, RECORDS_PER_BATCH, WRITING, kafka_settings
from topologies.io.topics.encode import encode
from topologies.spark.spark_errors import run_for_java, unreachable
from topologies.spark.spark_tasks import spark_failures

_EARLIEST = -2
"""A partition's earliest record, in Spark's offsets."""


def reaches_kafka(topology: Graph) -> bool:
    """True if a topology needs Spark's connector."""
    spouts = any(isinstance(node.spout, KafkaSpout) for node in topology.spouts.values())
    return spouts or any(isinstance(node.sink, KafkaSink) for node in topology.sinks.values())


def read_records(spark: SparkSession, name: str, spout: KafkaSpout) -> DataFrame:
    """The records of a spout as a streaming DataFrame. Raises ConfigError where a topic is missing,
    UnreachableError where Kafka does not answer."""
    topics = check_topics(partial(admin_of, spark), name, spout)
    reader = spark.readStream.format("kafka").options(**{**READING, **spout.options})
    reader = reader.option("kafka.bootstrap.servers", spout.servers).option(
        "includeHeaders", "headers" in spout.record.names
    )
    if spout.pattern is not None:
        reader = reader.option("subscribePattern", spout.pattern)
    else:
        reader = reader.option("subscribe", ",".join(spout.topics))
    reader = reader.option("maxOffsetsPerTrigger", spout.records_per_batch or RECORDS_PER_BATCH)
    for option, value in _start(spout, topics).items():
        reader = reader.option(option, value)
    return reader.load().select(*[F.col(column) for column in spout.record.names])


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
    tables = (store.read(batch_rows.ref) for batch_rows in sink_rows)
    missing, instead = missing_topics(partial(admin_of, spark), node.name, sink, tables), sink.undeliverable

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
        with naming(f"sink {node.name!r}"):
            if send([made(number) for number in range(count)]):
                return
    frame = spark.range(0, count, 1, count).mapInArrow(records, OUTGOING)
    options = {**WRITING, **sink.options, "kafka.bootstrap.servers": sink.servers}
    with naming(f"sink {node.name!r}"), spark_failures():
        frame.write.format("kafka").options(**options).save()


_ROWS = 10_000
"""Number of records given to Spark at a time."""


def _start(spout: KafkaSpout, topics: Mapping[str, int]) -> dict[str, str]:
    """The starting offsets of a new query, in Spark's format."""
    match spout.starting:
        case str() as word:
            return {"startingOffsets": word}
        case datetime() as moment:
            return {"startingTimestamp": str(since_1970(moment)), "startingOffsetsByTimestampStrategy": "latest"}
        case offsets:
            every = {
                topic: {
                    str(partition): offsets.get(topic, {}).get(partition, _EARLIEST) for partition in range(partitions)
                }
                for topic, partitions in topics.items()
            }
            return {"startingOffsets": json.dumps(every)}


@contextmanager
def admin_of(spark: SparkSession, whose: str, servers: str, options: Mapping[str, str]) -> Iterator[JavaAdmin]:
    """Kafka's own client for queries about topics. Raises UnreachableError where no server answers."""
    jvm: Any = spark._jvm
    properties = jvm.java.util.Properties()
    for name, value in {**FIRST, **kafka_settings(options), "bootstrap.servers": servers}.items():
        properties.setProperty(name, value)
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        try:
            yield JavaAdmin(jvm, admin)
        finally:
            admin.close(jvm.java.time.Duration.ofSeconds(0))
    except Py4JJavaError as error:
        raise unreachable(whose, servers, str(error.java_exception)) from error


class JavaAdmin:
    """Kafka's own client; its errors are those of Py4J."""

    def __init__(self, jvm: Any, admin: Any) -> None:
        self._jvm, self._admin = jvm, admin

    def topics(self) -> set[str]:
        return set(self._admin.listTopics().names().get())

    def describe(self, topics: Collection[str]) -> dict[str, TopicInfo]:
        asked = self._jvm.java.util.ArrayList()
        for topic in sorted(topics):
            asked.add(topic)
        found = self._admin.describeTopics(asked).allTopicNames().get()
        return {
            topic: TopicInfo(str(found[topic].topicId().toString()), int(found[topic].partitions().size()))
            for topic in topics
        }

    def ends(self, places: Collection[Place], *, first: bool = False) -> dict[Place, int]:
        kinds = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
        asked = self._jvm.java.util.HashMap()
        partitions = {place: self._jvm.org.apache.kafka.common.TopicPartition(*place) for place in places}
        for partition in partitions.values():
            asked.put(partition, kinds.earliest() if first else kinds.latest())
        found = self._admin.listOffsets(asked).all().get() if partitions else {}
        return {place: int(found[partition].offset()) for place, partition in partitions.items()}

    def limits(self, topics: Collection[str]) -> dict[str, int]:
        kind = self._jvm.org.apache.kafka.common.config.ConfigResource
        asked = self._jvm.java.util.ArrayList()
        for topic in topics:
            asked.add(kind(kind.Type.TOPIC, topic))
        try:
            configs = self._admin.describeConfigs(asked).all().get()
        except Py4JJavaError:
            return {}
        entries = {resource.name(): configs[resource].get("max.message.bytes") for resource in configs}
        return {topic: int(entry.value()) for topic, entry in entries.items() if entry is not None}

    def makes_topics(self) -> bool:
        kind = self._jvm.org.apache.kafka.common.config.ConfigResource
        try:
            broker = self._admin.describeCluster().nodes().get().iterator().next().idString()
            asked = self._jvm.java.util.ArrayList()
            asked.add(kind(kind.Type.BROKER, broker))
            broker_config = next(iter(self._admin.describeConfigs(asked).all().get().values()))
            entry = broker_config.get("auto.create.topics.enable")
            return entry is None or str(entry.value()).lower() != "false"
        except Py4JJavaError:  # not every user may query this
            return True
