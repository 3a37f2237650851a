"""Lets windbolt's Java code add up the rows of a DataFrame or topic where they are read, so that only sums go to Python
(decision 141)."""

from __future__ import annotations

import logging
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from manager.storage.files import delete, make_private
from manager.storage.segment_files import FileSegments
from topologies.engine.batch import Context, InProcessExecutor
from topologies.engine.event_times import valid_times
from topologies.engine.kafka_records import OffsetRange
from topologies.engine.task_data import TaskOutput
from topologies.engine.tasks import SumsFile, first_in_time, take_in
from topologies.graph.graph import Graph
from topologies.graph.java_sums import FrameSums
from topologies.spark.java import FAILURES, SHARED_WORK, WithFallback, compile_class, new_object, one_source
from topologies.spark.kafka_client import KafkaRanges
from topologies.spark.spark_tasks import TaskExecutor
from windowing.settings.rules import Bounds

_SUMS_SOURCE, _JSON_SOURCE, _COLLECTOR_SOURCE, _COLUMNS_SOURCE = (
    Path(__file__).with_name(f"{name}.java") for name in ("FrameSums", "JsonObjects", "CollectedSums", "ScannedColumns")
)
_SKIPPED_BATCHES, _SKIPPED_AFTER_FAILURE = 50, 1_000
"""Numbers of batches whose rows go to Python: after a batch that adding up in Java did not help, and after a
failure."""
_MOST_COLLECTED = 1 << 25
"""Most bytes of sums, of all partitions of a batch together, that the driver processes, in some 0.1 seconds. More would
delay a large cluster, whose executors process rows in parallel."""
_LOG = logging.getLogger("windbolt.frames")


