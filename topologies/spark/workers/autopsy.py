"""Finds the input on which a worker died, by reading parts of its split in workers that may die."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from manager.storage.checkpoint import FileCheckpoint
from topologies.engine.batch.context import Context
from topologies.engine.tasks import ingest
from topologies.io.file_spout import FileSpout
from topologies.sources.deaths import Deadly, Death, has_lines, header_lines
from topologies.sources.splits import FileGroup, FileSource, line_count, row_numbers
from topologies.spark.workers.processes import WorkerDied
from topologies.topology import Topology
from windowing.errors import WindboltError

_MOST = 20
"""Maximum number of deadly rows and files per batch; finding each costs several workers."""


class Pool(Protocol):
    """Runs tasks in processes that may die."""

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]: ...


def is_of_input(death: WorkerDied) -> bool:
    """Whether a worker died while reading input that is known."""
    return isinstance(death.item, FileSource | FileGroup)


def autopsy(pool: Pool, topology: Topology, death: WorkerDied, context: Context) -> Death | None:
    """The input on which a worker died; None where no part of it kills another worker.

    Raises the death, with the findings, if only several rows together are deadly, since then no single row is to blame.
    """
    item = death.item
    for source in item.files if isinstance(item, FileGroup) else (item,):
        deadly = _Autopsy(pool, topology, source, context).find()
        if deadly is not None:
            return deadly
    if isinstance(item, FileGroup) and not _lives(pool, ingest, item, context):
        raise WorkerDied(
            "a worker process dies on some small files together, and on none of them alone",
            why=f"{death.what}: {death.why}",
            do="give the machine more memory or fewer workers (local[N] has N), or read less a batch",
        )
    return None


class _Autopsy:
    def __init__(self, pool: Pool, topology: Topology, source: FileSource, context: Context) -> None:
        self.pool, self.source, self.context = pool, source, context
        spout = topology.spouts[source.component].spout
        assert isinstance(spout, FileSpout)
        self.format = spout.format
        self.how = ""

    def find(self) -> Death | None:
        if self._lives(ingest, self.source):
            return None
        if not self._lives(row_numbers, self.source):
            return self._unreadable()
        numbers = self._run(row_numbers, self.source)
        index = _first(len(numbers), lambda stop: not self._lives(ingest, replace(self.source, rows=(0, stop))))
        if index is None or self._lives(ingest, replace(self.source, rows=(index, index + 1))):
            raise WorkerDied(
                f"a worker process {self.how} on rows of {self.source.split.path} together, and on none of them alone",
                why="for want of memory, or since a bolt remembers what it has seen",
                do="give the machine more memory or fewer workers (local[N] has N), read less a batch, or fix the bolt",
            )
        return self._death(Deadly.ROW, int(numbers[index]))

    def _unreadable(self) -> Death:
        """The deadly part of a file on which the reader dies: one line, if that line alone is deadly too, else the
        file."""
        header = header_lines(self.format)
        if has_lines(self.format) and self._lives(row_numbers, replace(self.source, lines=(0, header))):
            count = self._run(line_count, self.source)
            line = _first(
                count, lambda stop: not self._lives(row_numbers, replace(self.source, lines=(0, stop))), header
            )
            if line is not None and not self._lives(row_numbers, replace(self.source, lines=(line, line + 1))):
                return self._death(Deadly.LINE, line)
        return self._death(Deadly.FILE, 0)

    def _death(self, what: Deadly, number: int) -> Death:
        split = self.source.split
        reason = f"the worker process that read it {self.how}"
        return Death(self.source.component, split.path, split.part, split.parts, what, number, reason)

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


def _first(count: int, is_deadly_up_to: Callable[[int], bool], low: int = 0) -> int | None:
    """The first of ``count`` items, from ``low`` on, with which they become deadly; None if they never do."""
    if low >= count or not is_deadly_up_to(count):
        return None
    high = count
    while high - low > 1:
        middle = (low + high) // 2
        if is_deadly_up_to(middle):
            high = middle
        else:
            low = middle
    return high - 1


class DeathLog:
    """The deadly input of a batch, stored beside its plan, so that it need not be found again when the batch is
    repeated."""

    def __init__(self, checkpoint: FileCheckpoint, key: str) -> None:
        self._checkpoint, self._key = checkpoint, key
        self.deaths = [Death.from_json(values) for values in checkpoint.deadly(key)]

    def add(self, death: Death, cause: WorkerDied) -> None:
        """Record one more. Raises ``cause``, with an explanation, where there are too many."""
        if len(self.deaths) >= _MOST:
            raise WorkerDied(
                f"a worker process {cause.how} on a further row of {death.path}, after {_MOST} in this batch",
                why="so many cannot all be the fault of the rows; these are left out, and noted in the checkpoint",
                do="look at what is on stderr, and fix the bolt or update the library that it comes from",
            ) from cause
        self.deaths.append(death)
        self._checkpoint.note_deadly(self._key, [known.to_json() for known in self.deaths])
