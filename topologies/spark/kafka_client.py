"""The driver as a client of Kafka, in its own Java, without a Spark job (decision 73)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from manager.storage.files import delete, make_private, write_private
from manager.storage.segment_files import FileSegments
from topologies.engine.batch import Context
from topologies.engine.kafka_records import RecordFile, Records
from topologies.engine.kafka_topics import OffsetRange
from topologies.io.kafka import KafkaSink, KafkaSpout
from topologies.io.kafka_options import READING, WRITING, kafka_settings
from topologies.spark.jvm.java import FAILURES, compiled, made

# The settings of Kafka's own clients.


def properties(spark: SparkSession, settings: Mapping[str, str]) -> Any:
    """Settings as Java's Properties."""
    jvm: Any = spark._jvm
    found = jvm.java.util.Properties()
    for name, value in settings.items():
        found.setProperty(name, value)
    return found


# Reads what Spark has planned of a Kafka topic in the driver's own Java, without a Spark job.
#
# Spark's connector cuts the batches and keeps their offsets. Its job to read some hundred records takes longer than
# all the rest of a batch, so on one machine a consumer of the driver's reads them (decision 73). What it cannot read
# as planned is left to Spark, which then reads it, or says what is wrong.


_PATIENCE_MS = 5_000
"""Milliseconds without any record after which reading is left to Spark, which waits longer."""
_LAST_PATIENCE_MS = 60_000
"""The same where Spark cannot read them."""
_FIXED = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "none",  # offsets that are gone are an error, which Spark is left to tell
}
_DEFAULTS = {"receive.buffer.bytes": "65536"}
"""As Spark has them."""
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
        """The records of a batch in files, by spout, in order of topic and partition; the files are deleted at the end
        of the block. None where Spark must read them."""
        store = context.store
        if not self._usable or not isinstance(store, FileSegments) or store.uri is not None:
            yield None
            return
        files: dict[str, list[RecordFile]] = {}
        try:
            yield files if self._read(ranges, f"{store.root}/{context.key}", files) else None
        finally:
            for file in (file for of_spout in files.values() for file in of_spout):
                delete(store.filesystem, file.path, missing=True)

    def close(self) -> None:
        """Disconnect."""
        for reader in (self._readers or {}).values():
            with suppress(Py4JError):
                reader.close()
        self._readers = None

    def in_memory(self, ranges: Mapping[str, Sequence[OffsetRange]]) -> dict[str, list[Records]]:
        """The records of a batch that Spark cannot read, by spout, in order of topic and partition. Raises one of
        FAILURES where they are not there, or Kafka does not answer."""
        files: dict[str, list[RecordFile]] = {}
        with TemporaryDirectory(prefix="windbolt-kafka-", ignore_cleanup_errors=True) as folder:
            self._read_into(folder, ranges, files, _LAST_PATIENCE_MS)
            return {
                name: [
                    Records(name, tables)
                    for file in of_spout
                    if (tables := list(file.tables(self._spouts[name].record)))
                ]
                for name, of_spout in files.items()
            }

    def _read(
        self, ranges: Mapping[str, Sequence[OffsetRange] | None], folder: str, files: dict[str, list[RecordFile]]
    ) -> bool:
        """Read all ranges into files, which are noted before they are made; whether that was possible."""
        known = {name: of_spout for name in self._spouts if (of_spout := ranges.get(name)) is not None}
        if len(known) < len(self._spouts):
            return False
        try:
            self._read_into(folder, known, files, _PATIENCE_MS)
        except FAILURES as error:
            _LOG.debug("Spark reads the records: %s", error)
            return False
        return True

    def _read_into(
        self,
        folder: str,
        ranges: Mapping[str, Sequence[OffsetRange]],
        files: dict[str, list[RecordFile]],
        patience_ms: int,
    ) -> None:
        """Read ranges into files of a folder, which are noted before they are made. Raises one of FAILURES."""
        readers = self._compiled()
        for name, of_spout in ranges.items():
            lines, files[name] = [], []
            for each in of_spout:
                path = f"{uuid.uuid4().hex}.records"
                make_private(f"{folder}/{path}")
                files[name].append(RecordFile(name, each.topic, each.partition, f"{folder}/{path}"))
                lines.append(f"{each.topic}\t{each.partition}\t{each.start}\t{each.end}\t{path}")
            if lines:
                readers[name].read(folder, "\n".join(lines), self._threads, patience_ms)

    def _compiled(self) -> dict[str, Any]:
        """A reader for each spout."""
        if self._readers is None:
            self._usable = False  # until this has been done
            constructor = compiled(self._spark, _RANGES_SOURCE)
            self._readers = {
                name: made(self._spark, constructor, self._settings(spout), "headers" in spout.record.names)
                for name, spout in self._spouts.items()
            }
            self._usable = True
        return self._readers

    def _settings(self, spout: KafkaSpout) -> Any:
        """Returns the settings of a spout's consumers, the same as Spark's."""
        given = kafka_settings(READING, spout.options)
        return properties(self._spark, {**_DEFAULTS, **given, **_FIXED, "bootstrap.servers": spout.servers})


def _is_usual(options: Mapping[str, str]) -> bool:
    """True if no option asks more of Spark's reading than a consumer does by itself."""
    return options.get("failOnDataLoss", "true") == "true" and "kafka.group.id" not in options


# Writes the rows of small batches to Kafka from the driver's own Java, without a Spark job (decision 73).
#
# What cannot be written so is written by Spark, which says what is wrong; records that were written already then come
# again, with the ids that they had.


MOST_ROWS, _MOST_BYTES = 100_000, 1 << 26
"""Rows and bytes of a batch up to which the driver writes them, with one thread and all of them in memory."""
_SENDER_SOURCE = Path(__file__).with_name("KafkaSender.java")


class KafkaSenders:
    """Producers of the sinks of one run, which stay connected from batch to batch."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._constructor: Any = None
        self._usable = True
        self._senders: dict[str, Any] = {}

    def send(self, name: str, sink: KafkaSink, tables: Sequence[pa.Table], store: FileSegments, folder: str) -> bool:
        """Write rows (``outgoing``) for a sink, and wait until they are written; whether that was possible."""
        records = pa.concat_tables(tables)
        if not self._usable or records.nbytes > _MOST_BYTES:
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
            delete(store.filesystem, path, missing=True)
        return True

    def close(self) -> None:
        """Disconnect."""
        for name in list(self._senders):
            self._close(name)

    def _sender(self, name: str, sink: KafkaSink) -> Any:
        if self._constructor is None:
            self._usable = False  # until this has been done
            self._constructor = compiled(self._spark, _SENDER_SOURCE)
            self._usable = True
        if name not in self._senders:
            settings = {**kafka_settings(WRITING, sink.options), "bootstrap.servers": sink.servers}
            self._senders[name] = made(self._spark, self._constructor, properties(self._spark, settings))
        return self._senders[name]

    def _close(self, name: str) -> None:
        sender = self._senders.pop(name, None)
        if sender is not None:
            with suppress(Py4JError):
                sender.close()
