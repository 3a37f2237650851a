"""Has windbolt's Java add up the rows of a DataFrame where Spark reads them, so that only sums go to Python (decision
141)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from manager.storage.files import delete, make_private
from manager.storage.segment_files import FileSegments
from topologies.engine.batch import Context
from topologies.engine.event_times import valid_times
from topologies.engine.summed_input import SumsFile, first_in_time, take_in
from topologies.engine.work import Output
from topologies.graph.frame_sums import FrameSums, Term
from topologies.graph.graph import Graph
from topologies.spark.jvm.java import FAILURES
from topologies.spark.spark_executor import TaskExecutor
from windowing.settings.rules import Bounds

_SOURCE = Path(__file__).with_name("FrameSums.java")
_REST = 50
"""Batches of which the rows go to Python after one for which adding up in Java was of no use."""
_LOG = logging.getLogger("windbolt.frames")


class SummedFrame:
    """Adds up the rows of one spout's DataFrame, batch by batch.

    Spark hands the program to its tasks, and compiles it there, as it does the code that it generates for its own
    queries. No query is planned for it, and no row is copied once more.
    """

    def __init__(self, topology: Graph, sums: FrameSums, names: list[str], columns: list[str], alone: bool) -> None:
        """``names``: the columns of the spout, in their order; ``columns``: those of a batch. ``alone``: these are the
        same; otherwise one of them is a struct of the former, and null in rows of others."""
        self._sums, self._node = sums, topology.windowed[sums.bolt]
        self._names = names
        self._struct = -1 if alone else columns.index(f"row_{sums.spout}")
        self._java: _Java | None = None
        self._usable = True
        self._rest = 0

    def ingest(self, batch: DataFrame, executor: TaskExecutor, context: Context) -> list[Output] | None:
        """Ingest a batch; None where its rows have to go to Python, of which nothing has been ingested then."""
        store = context.store
        if context.traced or context.first is not None or not self._usable:
            return None
        if not isinstance(store, FileSegments) or store.uri is not None:
            return None
        if self._rest:
            self._rest -= 1
            return None
        try:
            outputs = self._added_up(batch, executor, context, store)
        except (*FAILURES, PySparkException) as error:  # what is wrong is said by what reads the rows
            _LOG.debug("the rows go to Python: %s", error)
            self._usable = False
            return None
        if outputs is None:
            self._rest = _REST
        return outputs

    def _added_up(
        self, batch: DataFrame, executor: TaskExecutor, context: Context, store: FileSegments
    ) -> list[Output] | None:
        java = self._java = self._java or _Java.of(batch.sparkSession)
        rows: Any = batch._jdf.queryExecution().logical().rdd()
        partitions = rows.getNumPartitions()
        with _private_files(store, context.key, partitions) as place:
            java.run(rows, self._plan(place, context.watermarks[self._sums.bolt]))
            files = [SumsFile.written(self._sums, f"{place}{number}") for number in range(partitions)]
            if any(file.size < 0 for file in files):
                return None
            outputs = executor.map(take_in, [file for file in files if file.size], context)
        return None if None in outputs else outputs

    def _plan(self, place: str, watermark: int | None) -> str:
        """Returns the input of the Java program: the folder of its files, slices of time, a line for each column."""
        sums, slicing = self._sums, self._node.slicing(traced=False)
        assert slicing is not None
        grid = slicing.slices
        first, last = valid_times(self._node.bolt.settings)
        numbers = [
            first_in_time(self._node, watermark),
            grid.offset + (grid.bounds is Bounds.END),
            grid.slide,
            grid.first,
            sums.micros,
            -(-first // sums.micros),
            last // sums.micros,
            self._struct,
            len(self._names),
            len(sums.keys),
        ]
        return "\n".join([place, " ".join(map(str, numbers)), *map(self._line, (sums.time, *sums.keys, *sums.terms))])

    def _line(self, term: Term) -> str:
        return f"{self._names.index(term.field)} {term.letter} {term.action} {term.start}"


class _Java(NamedTuple):
    """Java objects that are looked up once, since Java searches all of Spark's jars for a class."""

    gateway: Any
    factory: Any
    """Of Spark's that runs a program over the rows of each partition."""
    code: Any
    metric: Any
    kind: Any
    object: Any

    @classmethod
    def of(cls, spark: SparkSession) -> _Java:
        jvm: Any = spark._jvm
        sql = jvm.org.apache.spark.sql
        code = sql.catalyst.expressions.codegen.CodeAndComment(
            _SOURCE.read_text("utf-8"), jvm.PythonUtils.toScalaMap({})
        )
        return cls(
            spark.sparkContext._gateway,
            sql.execution.WholeStageCodegenEvaluatorFactory,
            jvm.scala.util.Right(code),
            sql.execution.metric.SQLMetrics.createMetric(spark._jsc.sc(), "windbolt"),
            jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow")),
            jvm.java.lang.Object,
        )

    def run(self, rows: Any, plan: str) -> None:
        """Add up an RDD of rows: each partition writes the file of its number."""
        given = self.gateway.new_array(self.object, 1)
        given[0] = plan
        program = self.factory(self.code, self.metric, given)
        summed = rows.mapPartitionsWithEvaluator(program, self.kind)
        # There is nothing to count: what is found is in the files. No other way to run a job has so few closures, for
        # each of which Spark parses a class file anew: that of RDD, and that of SparkContext, are its largest.
        summed.toJavaRDD().countAsync().get()


@contextmanager
def _private_files(store: FileSegments, key: str, count: int) -> Iterator[str]:
    """Empty files for a number of partitions, deleted at the end of the block: what their paths begin with, before the
    number."""
    place = f"{store.root}/{key}/{uuid.uuid4().hex}.sums-"
    try:
        for number in range(count):
            make_private(f"{place}{number}")
        yield place
    finally:
        for number in range(count):
            delete(store.filesystem, f"{place}{number}", missing=True)
