"""Eviction: which events a window holds.

The built-in policies decide on whole arrays (``starts``); a subclass that overrides ``evict`` decides event by event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.eviction_actions import EvictionAction, EvictionContext, QueuedEvent
from windowing.data.reprs import call, simple_attributes
from windowing.settings.bounds import Bounds
from windowing.time.durations import Count, Duration

if TYPE_CHECKING:
    from numpy.typing import NDArray


class EvictionPolicy(ABC):
    """Decides for each event of the queue whether it is in the window that fires."""

    def __repr__(self) -> str:
        return call(type(self).__qualname__, **simple_attributes(self))

    @abstractmethod
    def evict(self, event: QueuedEvent, context: EvictionContext) -> EvictionAction:
        """Called when a window fires, for each event of the queue in order, until the result is STOP.

        Keep no reference to the event. An event that is told to EXPIRE without having been in a window counts as
        ``unwindowed``.
        """

    @property
    def reach(self) -> Duration | None:
        """How long after its time an event can still be in a window; None where time does not decide it.

        With a reach, a time trigger fires an end if its window is not empty. Without one, it fires an end only if the
        window brings at least one event that has been in no window yet (else a silent stream would fire the same events
        forever).
        """
        return None

    def window_start(self, reference: int) -> int | None:
        """The start of the window that fires at the reference; both in microseconds. None where it has no start."""
        return None if self.reach is None else reference - self.reach.micros


class ColumnarEvictionPolicy(EvictionPolicy):
    """A policy whose windows are runs of the queue, decided on arrays."""

    @abstractmethod
    def starts(
        self, timestamps: NDArray[np.int64], references: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The position of the first event of each window; a window ends before its stop.

        The result must not decrease while references and stops do not, so that what lies before the start of one window
        is in no later one. All arrays are int64; ``references`` (microseconds) and ``stops`` (positions) have the
        length of the result.
        """


@dataclass(frozen=True)
class CountEvictionPolicy(ColumnarEvictionPolicy):
    """The last ``length`` events, in order of arrival (ST-12)."""

    length: Count

    def evict(self, event: QueuedEvent, context: EvictionContext) -> EvictionAction:
        """EXPIRE all but the last ``length`` events up to the reference; KEEP later ones."""
        if event.position >= context.count:
            return EvictionAction.KEEP
        return EvictionAction.EXPIRE if event.position < context.count - self.length.value else EvictionAction.PROCESS

    def starts(
        self, timestamps: NDArray[np.int64], references: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return np.maximum(stops - self.length.value, 0)


@dataclass(frozen=True)
class WatermarkCountEvictionPolicy(CountEvictionPolicy):
    """The last ``length`` events up to the reference, in order of event time (ST-7)."""


@dataclass(frozen=True)
class TimeEvictionPolicy(ColumnarEvictionPolicy):
    """The events of the last ``length`` of time, by the clock at arrival (ST-10, ST-12)."""

    length: Duration
    bounds: Bounds = Bounds.END

    @property
    def reach(self) -> Duration:
        return self.length

    def evict(self, event: QueuedEvent, context: EvictionContext) -> EvictionAction:
        """EXPIRE events older than the window; KEEP newer ones, and those after the event at which a count fired."""
        start = context.reference - self.length.micros
        if self.bounds.holds(start, context.reference, event.timestamp):
            return EvictionAction.PROCESS if event.position < context.count else EvictionAction.KEEP
        return EvictionAction.EXPIRE if event.timestamp <= start else EvictionAction.KEEP

    def starts(
        self, timestamps: NDArray[np.int64], references: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return self.bounds.up_to(timestamps, references - self.length.micros)


@dataclass(frozen=True)
class WatermarkTimeEvictionPolicy(TimeEvictionPolicy):
    """The events of the last ``length`` of event time (ST-10, ST-19).

    The queue is in order of time, so STOP loses nothing here, as it does in Storm (ST-20).
    """

    lag: Duration = Duration(0)

    def evict(self, event: QueuedEvent, context: EvictionContext) -> EvictionAction:
        """As TimeEvictionPolicy; STOP at an event later than the reference by more than the lag."""
        if event.timestamp - context.reference > self.lag.micros:
            return EvictionAction.STOP
        return super().evict(event, context)

    # Repeated because ``evict`` is overridden: the two agree, so the array decision still represents this class.
    starts = TimeEvictionPolicy.starts


def shortcut_applies(policy: object, shortcut: str, by_event: str) -> bool:
    """Whether a method of a policy may be called instead of its event-by-event method.

    Not where a subclass has overridden that method below the shortcut. Both are given by their names.
    """
    for kind in type(policy).__mro__:
        if shortcut in vars(kind):
            return not getattr(vars(kind)[shortcut], "__isabstractmethod__", False)
        if by_event in vars(kind):
            return False
    return False
