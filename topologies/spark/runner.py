"""The Spark runner: a topology as one streaming query, whose sink is the micro-batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from manager.storage.manifest import batch_key, batch_name
from manager.storage.segment_files import FileSegments
from manager.storage.segments import Ref, SegmentStore
from topologies.checkpoints.checkpointed_run import Cleaning
from topologies.checkpoints.file_journal import FileLog, forget_unplanned, path_of
from topologies.checkpoints.preflight import refuse_before_start
from topologies.checkpoints.pulled_files import Reader
from topologies.checkpoints.spark_checkpoint import Partitions
from topologies.engine.batch import BatchPlan, Context
from topologies.engine.commit import EngineSinks
from topologies.engine.kafka_records import check_sinks
from topologies.engine.report import BatchReport
from topologies.engine.source_splits import PoisonInput
from topologies.engine.task_data import SinkBatch, SinkRows, TaskOutput
from topologies.graph.graph import Graph, SinkNode, SpoutNode
from topologies.io.kafka import KafkaSink
from topologies.io.paths import shown_path
from topologies.page.site import asked_observers
from topologies.run.attempts import NO_OBSERVERS, Attempts, Observers, SourceLag, run_with_observers
from topologies.run.options import Engine, RunOptions, is_cluster
from topologies.run.run_metrics import records_behind
from topologies.run.summary import Summary
from topologies.spark.classic_session import (
    check_classes,
    check_jars,
    check_session,
    places_of_spark,
    reach_stores,
    shared_session,
    simple_checkpoints,
)
from topologies.spark.cluster import ask_executors
from topologies.spark.frames import InOwnThread, KeepsFrames
from topologies.spark.java import explain_javas_end
from topologies.spark.kafka_client import MOST_ROWS_OF_DRIVER, KafkaSenders, admin_of, reaches_kafka, send_records
from topologies.spark.source import PlannedFiles, StreamSource
from topologies.spark.spark_errors import failure_in, kafka_error_in, passing_error_in, storage_error_in
from topologies.spark.spark_tasks import SparkExecutor, TaskExecutor
from topologies.spark.tables import Appenders, tables_of_files, with_tables
from topologies.spark.time_metrics import REPORTS, TimeMetrics, count_rows, listening
from topologies.spark.workers.pool import PoisonLog, executor_for, find_poison, is_of_input, threads_of_driver
from topologies.spark.workers.processes import WorkerDied
from windowing.errors import WindboltError

# Spark DataFrames of rows in segments; the rows stay with the workers.


class SparkFrames:
    """Makes DataFrames for functions of sinks, and writes to Kafka."""

    def __init__(self, spark: SparkSession, senders: KafkaSenders | None = None) -> None:
        """``senders``: write small batches to Kafka; None if Spark writes all."""
        self.spark, self._senders = spark, senders
        self._tables = Appenders(spark)

    def frame(self, store: SegmentStore, refs: list[Ref], schema: pa.Schema) -> DataFrame:
        """Returns a DataFrame with one partition per reference, which is read on each use."""

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield from store.read(refs[number]).cast(schema).to_batches()

        count = len(refs)
        return self.spark.range(0, count, 1, count).mapInArrow(read, from_arrow_schema(schema))

    def send(self, node: SinkNode, batch: SinkBatch, sink_rows: list[SinkRows], store: SegmentStore) -> None:
        """Writes rows to Kafka, and waits until they are written."""
        senders, sink = self._senders, node.sink
        small = sum(rows.ref.rows for rows in sink_rows) <= MOST_ROWS_OF_DRIVER
        if senders is None or not small or not isinstance(store, FileSegments) or store.reads_by_request:
            send_records(self.spark, node, batch, sink_rows, store)
            return
        assert isinstance(sink, KafkaSink)

        def send(records: list[pa.Table]) -> bool:
            return senders.send(node.name, sink, records, store, batch.key)

        send_records(self.spark, node, batch, sink_rows, store, send)

    def append(self, node: SinkNode, batch: SinkBatch, refs: list[Ref], store: SegmentStore) -> None:
        """Appends rows to a table, unless an earlier attempt of the batch has done so."""
        words = f"{batch.topology}, batch {batch_name(batch.key)}: sink {node.name!r}"
        with describe_jobs(self.spark, words):
            self._tables.append(node, batch, self.frame(store, refs, node.schema), refs)


# The Spark runner: a topology as one streaming query, whose sink is the micro-batch.


_MAX_RESTARTS = 3
"""Most restarts of a batch after deaths of workers that do not recur."""
_POLL_SECONDS = 0.1
"""Seconds between checks for the end of the query, or for a request to stop."""
_NAME_LOCK = threading.Lock()
"""Held while a query gets its name."""
_DESCRIPTION = "spark.job.description"
"""Spark's thread property with the description of the thread's jobs in the UI."""
_SOURCES_POLL_SECONDS = 0.01
"""Seconds between checks whether the sources are open."""


class StopRequested(Exception):
    """Raised when the run must stop, so that the batch about to start is left to the next run."""


def run_in_session(
    topology: Graph,
    options: RunOptions,
    *,
    master: str | None,
    conf: Mapping[str, str],
    spark: SparkSession | None,
    metrics: TimeMetrics | None,
) -> Summary:
    """Runs a topology in a classic session; arguments and errors are those of ``run_on_spark``."""

    def run(options: RunOptions, observers: Observers, attempts: Attempts) -> Summary:
        refuse_before_start(topology, options)
        kafka, places = reaches_kafka(topology), places_of_spark(topology, options)
        if spark is None:
            check_jars(places, conf)
        with shared_session(spark, master, conf, kafka=kafka) as session, explain_javas_end():
            check_session(session, kafka=kafka)
            check_classes(session, places)
            reach_stores(session, places)
            with_files = with_tables(topology, session)
            with SparkRun(session, with_files, options, metrics, observers, attempts) as on_spark:
                on_spark.tables = tables_of_files(topology, with_files)
                return on_spark.run()

    return run_with_observers(options, asked_observers(topology, options), run)


class SparkRun(KeepsFrames):
    """A run of a topology, as a streaming query."""

    engine = Engine.SPARK
    executor: TaskExecutor

    def __init__(
        self,
        spark: SparkSession,
        topology: Graph,
        options: RunOptions,
        metrics: TimeMetrics | None = None,
        observers: Observers = NO_OBSERVERS,
        attempts: Attempts | None = None,
    ) -> None:
        self.spark, self.metrics = spark, metrics
        self.query: StreamingQuery | None = None
        self._is_cancelled = False
        self.tables: list[str] = []
        """The tables to whose folders sinks write files, because Spark caches information about them."""
        super().__init__(topology, options, observers, attempts)

    def _begin(self, resources: ExitStack) -> None:
        self.executor = executor_for(self.spark)
        self.senders = KafkaSenders(self.spark) if self.executor.on_this_machine else None
        if self.senders is not None:
            resources.callback(self.senders.close)

    def _engine_sinks(self) -> EngineSinks:
        return SparkFrames(self.spark, self.senders)

    def _must_keep(self, name: str) -> bool:
        return self._was_kept(name)

    def _reader(self, node: SpoutNode, frame: DataFrame, offset: Any) -> Reader:
        return InOwnThread(super()._reader(node, frame, offset))

    def _is_ending(self) -> bool:
        return self._is_cancelled or super()._is_ending()

    def _cancel(self) -> None:
        """Cancels everything for which the query waits: tasks, and rows of DataFrames."""
        self._is_cancelled = True
        self.executor.cancel()

    def _open_source(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        check_sinks(partial(admin_of, self.spark), self.topology)
        files, once = self._file_spouts(), self.options.interval is None
        check_owner = self.checkpoint.check_owner
        self.source = StreamSource(
            self.spark, self.topology, files, self._log_of_files, check_owner, self.watch, once=once
        )
        threads = threads_of_driver(self.spark.sparkContext)
        if self.executor.on_this_machine:
            self.source.read_in_driver(self.spark, threads)
        on_cluster = is_cluster(self.spark.sparkContext.master or "")
        self.source.add_up_in_java(here=not on_cluster, threads=threads)
        if on_cluster and isinstance(self.executor, SparkExecutor):
            ask_executors(self.executor, self.topology, self.halves.path)
        if self.observers.observers:
            half = self.halves.spark_checkpoint
            self.files_read = self._noted = {
                spout: {path_of(entry) for entry in half.files(source)}
                for source, spout in enumerate(self.source.file_spouts)
            }
        return self.source.file_spouts, self.source.kafka_spouts

    def _open_log(self) -> None:
        super()._open_log()
        self._compare_topics(partial(admin_of, self.spark))
        forget_unplanned(self.log.filesystem, self.log.root, self.checkpoint.check_owner)

    def _log_of_files(self, source: int) -> FileLog:
        return FileLog(self.halves.spark_checkpoint, source, self.halves.uri)

    def _run(self, plan: BatchPlan) -> None:
        words = f"{self.topology.name}, batch {batch_name(batch_key(plan.batch, plan.closing))}"
        if plan.closing:
            with describe_jobs(self.spark, words):
                super()._run(plan)
        else:
            self.spark.sparkContext.setLocalProperty(_DESCRIPTION, words)  # Spark sets it before each batch
            super()._run(plan)

    def _batches(self) -> None:
        guarded = GuardedFunction(self._spark_batch, self.options.stop, self._cancel, self.source.planned)
        writer = self.source.stream.writeStream.foreachBatch(guarded)
        writer = writer.option("checkpointLocation", self.halves.spark)
        every = self.options.interval
        trigger: dict[str, Any] = (
            {"availableNow": True}
            if every is None
            else {"processingTime": f"{max(every.micros // 1000, 1)} milliseconds"}
        )
        path = self.halves.path if self.halves.uri is None else None
        with (
            Cleaning(self.checkpoint.clean) as self.cleaning,
            listening(self.spark, self.metrics),
            ExitStack() as opening,
        ):
            self.micro_batch.clean = self.cleaning.begin
            opening.enter_context(simple_checkpoints(self.spark, path))
            try:
                with _NAME_LOCK:  # Spark refuses the second of two queries with one name, so that gets none
                    if all(each.name != self.topology.name for each in self.spark.streams.active):
                        writer = writer.queryName(self.topology.name)
                    query = self.query = writer.trigger(**trigger).start()
            except (Py4JJavaError, PySparkException) as error:
                raise storage_error_in(str(error)) or passing_error_in(str(error)) or error from error
            try:
                wait_for_sources(query)
                opening.close()
                guarded.wait(query, self.spark)
            finally:
                self.source.close()
                if self.metrics is not None:
                    self.metrics.settle(str(query.runId))
        self.micro_batch.clean = self.checkpoint.clean

    def _spark_batch(self, batch: DataFrame, number: int) -> None:
        """Called by Spark for each micro-batch, and again with the same rows if it was not committed."""
        self.cleaning.wait()
        delivering: list[str] = []

        def rows(slots: int, partitions: Mapping[str, Partitions]) -> Callable[[Context], list[TaskOutput]] | None:
            if not self.source.rows:
                return None
            delivering.extend(
                name for name in self.source.kafka_spouts if name in partitions and partitions[name].most_with_records
            )
            self.complaints += self.read_topics.lost_records_in_words(
                {name: spout_partitions.ranges for name, spout_partitions in partitions.items()}
            )
            return lambda context: self.source.ingest_rows(batch, self.executor, context, slots, partitions)

        if self.observers.observers:
            for spout, path in self.log.files(number):
                self._noted[spout].add(shown_path(path))
        before = self._rows_by_spout()
        self.batch(number, rows)
        read = {name: rows - before.get(name, 0) for name, rows in self._rows_by_spout().items()}
        files = self.source.file_spouts
        if len(files) > 1:  # Spark's plan omits sources without new files
            new = {spout for spout, _ in self.log.files(number)}
            files = tuple(name for name in files if name in new)
        counts = [read.get(name, 0) for name in (*files, *delivering)]
        if any(counts):
            query = self.halves.spark_checkpoint.query() if self.query is None else str(self.query.id)
            count_rows(self.spark, query, counts)

    def _rows_by_spout(self) -> dict[str, int]:
        return {name: counts["rows"] for name, counts in self.micro_batch.manifest.spouts.items()}

    def _lag(self) -> list[SourceLag]:
        """Returns the lags, with those of Kafka spouts from Spark's last report."""
        progress = None if self.query is None or not self.source.kafka_spouts else self.query.lastProgress
        records = [] if progress is None else records_behind(progress.sources, self.source.kafka_spouts)
        return [*super()._lag(), *records]

    def _run_without_poison(self, key: str, plan: Callable[[Sequence[PoisonInput]], BatchPlan]) -> None:
        """Runs a batch; if workers die on some input, runs it without that input."""
        book, chances = PoisonLog(self.checkpoint, key), _MAX_RESTARTS
        while True:
            try:
                return self._run(plan(book.entries))
            except WorkerDied as death:
                if not is_of_input(death) or death.context is None:
                    raise
                poison = find_poison(self.executor, self.topology, death, death.context)
                chances -= poison is None
                if chances < 0:
                    raise
                if poison is not None:
                    book.add(poison, death)

    def _note(self, query: str | None, report: BatchReport) -> None:
        super()._note(query, report)
        for table in self.tables:
            self.spark.catalog.refreshTable(table)
        REPORTS.note(query, report)
        if self.metrics is not None and report.closing:
            self.metrics.tell(report, None)


