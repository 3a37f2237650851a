"""Writes the rows of small batches to Kafka from the driver's own Java, without a Spark job (decision 73).

What cannot be written so is written by Spark, which says what is wrong; records that were written already then come
again, with the ids that they had.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from manager.storage.file_systems.files import delete, write_private
from manager.storage.segments.file_segments import FileSegments
from topologies.io.kafka import KafkaSink
from topologies.spark.client.client_settings import kafka_settings, properties
from topologies.spark.jvm.compiled import FAILURES, compiled, made
from topologies.spark.kafka_frames import WRITING

MOST_ROWS, _MOST_BYTES = 100_000, 1 << 26
"""Rows and bytes of a batch up to which the driver writes them, with one thread and all of them in memory."""
_SOURCE = Path(__file__).with_name("KafkaSender.java")
_LOG = logging.getLogger("windbolt.kafka")


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
            write_private(store.filesystem, path, file_of(records))
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
            self._constructor = compiled(self._spark, _SOURCE)
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


def file_of(records: pa.Table) -> bytes:
    """Records as ``KafkaSender.java`` reads them: numbers of 32 bits, and values behind the lengths of all of them."""
    rows = records.combine_chunks()
    topics = _whole(rows, "topic").dictionary_encode()
    headers = _whole(rows, "headers")
    pairs = headers.flatten()
    counts = pc.list_value_length(headers).fill_null(0)
    sizes = pa.array([len(records), len(topics.dictionary), len(pairs)], pa.int32())
    return b"".join(
        [
            _numbers(sizes),
            _values(topics.dictionary.cast(pa.binary())),
            _numbers(topics.indices),
            _numbers(_whole(rows, "partition").fill_null(-1)),
            _numbers(counts),
            _values(_whole(rows, "key")),
            _values(_whole(rows, "value")),
            _values(pairs.field(0).cast(pa.binary())),
            _values(pairs.field(1)),
        ]
    )


def _whole(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _numbers(values: pa.Array) -> bytes:
    data: bytes = values.to_numpy(zero_copy_only=False).astype("<i4").tobytes()
    return data


def _values(column: pa.Array) -> bytes:
    lengths = pc.binary_length(column).fill_null(-1)
    return _numbers(lengths) + b"".join(column.drop_null().to_pylist())
