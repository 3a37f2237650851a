"""Kafka in the Java of a classic session: topics as a streaming DataFrame, rows as records, and the driver as a Kafka
client, without a Spark job (decision 73)."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from manager.storage.files import delete, make_private, write_private
from manager.storage.segment_files import FileSegments
from manager.storage.segments import SegmentStore
from topologies.engine.batch import Context
from topologies.engine.kafka_records import (
    OUTGOING,
    OffsetRange,
    RecordFile,
    Records,
    TopicInfo,
    TopicPartition,
    check_topics,
    errors_about,
    missing_topics,
    outgoing,
    since_1970,
)
from topologies.engine.task_data import SinkBatch, SinkRows
from topologies.graph.graph import Graph, SinkNode
from topologies.io.kafka import (
    FIRST_RESPONSE_TIMEOUTS,
    READING_DEFAULTS,
    RECORDS_PER_BATCH,
    WRITING_DEFAULTS,
    KafkaSink,
    KafkaSpout,
    kafka_settings,
    redirect_missing,
)
from topologies.io.topics.encode import encode
from topologies.spark.java import FAILURES, SHARED_WORK, WithFallback, compile_class, new_object
from topologies.spark.spark_errors import run_for_java, unreachable
from topologies.spark.spark_tasks import spark_failures

_EARLIEST = -2
"""A partition's earliest record, in Spark's offsets."""


def reaches_kafka(topology: Graph) -> bool:
    """True if a topology needs Spark's connector."""
    spouts = any(isinstance(node.spout, KafkaSpout) for node in topology.spouts.values())
    return spouts or any(isinstance(node.sink, KafkaSink) for node in topology.sinks.values())


def read_records(spark: SparkSession, name: str, spout: KafkaSpout) -> DataFrame:
    """Returns the records of a spout as a streaming DataFrame. Raises ConfigError if a topic is missing,
    UnreachableError if Kafka does not respond."""
    topics = check_topics(partial(admin_of, spark), name, spout)
    reader = spark.readStream.format("kafka").options(**{**READING_DEFAULTS, **spout.options})
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
"""Writes records without Spark; returns False if that was not possible."""


def send_records(
    spark: SparkSession,
    node: SinkNode,
    batch: SinkBatch,
    sink_rows: list[SinkRows],
    store: SegmentStore,
    send: Send | None = None,
) -> None:
    """Writes rows to Kafka: with ``send``, if possible, else from the workers, one task per reference."""
    sink, schema = node.sink, node.schema
    assert isinstance(sink, KafkaSink)
    topic, rows_to_send = (
        sink.topic,
        [(batch_rows.ref, batch.record_name(node.name, batch_rows), batch_rows.first) for batch_rows in sink_rows],
    )
    tables = (store.read(batch_rows.ref) for batch_rows in sink_rows)
    missing, instead = missing_topics(partial(admin_of, spark), node.name, sink, tables), sink.undeliverable

    def records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch_rows in batches:
            for number in batch_rows.column("id").to_pylist():
                yield from run_for_java(batches_of, number, None)

    def encoded_rows(number: int) -> pa.Table:
        ref, name, first = rows_to_send[number]
        rows = encode(sink.records, store.read(ref).cast(schema))
        if missing and instead is not None:
            rows = redirect_missing(rows, missing, instead)
        return outgoing(rows, topic, name, first)

    def batches_of(number: int, _: Context) -> list[pa.RecordBatch]:
        records: list[pa.RecordBatch] = encoded_rows(number).to_batches(_ROWS)
        return records

    count = len(rows_to_send)
    if send is not None:
        with errors_about(f"sink {node.name!r}"):
            if send([encoded_rows(number) for number in range(count)]):
                return
    frame = spark.range(0, count, 1, count).mapInArrow(records, OUTGOING)
    options = {**WRITING_DEFAULTS, **sink.options, "kafka.bootstrap.servers": sink.servers}
    with errors_about(f"sink {node.name!r}"), spark_failures():
        frame.write.format("kafka").options(**options).save()


