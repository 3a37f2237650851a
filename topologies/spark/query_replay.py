"""Scenarios as queries of a classic session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from topologies.checkpoints.file_journal import FileLog
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.spark_checkpoint import SourceLog
from topologies.io.file_spout import FileSpout, WatchedFiles
from topologies.io.paths import shown_path
from topologies.run.options import RunOptions
from topologies.spark.jvm.session import check_session, shared_session, simple_checkpoints
from topologies.spark.replayed import Play
from topologies.spark.runner import Guarded, wait_for_sources
from topologies.spark.source import PlannedFiles, planned_files
from topologies.spark.spark_executor import TaskExecutor
from topologies.spark.workers.pool import executor_for

_MASTER = "local[2]"


@contextmanager
def playing(spark: SparkSession | None) -> Iterator[tuple[TaskExecutor, Play]]:
    """Yields an executor, and a function that plays batches, in this session or one that is opened."""
    with shared_session(spark, _MASTER, {}) as session:
        check_session(session)
        executor = executor_for(session)

        def play(spout: FileSpout, halves: PairedCheckpoint, run: Callable[[int, str], None]) -> None:
            _query(session, executor, spout, halves, run)

        try:
            yield executor, play
        finally:
            executor.close()


def _query(
    spark: SparkSession,
    executor: TaskExecutor,
    spout: FileSpout,
    halves: PairedCheckpoint,
    run: Callable[[int, str], None],
) -> None:
    def each(batch: Any, number: int) -> None:
        ((_, path),) = log.files(number)
        run(number, shown_path(path))

    half, options = halves.spark_checkpoint, RunOptions()
    log = SourceLog(half.filesystem, half.root, ("batches",))
    planned = PlannedFiles(WatchedFiles("batches", spout), lambda: FileLog(half, 0, halves.uri))
    guarded = Guarded(each, options.stop, executor.cancel, [planned])
    rows: DataFrame = planned_files(spark, planned)
    writer = rows.writeStream.foreachBatch(guarded).option("checkpointLocation", halves.spark)
    with simple_checkpoints(spark, None if halves.uri else halves.path):
        query = writer.trigger(availableNow=True).start()
        wait_for_sources(query)
    guarded.wait(query, spark)
