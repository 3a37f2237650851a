"""Reads what Spark has planned of a Kafka topic in the driver's own Java, without a Spark job.

Spark's connector cuts the batches and keeps their offsets. Its job to read some hundred records takes longer than all
the rest of a batch, so on one machine a consumer of the driver's reads them (decision 73). What it cannot read as
planned is left to Spark, which then reads it, or says what is wrong.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from manager.storage.file_systems.files import delete, make_private
from manager.storage.segments.file_segments import FileSegments
from topologies.checkpoints.spark_half.source_log import OffsetRange
from topologies.engine.batch.context import Context
from topologies.io.kafka import KafkaSpout
from topologies.sources.record_files import RecordFile
from topologies.sources.records import Records
from topologies.spark.client.client_settings import kafka_settings, properties
from topologies.spark.jvm.compiled import FAILURES, compiled, made
from topologies.spark.kafka_frames import READING

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
_SOURCE = Path(__file__).with_name("KafkaRanges.java")
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
            constructor = compiled(self._spark, _SOURCE)
            self._readers = {
                name: made(self._spark, constructor, self._settings(spout), "headers" in spout.record.names)
                for name, spout in self._spouts.items()
            }
            self._usable = True
        return self._readers

    def _settings(self, spout: KafkaSpout) -> Any:
        """What the consumers of a spout are told, as Spark's are."""
        given = kafka_settings(READING, spout.options)
        return properties(self._spark, {**_DEFAULTS, **given, **_FIXED, "bootstrap.servers": spout.servers})


def _is_usual(options: Mapping[str, str]) -> bool:
    """Whether nothing is asked of Spark's reading but what a consumer does by itself."""
    return options.get("failOnDataLoss", "true") == "true" and "kafka.group.id" not in options
