"""The single streaming DataFrame of a topology: batches of files, records, rows of streams, and a heartbeat."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, DoubleType, StructField, StructType

from manager.remote import root_and_path
from manager.storage.files import storage_errors_during
from manager.storage.hdfs import is_hdfs
from topologies.checkpoints.file_journal import FileLog, JournalMoved, log_offset
from topologies.checkpoints.inspect_spouts import refuse_missing
from topologies.checkpoints.spark_checkpoint import Partitions
from topologies.engine.batch import Context
from topologies.engine.kafka_records import Records, ingest_records
from topologies.engine.merging import MergedRange, MergeInput, cut_into_ranges, write_parts
from topologies.engine.task_data import SourceBatch, TaskOutput
from topologies.engine.tasks import ingest
from topologies.graph.graph import Graph
from topologies.graph.java_sums import frame_sums
from topologies.io.file_spout import FileSpout, FoundFile, WatchedFiles
from topologies.io.formats.conform import separate_beyond_years
from topologies.io.kafka import KafkaSpout
from topologies.io.paths import shown_path
from topologies.io.spouts import FrameSpout
from topologies.spark.frame_sums import FrameAdder
from topologies.spark.frames import declared_frame, quoted, refuse_endless
from topologies.spark.java import FAILURES, compile_class, new_object
from topologies.spark.kafka_client import KafkaRanges, read_records
from topologies.spark.spark_errors import TimestampError
from topologies.spark.spark_tasks import TaskExecutor, spark_failures
from windowing.schema import DEFAULT_STREAM, conform

# Files as a Spark source: windbolt lists them and cuts the batches, and Spark numbers these (decision 92).


_SOURCE = Path(__file__).with_name("PlannedFiles.java")
_ONCE = "once"
"""Java's first request in a run to the end of the present input."""


class PlannedFiles:
    """The batches of a file spout, requested by Spark (PlannedFiles.java).

    Its log is written before Spark records a batch in ``offsets/``, as Spark's own file source does.
    """

    def __init__(
        self, watched: WatchedFiles, open_log: Callable[[], FileLog], check_owner: Callable[[], None] = lambda: None
    ) -> None:
        """``open_log``: called at Spark's first request. ``check_owner``: raises CheckpointError if another run has
        taken the checkpoint over."""
        self.watched, self._open_log, self._check_owner = watched, open_log, check_owner
        self.failure: BaseException | None = None
        """Exception that made the query fail, if it was raised here."""
        self._log: FileLog | None = None
        self._ahead: Iterator[list[FoundFile]] | None = None
        """The remaining batches of the present input, in a run to its end."""

    def apply(self, last_entry: str) -> str | None:
        """Called by Java: returns the last log entry of the next batch, as ``{"logOffset":7}``; None without new files.
        ``last_entry``: the last entry of the previous batch."""
        try:
            with storage_errors_during("planning the next batch", "it was not begun, and nothing is lost"):
                return self._answer(last_entry)
        except BaseException as error:
            self.failure = error
            if isinstance(error, Exception):
                raise
            raise RuntimeError(f"{type(error).__name__}: {error}") from error  # Java waits for an Exception

    def _answer(self, last_entry: str) -> str | None:
        log = self._log = self._log or self._open_log()
        if last_entry == _ONCE:
            self._ahead = self._new_batches(log)
            return None
        last_begun = log.unplanned_entry_after(json.loads(last_entry)["logOffset"])
        if last_begun is not None:
            return log_offset(last_begun)
        files = next(self._new_batches(log) if self._ahead is None else self._ahead, None)
        if files is None:
            return None
        try:
            return log_offset(log.note(files))
        except JournalMoved:  # by a run that has lost the checkpoint to this run, or has taken it over
            self._check_owner()
            log = self._log = self._open_log()
            self._ahead = None if self._ahead is None else self._new_batches(log)
            return self._answer(last_entry)

    def _new_batches(self, log: FileLog) -> Iterator[list[FoundFile]]:
        return self.watched.spout.cut(self.watched.new(log.seen))

    class Java:
        implements: ClassVar[list[str]] = ["java.util.function.Function"]


def planned_files(spark: SparkSession, planned: PlannedFiles) -> DataFrame:
    """Returns a stream that has a batch for each planned one, but no rows; its only column is ``path``. The files of a
    batch are read from the source's log."""
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    source = new_object(spark, compile_class(spark, _SOURCE))
    return DataFrame(source.open(spark._jsparkSession, planned, planned.watched.spout.path), spark)


