"""Storm's policies: eviction and trigger policies by count and by time; and slices of time.

These policies decide on whole arrays (``starts``, ``firings``). For a user's subclass the hooks of the protocol are
called instead.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.protocol import (
    Action,
    Answer,
    EvictionContext,
    EvictionPolicy,
    Fire,
    QueuedEvent,
    TriggerContext,
    TriggerPolicy,
    is_custom,
)
from policies.watermarks import LastEnd
from windowing.durations import Count, Duration
from windowing.settings.rules import Bounds
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ColumnarEvictionPolicy(EvictionPolicy):
    """An eviction policy whose windows are contiguous events of the queue, decided on arrays."""

    @abstractmethod
    def starts(
        self, timestamps: NDArray[np.int64], ends: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Returns the position of the first event of each window.

        ``ends``: the end of each window in microseconds. ``stops``: the position after the last event of
        each window. If both never decrease, the result must not decrease either, so that an event before the start of
        one window is in no later window. All arrays are int64.
        """


@dataclass(frozen=True)
class CountEvictionPolicy(ColumnarEvictionPolicy):
    """The last ``length`` events, in order of arrival (ST-12)."""

    length: Count

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        """Returns EXPIRE for all but the last ``length`` events up to the reference."""
        return Action.EXPIRE if event.number < context.count - self.length.value else Action.PROCESS

    def starts(
        self, timestamps: NDArray[np.int64], ends: NDArray[np.int64], stops: NDArray[np.int64]
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
        """Returns EXPIRE for events before the window, KEEP for events after it."""
        start = context.reference - self.length.micros
        if self.bounds.holds(start, context.reference, event.timestamp):
            return Action.PROCESS
        return Action.EXPIRE if event.timestamp <= start else Action.KEEP

    def starts(
        self, timestamps: NDArray[np.int64], ends: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return self.bounds.count_before_end(timestamps, ends - self.length.micros)


@dataclass(frozen=True)
class WatermarkTimeEvictionPolicy(TimeEvictionPolicy):
    """The events of the last ``length`` of event time (ST-10, ST-19).

    STOP loses no events here, because the queue is in order of time; in Storm it may (ST-20).
    """

    lag: Duration = Duration(0)

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        """Returns STOP for an event that is later than the reference by more than the lag; else the action of
        TimeEvictionPolicy."""
        if event.timestamp - context.reference > self.lag.micros:
            return Action.STOP
        return super().evict(event, context)

    # Repeated because ``evict`` is overridden; on arrays the decision is the same.
    starts = TimeEvictionPolicy.starts


_CHUNK = 1 << 16
"""Greatest number of window ends that are computed at once, so that short slides need little memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """The settled events of a queue: those up to the frontier, in order of (time, arrival). No further event can come
    before the frontier.

    Positions count from 0, the oldest event in the queue.
    """

    timestamps: NDArray[np.int64]
    base: int
    """Number of events that have left the queue: the event at position p is number base + p of the task, from 0."""
    already_settled: int
    """Position of the first event that was not settled at the last evaluation."""
    accounted: int
    """Events before this position are accounted for: they have been in a fired window, or can be in none."""
    previous_frontier: int | None
    """The frontier of the last evaluation in microseconds, up to which windows have fired; None before the first."""
    frontier: int
    """The present frontier in microseconds; FOREVER at the end of the streams."""
    latest: int = -FOREVER
    """At the end of the streams: the latest time that any task of the bolt has reached, in microseconds."""


@dataclass(frozen=True, slots=True)
class DueWindows:
    """Due windows in order, as arrays with an entry per window."""

    ends: NDArray[np.int64]
    """The end of each window in microseconds."""
    stops: NDArray[np.int64]
    """The position after the last event of each window."""


class ColumnarTriggerPolicy(TriggerPolicy):
    """A trigger policy that decides on arrays."""

    event_time = False

    @abstractmethod
    def firings(self, queue: QueueView, reach: Duration | None) -> Iterator[DueWindows]:
        """Yields the windows that are due at the queue's frontier, in order, in pieces of any size. ``reach``: the
        reach of the eviction policy."""

    def due_at(self, reference: int) -> int:
        """Returns the earliest frontier at which a firing with this reference is due; both in microseconds."""
        return reference

    def nothing_due(self, previous: int | None, frontier: int, seen: int, ready: int) -> bool:
        """True if surely no window is due at ``frontier``, judged by numbers of events alone.

        ``seen``: the number of events of the task that were settled at the frontier ``previous``. ``ready``: the
        greatest number that may be settled at ``frontier``.
        """
        return ready == seen

    def next_firing(self, queue: QueueView) -> tuple[int, int]:
        """Returns the least reference, in microseconds, and the least stop that a later window can have."""
        latest = max(int(queue.timestamps[-1]) if len(queue.timestamps) else -FOREVER, queue.latest)
        return (latest if queue.frontier == FOREVER else queue.frontier), len(queue.timestamps)


@dataclass(frozen=True)
class CountTriggerPolicy(ColumnarTriggerPolicy):
    """Fires on every ``count``-th event when it arrives (ST-2, ST-12)."""

    count: Count

    def track(self, event: QueuedEvent, context: TriggerContext) -> Answer:
        return context.count % self.count.value == 0

    def firings(self, queue: QueueView, reach: Duration | None) -> Iterator[DueWindows]:
        count = self.count.value
        firings_before = (queue.base + queue.already_settled) // count
        stops = (
            np.arange((firings_before + 1) * count, queue.base + len(queue.timestamps) + 1, count, dtype=np.int64)
            - queue.base
        )
        if len(stops):
            yield DueWindows(queue.timestamps[stops - 1], stops)

    def nothing_due(self, previous: int | None, frontier: int, seen: int, ready: int) -> bool:
        return seen // self.count.value == ready // self.count.value

    def next_firing(self, queue: QueueView) -> tuple[int, int]:
        settled = queue.base + len(queue.timestamps)
        stop = (settled // self.count.value + 1) * self.count.value - queue.base
        return super().next_firing(queue)[0], stop


@dataclass(frozen=True)
class WatermarkCountTriggerPolicy(CountTriggerPolicy):
    """Fires on every ``count``-th event in order of event time, when the watermark has reached it (ST-7)."""

    event_time = True


@dataclass(frozen=True)
class TimeTriggerPolicy(ColumnarTriggerPolicy):
    """Fires at every multiple of the slide, by the clock (ST-3).

    With bounds of END a window fires when the clock is past its end, so that it holds all events of that instant.
    """

    slide: Duration
    bounds: Bounds = Bounds.END
    offset: Duration = Duration(0)

    @property
    def every(self) -> Duration:  # type: ignore[override]
        return self.slide

    def on_time(self, time: int, context: TriggerContext) -> Answer:
        return True if self.bounds is Bounds.END else Fire.BEFORE

    def due_at(self, reference: int) -> int:
        return reference + (self.bounds is Bounds.END)

    def last_due(self, frontier: int) -> int:
        """Returns the last aligned end that is due at a frontier; both in microseconds."""
        return self.last_end(frontier if frontier == FOREVER else frontier - self.due_at(0))

    def last_end(self, moment: int) -> int:
        """Returns the last aligned end at or before a time; both in microseconds."""
        return (moment - self.offset.micros) // self.slide.micros * self.slide.micros + self.offset.micros

    def firings(self, queue: QueueView, reach: Duration | None) -> Iterator[DueWindows]:
        if not len(queue.timestamps):
            return
        ends = self._ends_with_new_events(queue) if reach is None else self._ends_with_events(queue, reach)
        for chunk in ends:
            if len(chunk):
                yield DueWindows(chunk, self.bounds.count_before_end(queue.timestamps, chunk))

    def nothing_due(self, previous: int | None, frontier: int, seen: int, ready: int) -> bool:
        if previous is None or frontier == FOREVER:
            return False
        return self.last_due(frontier) == self.last_due(previous)

    def next_firing(self, queue: QueueView) -> tuple[int, int]:
        if queue.frontier == FOREVER:
            return super().next_firing(queue)
        end = self.last_due(queue.frontier) + self.slide.micros
        return end, int(self.bounds.count_before_end(queue.timestamps, np.array([end]))[0])

    def _ends_with_new_events(self, queue: QueueView) -> Iterator[NDArray[np.int64]]:
        """Yields the ends of due windows that hold an event which has been in no window."""
        ends = self.bounds.first_end(queue.timestamps[queue.accounted :], self.slide.micros, self.offset.micros)
        if queue.previous_frontier is not None:
            ends = np.maximum(ends, self.last_due(queue.previous_frontier) + self.slide.micros)
        ends = ends[ends <= self.last_due(queue.frontier)]
        yield ends[np.flatnonzero(np.diff(ends, prepend=ends[:1] - 1))]

    def _ends_with_events(self, queue: QueueView, reach: Duration) -> Iterator[NDArray[np.int64]]:
        """Yields the ends of due windows that hold an event, without a step for each empty window in between."""
        slide, offset = self.slide.micros, self.offset.micros
        oldest, newest = queue.timestamps[:1], queue.timestamps[-1:]
        low = int(self.bounds.first_end(oldest, slide, offset)[0])
        if queue.previous_frontier is not None:
            low = max(low, self.last_due(queue.previous_frontier) + slide)
        high = int(self.bounds.last_end(newest, reach.micros, slide, offset)[0])
        high = min(high, self.last_due(queue.frontier))
        if high < low:
            return
        if (high - low) // slide <= len(queue.timestamps) + 64:
            ends = np.arange(low, high + 1, slide, dtype=np.int64)
            before = self.bounds.count_before_end(queue.timestamps, ends - reach.micros)
            yield ends[self.bounds.count_before_end(queue.timestamps, ends) > before]
            return
        first_ends = np.maximum(self.bounds.first_end(queue.timestamps, slide, offset), low)
        last_ends = np.minimum(self.bounds.last_end(queue.timestamps, reach.micros, slide, offset), high)
        in_window = last_ends >= first_ends
        yield from _union_of_ranges(first_ends[in_window], last_ends[in_window], slide)


@dataclass(frozen=True)
class WatermarkTimeTriggerPolicy(TimeTriggerPolicy):
    """Fires at every multiple of the slide that the watermark has reached and whose window holds an event (ST-16)."""

    closes_after_end: bool = False
    """True if a window fires when the watermark is past its end, not at its end."""

    event_time = True

    def due_at(self, reference: int) -> int:
        return reference + self.closes_after_end


def _union_of_ranges(first: NDArray[np.int64], last: NDArray[np.int64], slide: int) -> Iterator[NDArray[np.int64]]:
    """Yields the union of the ranges from ``first`` to ``last``, inclusive, with step ``slide``: in order, in pieces.
    Neither array ever decreases."""
    if not len(first):
        return
    breaks = np.flatnonzero(first[1:] > last[:-1] + slide) + 1
    run_firsts = first[np.concatenate([[0], breaks])]
    run_lasts = last[np.concatenate([breaks - 1, [len(last) - 1]])]
    pending: list[NDArray[np.int64]] = []
    size = 0
    for begin, finish in zip(run_firsts.tolist(), run_lasts.tolist(), strict=True):
        for start in range(begin, finish + 1, slide * _CHUNK):
            piece = np.arange(start, min(finish, start + slide * (_CHUNK - 1)) + 1, slide, dtype=np.int64)
            pending.append(piece)
            size += len(piece)
            if size >= _CHUNK:
                yield np.concatenate(pending)
                pending, size = [], 0
    if pending:
        yield np.concatenate(pending)


# Slices: intervals of time that each aligned window contains either completely or not at all.


_EVICTIONS = (TimeEvictionPolicy, WatermarkTimeEvictionPolicy)
_TRIGGERS = (TimeTriggerPolicy, WatermarkTimeTriggerPolicy)


@dataclass(frozen=True, kw_only=True)
class SliceGrid:
    """The slices between the starts and ends of aligned windows: one or two per slide, whatever the length of windows.

    All times and lengths are in microseconds.
    """

    slide: int
    first_length: int
    """Length of the first slice of each slide; a second slice fills the slide if this is shorter."""
    offset: int
    """Offset of the start of a slide."""
    bounds: Bounds

    @staticmethod
    def of(eviction: EvictionPolicy, trigger: TriggerPolicy) -> SliceGrid | None:
        """Returns the slices of the windows of two policies; None if these do not form aligned windows of time."""
        if type(eviction) not in _EVICTIONS or type(trigger) not in _TRIGGERS:
            return None  # a subclass may form other windows
        assert isinstance(eviction, TimeEvictionPolicy)
        assert isinstance(trigger, TimeTriggerPolicy)
        if eviction.bounds is not trigger.bounds:
            return None
        slide = trigger.slide.micros
        return SliceGrid(
            slide=slide,
            first_length=-eviction.length.micros % slide or slide,
            offset=trigger.offset.micros,
            bounds=trigger.bounds,
        )

    def numbers(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the number of the slice that holds each time; numbers increase with time."""
        since_offset = times - (self.offset + (1 if self.bounds is Bounds.END else 0))
        slide_numbers = since_offset // self.slide
        if self.first_length == self.slide:
            return slide_numbers
        return 2 * slide_numbers + (since_offset - slide_numbers * self.slide >= self.first_length)

    def times(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the last microsecond of each slice, by the numbers of slices."""
        last = self.offset - (0 if self.bounds is Bounds.END else 1)
        if self.first_length == self.slide:
            return (numbers + 1) * self.slide + last
        slide_numbers, second = numbers >> 1, numbers & 1
        return slide_numbers * self.slide + self.first_length + second * (self.slide - self.first_length) + last


# The last windows of events, and the gaps between windows.


def last_window_end(eviction: EvictionPolicy | None, trigger: TriggerPolicy | None) -> LastEnd | None:
    """Returns a function that takes starts and ends of events, and returns the end of the last window of each. Returns
    None if windows are not aligned windows of time, because the end then depends on other events."""
    if not isinstance(eviction, TimeEvictionPolicy) or not isinstance(trigger, TimeTriggerPolicy):
        return None
    if is_custom(eviction) or is_custom(trigger):
        return None
    length, slide, offset, bounds = eviction.reach.micros, trigger.slide.micros, trigger.offset.micros, trigger.bounds
    return lambda starts, ends: bounds.last_end(starts, length, slide, offset)


def in_gap(eviction: EvictionPolicy, trigger: TriggerPolicy, timestamps: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Returns a mask of the times (int64 microseconds) that no window can hold: FOREVER, and times in gaps between
    windows (AT-4). None if there are no such times, or windows are not aligned windows of time."""
    if not isinstance(eviction, TimeEvictionPolicy) or not isinstance(trigger, TimeTriggerPolicy):
        return None
    if is_custom(eviction) or is_custom(trigger) or not len(timestamps):
        return None
    length, slide, offset = eviction.reach.micros, trigger.slide.micros, trigger.offset.micros
    endless = timestamps == FOREVER if timestamps.max() == FOREVER else None
    if slide <= length:
        return endless
    finite = timestamps if endless is None else np.where(endless, 0, timestamps)
    first_ends = trigger.bounds.first_end(finite, slide, offset)
    between: NDArray[np.bool_] = trigger.bounds.last_end(finite, length, slide, offset) < first_ends
    return between if endless is None else between | endless
