"""Kafka for both engines, each with its own client. Topics before and during a run: do they exist, can sinks write to
them, where does reading begin? Records as events, and rows as records."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from policies.watermarks import NONE
from topologies.engine.merging import keys_of, replace_merged
from topologies.engine.task_data import MergedSplits, SourceBatch, SourceSplit, TaskOutput
from topologies.engine.tasks import ingest
from topologies.graph.graph import Graph
from topologies.io.formats.conform import conform_rows
from topologies.io.formats.event_files import NO_BAD_ROWS, BadRow, BadRows, python_columns, row_as_json
from topologies.io.kafka import ID_HEADER, KafkaSink, KafkaSpout
from topologies.io.topics.declared import RECORD
from topologies.io.topics.decode import decode
from windowing.errors import ConfigError, DataError, EnvironmentMissing, UnreachableError, WindboltError, nearest
from windowing.schema import DEFAULT_STREAM, parse_schema
from windowing.timestamps import EARLIEST, LATEST, to_integers

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from topologies.engine.batch import Context, Executor
    from topologies.graph.graph import Graph
    from topologies.io.formats.event_files import Chunk


class OffsetRange(NamedTuple):
    """The records of one partition in a batch: from offset ``start`` up to, not including, ``end``."""

    topic: str
    partition: int
    start: int
    end: int


def ranges_between(
    start_offsets: Mapping[TopicPartition, int], end_offsets: Mapping[TopicPartition, int]
) -> list[OffsetRange]:
    """Returns the non-empty ranges of offsets between the ends of two batches, in order of topic and partition. A new
    partition begins with its first record."""
    sizes = (
        (topic_partition, start_offsets.get(topic_partition, 0), end)
        for topic_partition, end in sorted(end_offsets.items())
    )
    return [OffsetRange(*topic_partition, start, end) for topic_partition, start, end in sizes if start < end]


TopicPartition = tuple[str, int]
"""A topic and a partition."""
_PAUSES = (0.2, 0.5)
"""Seconds before each further look for missing topics."""
UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of topics of brokers without ids, before Kafka 2.8."""


class TopicInfo(NamedTuple):
    """A topic that exists."""

    id: str
    """The id in Java's notation; ``UNKNOWN_ID`` if the broker has none."""
    partitions: int


class Admin(Protocol):
    """A client of Kafka for requests about topics. Its context manager converts its errors into UnreachableError."""

    def topics(self) -> set[str]:
        """Returns the names of all topics except Kafka's own."""
        ...

    def describe(self, topics: Collection[str]) -> dict[str, TopicInfo]:
        """Returns facts about the existing topics."""
        ...

    def ends(self, topic_partitions: Collection[TopicPartition], *, first: bool = False) -> dict[TopicPartition, int]:
        """Returns, for each partition, the offset after the last record, or with ``first`` that of the first record."""
        ...

    def limits(self, topics: Collection[str]) -> dict[str, int]:
        """Returns the size in bytes of the largest message of each topic; empty without permission to query it."""
        ...

    def makes_topics(self) -> bool:
        """True if brokers create a topic when it is first written to, or do not tell."""
        ...


OpenAdmin = Callable[[str, str, Mapping[str, str]], AbstractContextManager[Admin]]
"""Opens a client, given its owner (for messages), the servers and the options."""


def check_topics(open_admin: OpenAdmin, name: str, spout: KafkaSpout) -> dict[str, int]:
    """Returns the topics that a spout names, with their numbers of partitions. Raises ConfigError for a missing topic,
    UnreachableError if Kafka does not respond."""
    whose = f"spout {name!r}"
    with open_admin(whose, spout.servers, spout.options) as admin:
        existing = _topics(admin, spout.topics)
        missing = [topic for topic in spout.topics if topic not in existing]
        if missing:
            suggestions = nearest(missing[0], sorted(existing), most=3) or sorted(existing)[:10]
            raise ConfigError(
                f"{whose}: there is no topic {', '.join(map(repr, missing))} at {spout.servers}",
                why=f"there {'is' if len(suggestions) == 1 else 'are'} {', '.join(suggestions)}"
                if suggestions
                else "there are no topics",
                do="create it first, or correct the name",
            )
        found = admin.describe(spout.topics) if spout.topics else {}
        partitions = {topic: found[topic].partitions for topic in spout.topics}
    offsets = spout.starting if isinstance(spout.starting, Mapping) else {}
    missing = [f"{topic} {each}" for topic in offsets for each in offsets[topic] if each >= partitions[topic]]
    if missing:
        raise ConfigError(f"starting names partition {missing[0]}, which does not exist", do="correct the number")
    return partitions


