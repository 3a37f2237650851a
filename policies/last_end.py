"""The end of the last window of a queue that can hold an event, and the gaps between windows that do not touch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from policies.admission import LastEnd
from policies.eviction import TimeEvictionPolicy
from policies.protocol import EvictionPolicy, TriggerPolicy, is_own
from policies.trigger import TimeTriggerPolicy
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


def last_window_end(eviction: EvictionPolicy | None, trigger: TriggerPolicy | None) -> LastEnd | None:
    """The end of the last window that can hold an event, of windows of a length in time at every slide.

    None where that does not follow from the event alone: there are no such windows.
    """
    if not isinstance(eviction, TimeEvictionPolicy) or not isinstance(trigger, TimeTriggerPolicy):
        return None
    if is_own(eviction) or is_own(trigger):
        return None
    length, slide, offset, bounds = eviction.reach.micros, trigger.slide.micros, trigger.offset.micros, trigger.bounds
    return lambda starts, ends: bounds.last_end(starts, length, slide, offset)


def in_gap(eviction: EvictionPolicy, trigger: TriggerPolicy, timestamps: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Which of these times (int64 microseconds) no window can hold: those between windows that do not touch (AT-4),
    and FOREVER.

    None where there are no such times, or a trigger of the user's own may fire anywhere.
    """
    if not isinstance(eviction, TimeEvictionPolicy) or not isinstance(trigger, TimeTriggerPolicy):
        return None
    if is_own(eviction) or is_own(trigger) or not len(timestamps):
        return None
    length, slide, offset = eviction.reach.micros, trigger.slide.micros, trigger.offset.micros
    endless = timestamps == FOREVER if timestamps.max() == FOREVER else None
    if slide <= length:
        return endless
    known = timestamps if endless is None else np.where(endless, 0, timestamps)
    first = trigger.bounds.first_end(known, slide, offset)
    between: NDArray[np.bool_] = trigger.bounds.last_end(known, length, slide, offset) < first
    return between if endless is None else between | endless
