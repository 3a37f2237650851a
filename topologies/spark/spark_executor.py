"""Runs the tasks of a micro-batch on the workers of a classic session, or in the driver where a job would take longer
(decision 80)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.core.broadcast import Broadcast

from topologies.engine.batch import Context, InProcess, RunExecutor
from topologies.graph.graph import Graph
from topologies.run.options import is_cluster
from topologies.spark.cluster import Probe
from topologies.spark.shipping import Reached, own_paths, reached_by, ship
from topologies.spark.spark_tasks import (
    FEW,
    TaskItems,
    dealt_out,
    for_workers,
    is_near,
    numbered,
    packed,
    spark_failures,
    task_of,
    unpacked,
)

_CLASSES = ("PythonRDD", "PythonUtils", "SimplePythonFunction")
"""Java classes that PySpark asks for in each job of RDDs."""


_ROUNDS = 3
"""How often all are asked until each has answered: Spark says nowhere which executor a task is for."""


class TaskExecutor(RunExecutor, Protocol):
    """Runs the tasks of a run where rows may come from Spark."""

    on_this_machine: bool
    """True if tasks see the files of the driver."""

    def task(
        self, function: Callable[[Any, Context], Any], context: Context
    ) -> Callable[[Iterable[Any]], Iterator[Any]]: ...
    def cancel(self) -> None: ...


class SparkExecutor:
    """Runs tasks as one job of the RDD API, which costs less than a planned query; the items are small. Tasks that cost
    less than a job run in the driver."""

    on_this_machine = False

    def __init__(self, context: SparkContext) -> None:
        self.spark = context
        self.name = ""
        self.topology: Broadcast[bytes] | None = None
        self.paths: list[str] = []
        self.sent: list[str] = []
        """The folders of the modules that were sent to the executors of a cluster."""
        self.reached = Reached()
        self._here = InProcess()
        self._cluster = Cluster.of(context) if is_cluster(context.master or "") else None

    @property
    def slots(self) -> int:
        """Number of tasks to cut work into, as of now: executors come and go."""
        now = self.spark.defaultParallelism
        return now if self._cluster is None else self._cluster.slots(now)

    def load(self, topology: Graph) -> None:
        """Set the topology of the following tasks. On a cluster, its code is sent along."""
        self.close()
        _know_classes(self.spark)
        self.name = uuid.uuid4().hex
        if self._cluster is not None:
            self.reached = reached_by(for_workers(topology))
            self.sent = ship(self.spark, self.reached.users)
        self.topology = self.spark.broadcast(packed(topology, elsewhere=self.reached.users))
        self.paths = own_paths()

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        """The results of the tasks, in the order of the items."""
        if not items:
            return []
        if is_near(function, items, context):
            return self._here.map(function, items, context)
        run = self.task(function, context)
        # As many tasks as items need no look at the slots, which is a call to Java.
        shares = dealt_out(list(enumerate(items)), self.slots if len(items) > FEW else FEW)

        def run_share(dealt: Iterable[TaskItems]) -> Iterator[tuple[int, Any]]:
            for share in dealt:
                yield from numbered(run, share)

        with spark_failures(self.reached.users):
            found = dict(self.spark.parallelize(shares, len(shares)).mapPartitions(run_share).collect())
        return [found[number] for number in range(len(items))]

    def task(
        self, function: Callable[[Any, Context], Any], context: Context
    ) -> Callable[[Iterable[Any]], Iterator[Any]]:
        """A function over the items of one Spark task; it can be sent to another process."""
        return task_of(function, context, self.unpacker())

    def unpacker(self) -> Callable[[], Graph]:
        """Returns the function that gives the topology in a worker."""
        assert self.topology is not None, "no topology was loaded"
        return partial(unpacked, self.name, partial(_value, self.topology), self.paths, self.sent)

    def probe(self, probe: Probe) -> list[dict[str, Any]]:
        """The answer of each executor to a question before the first batch."""
        found: dict[str, dict[str, Any]] = {}
        topology = self.topology

        def asked(numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
            # The question is a pickle, in which PySpark sees the broadcast once: each job needs it in its own function.
            _ = topology
            return probe(numbers)

        for first in range(_ROUNDS):
            count = executors_of(self.spark)
            numbers = range(first * count, (first + 1) * count)
            with spark_failures():
                for answer in self.spark.parallelize(numbers, count).mapPartitions(asked).collect():
                    found[answer["executor"]] = answer
            if len(found) >= executors_of(self.spark):
                break
        return list(found.values())

    def cancel(self) -> None:
        """Nothing to do: Spark cancels jobs together with their query."""

    def close(self) -> None:
        """Free what the workers hold."""
        if self.topology is not None:
            self.topology.unpersist()


@dataclass(frozen=True)
class Cluster:
    """Settings of a cluster that decide about its slots."""

    cores_of_task: int
    grows: bool
    """True if Spark asks for executors by the tasks that wait (dynamic allocation)."""

    @classmethod
    def of(cls, spark: SparkContext) -> Cluster:
        """Returns the settings of a session."""
        conf = spark.getConf()
        grows = conf.get("spark.dynamicAllocation.enabled", "false")
        return cls(int(conf.get("spark.task.cpus", "1") or 1), grows == "true")

    def slots(self, cores: int) -> int:
        """Number of tasks to cut work into where there are so many cores: as many as can run, and where that lets Spark
        ask for more executors, twice as many, so that some wait."""
        return max(cores // self.cores_of_task, 1) * (2 if self.grows else 1)


def executors_of(spark: SparkContext) -> int:
    """How many executors there are now; at least one, for which Spark waits."""
    return max(len(spark._jsc.sc().statusTracker().getExecutorInfos()) - 1, 1)  # one is the driver


def _know_classes(context: SparkContext) -> None:
    """Ask Java for these classes once.

    PySpark asks for them anew in each job. Java then looks in one package after another, and wherever it does not find
    one, through all of Spark's jars: some milliseconds in each job (decision 90).
    """
    jvm: Any = context._jvm
    for name in _CLASSES:
        if name not in vars(jvm):
            setattr(jvm, name, getattr(jvm, name))


def _value(broadcast: Broadcast[bytes]) -> bytes:
    return broadcast.value