def _topics(admin: Admin, wanted: Iterable[str]) -> set[str]:
    """Returns all topics. Repeats the request if a wanted topic is missing, because other brokers learn of a new topic
    a moment later."""
    existing, wanted = admin.topics(), set(wanted)
    for pause in _PAUSES:
        if wanted <= existing:
            break
        time.sleep(pause)
        existing = admin.topics()
    return existing


def since_1970(moment: datetime) -> int:
    """Returns the first whole millisecond at or after a moment, since 1970."""
    return -((datetime(1970, 1, 1, tzinfo=UTC) - moment) // timedelta(milliseconds=1))


def check_sinks(open_admin: OpenAdmin, topology: Graph) -> None:
    """Raises UnreachableError if a sink's Kafka does not respond, ConfigError if topics are missing.

    If brokers create topics by themselves, no topic counts as missing.
    """
    missing: list[str] = []
    low_limits: list[str] = []
    for name, node in topology.sinks.items():
        sink = node.sink
        if not isinstance(sink, KafkaSink):
            continue
        with open_admin(f"sink {name!r}", sink.servers, sink.options) as admin:
            named = [topic for topic in (sink.topic, *sink.topics) if topic is not None]
            existing = _topics(admin, named)
            absent = [topic for topic in named if topic not in existing]
            if absent and not admin.makes_topics():
                missing.append(f"{', '.join(map(repr, absent))} of sink {name!r} at {sink.servers}")
            low_limits.extend(_low_limits(admin, name, sink, existing))
    if missing:
        raise ConfigError(
            f"there is no topic {'; nor '.join(missing)}",
            why="the brokers do not create topics, and the first record for one would end the run",
            do="create them first, or correct their names",
        )
    if low_limits:
        raise ConfigError(
            "; ".join(low_limits),
            why="a message that the topic refuses would stop the run, and every rerun",
            do="raise max.message.bytes of the topic, or lower max.request.size of its connection to that: larger dead "
            "letters are then cut, and larger results become dead letters",
        )


def missing_topics(open_admin: OpenAdmin, name: str, sink: KafkaSink, tables: Iterable[pa.Table]) -> frozenset[str]:
    """Returns the missing topics that rows name, if the sink has another topic for such rows."""
    if sink.undeliverable is None:
        return frozenset()
    named: set[str] = set()
    for table in tables:
        if "topic" in table.column_names:
            named.update(topic for topic in pc.unique(table.column("topic")).to_pylist() if topic is not None)
    unknown = named.difference(sink.topics)
    if not unknown:
        return frozenset()
    with open_admin(f"sink {name!r}", sink.servers, sink.options) as admin:
        unknown -= admin.topics()
        return frozenset() if unknown and admin.makes_topics() else frozenset(unknown)


def _low_limits(admin: Admin, name: str, sink: KafkaSink, existing: set[str]) -> Iterator[str]:
    """Yields the topics of a sink whose limit is below the size to which the sink cuts its rows; none without
    permission to query it."""
    topics = [topic for topic in sink.topics if topic in existing]
    if sink.largest is None or not topics:
        return
    for topic, limit in admin.limits(topics).items():
        if limit < sink.largest:
            yield (
                f"sink {name!r}: topic {topic!r} takes messages of {limit:,} bytes, and its connection "
                f"those of {sink.largest:,}"
            )


# Errors of Kafka as text, for both clients.


def no_answer(whose: str, servers: str, why: str, *, transient: bool) -> UnreachableError:
    """Returns the error for servers that do not respond, or not as expected."""
    return UnreachableError(
        f"{whose}: Kafka at {servers} does not answer",
        why=why,
        do="start it, or correct the servers; encryption and passwords are options={'kafka.security.protocol': ...}",
        transient=transient,
    )


def deleted_unread(why: str) -> DataError:
    """Returns the error for deleted records, if a spout must not lose any."""
    return DataError(
        "Kafka has deleted records before they were read",
        why=why,
        do="Kafka deletes by age and size: keep records longer, or run more often. To continue without them, "
        "give the spout options={'failOnDataLoss': False}; or start with a new checkpoint",
    )


def ends_earlier(why: str) -> DataError:
    """Returns the error for a partition that ends before the offset already read, if a spout must not lose records."""
    return DataError(
        "a topic of Kafka's ends before what was read of it",
        why=f"{why}: it was deleted and made anew, or its brokers have lost records",
        do="start the run again: it then says whether the topic is another one, and how to go on. If it is the "
        "same, options={'failOnDataLoss': False} of the spout goes on at its end",
    )


def too_large(why: str) -> DataError:
    """Returns the error for a record that a producer or a topic refuses as too large."""
    return DataError(
        "a record is too large for Kafka",
        why=why,
        do="let the producer take more (max.request.size) and the topic too (max.message.bytes), then rerun: "
        "the batch was not committed, and runs again. A dead letter is larger than its message, by its headers",
    )


def no_topic(why: str) -> EnvironmentMissing:
    """Returns the error for a missing topic."""
    return EnvironmentMissing("a topic of Kafka's is not there", why=why, do="make it, or correct its name")


def no_partition(why: str) -> DataError:
    """Returns the error for a row whose partition is missing."""
    return DataError(
        "a row for Kafka names a partition that its topic does not have",
        why=why,
        do="correct its column 'partition', or add partitions to the topic, then rerun: the batch was not committed, "
        "and runs again",
    )


def not_delivered(why: str) -> UnreachableError:
    """Returns the error for records that brokers did not accept in time."""
    return UnreachableError(
        "Kafka does not answer, or does not have the topic",
        why=why,
        do="check the brokers and topics, then rerun: the batch was not committed, and runs again",
        transient=True,
    )


@contextmanager
def errors_about(whose: str) -> Iterator[None]:
    """Adds to an error the spout or sink that it concerns, such as ``sink 'out'``."""
    try:
        yield
    except WindboltError as error:
        named = f"{whose}: {error.what}"
        raise type(error)(named, why=error.why, do=error.do, transient=error.transient) from error


# Records of Kafka in a file that the driver's Java code has written for the tasks of a batch (``KafkaRanges.java``), as
# an Arrow stream.


@dataclass(frozen=True)
class RecordFile:
    """A range of offsets of one partition of a topic, as a split of a source."""

    component: str
    topic: str
    partition: int
    path: str

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}"

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        """Yields the events, as on Spark; none if the range has no record."""
        spout = topology.spouts[self.component].spout
        assert isinstance(spout, KafkaSpout)
        tables = list(self.tables(spout.record))
        if tables:
            yield from Records(self.component, tables).read(topology)

    def tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yields these columns of the records, in tables of the size that Java chose; timestamps are Kafka's
        milliseconds."""
        with pa.memory_map(self.path) as source, pa.ipc.open_stream(source) as reader:
            for batch in reader:
                columns = {
                    "topic": pa.repeat(pa.scalar(self.topic, pa.string()), batch.num_rows),
                    "partition": pa.repeat(pa.scalar(self.partition, pa.int32()), batch.num_rows),
                    **dict(zip(batch.schema.names, batch.columns, strict=True)),
                }
                yield pa.table({field.name: columns[field.name] for field in schema})


# Converts records of Kafka to events, and rows to records.


OUTGOING = "topic string, partition int, key binary, value binary, headers array<struct<key: string, value: binary>>"
_OUTGOING = parse_schema(OUTGOING)
_HEADER = _OUTGOING.field("headers").type.value_type

MILLISECONDS = pa.timestamp("ms", "UTC")
"""The type of Kafka's timestamps: any 64-bit number that a producer sends."""
_MICROSECONDS = RECORD.field("timestamp").type
_LARGEST_TIME = 2**63 - 1
"""The largest timestamp, in microseconds."""
_NO_TIME = -1_000
"""Kafka's value for a missing timestamp, in microseconds."""


