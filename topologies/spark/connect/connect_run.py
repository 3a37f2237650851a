"""The runner over Spark Connect: this process is the driver, as in a local run; tasks go to Spark (decision 136)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession

from manager.storage.segments import Ref, SegmentStore
from topologies.checkpoints.preflight import refuse_before_start, refuse_hdfs_without_host
from topologies.engine.commit import Frames
from topologies.engine.librdkafka import check_options
from topologies.engine.report import BatchReport
from topologies.engine.work import SinkBatch, SinkRows
from topologies.graph.graph import Graph, SinkNode
from topologies.io.file_spout import FileSpout
from topologies.local import LocalKafka, LocalRun
from topologies.page.site import asked_observers
from topologies.run.attempts import NOBODY, Attempts, Observers, observed
from topologies.run.options import Engine, RunOptions
from topologies.run.summary import Summary
from topologies.spark.cluster import ask_executors
from topologies.spark.connect.connect_executor import ConnectExecutor
from topologies.spark.connect.connect_session import connected, slots_of
from topologies.spark.kept_frames import KeepsFrames
from topologies.spark.tables import Appenders, tables_of_files, with_tables
from windowing.errors import CheckpointError


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


class ConnectRun(KeepsFrames, LocalRun):
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

    def _keeps(self, name: str) -> bool:
        half = self.halves.spark_checkpoint
        if (half.offsets() or half.names("sources")) and not self._is_kept(name):
            raise CheckpointError(
                f"spout {name!r} is a Spark DataFrame, and the checkpoint was begun in a classic session",
                why="there Spark's query over all input has noted where it was read; a query over it alone, which "
                "Spark Connect needs, would read it from its beginning",
                do="go on in a classic session, or start with a new checkpoint folder (which reads all input again)",
            )
        return True

    def _frames(self) -> Frames:
        return ConnectFrames(self.executor, self.kafka)

    def _open_source(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        found = super()._open_source()
        ask_executors(self.executor, self.topology, self.halves.path)
        return found

    def _note(self, query: str | None, report: BatchReport) -> None:
        super()._note(query, report)
        for table in self.tables:
            self.spark.catalog.refreshTable(table)
