"""Runs the tasks of a micro-batch on the workers of a Connect server, each as a row of ``range(n)`` for ``mapInArrow``,
or in this process where a job would take longer (decision 136)."""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from manager.storage.segments import Ref, SegmentStore
from topologies.engine.batch import Context, InProcess
from topologies.engine.kafka_records import Records
from topologies.engine.work import MergedSplits
from topologies.graph.graph import Graph
from topologies.spark.cluster import Question
from topologies.spark.connect import arriving
from topologies.spark.shipping import Reached, packages, reached_by, write_archive
from topologies.spark.spark_tasks import (
    FEW,
    for_workers,
    in_hands,
    is_near,
    numbered,
    packed,
    spark_failures,
    task_of,
    unpacked,
)

_MANY = 1_000_000
"""Rows of a range that Spark cuts for all its slots."""


class ConnectExecutor:
    """Runs tasks as jobs of DataFrames; their items travel with the job, and are small."""

    def __init__(self, spark: SparkSession, slots: int | None = None) -> None:
        """``slots``: None to ask Spark."""
        self.spark = spark
        self.reached = Reached()
        self._slots, self._here = slots, InProcess()
        self._numbers: dict[int, DataFrame] = {}
        self._topology = ""
        """The name of the file that has the topology, in Spark's folder of files."""
        self._folders: list[str] = []
        """The folders of the archives that were sent."""

    @property
    def slots(self) -> int:
        """Number of tasks to cut work into: as many as Spark cuts a large range into."""
        if self._slots is None:
            parts = self.spark.range(_MANY).selectExpr("spark_partition_id() AS part").distinct()
            with spark_failures():
                self._slots = max(parts.count(), 1)
        return self._slots

    def load(self, topology: Graph) -> None:
        """Set the topology of the following tasks; it is sent to the workers, with its code."""
        self.reached = reached_by(for_workers(topology))
        code = packed(topology, elsewhere=self.reached.users)
        with tempfile.TemporaryDirectory(prefix="windbolt-") as folder, spark_failures():
            self._folders = []
            for places in packages(self.reached.users):
                path, name = write_archive(folder, places)
                self.spark.addArtifacts(f"{path}#{name}", archive=True)
                self._folders.insert(0, name)  # windbolt's own is found first
            # Workers keep a topology by this name: it is another where what its modules say is other code.
            digest = hashlib.sha256("\0".join(self._folders).encode() + code)
            self._topology = f"windbolt-topology-{digest.hexdigest()[:16]}"
            path = os.path.join(folder, self._topology)
            with open(path, "wb") as file:
                file.write(code)
            self.spark.addArtifacts(path, file=True)

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        """The results of the tasks, in the order of the items."""
        if not items:
            return []
        if is_near(function, items, context) or any(_is_held_here(item) for item in items):
            return self._here.map(function, items, context)
        run = task_of(function, context, self.unpacker())
        hands = in_hands(list(enumerate(items)), self.slots if len(items) > FEW else FEW)
        found = dict(self._results(partial(_outcomes, run), hands))
        return [found[number] for number in range(len(items))]

    def frame(self, store: SegmentStore, refs: Sequence[Ref], schema: pa.Schema) -> DataFrame:
        """A DataFrame with one partition per reference, read whenever it is used."""
        work = cloudpickle.dumps(partial(_read, store, schema))  # type: ignore[no-untyped-call]
        read = arriving.rows(self._folders, work, [pickle.dumps(ref) for ref in refs])
        with spark_failures():
            return self._over_numbers(len(refs)).mapInArrow(read, from_arrow_schema(schema))

    def unpacker(self) -> Callable[[], Graph]:
        """Returns the function that gives the topology in a worker."""
        assert self._topology, "no topology was loaded"
        return partial(unpacked, self._topology, partial(_sent, self._topology), [], self._folders)

    def answers(self, question: Question) -> list[dict[str, Any]]:
        """The answer of each executor, as far as Spark gives all of them a task where there are two for each slot."""
        numbers = list(range(2 * self.slots))
        found = self._results(lambda hand: list(question(hand)), [[number] for number in numbers])
        return list({answer["executor"]: answer for answer in found}.values())

    def close(self) -> None:
        """Does nothing: what was sent is the session's, and goes with it."""

    def _results(self, work: Callable[[Any], list[Any]], hands: Sequence[Any]) -> Iterator[Any]:
        """Yields the result of ``work`` in a worker for each of its arguments, ``hands``, in order."""
        code = cloudpickle.dumps(_pickling(work))  # type: ignore[no-untyped-call]
        run = arriving.rows(self._folders, code, [pickle.dumps(hand) for hand in hands])
        with spark_failures(self.reached.users):
            frame = self._over_numbers(len(hands)).mapInArrow(run, "output binary")
            rows = frame.toArrow().column("output").to_pylist()
        for row in rows:
            yield from pickle.loads(row)

    def _over_numbers(self, count: int) -> DataFrame:
        """A DataFrame of so many rows, each of which is a task. It is kept: of a new one the server is asked for its
        columns."""
        if count not in self._numbers:
            self._numbers[count] = self.spark.range(0, count, 1, count)
        return self._numbers[count]


def _is_held_here(item: Any) -> bool:
    """True for records that this process has read from Kafka: to send them would cost more than to take them in."""
    match item:
        case MergedSplits(splits):
            return any(map(_is_held_here, splits))
        case _:
            return isinstance(item, Records)


def _pickling(work: Callable[[Any], list[Any]]) -> Callable[[bytes], Iterator[pa.RecordBatch]]:
    """The function as it is sent: from bytes to a row of them. It names nothing of windbolt, which may be missing where
    the executors are asked what they have."""

    def over(hand: bytes) -> Iterator[pa.RecordBatch]:
        import pickle

        import pyarrow as pa

        output = pa.array([pickle.dumps(work(pickle.loads(hand)))], pa.binary())
        yield pa.RecordBatch.from_arrays([output], ["output"])

    return over


# In a worker.


def _outcomes(run: Callable[[Iterable[Any]], Iterator[Any]], hand: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    return list(numbered(run, hand))


def _read(store: SegmentStore, schema: pa.Schema, ref: bytes) -> Iterator[pa.RecordBatch]:
    yield from store.read(pickle.loads(ref)).cast(schema).to_batches()


def _sent(name: str) -> bytes:
    from pyspark import SparkFiles  # a client of Spark Connect alone has none

    with open(SparkFiles.get(name), "rb") as file:
        return file.read()
