"""Lateness: which events are late, given only the last watermark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.eviction import EvictionPolicy, TimeEvictionPolicy
from policies.trigger import TimeTriggerPolicy, TriggerPolicy, fires_on_columns
from windowing.settings.bounds import Bounds
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

BEHIND = "the watermark has passed it"
WINDOW_OVER = "the last window that could hold it ends at the watermark"
GAP = "it lies in a gap between windows"


@dataclass(frozen=True)
class Lateness:
    """An event is late if it is earlier than the last watermark, or at it where no later window holds it (ST-17).

    The rule needs only the watermark, so it is the same in every task.
    """

    eviction: EvictionPolicy | None = None
    trigger: TriggerPolicy | None = None

    def late(self, timestamps: NDArray[np.int64], watermark: int | None) -> NDArray[np.bool_]:
        """Which of these times (int64 microseconds) are late at this watermark; none before the first (None)."""
        if watermark is None:
            return np.zeros(len(timestamps), np.bool_)
        return timestamps <= watermark if self.window_over(watermark) else timestamps < watermark

    def window_over(self, watermark: int) -> bool:
        """Whether an event exactly at the watermark is too late for every window."""
        windows = self._windows
        if windows is None:
            return False
        length, trigger = windows
        if trigger.bounds is Bounds.START or trigger.last_due(watermark) != watermark:
            return False
        return trigger.slide.micros >= length

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
    def _windows(self) -> tuple[int, TimeTriggerPolicy] | None:
        if not isinstance(self.eviction, TimeEvictionPolicy) or not isinstance(self.trigger, TimeTriggerPolicy):
            return None
        return (self.eviction.reach.micros, self.trigger) if fires_on_columns(self.trigger) else None
