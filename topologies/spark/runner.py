"""The Spark runner: a topology as one streaming query, whose sink is the micro-batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from manager.checkpoint import FileCheckpoint, batch_key
from topologies.engine.failures import recovered
from topologies.engine.first_output import FirstOutput
from topologies.engine.plan import BatchPlan, Beat
from topologies.engine.step import MicroBatch
from topologies.model import Topology
from topologies.running import RunOptions, Summary
from topologies.sources import file_pieces
from topologies.spark.frames import SparkFrames
from topologies.spark.kafka import check_sinks, reaches_kafka
from topologies.spark.memory import as_files
from topologies.spark.metrics import REPORTS, TimeMetrics, listening
from topologies.spark.pairing import Halves
from topologies.spark.pool import executor_for
from topologies.spark.session import check_session, open_session
from topologies.spark.source import StreamSource
from topologies.spark.trouble import kafka_trouble
from windowing.errors import ConfigError, WindboltError

_LOOK_EVERY = 0.1
"""Seconds between looks at whether the query has ended, or is to be stopped."""


class StopRequested(Exception):
    """The run is to stop; the batch that was about to begin is left for the next run."""


def run_on_spark(
    topology: Topology,
    options: RunOptions,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    metrics: TimeMetrics | None = None,
) -> Summary:
    """Run a topology on Spark Structured Streaming.

    A run on the checkpoint of an earlier one continues where that stopped. ``spark``, or the active session, is used
    if there is one; otherwise a session is made (``master``, by default ``local[*]``; ``conf``) and stopped in the
    end. ``metrics`` is told of each batch, with what Spark says of it. Raises CheckpointError for a checkpoint that
    does not fit, BoltError for an exception in a bolt (the batch is not committed, and comes again),
    EnvironmentMissing where Java is, or the connector that a topology with Kafka needs.
    """
    if options.checkpoint is None:
        raise ConfigError(
            "a run on Spark needs a checkpoint",
            why="it keeps the state, so that a restart goes on where the last run stopped",
            do="give a folder: RunOptions(checkpoint='ck/'), or --checkpoint ck/",
        )
    kafka = reaches_kafka(topology)
    session, own = (spark, False) if spark is not None else open_session(master, conf or {}, kafka=kafka)
    try:
        check_session(session, kafka=kafka)
        return SparkRun(session, topology, options, metrics).run()
    finally:
        if own:
            session.stop()


class SparkRun:
    """One run of a topology."""

    def __init__(
        self, spark: SparkSession, topology: Topology, options: RunOptions, metrics: TimeMetrics | None = None
    ) -> None:
        assert options.checkpoint is not None
        self.spark, self.options, self.metrics = spark, options, metrics
        self.halves = Halves(options.checkpoint)
        self.summary = Summary()
        with ExitStack() as undo:
            self.halves.lock()
            undo.callback(self.halves.release)
            self.executor = executor_for(spark)
            undo.callback(self.executor.close)
            self._open(spark, topology, options.checkpoint)
            undo.pop_all()

    def _open(self, spark: SparkSession, topology: Topology, folder: str) -> None:
        self.checkpoint: FileCheckpoint = self.halves.open(topology, self.options.first_output_at)
        self.topology = as_files(topology, folder)
        self.executor.load(self.topology)
        first = FirstOutput.of(self.topology, self.halves.first_output)
        self.step = MicroBatch(self.topology, self.checkpoint, self.executor, SparkFrames(spark), first)
        check_sinks(spark, self.topology)
        self.source = StreamSource(spark, self.topology)
        self.log = self.halves.source_log(self.source.file_spouts)

    def run(self) -> Summary:
        """Run to the end of the input, or until stopped."""
        started = time.perf_counter()
        try:
            self._finish_closing()
            guarded = Guarded(self._batch, self.options.stop, self.executor.break_off)
            writer = self.source.stream.writeStream.foreachBatch(guarded)
            writer = writer.option("checkpointLocation", self.halves.spark)
            every = self.options.every
            trigger: dict[str, Any] = (
                {"availableNow": True}
                if every is None
                else {"processingTime": f"{max(every.micros // 1000, 1)} milliseconds"}
            )
            with listening(self.spark, self.metrics):
                query = writer.trigger(**trigger).start()
                try:
                    guarded.wait(query)
                finally:
                    if self.metrics is not None:
                        self.metrics.settle(str(query.runId))
            self.summary.stopped = self.options.stop.is_set()
            if self.options.flush and every is None and not self.summary.stopped:
                self._close()
            self.step.tidy()
        finally:
            self.executor.close()
            self.halves.release()
            self.summary.seconds = time.perf_counter() - started
        return self.summary

    def _batch(self, batch: DataFrame, number: int) -> None:
        """Called for each micro-batch, by Spark; again, with the same rows, if it was not committed."""
        if self.step.done(number):
            return
        key = batch_key(number, False)
        drafted: dict[str, Any] = {"clock": self._now(), "slots": self.executor.slots, "run": self.step.run_id}
        drafted["files"] = self.log.files(number)
        plan = self.checkpoint.plan(key, drafted)
        found = [(spout, path) for spout, path in plan["files"]]
        pieces = file_pieces(self.topology, found, plan.get("slots", self.executor.slots))
        ready = BatchPlan(number, Beat(plan["clock"]), pieces, run=plan.get("run", ""))
        if self.source.rows:
            ready = replace(ready, ingest=lambda context: self.source.ingest_rows(batch, self.executor, context))
        self._run(ready, again=plan is not drafted)

    def _close(self) -> None:
        """The closing tick: fire what is open. It has a number of its own, so that it too happens once."""
        before = self.step.manifest
        if before.closing:
            return
        drafted = {"clock": self._now(), "run": self.step.run_id}
        plan = self.checkpoint.plan(batch_key(before.batch, True), drafted)
        beat = Beat(plan["clock"], close=True)
        self._run(BatchPlan(before.batch, beat, closing=True, run=plan.get("run", "")), again=True)

    def _finish_closing(self) -> None:
        """A run that died while it was closing is closed first: some of its output may be out already."""
        before = self.step.manifest
        if not before.closing and self.checkpoint.planned(batch_key(before.batch, True)):
            self._close()

    def _run(self, plan: BatchPlan, *, again: bool) -> None:
        query = self.halves.query()
        report = self.step.run(plan, again=again, query=query)
        REPORTS.note(query, report)
        if self.metrics is not None and report.closing:
            self.metrics.tell(report, None)
        self.summary.note(report)
        self.options.on_report(report)

    def _now(self) -> int:
        """The clock, which never goes back, not even where the machine's does."""
        before = self.step.manifest.clock
        now = self.options.clock()
        return now if before is None else max(now, before)