_ROWS = 10_000
"""Number of records passed to Spark at a time."""


def _start(spout: KafkaSpout, topics: Mapping[str, int]) -> dict[str, str]:
    """Returns the starting offsets of a new query, in Spark's format."""
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
    """Yields Kafka's own client for queries about topics. Raises UnreachableError if no server responds."""
    jvm: Any = spark._jvm
    java_properties = jvm.java.util.Properties()
    for name, value in {**FIRST_RESPONSE_TIMEOUTS, **kafka_settings(options), "bootstrap.servers": servers}.items():
        java_properties.setProperty(name, value)
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(java_properties)
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
        request = self._jvm.java.util.ArrayList()
        for topic in sorted(topics):
            request.add(topic)
        found = self._admin.describeTopics(request).allTopicNames().get()
        return {
            topic: TopicInfo(str(found[topic].topicId().toString()), int(found[topic].partitions().size()))
            for topic in topics
        }

    def ends(self, places: Collection[TopicPartition], *, first: bool = False) -> dict[TopicPartition, int]:
        kinds = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
        request = self._jvm.java.util.HashMap()
        partitions = {place: self._jvm.org.apache.kafka.common.TopicPartition(*place) for place in places}
        for partition in partitions.values():
            request.put(partition, kinds.earliest() if first else kinds.latest())
        found = self._admin.listOffsets(request).all().get() if partitions else {}
        return {place: int(found[partition].offset()) for place, partition in partitions.items()}

    def limits(self, topics: Collection[str]) -> dict[str, int]:
        kind = self._jvm.org.apache.kafka.common.config.ConfigResource
        request = self._jvm.java.util.ArrayList()
        for topic in topics:
            request.add(kind(kind.Type.TOPIC, topic))
        try:
            configs = self._admin.describeConfigs(request).all().get()
        except Py4JJavaError:
            return {}
        entries = {resource.name(): configs[resource].get("max.message.bytes") for resource in configs}
        return {topic: int(entry.value()) for topic, entry in entries.items() if entry is not None}

    def makes_topics(self) -> bool:
        kind = self._jvm.org.apache.kafka.common.config.ConfigResource
        try:
            broker = self._admin.describeCluster().nodes().get().iterator().next().idString()
            request = self._jvm.java.util.ArrayList()
            request.add(kind(kind.Type.BROKER, broker))
            broker_config = next(iter(self._admin.describeConfigs(request).all().get().values()))
            entry = broker_config.get("auto.create.topics.enable")
            return entry is None or str(entry.value()).lower() != "false"
        except Py4JJavaError:  # not every user may query the settings
            return True


# The settings of Kafka's own clients.


def java_properties(spark: SparkSession, settings: Mapping[str, str]) -> Any:
    """Returns settings as Java's Properties."""
    jvm: Any = spark._jvm
    found = jvm.java.util.Properties()
    for name, value in settings.items():
        found.setProperty(name, value)
    return found


# Reads the records of a Kafka topic that Spark has planned in the driver's own Java, without a Spark job.
#
# Spark's connector cuts the batches and keeps their offsets. Its job for some hundred records takes longer than the
# rest of a batch, so on one machine a consumer in the driver reads them (decision 73). If it cannot read as planned,
# Spark reads instead, or reports the problem.


_PATIENCE_MS = 5_000
"""Milliseconds without a record after which Spark reads instead, which waits longer."""
_LAST_PATIENCE_MS = 60_000
"""Milliseconds without a record after which reading fails, for records that Spark cannot read."""
_MEMORY_DIVISOR = 4
"""Divisor of Java's memory, for the share of the sums of all threads together."""
_REQUIRED_SETTINGS = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "none",  # offsets of deleted records are an error, which Spark reports
}
_DEFAULTS = {"receive.buffer.bytes": "65536"}
"""Spark's default values."""
_RANGES_SOURCE = Path(__file__).with_name("KafkaRanges.java")
_LOG = logging.getLogger("windbolt.kafka")


