"""The arms of Spark's own streaming, and queries that are asked of Spark and of windbolt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.arms.arm import Job, Taken, measured, not_installed
from benchmarks.arms.windbolt import batches_of, in_process, on_spark, own_query, read_events, stateful_medians
from benchmarks.session import Session
from topologies.spark.workers.pool import TASKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from topologies.graph.topology import Topology


# Spark's own windows, in the same session as windbolt.


_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass
class SparkArm:
    """A streaming query of Spark's."""

    name: str
    session: Session
    query: Callable[[SparkSession, Job], DataFrame]
    modules: tuple[str, ...] = ()
    """Modules that it needs besides Spark."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of this query alone."""
    ours: bool = False
    batched: bool = True
    most: int | None = None

    def missing(self) -> str | None:
        """Names the packages that are not installed; None if all are."""
        return not_installed(*self.modules)

    def run(self, job: Job) -> Taken:
        """Run to the end of the files; windows that the watermark has not passed stay open."""
        spark = self.session.settle()
        with configured(spark, self.conf):
            with measured() as taken:
                writer = self.query(spark, job).writeStream.outputMode("append").trigger(availableNow=True)
                writer = writer.option("checkpointLocation", str(job.scratch / "checkpoint"))
                if job.keep is None:
                    writer = writer.format("noop")
                else:
                    writer = writer.format("parquet").option("path", str(job.keep))
                query = writer.start()
                query.awaitTermination()
            taken.batches = batches_of(query)
        return taken


def spark_own(session: Session) -> SparkArm:
    """``groupBy(window())`` for sums and counts, else ``collect_list`` and an Arrow UDF; HDFS-backed state."""

    def query(spark: SparkSession, job: Job) -> DataFrame:
        return own_query(job.workload, read_events(spark, str(job.folder), job.batch_files))

    return SparkArm("Spark's own", session, query)


def spark_stateful(session: Session, most: int) -> SparkArm:
    """``transformWithStateInPandas``, for W4."""

    def query(spark: SparkSession, job: Job) -> DataFrame:
        return stateful_medians(read_events(spark, str(job.folder), job.batch_files), job.workload.length)

    conf = {"spark.sql.streaming.stateStore.providerClass": _ROCKSDB}
    return SparkArm("Spark, transformWithState", session, query, ("google.protobuf",), conf, most=most)


@contextmanager
def configured(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """The settings within the block, and those from before it afterwards."""
    before = {name: spark.conf.get(name, None) for name in conf}
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


# windbolt, asked a query of ``benchmarks.queries``.


AS_TASKS = {TASKS: "spark"}
"""The setting under which Spark runs the tasks, as it does on a cluster."""


@dataclass
class Asked:
    """A topology on Spark."""

    name: str
    session: Session
    topology: Callable[[Job], Topology]
    conf: Mapping[str, str] = field(default_factory=dict)
    ours: bool = True
    batched: bool = True
    most: int | None = None

    def missing(self) -> str | None:
        """It is always there."""
        return None

    def run(self, job: Job) -> Taken:
        """Run to the end of the files; windows that the watermark has not passed stay open."""
        spark = self.session.settle()
        with configured(spark, self.conf):
            return on_spark(spark, self.topology(job), job)


@dataclass
class AskedLocally:
    """The same in this process, without Spark."""

    topology: Callable[[Job], Topology]
    name: str = "windbolt, in-process"
    ours: bool = True
    batched: bool = True
    most: int | None = None

    def missing(self) -> str | None:
        """It is always there."""
        return None

    def run(self, job: Job) -> Taken:
        """Run to the end of the files; windows that the watermark has not passed stay open."""
        return in_process(lambda: self.topology(job), job)