class Guarded:
    """A function for ``foreachBatch`` whose errors come back as they are, and that can be stopped between batches."""

    def __init__(
        self,
        function: Callable[[DataFrame, int], None],
        stop: threading.Event,
        break_off: Callable[[], None] = lambda: None,
    ) -> None:
        """``break_off`` ends the tasks of a batch that is not to come to its end."""
        self.function, self.stop, self.break_off = function, stop, break_off
        self.failure: BaseException | None = None
        self._busy = threading.Lock()

    def __call__(self, batch: DataFrame, number: int) -> None:
        with self._busy:
            try:
                if self.stop.is_set():
                    # To return would tell Spark that the batch is done.
                    raise StopRequested
                self.function(batch, number)
            except BaseException as error:
                self.failure = error
                if isinstance(error, Exception):
                    raise
                # Java is told of Exceptions only, and would wait for ever for an answer (sys.exit() in a sink).
                raise RuntimeError(f"{type(error).__name__}: {error}") from error

    def wait(self, query: StreamingQuery) -> None:
        """Until the query has ended; what it failed of is raised."""
        try:
            while not query.awaitTermination(_LOOK_EVERY):  # type: ignore[arg-type]
                if self.stop.is_set():
                    with self._busy:
                        pass  # the batch in hand ends; the next one refuses to begin
                    query.stop()
        except StreamingQueryException as error:
            if self.failure is None:
                raise _explained(error) from error
        except BaseException:
            self.break_off()
            query.stop()
            raise
        if self.failure is not None and not isinstance(self.failure, StopRequested):
            raise self.failure


def _explained(error: StreamingQueryException) -> WindboltError:
    """An error of Spark's own, in one sentence."""
    text = str(error)
    found = recovered(text) or kafka_trouble(text)
    if found is not None:
        return found
    first = next((line for line in text.splitlines() if line.strip()), text)
    return WindboltError("Spark stopped the query", why=first, do="see the chained error for all that Spark says")