def with_host(spark: SparkSession, path: str) -> str:
    """Returns a path in HDFS with the default host of Spark's configuration, under which Spark records its files."""
    shown = shown_path(path)
    if not is_hdfs(shown) or urlsplit(root_and_path(shown)[0]).netloc:
        return path
    default = str(spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS"))
    return f"{default.rstrip('/')}/{root_and_path(shown)[1]}" if is_hdfs(default) else path


# The number of rows that Spark passes to Python at a time: some megabytes, whatever their columns.


_BYTES, _ROWS = "spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.execution.arrow.maxRecordsPerBatch"
_AT_ONCE = 2**24
"""Target size in bytes of the rows passed at a time."""
_FEWEST, _MOST, _MOST_FIXED = 200, 10_000, 200_000
"""Minimum and maximum number of rows at a time, and the maximum if all columns have a fixed width. The second is
Spark's own default: rows that suddenly become far wider need no more memory than without windbolt."""
_TEXT, _BINARY = 2**16, 2**17
"""Assumed maximum bytes of a text value, and of other values without a fixed width, before any row is known; a Kafka
record may have a megabyte."""
_UNEVEN = 4
"""Factor by which the next rows are assumed to be wider than the widest rows so far."""


class RowsAtOnce:
    """The limit of a run. It starts from the largest size that the columns may have, and follows the sizes of the run's
    rows.

    Spark itself would measure all bytes after each row, which costs more than reading the row. So rows are counted,
    unless the user has set Spark's option to count bytes, or fewer rows. The limit ends with the run: if a run ran out
    of memory because of sudden wide rows, the next one begins with few rows at a time.
    """

    def __init__(self, schemas: Iterable[pa.Schema]) -> None:
        schemas = list(schemas)
        self._widest = max((sum(_width(field.type) for field in schema) for schema in schemas), default=0)
        self._fixed = all(_is_fixed(field.type) for schema in schemas for field in schema)
        self._widest_seen = 0.0
        self._users_limit: int | None = None
        self._counts_bytes: bool | None = None

    def note_size(self, row_bytes: float) -> None:
        """Records the mean size in bytes of rows passed together."""
        self._widest_seen = max(self._widest_seen, row_bytes)

    def rows(self) -> int:
        """Returns the number of rows at a time."""
        if self._fixed:
            return _within(_AT_ONCE / max(self._widest, 1), _MOST_FIXED)
        return _within(_AT_ONCE / (self._widest_seen * _UNEVEN if self._widest_seen else self._widest), _MOST)

    def apply(self, session: SparkSession) -> None:
        """Sets the limit for the query's session, which is a copy of the user's."""
        if self._counts_bytes is None:  # asked once, since Spark returns all settings, in milliseconds
            self._counts_bytes = session.sparkContext.getConf().get(_BYTES) is not None
        if self._counts_bytes:
            return
        if self._users_limit is None:
            self._users_limit = int(session.conf.get(_ROWS) or 0)
        rows = self.rows()
        session.conf.set(_BYTES, 2**31 - 1)
        session.conf.set(_ROWS, self._users_limit if 0 < self._users_limit < rows else rows)


def _within(rows: float, most: int) -> int:
    return int(min(max(rows, _FEWEST), most))


def _is_fixed(kind: pa.DataType) -> bool:
    try:
        return bool(kind.bit_width)
    except ValueError:
        return False


def _width(kind: pa.DataType) -> int:
    if _is_fixed(kind):
        return -(-int(kind.bit_width) // 8)
    return _TEXT if pa.types.is_string(kind) else _BINARY


# The single streaming DataFrame of a topology: batches of files, records, rows of streams, and a heartbeat.


_RESULT = StructType([StructField("output", BinaryType()), StructField("row_bytes", DoubleType())])
"""Result columns: index of the spout; position of the rows in it; a pickle of the output of their task, or of the parts
it wrote; and the greatest mean size of rows that were passed together."""


class StreamSource:
    """The input of a topology as one stream, whose micro-batches are the topology's."""

    def __init__(
        self,
        spark: SparkSession,
        topology: Graph,
        file_spouts: Iterable[str],
        open_log: Callable[[int], FileLog],
        check_owner: Callable[[], None],
        watch: Callable[[str, FileSpout], WatchedFiles],
        *,
        once: bool,
    ) -> None:
        """``file_spouts``: the file spouts in the order of their sources. ``open_log``: returns the file log of a
        source of the query, by its index among these; called at its first batch. ``check_owner``: raises
        CheckpointError if another run has taken the checkpoint over. ``watch``: returns the lister of a spout's files,
        given the spout's name. ``once``: True if the run ends with the present input."""
        self.topology, self._once = topology, once
        self._open_log, self._check_owner, self._watch = open_log, check_owner, watch
        # Spark identifies the sources of a checkpoint by position, which must not depend on the order of declaration,
        # nor on the duration of the run. A user's DataFrame may have several sources, so positions behind it are
        # unknown.
        names = sorted(topology.spouts)
        spouts = {name: topology.spouts[name].spout for name in names}
        self.kafka_spouts = tuple(name for name in names if isinstance(spouts[name], KafkaSpout))
        frames = [name for name in names if isinstance(spouts[name], FrameSpout)]
        self.rows = [*self.kafka_spouts, *frames]
        """The spouts whose rows come through Spark."""
        self._rows_at_once = RowsAtOnce(self._columns(name) for name in self.rows)
        self.file_spouts = tuple(file_spouts)
        heartbeats = topology.needs_heartbeat
        self.alone = len(names) == len(self.rows) == 1 and not heartbeats and self._plainly_named(names[0])
        """True if all rows are from one spout. They then keep their own columns instead of forming a struct column,
        which is cheaper."""
        self._ranges: KafkaRanges | None = None
        self._adder: FrameAdder | None = None
        self.planned = [self._planned(spark, source, name) for source, name in enumerate(self.file_spouts)]
        parts = [self._with_columns(planned_files(spark, planned)) for planned in self.planned]
        parts += [self._spout_frame(spark, name) for name in self.rows]
        if heartbeats:
            parts.append(self._heartbeat(spark))
        self.stream = parts[0]
        for part in parts[1:]:
            self.stream = self.stream.unionByName(part)

    def ingest_rows(
        self,
        batch: DataFrame,
        executor: TaskExecutor,
        context: Context,
        slots: int,
        partitions: Mapping[str, Partitions],
    ) -> list[TaskOutput]:
        """Ingests the rows of a batch that are not in users' files. They arrive spout by spout, in order of
        declaration.

        Kafka records arrive in order of (record timestamp, topic, partition, offset). If, by ``partitions``, several
        partitions may have records, these are first only read and written, and then ingested in order by about
        ``slots`` tasks.

        The driver's Java reads records, if ``read_in_driver`` was called and it can; otherwise a Spark job reads them,
        like rows of DataFrames. Java adds up both, if ``add_up_in_java`` was called and only sums are needed (decision
        141). A Spark job fails on a record whose timestamp is out of range in microseconds. Then the driver's Java
        reads the batch, wherever tasks run.
        """
        added_up: list[TaskOutput] | None = None
        if self._adder is not None:
            planned = partitions.get(self._adder.spout)
            ranges = None if planned is None else planned.ranges
            added_up = self._adder.ingest(batch, executor, context, self._ranges, ranges)
        if added_up is not None:
            return added_up
        merged = {
            name for name in self.kafka_spouts if name not in partitions or partitions[name].most_with_records > 1
        }
        if self._ranges is not None:
            with self._ranges.read({name: found.ranges for name, found in partitions.items()}, context) as files:
                if files is not None:
                    return ingest_records(files, merged, executor, context, slots)
        try:
            return self._ingest_by_spark(batch, executor, context, slots, merged, self.rows)
        except TimestampError as error:
            records = self._read_again(batch.sparkSession, partitions, error)
        outputs: list[TaskOutput] = []
        for name in (name for name in self.topology.spouts if name in self.rows):
            if name in records:
                outputs += ingest_records({name: records[name]}, merged, executor, context, slots)
            else:
                outputs += self._ingest_by_spark(batch, executor, context, slots, merged, [name])
        return outputs

    def read_in_driver(self, spark: SparkSession, threads: int) -> None:
        """Lets the driver's Java read the records, if only records come through Spark."""
        if self.rows and len(self.rows) == len(self.kafka_spouts):
            self._ranges = self._reader(spark, threads)

    def add_up_in_java(self, *, here: bool, threads: int) -> None:
        """Lets Java add up the rows of a DataFrame, or the records of a topic, if possible. ``here``: True if Spark's
        tasks see the driver's files; ``threads``: how many threads the driver may use instead of tasks."""
        sums = frame_sums(self.topology)
        if sums is not None:
            self._adder = FrameAdder(
                self.stream.sparkSession,
                self.topology,
                sums,
                self._columns(sums.spout).names,
                self.stream.columns,
                alone=self.alone,
                here=here,
                threads=threads,
            )

    def close(self) -> None:
        """Disconnects the driver's own readers."""
        if self._ranges is not None:
            self._ranges.close()

    def _reader(self, spark: SparkSession, threads: int) -> KafkaRanges:
        spouts = {name: self.topology.spouts[name].spout for name in self.kafka_spouts}
        return KafkaRanges(spark, cast("dict[str, KafkaSpout]", spouts), threads)

    def _read_again(
        self, spark: SparkSession, partitions: Mapping[str, Partitions], error: TimestampError
    ) -> dict[str, list[Records]]:
        """Returns the records of a batch on which Spark has failed. Raises ``error`` if they cannot be read in another
        way."""
        planned = {name: partitions[name].ranges for name in self.kafka_spouts if name in partitions}
        ranges = {name: spout_ranges for name, spout_ranges in planned.items() if spout_ranges is not None}
        if len(ranges) < len(planned):
            raise error
        with closing(self._reader(spark, threads=2)) as reader:
            try:
                return {name: [] for name in self.kafka_spouts} | reader.in_memory(ranges)
            except FAILURES as failure:
                raise error from failure

    def _ingest_by_spark(
        self,
        batch: DataFrame,
        executor: TaskExecutor,
        context: Context,
        slots: int,
        merged: Collection[str],
        wanted: Collection[str],
    ) -> list[TaskOutput]:
        """Ingests the rows of these spouts in one Spark job; rows of those in ``merged`` are only read and written.

        If ``wanted`` excludes spouts, their partitions may be unreadable.
        """
        task = executor.task(_ingest_partition, context)
        names = [name for name in self.topology.spouts if name in wanted]
        facts = _RowFacts(tuple(names), self.alone, frozenset(merged))

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return cast("Iterator[pa.RecordBatch]", next(task([(batches, facts)])))

        self._rows_at_once.apply(batch.sparkSession)
        frame = batch.mapInArrow(run, _RESULT)
        with spark_failures():
            results = frame.collect() if len(names) == len(self.rows) else _rows_of_readable_partitions(frame)
        self._rows_at_once.note_size(max((row["row_bytes"] for row in results), default=0.0))
        outputs = sorted((pickle.loads(row["output"]) for row in results), key=lambda split: split[:2])
        ready: list[TaskOutput | MergedRange] = []
        for _, group in groupby(outputs, key=lambda split: split[0]):
            results_of_spout = [result for _, _, result in group]
            parts = [part for result in results_of_spout if isinstance(result, list) for part in result]
            ready.extend(cut_into_ranges(parts, context.store, slots) if parts else results_of_spout)
        ingested = iter(executor.map(ingest, [split for split in ready if isinstance(split, MergedRange)], context))
        return [next(ingested) if isinstance(split, MergedRange) else split for split in ready]

    def _planned(self, spark: SparkSession, source: int, name: str) -> PlannedFiles:
        spout = self.topology.spouts[name].spout
        assert isinstance(spout, FileSpout)
        spout = replace(spout, paths=tuple(with_host(spark, path) for path in spout.paths))
        if not spout.is_here:  # others were checked before Spark started
            refuse_missing(name, spout)
        return PlannedFiles(self._watch(name, spout), partial(self._open_log, source), self._check_owner)

    def _spout_frame(self, spark: SparkSession, name: str) -> DataFrame:
        node = self.topology.spouts[name]
        if isinstance(node.spout, KafkaSpout):
            return self._as_row(name, read_records(spark, name, node.spout))
        frame = declared_frame(spark, node)
        refuse_endless(name, frame, once=self._once, kept=False)
        return self._as_row(name, frame)

    def _as_row(self, name: str, frame: DataFrame) -> DataFrame:
        """Returns the rows of a spout as a struct column, or unchanged."""
        kinds = from_arrow_schema(self._columns(name))
        columns = [F.col(quoted(field.name)).cast(field.dataType).alias(field.name) for field in kinds]
        if self.alone:
            return frame.select(*columns)
        row = F.struct(*columns)
        return self._with_columns(frame.select(F.lit(None).cast("string").alias("path"), row.alias(f"row_{name}")))

    def _heartbeat(self, spark: SparkSession) -> DataFrame:
        """Returns a stream with a row at each trigger, so that time advances on a quiet stream, where Spark runs no
        batches.

        To the end of the present input (``availableNow``) it delivers one row. The source ``rate`` cannot do that, and
        would make Spark read all files in one batch.
        """
        reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1)
        return self._with_columns(reader.load().select(F.lit(None).cast("string").alias("path")))

    def _with_columns(self, frame: DataFrame) -> DataFrame:
        """Returns the frame with a column for the rows of every stream, null for the rows of other streams."""
        for name in self.rows:
            if f"row_{name}" not in frame.columns:
                kind = from_arrow_schema(self._columns(name))
                frame = frame.withColumn(f"row_{name}", F.lit(None).cast(kind))
        return frame

    def _plainly_named(self, name: str) -> bool:
        """True if Spark can pass columns with these names to Python; inside a struct column any name works."""
        return all(column.replace("_", "a").isalnum() for column in self._columns(name).names)

    def _columns(self, name: str) -> pa.Schema:
        return _columns(self.topology, name)


def _columns(topology: Graph, name: str) -> pa.Schema:
    """Returns the columns that Spark reads for a spout."""
    node = topology.spouts[name]
    return node.spout.record if isinstance(node.spout, KafkaSpout) else node.schema


def _rows_of_readable_partitions(frame: DataFrame) -> list[Row]:
    """Returns the rows of a DataFrame without partitions that have an unreadable record. Such a record fails a whole
    Spark job, so each partition gets its own job."""
    found: list[Row] = []
    rows = frame.rdd
    for partition in range(rows.getNumPartitions()):
        with suppress(TimestampError), spark_failures():
            found.extend(frame.sparkSession.sparkContext.runJob(rows, list, [partition]))
    return found


@dataclass(frozen=True)
class _FrameRows:
    """Rows of one partition of a DataFrame, as a split of a source."""

    component: str
    table: pa.Table

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        """Yields the rows; rows with a time outside Python's range are bad, as in files."""
        table, numbers, bad = separate_beyond_years(self.table, np.arange(self.table.num_rows))
        yield SourceBatch(self.component, DEFAULT_STREAM, table, numbers, bad.rows)


@dataclass(frozen=True)
class _RowFacts:
    """Facts about a task's rows."""

    names: tuple[str, ...]
    """The spouts from which the rows may come, in order of declaration."""
    alone: bool
    """True if there is only one spout, whose columns the rows have."""
    merged: frozenset[str]
    """The spouts whose rows are only written as parts."""


def _ingest_partition(item: tuple[Iterator[pa.RecordBatch], _RowFacts], context: Context) -> Iterator[pa.RecordBatch]:
    """Called in a worker: ingests the rows of a partition; other jobs read files."""
    batches, facts = item
    names, alone = facts.names, facts.alone
    gathered: dict[str, list[pa.Table]] = {}
    row_bytes = 0.0
    for batch in batches:
        row_bytes = max(row_bytes, batch.nbytes / max(batch.num_rows, 1))
        table = pa.Table.from_batches([batch])
        if alone:
            if len(table):
                gathered.setdefault(names[0], []).append(table)
            continue
        for name in names:
            column = table.column(f"row_{name}")
            rows = column.filter(column.is_valid()) if column.null_count else column
            if len(rows):
                gathered.setdefault(name, []).append(pa.Table.from_struct_array(rows))
    outputs = [
        pickle.dumps((names.index(name), *_ingest_tables(name, parts, context, merged=name in facts.merged)))
        for name, parts in gathered.items()
    ]
    if not outputs:
        return iter([])
    columns = [pa.array(outputs, pa.binary()), pa.repeat(pa.scalar(row_bytes, pa.float64()), len(outputs))]
    return iter([pa.RecordBatch.from_arrays(columns, ["output", "row_bytes"])])


def _ingest_tables(
    name: str, parts: list[pa.Table], context: Context, *, merged: bool
) -> tuple[tuple[Any, ...], TaskOutput | list[MergeInput]]:
    """Returns the position of these rows in their spout, and their output; for a merged spout, the written parts."""
    columns = _columns(context.topology, name)
    tables = [conform(part, columns) for part in parts]
    if isinstance(context.topology.spouts[name].spout, KafkaSpout):
        records = Records(name, tables)
        return records.place, write_parts(records, context) if merged else ingest(records, context)
    partition = TaskContext.get().partitionId()  # type: ignore[union-attr]
    return (partition,), ingest(_FrameRows(name, pa.concat_tables(tables)), context)
