"""Spark's own windows, in the same session as windbolt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.arms.arm import Job, Taken, measured, not_installed
from benchmarks.arms.queries import own_query, read_events, stateful_medians
from benchmarks.arms.windbolt import batches_of
from benchmarks.session import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass
class SparkArm:
    """A streaming query of Spark's."""

    name: str
    session: Session
    query: Callable[[SparkSession, Job], DataFrame]
    modules: tuple[str, ...] = ()
    """What it needs besides Spark."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of this query alone."""
    ours: bool = False
    batched: bool = True
    most: int | None = None

    def missing(self) -> str | None:
        """What is not installed."""
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
