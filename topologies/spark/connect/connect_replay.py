"""Scenarios over Spark Connect: this process cuts the batches, and Spark runs their tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql.connect.session import SparkSession

from topologies.checkpoints.file_journal import FileJournal
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.spark_checkpoint import SourceLog
from topologies.io.file_spout import FileSpout, WatchedFiles
from topologies.io.paths import shown_path
from topologies.run.clock import system_clock
from topologies.spark.connect.connect_run import ConnectExecutor, connected
from topologies.spark.replayed import Play

_SPOUT = "batches"


@contextmanager
def playing(spark: SparkSession | None) -> Iterator[tuple[ConnectExecutor, Play]]:
    """Who runs tasks, and what plays batches, in this session or one that is opened."""
    with connected(spark, None, {}) as session:
        yield ConnectExecutor(session), _play


def _play(spout: FileSpout, halves: PairedCheckpoint, run: Callable[[int, str], None]) -> None:
    half = halves.spark_checkpoint
    journal = FileJournal(half, [_SPOUT], heartbeats=False, uri=halves.uri)
    log = SourceLog(half.filesystem, half.root, (_SPOUT,))

    def end(number: int) -> None:
        ((_, path),) = log.files(number)
        run(number, shown_path(path))
        journal.commit(number)

    if journal.unfinished is not None:
        end(journal.unfinished)
    for files in spout.cut(WatchedFiles(_SPOUT, spout).new(journal.seen[_SPOUT])):
        end(journal.plan({_SPOUT: files}, system_clock(), heartbeat=False))
