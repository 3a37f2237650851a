"""The limits of a bolt: bytes of a window, and the time of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from topologies.engine.failures.limit import TooLong, call
from topologies.engine.failures.user_code import line_of
from topologies.engine.fire.emissions import place
from topologies.graph.nodes.windowed import WindowedNode
from windowing.errors import BoltError
from windowing.window import TupleWindow


class CallLimits:
    """Those of one bolt, in one task and batch."""

    def __init__(self, node: WindowedNode, task: int, batch: int) -> None:
        settings = node.bolt.settings
        self._node, self._task, self._batch = node, task, batch
        self._bytes, self._time = settings.window_bytes, settings.call_time

    @classmethod
    def of(cls, node: WindowedNode, task: int, batch: int) -> Self | None:
        """None of a bolt without limits."""
        settings = node.bolt.settings
        return None if settings.window_bytes is None and settings.call_time is None else cls(node, task, batch)

    def check(self, window: TupleWindow) -> None:
        """Raise BoltError for a window with more bytes than it may have."""
        if self._bytes is not None and (size := window.table.nbytes) > self._bytes:
            raise self._error(
                f"was to be called with {size:,} bytes {place(window)}",
                f"with_limits(window_bytes={self._bytes}) allows no more",
                "shorten the window, give it a key, name the columns that it needs (reads), or raise the limit",
            )

    def within(self, function: Callable[..., Any], arguments: tuple[Any, ...], where: Callable[[], str]) -> Any:
        """Call a function, and return its result. Raises BoltError where it takes longer than a call may; ``where``
        gives the task and the window."""
        if self._time is None:
            return function(*arguments)
        try:
            return call(function, arguments, self._time.micros / 1_000_000)
        except TooLong as error:
            raise self._error(
                f"took more than {self._time} {where()}",
                f"with_limits(call_time='{self._time}') allows no more; it was{line_of(error) or ' in a library'}",
                "make it faster, or raise the limit",
            ) from error

    def _error(self, what: str, why: str, do: str) -> BoltError:
        name, batch = self._node.name, self._batch
        return BoltError(
            f"bolt {name!r} {what}, in batch {batch}",
            why=why,
            do=f"{do}: batch {batch} was not committed, and runs again",
            bolt=name,
            task=self._task,
        )