@contextmanager
def describe_jobs(spark: SparkSession, words: str) -> Iterator[None]:
    """Spark's UI describes the jobs that are started within the context by this text."""
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, words)
    try:
        yield
    finally:
        with suppress(Py4JError, AttributeError):  # the session may have been stopped
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # None: none


class GuardedFunction:
    """A function for ``foreachBatch`` whose errors are passed on unchanged, and which can be stopped between
    batches."""

    def __init__(
        self,
        function: Callable[[DataFrame, int], None],
        stop: threading.Event,
        cancel: Callable[[], None] = lambda: None,
        planned: Sequence[PlannedFiles] = (),
    ) -> None:
        """``cancel``: ends the tasks of a batch that must not complete. ``planned``: sources of the query, which may
        also fail."""
        self.function, self.stop, self.cancel = function, stop, cancel
        self.failure: BaseException | None = None
        self._first_plan = planned
        self._busy = threading.Lock()

    def __call__(self, batch: DataFrame, number: int) -> None:
        with self._busy:
            try:
                if self.stop.is_set():
                    # Returning would tell Spark that the batch is complete.
                    raise StopRequested
                self.function(batch, number)
            except BaseException as error:
                self.failure = error
                if isinstance(error, Exception):
                    raise
                # Only Exceptions reach Java, which would otherwise wait for ever for an answer (sys.exit() in a sink).
                raise RuntimeError(f"{type(error).__name__}: {error}") from error

    def wait(self, query: StreamingQuery, session: SparkSession) -> None:
        """Waits until the query has ended; raises its error."""
        try:
            while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
                if self.stop.is_set():
                    with self._busy:
                        pass  # the current batch completes; the next one refuses to start
                    query.stop()
                elif session.sparkContext._jsc is None:
                    raise _session_stopped()  # a query that waits for input does not notice, and would wait for ever
        except StreamingQueryException as error:
            self.failure = self.failure or next((each.failure for each in self._first_plan if each.failure), None)
            if self.failure is None:
                raise (_session_stopped() if _is_stopped(session) else _windbolt_error(error)) from error
        except BaseException:
            self.cancel()
            with suppress(Py4JJavaError):  # the query ends with its session
                query.stop()
            raise
        if self.failure is not None and not isinstance(self.failure, StopRequested):
            raise self.failure