class Records:
    """Consecutive records of one partition of a topic, as a split of a source.

    Timestamps are in microseconds, or Kafka's ``MILLISECONDS``.
    """

    def __init__(self, component: str, parts: Sequence[pa.Table]) -> None:
        self.component, self.parts = component, parts

    def __str__(self) -> str:
        topic, partition, _ = self.place
        return f"topic {topic}, partition {partition}"

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        """Yields the events; a record that is not an event becomes a bad row with its offset."""
        node = topology.spouts[self.component]
        spout, schema = node.spout, node.outputs[DEFAULT_STREAM]
        assert isinstance(spout, KafkaSpout)
        topic, partition, _ = self.place
        timed = [_TimedRecords.of(table.combine_chunks()) for table in self.parts]
        with errors_about(f"spout {self.component!r}"):  # for a registry that does not respond
            chunks = [_read_timed(spout, schema, part) for part in timed]
        truncated = [bad.truncated for _, _, bad in chunks]
        times = np.concatenate([part.merge_keys() for part in timed])
        offsets = np.concatenate([offsets for _, offsets, _ in chunks])
        bad = pa.concat_tables([bad.rows for _, _, bad in chunks])
        yield SourceBatch(
            self.component,
            DEFAULT_STREAM,
            pa.concat_tables([table for table, _, _ in chunks]),
            offsets,
            bad,
            str(self),
            shuffle_offset=partition,
            partition=f"{topic}/{partition}",
            merge_keys=self._values_at(offsets, times),
            bad_merge_keys=self._values_at(bad.column("row").to_numpy(), times),
            truncated=BadRows(bad, np.concatenate(truncated)).truncated_among(offsets),
            tombstones=len(times) - len(offsets) - len(bad),
        )

    def _values_at(self, offsets: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the values of the records at these offsets; ``values``: those of all records."""
        all_offsets = np.concatenate([part.column("offset").to_numpy() for part in self.parts])
        return values if len(offsets) == len(values) else values[np.searchsorted(all_offsets, offsets)]

    @property
    def place(self) -> tuple[str, int, int]:
        """Topic, partition and offset of the first record, which determine the order of arrival."""
        start = self.parts[0].slice(0, 1).select(["topic", "partition", "offset"])  # Python may not have its timestamp
        row = start.to_pylist()[0]
        return row["topic"], row["partition"], row["offset"]


class _TimedRecords(NamedTuple):
    """Records with timestamps in microseconds, null if a record has none."""

    table: pa.Table
    out_of_range: NDArray[np.bool_] | None
    """True for records whose timestamp is out of range in microseconds; None without such records."""
    bad: pa.Table
    """These records as bad rows."""

    @classmethod
    def of(cls, table: pa.Table) -> _TimedRecords:
        column = table.column("timestamp")
        values, valid = to_integers(column)
        scale = 1000 if column.type == MILLISECONDS else 1
        out_of_range = (values > _LARGEST_TIME // scale) | (values < -_LARGEST_TIME // scale)
        absent = out_of_range | (values == _NO_TIME // scale)
        if valid is not None:
            absent |= ~valid
        if scale == 1 and not absent.any():
            return cls(table, None, NO_BAD_ROWS.rows)
        micros = pa.array(np.where(absent, 0, values) * scale, mask=absent).cast(_MICROSECONDS)
        timed = table.set_column(table.column_names.index("timestamp"), "timestamp", micros)
        if not out_of_range.any():
            return cls(timed, None, NO_BAD_ROWS.rows)
        return cls(timed, out_of_range, _bad_time_rows(table.filter(pa.array(out_of_range)), values[out_of_range]))

    def merge_keys(self) -> NDArray[np.int64]:
        """Returns the timestamps by which partitions are merged. A record with a timestamp outside the years 1 to 9999
        stays where it is, because that timestamp would hold back all later records of the partition."""
        keys = keys_of(self.table.column("timestamp"))
        return np.where((keys < EARLIEST) | (keys > LATEST), NONE, keys)


def _bad_time_rows(table: pa.Table, milliseconds: NDArray[np.int64]) -> pa.Table:
    """Returns records as bad rows, because of these timestamps."""
    columns = python_columns(table.set_column(table.column_names.index("timestamp"), "timestamp", [milliseconds]))
    reason = "the record's timestamp, {} milliseconds since 1970, does not fit into microseconds; is it in nanoseconds?"
    return BadRows.of(
        BadRow(offset, reason.format(milliseconds[index]), row_as_json(columns, index))
        for index, offset in enumerate(columns["offset"])
    ).rows


def _read_timed(spout: KafkaSpout, schema: pa.Schema, timed: _TimedRecords) -> Chunk:
    """Returns the good rows, their offsets, and the bad rows."""
    if timed.out_of_range is None:
        return _parse(spout, schema, timed.table)
    rows, offsets, bad = _parse(spout, schema, timed.table.filter(pa.array(~timed.out_of_range)))
    return rows, offsets, BadRows(pa.concat_tables([bad.rows, timed.bad]).sort_by("row"), bad.truncated)


def _parse(spout: KafkaSpout, schema: pa.Schema, table: pa.Table) -> Chunk:
    """Returns the good rows, their offsets, and the bad rows, of records with timestamps in range."""
    if spout.declared is not None:
        return decode(spout.rows, table)
    return conform_rows(table, schema, table.column("offset").to_numpy(), spout.on_truncation)


def ingest_records(
    records: Mapping[str, Sequence[SourceSplit]],
    merged: Collection[str],
    executor: Executor,
    context: Context,
    slots: int,
) -> list[TaskOutput]:
    """Ingests the records of a batch, given by spout. Records of the spouts in ``merged`` are ingested by about
    ``slots`` tasks, in order of (timestamp, topic, partition, offset)."""
    splits: list[SourceSplit | MergedSplits] = []
    for name in (name for name in context.topology.spouts if name in records):
        splits.extend([MergedSplits(records[name])] if name in merged else records[name])
    return executor.map(ingest, replace_merged(splits, executor, context, slots), context)


def outgoing(table: pa.Table, topic: str | None, name: str, first_number: int) -> pa.Table:
    """Returns rows as records. The id of each record is ``name`` and a number, counted from ``first_number``.

    ``topic``: for rows without a topic of their own. Raises DataError for a row without any topic.
    """
    rows = table.num_rows
    topics = table.column("topic") if "topic" in table.column_names else pa.nulls(rows, pa.string())
    topics = topics if topic is None else topics.fill_null(topic)
    if topics.null_count:
        raise DataError(
            "a row for Kafka has no topic",
            why="its column 'topic' is null, and the sink names none",
            do="give every row a topic, or the sink: kafka(servers, 'topic')",
        )
    numbers = pa.array(np.arange(first_number, first_number + rows)).cast(pa.string())
    columns = [topics]
    columns += [
        table.column(field.name).cast(field.type) if field.name in table.column_names else pa.nulls(rows, field.type)
        for field in (_OUTGOING.field("partition"), _OUTGOING.field("key"), _OUTGOING.field("value"))
    ]
    headers = _as_one_chunk(table.column("headers")) if "headers" in table.column_names else None
    columns.append(_with_ids(headers, pc.binary_join_element_wise(name, numbers, "/")))
    return pa.Table.from_arrays(columns, schema=_OUTGOING)


def _with_ids(headers: pa.Array | None, ids: pa.Array) -> pa.Array:
    """Returns the headers with the id at the end; it replaces an earlier id."""
    rows = len(ids)
    if headers is None:
        lengths, keys, values = np.zeros(rows, np.int64), pa.array([], pa.string()), pa.array([], pa.binary())
    else:
        if pa.types.is_map(headers.type):
            pair = pa.struct([("key", headers.type.key_type), ("value", headers.type.item_type)])
            headers = headers.cast(pa.list_(pair))
        lengths = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        flat = headers.flatten()
        keys, values = flat.field(0), flat.field(1).cast(pa.binary())
        is_old_id = pc.equal(keys, ID_HEADER).fill_null(False).to_numpy(zero_copy_only=False)
        if is_old_id.any():  # from another topology: consumers must find only one id
            lengths = np.bincount(np.repeat(np.arange(rows), lengths)[~is_old_id], minlength=rows)
            keys, values = keys.filter(pa.array(~is_old_id)), values.filter(pa.array(~is_old_id))
    edges = np.concatenate([[0], np.cumsum(lengths + 1)])
    indices = np.empty(edges[-1], np.int64)
    is_new_id = np.zeros(len(indices), np.bool_)
    is_new_id[edges[1:] - 1] = True
    indices[~is_new_id], indices[is_new_id] = np.arange(len(keys)), len(keys) + np.arange(rows)
    names = pa.concat_arrays([keys, pa.array([ID_HEADER] * rows, pa.string())]).take(pa.array(indices))
    texts = pa.concat_arrays([values, ids.cast(pa.binary())]).take(pa.array(indices))
    pairs = pa.StructArray.from_arrays([names, texts], fields=list(_HEADER))
    return pa.ListArray.from_arrays(pa.array(edges, pa.int32()), pairs, type=pa.list_(_HEADER))


def _as_one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
