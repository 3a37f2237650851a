"""Chooses the executor of a micro-batch, and finds the poison input on which a worker died."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql import SparkSession

from manager.storage.checkpoint import FileCheckpoint
from topologies.engine.batch import Context
from topologies.engine.source_splits import (
    FileGroup,
    FileSource,
    PoisonInput,
    PoisonKind,
    has_lines,
    header_lines,
    line_count,
    row_numbers,
)
from topologies.engine.tasks import ingest
from topologies.graph.graph import Graph
from topologies.io.file_spout import FileSpout
from topologies.run.options import local_cores
from topologies.spark.shipping import own_paths
from topologies.spark.spark_tasks import SparkExecutor, TaskExecutor, pack_topology
from topologies.spark.workers.processes import SPARE, WorkerDied
from windowing.errors import ConfigError, WindboltError

# Finds the input on which a worker died, by reading parts of its split in workers that may die.


_MOST_POISON = 20
"""Most poison rows and files per batch; finding each costs several workers."""


class Pool(Protocol):
    """Runs tasks in processes that may die."""

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]: ...


def is_of_input(death: WorkerDied) -> bool:
    """True if a worker died while reading known input."""
    return isinstance(death.item, FileSource | FileGroup)


def find_poison(pool: Pool, topology: Graph, death: WorkerDied, context: Context) -> PoisonInput | None:
    """Returns the input on which a worker died; None if no part of it kills another worker.

    Raises the death, with the findings, if only several rows together are poison, since then no single row is to blame.
    """
    item = death.item
    for source in item.files if isinstance(item, FileGroup) else (item,):
        poison = _PoisonSearch(pool, topology, source, context).find()
        if poison is not None:
            return poison
    if isinstance(item, FileGroup) and not _lives(pool, ingest, item, context):
        raise WorkerDied(
            "a worker process dies on some small files together, and on none of them alone",
            why=f"{death.what}: {death.why}",
            do="give the machine more memory or fewer workers (local[N] has N), or read less a batch",
        )
    return None


class _PoisonSearch:
    def __init__(self, pool: Pool, topology: Graph, source: FileSource, context: Context) -> None:
        self.pool, self.source, self.context = pool, source, context
        spout = topology.spouts[source.component].spout
        assert isinstance(spout, FileSpout)
        self.format = spout.format
        self.how = ""

    def find(self) -> PoisonInput | None:
        if self._lives(ingest, self.source):
            return None
        if not self._lives(row_numbers, self.source):
            return self._unreadable()
        numbers = self._run(row_numbers, self.source)
        index = _first_deadly(len(numbers), lambda stop: not self._lives(ingest, replace(self.source, rows=(0, stop))))
        if index is None or self._lives(ingest, replace(self.source, rows=(index, index + 1))):
            raise WorkerDied(
                f"a worker process {self.how} on rows of {self.source.split.path} together, and on none of them alone",
                why="for want of memory, or since a bolt remembers what it has seen",
                do="give the machine more memory or fewer workers (local[N] has N), read less a batch, or fix the bolt",
            )
        return self._poison(PoisonKind.ROW, int(numbers[index]))

    def _unreadable(self) -> PoisonInput:
        """Returns the poison part of a file on which the reader dies: one line, if that line alone kills it, else the
        file."""
        header = header_lines(self.format)
        if has_lines(self.format) and self._lives(row_numbers, replace(self.source, lines=(0, header))):
            count = self._run(line_count, self.source)
            line = _first_deadly(
                count, lambda stop: not self._lives(row_numbers, replace(self.source, lines=(0, stop))), header
            )
            if line is not None and not self._lives(row_numbers, replace(self.source, lines=(line, line + 1))):
                return self._poison(PoisonKind.LINE, line)
        return self._poison(PoisonKind.FILE, 0)

    def _poison(self, what: PoisonKind, number: int) -> PoisonInput:
        split = self.source.split
        reason = f"the worker process that read it {self.how}"
        return PoisonInput(self.source.component, split.path, split.part, split.parts, what, number, reason)

    def _lives(self, function: Callable[[Any, Context], Any], source: FileSource) -> bool:
        try:
            self.pool.map(function, [source], self.context)
        except WorkerDied as death:
            if death.item is None:
                raise
            self.how = death.how
            return False
        except WindboltError:  # it fails without dying
            return True
        return True

    def _run(self, function: Callable[[Any, Context], Any], source: FileSource) -> Any:
        return self.pool.map(function, [source], self.context)[0]


def _lives(pool: Pool, function: Callable[[Any, Context], Any], item: Any, context: Context) -> bool:
    try:
        pool.map(function, [item], context)
    except WorkerDied:
        return False
    except WindboltError:
        return True
    return True


def _first_deadly(count: int, dies_up_to: Callable[[int], bool], start: int = 0) -> int | None:
    """Returns the first of ``count`` items, from ``start`` on, with which the worker dies; None if it never does."""
    if start >= count or not dies_up_to(count):
        return None
    high = count
    while high - start > 1:
        middle = (start + high) // 2
        if dies_up_to(middle):
            high = middle
        else:
            start = middle
    return high - 1


class PoisonLog:
    """The poison input of a batch, stored beside its plan, so that it need not be found again when the batch is
    repeated."""

    def __init__(self, checkpoint: FileCheckpoint, key: str) -> None:
        self._checkpoint, self._key = checkpoint, key
        self.entries = [PoisonInput.from_json(values) for values in checkpoint.poison_input(key)]

    def add(self, entry: PoisonInput, cause: WorkerDied) -> None:
        """Records one more poison input. Raises ``cause``, with an explanation, if there are too many."""
        if len(self.entries) >= _MOST_POISON:
            raise WorkerDied(
                f"a worker process {cause.how} on a further row of {entry.path}, after {_MOST_POISON} in this batch",
                why="so many cannot all be the fault of the rows; these are left out, and noted in the checkpoint",
                do="look at what is on stderr, and fix the bolt or update the library that it comes from",
            ) from cause
        self.entries.append(entry)
        self._checkpoint.note_poison_input(self._key, [known.to_json() for known in self.entries])


# Chooses the executor of a micro-batch: Spark or, with a local master, the driver's own processes, since a Spark job
# costs more than many a task.


TASKS = "spark.windbolt.tasks"
"""Setting that chooses the executor: ``auto``, ``spark`` or ``pool``."""


def executor_for(spark: SparkSession) -> TaskExecutor:
    """Returns the executor for a session: the pool with ``local``, ``local[N]`` and ``local[*]``, and otherwise Spark.

    Spark is also used if the user asks for retries of tasks: ``local[N,F]``. The setting ``spark.windbolt.tasks``
    overrides this. Raises ConfigError if that is impossible.
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
    """Runs tasks in the driver's own worker processes; rows from the JVM are read by Spark's workers."""

    on_this_machine = True

    def __init__(self, context: SparkContext, cores: int) -> None:
        self.slots = context.defaultParallelism
        self.pool = SPARE.take(min(self.slots, cores), context.environment)
        self._spark = SparkExecutor(context)
        self._topology: Graph | None = None
        self._is_usable = True

    def load(self, topology: Graph) -> None:
        """Sets the topology of the following tasks; the workers prepare themselves meanwhile."""
        self.pool.load(pack_topology(topology), own_paths(), _widest(topology))
        self._topology = topology

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        """Returns the results of the tasks, in the order of the items."""
        try:
            return self.pool.map(function, items, context)
        except BaseException:
            self._is_usable = False
            raise

    def task(
        self, function: Callable[[Any, Context], Any], context: Context
    ) -> Callable[[Iterable[Any]], Iterator[Any]]:
        """Returns a function over the items of one Spark task."""
        if self._topology is not None:
            self._spark.load(self._topology)
            self._topology = None
        return self._spark.task(function, context)

    def cancel(self) -> None:
        """Ends the workers, whatever they are doing."""
        self._is_usable = False
        self.pool.close()

    def close(self) -> None:
        """Leaves the workers to the next run, unless something failed or processes of a bolt remain."""
        if self._is_usable and self.pool.has_no_children():
            SPARE.leave(self.pool)
        else:
            self.pool.close()
        self._spark.close()


def threads_of_driver(context: SparkContext) -> int:
    """Returns the number of threads in which the driver may read concurrently: with a local master, as many as it has
    tasks."""
    local = local_cores(context.master or "")
    return context.defaultParallelism if local is None else min(context.defaultParallelism, _cores(local[0]))


def _cores(master_cores: str) -> int:
    return (os.cpu_count() or 1) if master_cores == "*" else int(master_cores)


def _widest(topology: Graph) -> int:
    """Returns the maximum number of concurrent tasks of bolts; at least two, for reading."""
    return max(2, *(sum(node.parallelism for node in level) for level in topology.levels), 0)