def wait_for_sources(query: StreamingQuery) -> None:
    """Returns once the query has opened its sources, or has ended; after a minute at the latest.

    If the start of a query is interrupted, the query is stopped.
    """
    try:
        for _ in range(int(60 / _SOURCES_POLL_SECONDS)):
            if not query.isActive or not str(query.status["message"]).startswith("Initializing"):
                return
            time.sleep(_SOURCES_POLL_SECONDS)
    except BaseException:
        with suppress(Py4JJavaError):
            query.stop()
        raise


def _is_stopped(session: SparkSession) -> bool:
    """True if the session has been stopped, or is being stopped."""
    try:
        java = session.sparkContext._jsc
        return java is None or bool(java.sc().isStopped())
    except (Py4JError, OSError):  # Java has ended, as the query's error tells
        return False


def _session_stopped() -> WindboltError:
    return WindboltError(
        "the Spark session of the run has been stopped",
        why="spark.stop() was called while the run went on",
        do="start it again: it continues from its checkpoint. To end a run, call run.stop() first",
    )


def _windbolt_error(error: StreamingQueryException) -> WindboltError:
    """Returns Spark's error as one sentence."""
    text = str(error)
    known = failure_in(text) or kafka_error_in(text) or storage_error_in(text) or passing_error_in(text)
    if known is not None:
        return known
    first = next((line for line in text.splitlines() if line.strip()), text)
    return WindboltError("Spark stopped the query", why=first, do="see the chained error for Spark's whole message")