class FrameAdder:
    """Adds up the rows of one spout's DataFrame or topic, batch by batch.

    Spark sends the program to its tasks, and compiles it there, like the code that it generates for its own queries. No
    query is planned for it, and no row is copied again.

    If rows only consist of columns of files, the program reads these columns, without making rows. With a local master,
    threads of the driver do so without a job, for Parquet and ORC files that Spark reads itself.

    On one machine tasks write the sums into files in the checkpoint's folder. Elsewhere the job returns them to the
    driver as task results: the sums of each partition arrive once, however often and wherever its task runs.

    Records of a topic that the driver's Java reads are added up there, without a job. Their values are JSON, which Java
    reads as Python does, or leaves to Python.
    """

    def __init__(
        self,
        spark: SparkSession,
        topology: Graph,
        sums: FrameSums,
        names: list[str],
        columns: list[str],
        *,
        alone: bool,
        here: bool,
        threads: int,
    ) -> None:
        """``spark``: the session of the query. ``names``: the columns of the spout, in order; ``columns``: those of a
        batch. ``alone``: True if both are the same; otherwise a batch has a struct of the spout's columns, which is
        null in rows of other spouts. ``here``: True if tasks see the driver's files; ``threads``: how many threads of
        the driver may work at once."""
        self._spark, self._threads = spark, threads
        self._sums, self._node, self._here = sums, topology.windowed[sums.bolt], here
        self.spout = sums.spout
        self._names = names
        self._added_columns = names if sums.objects is None else [name for name, _ in sums.objects]
        """The columns of the rows that are added up."""
        self._value_index = -1 if sums.objects is None else names.index("value")
        self._struct_index = -1 if alone else columns.index(f"row_{sums.spout}")
        self._java: _Java | None = None
        self._batches_to_skip = 0
        self._in_columns = sums.objects is None and alone
        """False once it is known that rows do not consist of columns, or that the columns cannot be found."""
        self._column_batches_to_skip = 0

    def ingest(
        self,
        batch: DataFrame,
        executor: TaskExecutor,
        context: Context,
        reader: KafkaRanges | None = None,
        ranges: Sequence[OffsetRange] | None = None,
    ) -> list[TaskOutput] | None:
        """Ingests a batch. Returns None if its rows have to go to Python; then nothing has been ingested.

        ``reader``: reads the ``ranges`` of a topic in the driver. If either is None, Spark reads.
        """
        if context.tracing or context.first_output is not None:
            return None
        if self._batches_to_skip:
            self._batches_to_skip -= 1
            return None
        with WithFallback(_LOG, "the rows go to Python"):
            outputs = self._sums_in_java(batch, executor, context, reader, ranges)
            if outputs is None or None in outputs:
                self._batches_to_skip = _SKIPPED_BATCHES
                return None
            return outputs
        self._batches_to_skip = _SKIPPED_AFTER_FAILURE
        return None

    def _sums_in_java(
        self,
        batch: DataFrame,
        executor: TaskExecutor,
        context: Context,
        reader: KafkaRanges | None,
        ranges: Sequence[OffsetRange] | None,
    ) -> list[TaskOutput] | None:
        """Does the work of ``ingest``; raises the errors of Java and Spark."""
        store = context.store
        here = isinstance(store, FileSegments) and store.uri is None
        java = self._java = self._java or _Java.of(batch.sparkSession)
        if here and reader is not None and reader.usable and ranges is not None:
            return self._from_topic(java, reader, ranges, executor, context)
        on_files = here and self._here and self._sums.objects is None
        return self._from_spark(java, batch, executor if on_files else None, context)

    def _from_topic(
        self, java: _Java, reader: KafkaRanges, ranges: Sequence[OffsetRange], executor: TaskExecutor, context: Context
    ) -> list[TaskOutput] | None:
        """Ingests records that the driver reads; each of its threads writes a file."""
        count = min(reader.threads, len(ranges))
        if not count:
            return []
        with _private_files(context, count) as path_prefix:
            plan = self._plan(path_prefix, context, sys.maxsize, struct=-1, value=0)
            if not reader.add_up(self._sums.spout, ranges, java.code, plan):
                return None
            return self._fold_results(path_prefix, count, executor, context)

    def _from_spark(
        self, java: _Java, batch: DataFrame, executor: TaskExecutor | None, context: Context
    ) -> list[TaskOutput] | None:
        """Ingests a batch that Spark reads, as columns if its rows only consist of columns. ``executor``: processes
        files; None if tasks write none."""
        if executor is None:
            read = partial(self._collect_results, java, context)
        else:
            read = partial(self._from_files, java, executor, context)
        columns = self._columns(java, batch)
        if columns is not None:
            with WithFallback(_LOG, "the columns are read as rows"):
                return read(columns)
            self._column_batches_to_skip = _SKIPPED_AFTER_FAILURE
        return read(_Rows(batch))

    def _columns(self, java: _Java, batch: DataFrame) -> _Columns | None:
        """Returns the columns that form the rows of the present batch; None if they must be read as rows."""
        if not self._in_columns:
            return None
        if self._column_batches_to_skip:
            self._column_batches_to_skip -= 1
            return None
        try:
            scan = java.column_finder.find(self._query, batch._jdf)
            return None if scan is None else _Columns.of(scan)
        except (*FAILURES, PySparkException, AttributeError) as error:  # in an untested version of Spark
            _LOG.debug("columns are read as rows: %s", error)
            self._in_columns = False
            return None

    @cached_property
    def _query(self) -> Any:
        """Returns Java's object for the query that the present Spark thread runs."""
        number = self._spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        query: Any = self._spark.streams.get(str(number))
        return query._jsq.streamingQuery()

    def _from_files(
        self, java: _Java, executor: TaskExecutor, context: Context, rows: _Rows | _Columns
    ) -> list[TaskOutput] | None:
        """Ingests a batch whose partitions write a file each, in tasks of a Spark job or in threads of the driver."""
        columns = rows if isinstance(rows, _Columns) else None
        with _private_files(context, rows.partitions) as path_prefix:
            plan = self._plan(path_prefix, context, sys.maxsize, columns=columns)
            if columns is None or not columns.are_from_files:
                java.run(rows.for_job, plan)
                return self._fold_results(path_prefix, rows.partitions, executor, context)
            read = columns.scan.addUp(java.code, plan, self._threads)
            outputs = self._fold_results(path_prefix, rows.partitions, executor, context)
        if read and outputs is not None and None not in outputs:
            columns.scan.count(read)
        return outputs

    def _fold_results(
        self, path_prefix: str, count: int, executor: TaskExecutor, context: Context
    ) -> list[TaskOutput] | None:
        files = [SumsFile.written(self._sums, f"{path_prefix}{number}") for number in range(count)]
        if any(file.size < 0 for file in files):
            return None
        return executor.map(take_in, [file for file in files if file.size], context)

    def _collect_results(self, java: _Java, context: Context, rows: _Rows | _Columns) -> list[TaskOutput] | None:
        """Ingests a batch whose sums the job returns to the driver."""
        columns = rows if isinstance(rows, _Columns) else None
        share = java.most_collected // max(rows.partitions, 1)
        try:
            path_prefix = TemporaryDirectory(prefix="windbolt-sums-", ignore_cleanup_errors=True)
        except OSError as error:  # no place for files, which rows do not need
            _LOG.debug("the rows go to Python: %s", error)
            return None
        with path_prefix as folder:
            path = f"{folder}/sums"
            plan = self._plan("", context, share, columns=columns)
            size = java.collect(rows.for_job, plan, path)
            if size < 0:
                return None
            return InProcessExecutor().map(take_in, [SumsFile(self._sums, path, size)] if size else [], context)

    def _plan(
        self,
        path_prefix: str,
        context: Context,
        most_bytes: int,
        *,
        struct: int | None = None,
        value: int | None = None,
        columns: _Columns | None = None,
    ) -> str:
        """Returns the input of the Java program: the common beginning of the paths of its files, "" without files;
        slices of time, and the most bytes in the sums of a partition; the columns of JSON objects, if they contain the
        rows; and a line for each column.

        ``struct``, ``value``: the index of the rows' struct, and of the records' values, if they differ from those in a
        batch. ``columns``: the columns that are read in place of rows.
        """
        sums, slicing = self._sums, self._node.slicing(traced=False)
        assert slicing is not None
        grid = slicing.slices
        first, last = valid_times(self._node.bolt.settings)
        numbers = [
            first_in_time(self._node, context.watermarks[sums.bolt]),
            grid.offset + (grid.bounds is Bounds.END),
            grid.slide,
            grid.first_length,
            sums.micros,
            -(-first // sums.micros),
            last // sums.micros,
            self._struct_index if struct is None else struct,
            len(self._names),
            len(sums.keys),
            most_bytes,
            self._value_index if value is None else value,
        ]
        objects = " ".join(letter + name.encode().hex() for name, letter in sums.objects or ())
        indices = range(len(self._added_columns)) if columns is None else columns.indices
        lines = (
            f"{indices[self._added_columns.index(term.field)]} {term.letter} {term.action} {term.start}"
            for term in (sums.time, *sums.keys, *sums.terms)
        )
        return "\n".join([path_prefix, " ".join(map(str, numbers)), objects, *lines])


class _Rows:
    """The rows of a batch."""

    def __init__(self, batch: DataFrame) -> None:
        self.for_job: Any = batch._jdf.queryExecution().logical().rdd()
        """The RDD of the rows."""
        self.partitions = int(self.for_job.getNumPartitions())


@dataclass(frozen=True)
class _Columns:
    """The columns that form the rows of a batch."""

    scan: Any
    """The result of ScannedColumns.java."""
    partitions: int
    are_from_files: bool
    """True if Spark itself reads Parquet or ORC there: then the driver's threads may read them without a job."""
    indices: list[int]
    """For each column of the spout, its index among those that are read."""

    @classmethod
    def of(cls, scan: Any) -> _Columns:
        partitions, are_from_files, *indices = map(int, scan.described().split())
        return cls(scan, partitions, bool(are_from_files), indices)

    @property
    def for_job(self) -> Any:
        """The RDD of batches of columns."""
        return self.scan.forJob()


@dataclass(frozen=True)
class _Java:
    """Java objects that are looked up once, since Java searches all of Spark's jars for a class."""

    spark: SparkSession
    factory: Any
    """Spark's factory for a program over the rows of each partition."""
    code: Any
    code_for_factory: Any
    """The code in the form that the factory takes."""
    metric: Any
    class_tag: Any
    object_class: Any

    @classmethod
    def of(cls, spark: SparkSession) -> _Java:
        jvm: Any = spark._jvm
        sql = jvm.org.apache.spark.sql
        program = one_source(_SUMS_SOURCE, _JSON_SOURCE)
        code = sql.catalyst.expressions.codegen.CodeAndComment(program, jvm.PythonUtils.toScalaMap({}))
        return cls(
            spark,
            sql.execution.WholeStageCodegenEvaluatorFactory,
            code,
            jvm.scala.util.Right(code),
            sql.execution.metric.SQLMetrics.createMetric(spark._jsc.sc(), "windbolt"),
            jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow")),
            jvm.java.lang.Object,
        )

    def run(self, rows: Any, plan: str) -> None:
        """Adds up an RDD of rows; each partition writes the file with its number."""
        # The results are in files, so there is nothing to count. This way to run a job has the fewest closures; for
        # each, Spark parses a class file, and those of RDD and SparkContext are its largest.
        self._sums_by_partition(rows, plan).countAsync().get()

    def collect(self, rows: Any, plan: str, path: str) -> int:
        """Adds up an RDD of rows, and writes the sums of all partitions into a file of the driver. Returns the number
        of sums; negative if the rows are needed."""
        return int(self._collector.write(self._sums_by_partition(rows, plan), path))

    @cached_property
    def most_collected(self) -> int:
        """Most bytes of sums that a job may return: at most half of Spark's limit, since Spark counts more than these
        bytes."""
        allowed = int(self.spark._jsc.sc().conf().getSizeAsBytes("spark.driver.maxResultSize", "1g"))
        return min(_MOST_COLLECTED, allowed // 2 or _MOST_COLLECTED)  # 0 means no limit

    @cached_property
    def column_finder(self) -> Any:
        """Returns Java's finder of the columns that form rows."""
        return new_object(self.spark, compile_class(self.spark, _COLUMNS_SOURCE, SHARED_WORK))

    @cached_property
    def _collector(self) -> Any:
        return new_object(self.spark, compile_class(self.spark, _COLLECTOR_SOURCE))

    def _sums_by_partition(self, rows: Any, plan: str) -> Any:
        gateway: Any = self.spark.sparkContext._gateway
        given = gateway.new_array(self.object_class, 1)
        given[0] = plan
        program = self.factory(self.code_for_factory, self.metric, given)
        return rows.mapPartitionsWithEvaluator(program, self.class_tag).toJavaRDD()


@contextmanager
def _private_files(context: Context, count: int) -> Iterator[str]:
    """Yields the common beginning of the paths of ``count`` empty files, which end in the number of a partition. They
    are deleted at the end of the block."""
    store = context.store
    assert isinstance(store, FileSegments)
    path_prefix = f"{store.root}/{context.key}/{uuid.uuid4().hex}.sums-"
    try:
        for number in range(count):
            make_private(f"{path_prefix}{number}")
        yield path_prefix
    finally:
        for number in range(count):
            delete(store.filesystem, f"{path_prefix}{number}", missing_ok=True)
