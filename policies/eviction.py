"""Storm's eviction policies: the last events, by number or by time.

They decide on whole arrays (``starts``). A subclass that overrides ``evict`` is a policy of a user's own, and goes by
the protocol.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.protocol import Action, EvictionContext, EvictionPolicy, QueuedEvent
from windowing.durations import Count, Duration
from windowing.settings.rules import Bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ColumnarEvictionPolicy(EvictionPolicy):
    """A policy whose windows are runs of the queue, decided on arrays."""

    @abstractmethod
    def starts(
        self, timestamps: NDArray[np.int64], references: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Returns the position of the first event of each window; a window ends before its stop.

        The result must not decrease while references and stops do not, so that what lies before the start of one window
        is in no later one. All arrays are int64; ``references`` (microseconds) and ``stops`` (positions) have the
        length of the result.
        """


@dataclass(frozen=True)
class CountEvictionPolicy(ColumnarEvictionPolicy):
    """The last ``length`` events, in order of arrival (ST-12)."""

    length: Count

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        """EXPIRE all but the last ``length`` events up to the reference."""
        return Action.EXPIRE if event.number < context.count - self.length.value else Action.PROCESS

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

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        """EXPIRE events older than the window; KEEP newer ones."""
        start = context.reference - self.length.micros
        if self.bounds.holds(start, context.reference, event.timestamp):
            return Action.PROCESS
        return Action.EXPIRE if event.timestamp <= start else Action.KEEP

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

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        """Decides like TimeEvictionPolicy; returns STOP at an event that is later than the reference by more than the
        lag."""
        if event.timestamp - context.reference > self.lag.micros:
            return Action.STOP
        return super().evict(event, context)

    # Repeated because ``evict`` is overridden: the two agree, so the array decision still represents this class.
    starts = TimeEvictionPolicy.starts
