"""The runner over Spark Connect: this process is the driver, as in a local run; tasks go to Spark (decision 136)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession

from manager.storage.segments import Ref, SegmentStore
from topologies.checkpoints.preflight import refuse_before_start, refuse_hdfs_without_host
from topologies.checkpoints.pulled_files import pulled_rows
from topologies.engine.commit import Frames
from topologies.engine.librdkafka import check_options
from topologies.engine.report import BatchReport
from topologies.engine.work import SinkBatch, SinkRows
from topologies.graph.graph import Graph, SinkNode
from topologies.io.file_spout import FileSpout, WatchedFiles
from topologies.io.pulled import PulledRows
from topologies.io.spouts import FrameSpout
from topologies.local import LocalKafka, LocalRun
from topologies.page.site import asked_observers
from topologies.run.attempts import NOBODY, Attempts, Observers, observed
from topologies.run.options import Engine, RunOptions
from topologies.run.summary import Summary
from topologies.spark.cluster import ask_executors
from topologies.spark.connect.connect_executor import ConnectExecutor
from topologies.spark.connect.connect_session import connected, slots_of
from topologies.spark.connect.frame_reader import FrameReader, refuse_endless
from topologies.spark.declared_frames import check_frames, declared_frame
from topologies.spark.tables import Appenders, tables_of_files, with_tables


def run_over_connect(
    topology: Graph, options: RunOptions, *, master: str | None, conf: Mapping[str, str], spark: SparkSession | None
) -> Summary:
    """Run a topology over Spark Connect; arguments and errors are those of ``run_on_spark``."""
    refuse_over_connect(topology)
    check_options(topology)
    slots = slots_of(conf)

    def run(options: RunOptions, observers: Observers, attempts: Attempts) -> Summary:
        refuse_before_start(topology, options)
        with connected(spark, master, conf) as session:
            with_files = with_tables(topology, session)
            with ConnectRun(session, with_files, options, observers, attempts, slots=slots) as over_connect:
                over_connect.tables = tables_of_files(topology, with_files)
                return over_connect.run()

    return observed(options, asked_observers(topology, options), run)


def refuse_over_connect(topology: Graph) -> None:
    """Raise ConfigError for what does not go over Connect."""
    for name, node in topology.spouts.items():
        if isinstance(node.spout, FileSpout):
            why = "files are noted by the name of their host, and Spark Connect does not tell fs.defaultFS"
            refuse_hdfs_without_host(name, node.spout, why)


class ConnectFrames:
    """Spark's work for sinks, over Connect; Kafka is written to by this process."""

    def __init__(self, executor: ConnectExecutor, kafka: LocalKafka) -> None:
        self._executor, self._kafka = executor, kafka
        self._tables = Appenders(cast("Any", executor.spark))

    def frame(self, store: SegmentStore, refs: list[Ref], schema: pa.Schema) -> DataFrame:
        """The rows as a DataFrame of the session, for a function."""
        return self._executor.frame(store, refs, schema)

    def send(self, node: SinkNode, batch: SinkBatch, sink_rows: list[SinkRows], store: SegmentStore) -> None:
        """Write rows to Kafka, and wait until they are written."""
        self._kafka.send(node, batch, sink_rows, store)

    def append(self, node: SinkNode, batch: SinkBatch, refs: list[Ref], store: SegmentStore) -> None:
        """Append rows to a table, unless an earlier attempt of the batch has done so."""
        self._tables.append(node, batch, self.frame(store, refs, node.schema), refs)


class ConnectRun(LocalRun):
    """One run of a topology on a checkpoint: batches are cut in this process, and their tasks run on Spark."""

    engine = Engine.SPARK
    executor: ConnectExecutor

    def __init__(
        self,
        spark: SparkSession,
        topology: Graph,
        options: RunOptions,
        observers: Observers = NOBODY,
        attempts: Attempts | None = None,
        *,
        slots: int | None = None,
    ) -> None:
        self.spark, self._slots = spark, slots
        self.tables: list[str] = []
        """The tables in whose folders sinks write files: Spark keeps what it knows of these."""
        super().__init__(topology, options, observers, attempts)

    def _begin(self, held: ExitStack) -> None:
        self.executor = ConnectExecutor(self.spark, self._slots)

    def _in_this_run(self, topology: Graph) -> Graph:
        """The topology with rows that are kept in the checkpoint in place of each DataFrame."""
        spouts = dict(topology.spouts)
        for name, node in self.given.spouts.items():
            if isinstance(node.spout, FrameSpout):
                kept = pulled_rows(name, node.spout.declared, node.spout.defaults, self.halves.path)
                spouts[name] = replace(spouts[name], spout=kept)
        return replace(topology, spouts=spouts)

    def watch(self, name: str, spout: FileSpout) -> WatchedFiles:
        """Makes the object that lists a spout's files; of a DataFrame it keeps the rows first."""
        node = self.given.spouts[name]
        if not (isinstance(spout, PulledRows) and isinstance(node.spout, FrameSpout)):
            return super().watch(name, spout)
        frame = declared_frame(self.spark, node)
        refuse_endless(name, frame, once=self.options.interval is None)
        reader = partial(FrameReader, node, frame, self.halves, self.options.stop, self.checkpoint.check_owner)
        self.watched[name] = self._kept(name, spout, reader)
        return self.watched[name]

    def _frames(self) -> Frames:
        return ConnectFrames(self.executor, self.kafka)

    def _open_source(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        check_frames(self.given, self.halves, over_connect=True)
        found = super()._open_source()
        ask_executors(self.executor, self.topology, self.halves.path)
        return found

    def _note(self, query: str | None, report: BatchReport) -> None:
        super()._note(query, report)
        for table in self.tables:
            self.spark.catalog.refreshTable(table)