class KafkaRanges:
    """Consumers of the spouts of one run, which stay connected from batch to batch."""

    def __init__(self, spark: SparkSession, spouts: Mapping[str, KafkaSpout], threads: int) -> None:
        self._spark, self._threads = spark, threads
        self._spouts = spouts
        self._readers: dict[str, Any] | None = None
        self._usable = all(_is_usual(spout.options) for spout in spouts.values())

    @contextmanager
    def read(
        self, ranges: Mapping[str, Sequence[OffsetRange] | None], context: Context
    ) -> Iterator[dict[str, list[RecordFile]] | None]:
        """Yields the records of a batch in files, by spout, in order of topic and partition; the files are deleted at
        the end of the block. Yields None if Spark must read them."""
        store = context.store
        if not self._usable or not isinstance(store, FileSegments) or store.uri is not None:
            yield None
            return
        files: dict[str, list[RecordFile]] = {}
        try:
            yield files if self._read(ranges, f"{store.root}/{context.key}", files) else None
        finally:
            for file in (file for spout_ranges in files.values() for file in spout_ranges):
                delete(store.filesystem, file.path, missing_ok=True)

    @property
    def usable(self) -> bool:
        """True if these clients read exactly as Spark would."""
        return self._usable

    @property
    def threads(self) -> int:
        """Number of the driver's threads that read concurrently."""
        return self._threads

    def add_up(self, name: str, ranges: Sequence[OffsetRange], code: Any, plan: str) -> bool:
        """Lets a program (FrameSums.java) add up the records of a spout, in as many threads as there are, but at most
        one per range. Returns False if they could not be read."""
        lines = "\n".join("\t".join(map(str, each)) for each in ranges)
        with WithFallback(_LOG, "the records are read anew"):
            self._open_readers()[name].addUp(lines, code, plan, self._threads, _PATIENCE_MS, _MEMORY_DIVISOR)
            return True
        return False

    def close(self) -> None:
        """Disconnects."""
        for reader in (self._readers or {}).values():
            with suppress(Py4JError):
                reader.close()
        self._readers = None

    def in_memory(self, ranges: Mapping[str, Sequence[OffsetRange]]) -> dict[str, list[Records]]:
        """Returns the records of a batch that Spark cannot read, by spout, in order of topic and partition. Raises one
        of FAILURES if records are missing, or Kafka does not respond."""
        files: dict[str, list[RecordFile]] = {}
        with TemporaryDirectory(prefix="windbolt-kafka-", ignore_cleanup_errors=True) as folder:
            self._read_into(folder, ranges, files, _LAST_PATIENCE_MS)
            return {
                name: [
                    Records(name, tables)
                    for file in spout_ranges
                    if (tables := list(file.tables(self._spouts[name].record)))
                ]
                for name, spout_ranges in files.items()
            }

    def _read(
        self, ranges: Mapping[str, Sequence[OffsetRange] | None], folder: str, files: dict[str, list[RecordFile]]
    ) -> bool:
        """Reads all ranges into files, which are listed in ``files`` before they are made. Returns False if that was
        not possible."""
        known_ranges = {name: spout_ranges for name in self._spouts if (spout_ranges := ranges.get(name)) is not None}
        if len(known_ranges) < len(self._spouts):
            return False
        with WithFallback(_LOG, "Spark reads the records"):
            self._read_into(folder, known_ranges, files, _PATIENCE_MS)
            return True
        return False

    def _read_into(
        self,
        folder: str,
        ranges: Mapping[str, Sequence[OffsetRange]],
        files: dict[str, list[RecordFile]],
        patience_ms: int,
    ) -> None:
        """Reads ranges into files of a folder, which are listed in ``files`` before they are made. Raises one of
        FAILURES."""
        readers = self._open_readers()
        for name, spout_ranges in ranges.items():
            lines, files[name] = [], []
            for each in spout_ranges:
                path = f"{uuid.uuid4().hex}.records"
                make_private(f"{folder}/{path}")
                files[name].append(RecordFile(name, each.topic, each.partition, f"{folder}/{path}"))
                lines.append(f"{each.topic}\t{each.partition}\t{each.start}\t{each.end}\t{path}")
            if lines:
                readers[name].read(folder, "\n".join(lines), self._threads, patience_ms)

    def _open_readers(self) -> dict[str, Any]:
        """Returns a reader for each spout."""
        if self._readers is None:
            self._usable = False  # until the readers exist
            constructor = compile_class(self._spark, _RANGES_SOURCE, SHARED_WORK)
            self._readers = {
                name: new_object(self._spark, constructor, self._settings(spout), "headers" in spout.record.names)
                for name, spout in self._spouts.items()
            }
            self._usable = True
        return self._readers

    def _settings(self, spout: KafkaSpout) -> Any:
        """Returns the settings of a spout's consumers, the same as Spark's."""
        settings = kafka_settings(READING_DEFAULTS, spout.options)
        settings = {**_DEFAULTS, **settings, **_REQUIRED_SETTINGS, "bootstrap.servers": spout.servers}
        return java_properties(self._spark, settings)


