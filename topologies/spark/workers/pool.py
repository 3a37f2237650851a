"""Chooses who runs the tasks of a micro-batch: Spark, or, on a local master, the driver's own processes.

There a Spark job costs more than many a task.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from topologies.engine.batch.context import Context
from topologies.run.masters import local_cores
from topologies.spark.code.module_owner import own_paths
from topologies.spark.spark_executor import SparkExecutor, TaskExecutor, packed
from topologies.spark.workers.spare import SPARE
from topologies.topology import Topology
from windowing.errors import ConfigError

TASKS = "spark.windbolt.tasks"
"""Setting that chooses who runs the tasks: ``auto``, ``spark`` or ``pool``."""


def executor_for(spark: SparkSession) -> TaskExecutor:
    """The executor for a session: the pool on ``local``, ``local[N]`` and ``local[*]``, and otherwise Spark.

    Spark is also used where the user asks for retries of tasks: ``local[N,F]``. The setting ``spark.windbolt.tasks``
    overrides this. Raises ConfigError where that is impossible.
    """
    chosen, context = spark.conf.get(TASKS, "auto"), spark.sparkContext
    local = local_cores(context.master or "")
    match chosen:
        case "auto":
            pool = local is not None and local[1] is None
        case "spark":
            pool = False
        case "pool":
            pool = True
        case _:
            raise ConfigError(
                f"{TASKS} is {chosen!r}",
                why="it says what runs the tasks of a batch: 'spark', or with a local master 'pool'",
                do="leave it out ('auto'), which uses the pool if it can",
            )
    if not pool:
        return SparkExecutor(context)
    if local is None:
        raise ConfigError(
            f"{TASKS} is 'pool', and the master is {context.master!r}",
            why="the workers of the pool are processes of the driver's machine",
            do="leave it out, or run on local[*]",
        )
    return PoolExecutor(context, _cores(local[0]))


class PoolExecutor:
    """Runs tasks in the driver's own worker processes; rows that come out of the JVM are read by Spark's."""

    on_this_machine = True

    def __init__(self, context: SparkContext, cores: int) -> None:
        self.slots = context.defaultParallelism
        self.pool = SPARE.take(min(self.slots, cores), context.environment)
        self._spark = SparkExecutor(context)
        self._topology: Topology | None = None
        self._sound = True

    def load(self, topology: Topology) -> None:
        """Set the topology of the following tasks; the workers prepare themselves meanwhile."""
        self.pool.load(packed(topology), own_paths(), _widest(topology))
        self._topology = topology

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        """The results of the tasks, in the order of the items."""
        try:
            return self.pool.map(function, items, context)
        except BaseException:
            self._sound = False
            raise

    def task(
        self, function: Callable[[Any, Context], Any], context: Context
    ) -> Callable[[Iterable[Any]], Iterator[Any]]:
        """A function over the items of one Spark task."""
        if self._topology is not None:
            self._spark.load(self._topology)
            self._topology = None
        return self._spark.task(function, context)

    def cancel(self) -> None:
        """End the workers, whatever they are doing."""
        self._sound = False
        self.pool.close()

    def close(self) -> None:
        """Leave the workers to the next run, unless something failed or processes of a bolt are left."""
        if self._sound and self.pool.has_no_children():
            SPARE.leave(self.pool)
        else:
            self.pool.close()
        self._spark.close()


def _cores(named: str) -> int:
    return (os.cpu_count() or 1) if named == "*" else int(named)


def _widest(topology: Topology) -> int:
    """Maximum number of concurrent tasks of bolts; at least two, for reading."""
    return max(2, *(sum(node.parallelism for node in level) for level in topology.levels), 0)
