"""Executors, which run the tasks of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from topologies.engine.batch.context import Context
from topologies.engine.failures.forks import in_this_process

if TYPE_CHECKING:
    from topologies.topology import Topology


class Executor(Protocol):
    """Runs the tasks of a batch, in this process or on Spark's workers. Results come in the order of the items."""

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]: ...


class RunExecutor(Executor, Protocol):
    """Runs the tasks of a run; ``close`` frees its resources."""

    @property
    def slots(self) -> int:
        """Number of tasks that run concurrently, as of now."""
        ...

    def load(self, topology: Topology) -> None: ...
    def close(self) -> None: ...


class InProcess:
    """Runs tasks one after another in this process."""

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        return [in_this_process(partial(function, item, context)) for item in items]


class RunInProcess(InProcess):
    """Runs the tasks of a run, one at a time."""

    slots = 1

    def load(self, topology: Topology) -> None:
        """They have the topology."""

    def close(self) -> None:
        """There is nothing to free."""
