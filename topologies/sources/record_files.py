"""Records of Kafka in a file that the driver's Java has written for the tasks of a batch (``KafkaRanges.java``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from topologies.engine.rows.source_batch import SourceBatch
from topologies.io.kafka import RECORD, KafkaSpout
from topologies.sources.records import MILLISECONDS, Records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topologies.topology import Topology

_HEADER = RECORD.field("headers").type.value_type


@dataclass(frozen=True)
class RecordFile:
    """A range of offsets of one partition of a topic: a split of a source."""

    component: str
    topic: str
    partition: int
    path: str

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}"

    def read(self, topology: Topology) -> Iterator[SourceBatch]:
        """The events, as from Spark; none where the range has no record."""
        spout = topology.spouts[self.component].spout
        assert isinstance(spout, KafkaSpout)
        tables = list(self.tables(spout.record))
        if tables:
            yield from Records(self.component, tables).read(topology)

    def tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """These columns of the records, as many records at a time as Java has gathered; the timestamps are Kafka's own
        numbers of milliseconds."""
        if not os.path.getsize(self.path):
            return
        with pa.memory_map(self.path) as source:
            reader = _Reader(source.read_buffer())
        while reader.left:
            yield self._table(reader, schema)

    def _table(self, reader: _Reader, schema: pa.Schema) -> pa.Table:
        rows, headers, *sizes = reader.numbers(6, np.int64).tolist()
        offsets, timestamps = reader.numbers(rows, np.int64), reader.numbers(rows, np.int64)
        lengths = [reader.numbers(count, np.int32) for count in (rows, rows, rows, headers, headers)]
        key_lengths, value_lengths, header_counts, *of_headers = lengths
        keys, values, *in_headers = [reader.bytes(size) for size in sizes]
        columns: dict[str, Any] = {
            "topic": pa.repeat(pa.scalar(self.topic, pa.string()), rows),
            "partition": pa.repeat(pa.scalar(self.partition, pa.int32()), rows),
            "offset": pa.array(offsets),
            "timestamp": pa.array(timestamps).cast(MILLISECONDS),
            "key": _binary(key_lengths, keys),
            "value": _binary(value_lengths, values),
        }
        if "headers" in schema.names:
            names, texts = [_binary(*each) for each in zip(of_headers, in_headers, strict=True)]
            pairs = pa.StructArray.from_arrays([names.cast(pa.string()), texts], fields=list(_HEADER))
            # A record without headers has null there, as with Spark.
            counts = np.where(header_counts == 0, -1, header_counts)
            edges, mask = _edges(counts), pa.array(counts < 0)
            columns["headers"] = pa.ListArray.from_arrays(edges, pairs, type=pa.list_(_HEADER), mask=mask)
        return pa.table({field.name: columns[field.name] for field in schema})


class _Reader:
    """Takes arrays from a buffer, one after another; each begins at a multiple of 8 bytes."""

    def __init__(self, buffer: pa.Buffer) -> None:
        self._buffer, self._position = buffer, 0

    @property
    def left(self) -> int:
        return len(self._buffer) - self._position

    def numbers(self, count: int, kind: type[np.int64 | np.int32]) -> NDArray[Any]:
        return np.frombuffer(self.bytes(count * np.dtype(kind).itemsize), np.dtype(kind).newbyteorder("<"))

    def bytes(self, size: int) -> pa.Buffer:
        start = self._position
        self._position += size + -size % 8
        return self._buffer.slice(start, size)


def _binary(lengths: NDArray[np.int32], data: pa.Buffer) -> pa.Array:
    """Values of these lengths, -1 for null."""
    nulls = lengths < 0
    validity = pa.array(~nulls).buffers()[1] if nulls.any() else None
    return pa.Array.from_buffers(pa.binary(), len(lengths), [validity, _edges(lengths).buffers()[1], data])


def _edges(lengths: NDArray[np.int32]) -> pa.Array:
    """Where each begins, and the last ends."""
    edges = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(np.maximum(lengths, 0), out=edges[1:])
    return pa.array(edges)
