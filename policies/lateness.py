"""Lateness: which events are late, given only the last watermark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.admission import Admission, Decision, LastEnd
from policies.eviction import EvictionPolicy, TimeEvictionPolicy
from policies.marks import NONE
from policies.trigger import TimeTriggerPolicy, TriggerPolicy, fires_on_columns
from windowing.settings.bounds import Bounds
from windowing.settings.rules import LateAction, LateBy
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

BEHIND = "the watermark has passed it"
WINDOW_OVER = "the last window that could hold it ends at the watermark"
WINDOW_CLOSED = "the last window that could hold it has closed"


@dataclass(frozen=True)
class Lateness:
    """An event is late if it is earlier than the last watermark, or at it where no later window holds it (ST-17).

    The rule needs only the watermark, so it is the same in every task.
    """

    eviction: EvictionPolicy | None = None
    trigger: TriggerPolicy | None = None

    def late(self, timestamps: NDArray[np.int64], watermark: int | None) -> NDArray[np.bool_]:
        """Which of these times (int64 microseconds) are late at this watermark; none before the first (None)."""
        count = len(timestamps)
        marks = np.broadcast_to(np.int64(NONE if watermark is None else watermark), count)
        _, actions, _ = self._admission.decide(timestamps, None, np.zeros(count, np.int8), marks, marks)
        late: NDArray[np.bool_] = actions == Decision.OUT_OF_ORDER
        return late

    def in_gap(self, timestamps: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which of these times (int64 microseconds) no window can hold: those between windows that do not touch (AT-4),
        and FOREVER.

        None where there are no such times.
        """
        windows = self._windows
        if windows is None or not len(timestamps):
            return None
        length, trigger = windows
        slide, offset = trigger.slide.micros, trigger.offset.micros
        endless = timestamps == FOREVER if timestamps.max() == FOREVER else None
        if slide <= length:
            return endless
        known = timestamps if endless is None else np.where(endless, 0, timestamps)
        first = trigger.bounds.first_end(known, slide, offset)
        between: NDArray[np.bool_] = trigger.bounds.last_end(known, length, slide, offset) < first
        return between if endless is None else between | endless

    @property
    def _admission(self) -> Admission:
        windows = self._windows
        return Admission(
            late_by=LateBy.WATERMARK,
            action=LateAction.DIVERT,
            per_input=False,
            allowed=0,
            past_the_end=False,
            last_end=None if windows is None else last_window_end(*windows),
            holds_start=windows is not None and windows[1].bounds is Bounds.START,
        )

    @property
    def _windows(self) -> tuple[int, TimeTriggerPolicy] | None:
        if not isinstance(self.eviction, TimeEvictionPolicy) or not isinstance(self.trigger, TimeTriggerPolicy):
            return None
        return (self.eviction.reach.micros, self.trigger) if fires_on_columns(self.trigger) else None


def last_window_end(length: int, trigger: TimeTriggerPolicy) -> LastEnd:
    """The end of the last window that can hold an event, for windows of this length (microseconds) at every slide."""
    slide, offset = trigger.slide.micros, trigger.offset.micros
    return lambda starts, ends: trigger.bounds.last_end(starts, length, slide, offset)