def _is_usual(options: Mapping[str, str]) -> bool:
    """True if no option makes Spark's reading differ from that of a default consumer."""
    return options.get("failOnDataLoss", "true") == "true" and "kafka.group.id" not in options


# Writes the rows of small batches to Kafka from the driver's own Java, without a Spark job (decision 73).
#
# If that fails, Spark writes, or reports the problem. Records that were already written then come again, with the same
# ids.


MOST_ROWS_OF_DRIVER, _MOST_BYTES_OF_DRIVER = 100_000, 1 << 26
"""Most rows and bytes of a batch that the driver writes, in one thread and from memory."""
_SENDER_SOURCE = Path(__file__).with_name("KafkaSender.java")


class KafkaSenders:
    """Producers of the sinks of one run, which stay connected from batch to batch."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._constructor: Any = None
        self._usable = True
        self._senders: dict[str, Any] = {}

    def send(self, name: str, sink: KafkaSink, tables: Sequence[pa.Table], store: FileSegments, folder: str) -> bool:
        """Writes rows (``outgoing``) for a sink, and waits until they are written. Returns False if that was not
        possible."""
        records = pa.concat_tables(tables)
        if not self._usable or records.nbytes > _MOST_BYTES_OF_DRIVER:
            return False
        path = f"{store.root}/{folder}/{uuid.uuid4().hex}.records"
        try:
            sender = self._sender(name, sink)
            stream = pa.BufferOutputStream()
            with pa.ipc.new_stream(stream, records.schema) as writer:
                writer.write_table(records)
            write_private(store.filesystem, path, stream.getvalue().to_pybytes())
            sender.send(path)
        except FAILURES as error:
            _LOG.debug("Spark writes the records of sink %r: %s", name, error)
            self._close(name)
            return False
        finally:
            delete(store.filesystem, path, missing_ok=True)
        return True

    def close(self) -> None:
        """Disconnects."""
        for name in list(self._senders):
            self._close(name)

    def _sender(self, name: str, sink: KafkaSink) -> Any:
        if self._constructor is None:
            self._usable = False  # until the sender exists
            self._constructor = compile_class(self._spark, _SENDER_SOURCE)
            self._usable = True
        if name not in self._senders:
            settings = {**kafka_settings(WRITING_DEFAULTS, sink.options), "bootstrap.servers": sink.servers}
            self._senders[name] = new_object(self._spark, self._constructor, java_properties(self._spark, settings))
        return self._senders[name]

    def _close(self, name: str) -> None:
        sender = self._senders.pop(name, None)
        if sender is not None:
            with suppress(Py4JError):
                sender.close()
