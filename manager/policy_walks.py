"""Calls the user's policies for one unit, a task or a key, and checks their answers (decision 96)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from policies.protocol import (
    Action,
    EvictionContext,
    EvictionPolicy,
    Fire,
    Policy,
    QueuedEvent,
    QueuedEvents,
    TriggerContext,
    TriggerPolicy,
    overrides,
)
from policies.storm import CountEvictionPolicy, CountTriggerPolicy, TimeEvictionPolicy, TimeTriggerPolicy
from windowing.durations import Duration
from windowing.errors import USER_EXCEPTIONS
from windowing.reprs import error_text, repr_of
from windowing.settings.rules import Bounds
from windowing.settings.triggers import FiredBy
from windowing.timestamps import FOREVER, LATEST, show

if TYPE_CHECKING:
    from numpy.typing import NDArray


# A unit: its record, its tracked events, and the errors of its policies.
#
# Storm's word *tracked*: an event is tracked when it is passed to the policies. By then its position in the order, and
# so its number, is final.


class PolicyFailure(Exception):
    """A hook of a user's policy has raised an exception or returned a wrong answer."""

    def __init__(
        self, policy: Policy, hook: str, about: QueuedEvent | str, key: Any, error: BaseException | str
    ) -> None:
        """``about``: the event, moment or window of the call. ``error``: the exception, or a description of the wrong
        answer."""
        super().__init__(error if isinstance(error, str) else error_text(error))
        self.policy, self.hook, self.key, self.error = policy, hook, key, error
        if isinstance(about, QueuedEvent):
            event_in_words = "an event" if about.number < 0 else f"event {about.number}"
            about = f"{event_in_words} at {show(about.timestamp)}"
        self.about = about


class _Walk(Protocol):
    """Calls a policy for one unit."""

    policy: Any
    key: Any


def call_hook(walk: _Walk, hook: str, about: QueuedEvent | str, *arguments: Any) -> Any:
    """Call a hook of a policy. Raises PolicyFailure if the hook raises an exception."""
    try:
        return getattr(walk.policy, hook)(*arguments)
    except USER_EXCEPTIONS as error:
        raise PolicyFailure(walk.policy, hook, about, walk.key, error) from error


@dataclass
class UnitRecord:
    """State of a unit between two batches, except its events. Times are in microseconds."""

    count: int = 0
    """Number of events tracked."""
    time: int | None = None
    """Time of the unit: the greatest time of its events and moments; None before the first event."""
    ties: int = 0
    """Number of events at the end of the order whose time is ``time``."""
    fired: int | None = None
    """The reference of the last firing."""
    fired_count: int = 0
    """Number of events up to the last firing."""
    tracked: int = 0
    """Number of events that the eviction policy has tracked."""
    evicted: int | None = None
    """The reference of the last firing for which the eviction policy has chosen events."""
    evicted_count: int = 0
    """Number of events up to the firing of ``evicted``."""
    last_event_time: int | None = None
    """Time of the unit at its last event."""
    wake_at: int | None = None
    """The moment that the trigger has set as ``wake_at``."""
    next_end: int | None = None
    """The next multiple of ``every``, or the next end of a slide, at which the trigger is called."""
    last_end: int | None = None
    """The last end of a slide that becomes due because of the events so far."""
    trigger: dict[str, Any] = field(default_factory=dict)
    """The state of the trigger policy."""
    eviction: dict[str, Any] = field(default_factory=dict)
    """The state of the eviction policy."""

    @staticmethod
    def from_text(text: str) -> UnitRecord:
        """Returns the record that ``to_text`` has encoded."""
        return UnitRecord(**json.loads(text))

    def to_text(self) -> str:
        """Returns the record as JSON."""
        return json.dumps(vars(self))

    @property
    def next_moment(self) -> int | None:
        """The next moment at which the trigger is called; None if there is none."""
        wake, end = self.wake_at, self.next_end
        return end if wake is None else wake if end is None else min(wake, end)


Indices = range | np.ndarray
"""Indices of events: a range if they are consecutive, else an array."""


def compact_indices(indices: NDArray[np.int64]) -> Indices:
    """Returns ascending indices: a range if they are consecutive, else the array."""
    if not len(indices):
        return range(0)
    low, high = int(indices[0]), int(indices[-1]) + 1
    return range(low, high) if high - low == len(indices) else indices


def as_index(indices: Indices) -> slice | NDArray[np.int64]:
    """Returns a slice or array that selects these indices from an array."""
    return slice(indices.start, indices.stop) if isinstance(indices, range) else indices


def select_indices(indices: Indices, mask: NDArray[np.bool_]) -> Indices:
    """Returns the indices for which the mask is true."""
    count = int(np.count_nonzero(mask))
    if count == len(indices):
        return indices
    if not isinstance(indices, range):
        return compact_indices(indices[mask])
    first_true = int(mask.argmax())
    if mask[first_true : first_true + count].all():
        return range(indices.start + first_true, indices.start + first_true + count)
    return np.flatnonzero(mask) + indices.start


@dataclass(frozen=True)
class TrackedEvents:
    """Events in the order in which they are tracked; arrays of equal length."""

    times: NDArray[np.int64]
    row_indices: Indices
    """The row of each event in the columns."""
    lists: Mapping[str, Sequence[Any]]
    """The columns as Python values, converted at the first access; they also have rows of other events."""
    arrays: Mapping[str, NDArray[Any]]
    """The same columns as NumPy arrays."""
    streams: NDArray[np.object_]
    """The name of the stream of each row of the columns."""

    def __len__(self) -> int:
        return len(self.times)

    @property
    def rows(self) -> Sequence[int]:
        """``row_indices`` as Python numbers."""
        return self.row_indices if isinstance(self.row_indices, range) else self.row_indices.tolist()

    def columns(self, indices: Indices, numbers: NDArray[np.int64]) -> QueuedEvents:
        """Returns the columns of the events at these indices; ``numbers``: the numbers of these events."""
        index = as_index(indices)
        row_indices = self.row_indices[index] if isinstance(index, slice) else np.asarray(self.row_indices)[index]
        return QueuedEvents(
            _read_only(numbers), _read_only(self.times[index]), self.arrays, as_index(row_indices), self.streams
        )


def _read_only(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns a view of an array that a policy cannot write to."""
    view = array.view()
    view.flags.writeable = False
    return view


# The calls of a trigger policy for one unit: a walk over events and moments (decision 96).
#
# A trigger does not depend on the eviction policy, so the trigger's walk over all newly tracked events comes first.


_FIRED_BY = {
    "track": FiredBy.EVENT,
    "on_time": FiredBy.MOMENT,
    "on_arrival": FiredBy.ARRIVAL,
    "on_end": FiredBy.CLOSE,
}


@dataclass(frozen=True, slots=True)
class Firing:
    """One firing of the trigger."""

    reference: int
    """End of the window in microseconds."""
    stop: int
    """Number of events of the unit up to the end of the window."""
    by: FiredBy | None = None
    """Reason of the firing; None for a built-in trigger."""


class TriggerWalk:
    """Calls a trigger with events and moments in order; ``firings`` lists the resulting firings.

    ``track``, ``fire`` and ``pass_until`` update ``record``.
    """

    def __init__(self, policy: TriggerPolicy, record: UnitRecord, key: Any) -> None:
        self.policy, self.record, self.key = policy, record, key
        self.firings: list[Firing] = []

    @property
    def state(self) -> Any:
        """The state of the trigger, even if a hook has replaced the dict."""
        return self.record.trigger

    def track(self, tracked: TrackedEvents) -> None:
        """Call the trigger for events in order, and for the moments before each event."""
        raise NotImplementedError

    def pass_until(self, frontier: int) -> None:
        """Call the trigger for the moments before a frontier (microseconds; FOREVER ends the streams)."""
        raise NotImplementedError

    def fire(self) -> None:
        """Fire now, because ``on_arrival`` has returned True."""
        raise NotImplementedError

    def end(self, moment: int) -> None:
        """Call the trigger for the moments up to ``moment`` (microseconds), at which the unit is forgotten."""
        self.pass_until(moment + 1)

    def due_at(self, moment: int) -> int:
        """Returns the least frontier at which the trigger is called for this moment; both in microseconds."""
        return moment + 1

    def _add_firing(self, reference: int, stop: int, by: FiredBy | None = None) -> None:
        record = self.record
        record.fired, record.fired_count = reference, max(stop, record.fired_count)
        self.firings.append(Firing(reference, record.fired_count, by))


class UserTriggerWalk(TriggerWalk):
    """Calls the hooks of a user's trigger: for each event or for columns of events, and at moments."""

    def __init__(self, policy: TriggerPolicy, record: UnitRecord, key: Any, forget_after: int | None) -> None:
        super().__init__(policy, record, key)
        self._forget_after = forget_after
        self._context = TriggerContext(
            record.trigger, key, record.time or 0, record.count, record.fired, record.fired_count, record.wake_at
        )
        self._every = None if policy.every is None else policy.every.micros
        self._resets = overrides(policy, "reset")
        self._wake = record.wake_at

    @property
    def state(self) -> Any:
        return self._context.state

    def track(self, tracked: TrackedEvents) -> None:
        if not len(tracked):
            return
        if self.record.time is None:
            self.record.time = self._context.time = int(tracked.times[0])
        if overrides(self.policy, "track_all"):
            self._track_pieces(tracked)
        else:
            self._track_each(tracked)

    def fire(self) -> None:
        self._apply_answer(True, "on_arrival", "an event on arrival", self.record.count)

    def pass_until(self, frontier: int) -> None:
        if frontier != FOREVER:
            self._call_moments(frontier)
            return
        moments = {self.record.next_end, self.record.wake_at}
        for moment in sorted(each for each in moments if each is not None):
            if moment in (self.record.next_end, self.record.wake_at):  # the earlier one may have replaced it
                self._call_on_time(moment)
        self._call_on_end("the end of the streams")

    def end(self, moment: int) -> None:
        self._call_moments(moment + 1)
        self._advance_to(moment)
        self._call_on_end(f"the end of the key at {show(moment)}")

    def _call_on_end(self, about: str) -> None:
        self._apply_answer(call_hook(self, "on_end", about, self._context), "on_end", about, self.record.count)
        self._record_wake("on_end", about)

    # -- event by event

    def _track_each(self, tracked: TrackedEvents) -> None:
        record, context, track, every = self.record, self._context, self.policy.track, self._every
        event = QueuedEvent(0, 0, tracked.lists, 0, tracked.streams)
        due, now, count = record.next_moment, context.time, context.count
        try:
            for time, row in zip(tracked.times.tolist(), tracked.rows, strict=True):
                if due is not None and due < time:
                    self._call_moments(time)
                    due, now = record.next_moment, context.time
                if time > now:
                    now = record.time = context.time = time
                    record.ties = 0
                record.ties = record.ties + 1 if time == now else 0
                event.number, event.timestamp, event._index = count, time, row
                count += 1
                record.count = context.count = count
                if every is not None and record.next_end is None:
                    record.next_end = self._next_multiple(now, every)
                    due = record.next_moment
                answer = track(event, context)
                if answer is not False:
                    self._apply_answer(answer, "track", event, count - 1)
                if context.wake_at != self._wake:
                    self._record_wake("track", event)
                    due = record.next_moment
        except PolicyFailure:
            raise
        except USER_EXCEPTIONS as error:
            raise PolicyFailure(self.policy, "track", event, self.key, error) from error

    # -- moments

    def _call_moments(self, until: int) -> None:
        """Call the trigger for the moments before a time (microseconds)."""
        due = self.record.next_moment
        while due is not None and due < until:
            self._call_on_time(due)
            due = self.record.next_moment

    def _call_on_time(self, moment: int) -> None:
        record, context = self.record, self._context
        if record.next_end == moment:
            record.next_end = None
        if record.wake_at == moment:
            record.wake_at = context.wake_at = self._wake = None
        self._advance_to(moment)
        about = f"at {show(moment)}"
        answer = call_hook(self, "on_time", about, moment, context)
        self._apply_answer(answer, "on_time", about, record.count - record.ties)
        self._record_wake("on_time", about)

    def _advance_to(self, moment: int) -> None:
        self.record.ties = self.record.ties if moment == self.record.time else 0
        self._context.time = self.record.time = moment

    def _next_multiple(self, time: int, every: int) -> int:
        """Returns the first multiple of ``every`` that is not before a time."""
        offset = self.policy.offset.micros
        return -((offset - time) // every) * every + offset

    # -- answers

    def _apply_answer(self, answer: Any, hook: str, about: QueuedEvent | str, count_before: int) -> None:
        """Check the answer of a hook, and fire if it says so. ``count_before``: the number of events before the event
        or moment."""
        if answer is False:
            return
        record, context = self.record, self._context
        if answer is not True and answer is not Fire.BEFORE:
            what = f"it answered {repr_of(answer):.60} ({type(answer).__name__})"
            raise PolicyFailure(
                self.policy, hook, about, self.key, f"{what}; the answers are True, False and Fire.BEFORE"
            )
        assert record.time is not None
        self._add_firing(record.time, record.count if answer is True else count_before, _FIRED_BY[hook])
        context.fired, context.fired_count = record.fired, record.fired_count
        if self._resets:
            call_hook(self, "reset", about, context)
            self._record_wake("reset", about)

    def _record_wake(self, hook: str, about: QueuedEvent | str) -> None:
        """Check and record the moment that the trigger has set as ``wake_at``."""
        wake, time = self._context.wake_at, self._context.time
        if wake == self._wake:
            return
        if wake is not None and (type(wake) is not int or not time < wake <= LATEST):
            what = f"wake_at was set to {repr_of(wake):.60}; it must be a whole number of microseconds, later than "
            what += f"context.time ({time}) and at most the end of the year 9999"
            what += ": write context.time + the .micros of this duration" if isinstance(wake, Duration) else ""
            raise PolicyFailure(self.policy, hook, about, self.key, what)
        if hook == "track" and wake is not None and self._forget_after is not None and wake > time + self._forget_after:
            what = (
                f"wake_at was set to {show(wake)}; by then the key is forgotten (forget_after), and on_time would not "
                "be called"
            )
            raise PolicyFailure(self.policy, hook, about, self.key, what)
        self._wake = self.record.wake_at = wake

    # -- on arrays

    def _track_pieces(self, tracked: TrackedEvents) -> None:
        """Call ``track_all`` for events, in pieces that end where a moment is due."""
        record, context, every, low = self.record, self._context, self._every, 0
        while low < len(tracked):
            first_time = int(tracked.times[low])
            self._call_moments(first_time)
            now = max(context.time, first_time)
            if every is not None and record.next_end is None:
                record.next_end = self._next_multiple(now, every)
            due, high = record.next_moment, len(tracked)
            if due is not None:
                high = max(int(np.searchsorted(tracked.times, due, "right")), low + 1)
            self._track_piece(tracked, low, high, now)
            low = high

    def _track_piece(self, tracked: TrackedEvents, low: int, high: int, now: int) -> None:
        """Call ``track_all`` for the events from index ``low`` to ``high``, which are in order of time."""
        record, context, count, size = self.record, self._context, self.record.count, high - low
        context.time, context.count = now, count
        about = f"events {count} to {count + size - 1}"
        events = tracked.columns(range(low, high), np.arange(count, count + size))
        fires = call_hook(self, "track_all", about, events, context)
        if not isinstance(fires, np.ndarray) or fires.dtype != np.bool_ or fires.shape != (size,):
            what = (
                f"it answered {describe_answer(fires)}; the answer is an array of bool, one for each of {size} events"
            )
            raise PolicyFailure(self.policy, "track_all", about, self.key, what)
        if context.wake_at != self._wake:
            what = "it set wake_at, which is for rules that decide event by event; use every here"
            raise PolicyFailure(self.policy, "track_all", about, self.key, what)
        times, stops = tracked.times[low:high], np.flatnonzero(fires)
        for time, stop in zip(times[stops].tolist(), (stops + count + 1).tolist(), strict=True):
            self._add_firing(max(time, now), stop, FiredBy.EVENT)
        time_before, record.time = record.time, max(int(times[-1]), now)
        tied = size - int(np.searchsorted(times, record.time))
        record.ties = tied + (record.ties if tied == size and time_before == record.time else 0)
        record.count = context.count = count + size
        context.time, context.fired, context.fired_count = record.time, record.fired, record.fired_count


class CountTriggerWalk(TriggerWalk):
    """Fires as a ``CountTriggerPolicy`` does, beside a user's eviction policy."""

    def __init__(self, policy: CountTriggerPolicy, record: UnitRecord, key: Any) -> None:
        super().__init__(policy, record, key)
        self._slide = policy.count.value

    def track(self, tracked: TrackedEvents) -> None:
        record, count_before = self.record, self.record.count
        record.count += len(tracked)
        for stop in range((count_before // self._slide + 1) * self._slide, record.count + 1, self._slide):
            self._add_firing(int(tracked.times[stop - count_before - 1]), stop)
        if len(tracked):
            record.time = int(tracked.times[-1])

    def pass_until(self, frontier: int) -> None:
        pass


class TimeTriggerWalk(TriggerWalk):
    """Fires as a ``TimeTriggerPolicy`` does, beside a user's eviction policy.

    ``reach``: the reach of the eviction policy. With a reach, an event makes all window ends within the reach due.
    Without a reach, it makes one due: the first that is not before the event.
    """

    def __init__(self, policy: TimeTriggerPolicy, record: UnitRecord, key: Any, reach: int | None) -> None:
        super().__init__(policy, record, key)
        self._time_policy, self._reach, self._count_before = policy, reach, record.count
        self._times: list[NDArray[np.int64]] = []

    def track(self, tracked: TrackedEvents) -> None:
        if len(tracked):
            self._times.append(tracked.times)
            self.record.count += len(tracked)
            self.record.time = int(tracked.times[-1])

    def due_at(self, moment: int) -> int:
        return self._time_policy.due_at(moment)

    def pass_until(self, frontier: int) -> None:
        policy, record = self._time_policy, self.record
        limit, slide, offset = policy.last_due(frontier), policy.slide.micros, policy.offset.micros
        times = np.concatenate([np.zeros(0, np.int64), *self._times])
        earliest_ends = policy.bounds.first_end(times, slide, offset)
        latest_ends = (
            earliest_ends if self._reach is None else policy.bounds.last_end(times, self._reach, slide, offset)
        )
        first_ends, last_ends = earliest_ends.tolist(), latest_ends.tolist()
        if record.next_end is not None and record.last_end is not None:
            first_ends, last_ends = [record.next_end, *first_ends], [record.last_end, *last_ends]
        record.next_end = record.last_end = None
        last_fired = -FOREVER
        for begin, end in zip(first_ends, last_ends, strict=True):
            due = max(begin, last_fired + slide)
            while due <= min(end, limit):
                stop = self._count_before + int(policy.bounds.count_before_end(times, np.array([due]))[0])
                self._add_firing(due, stop)
                record.time = max(due if record.time is None else record.time, due)
                last_fired, due = due, due + slide
            if due <= end:
                record.next_end = due if record.next_end is None else min(record.next_end, due)
                record.last_end = end if record.last_end is None else max(record.last_end, end)


def trigger_walk(
    policy: TriggerPolicy, record: UnitRecord, key: Any, reach: int | None, forget_after: int | None = None
) -> TriggerWalk:
    """Returns the walk of a trigger policy.

    ``reach``: the reach of the eviction policy. ``forget_after``: the time without an event after which the unit is
    forgotten. Both are in microseconds.
    """
    has_hooks = overrides(policy, "track", "track_all", "on_time", "on_arrival", "on_end")
    match policy:
        case CountTriggerPolicy() if not has_hooks:
            return CountTriggerWalk(policy, record, key)
        case TimeTriggerPolicy() if not has_hooks:
            return TimeTriggerWalk(policy, record, key, reach)
    return UserTriggerWalk(policy, record, key, forget_after)


def describe_answer(answer: object) -> str:
    """Returns a short description of the answer of a hook that takes arrays."""
    if isinstance(answer, np.ndarray):
        return f"an array of {answer.dtype} of shape {answer.shape}"
    return f"{repr_of(answer):.60} ({type(answer).__name__})"


# The calls of an eviction policy for one unit, and the events of the resulting windows (decision 96).


_EXPIRE, _PROCESS, _KEEP, _STOP = map(int, Action)


@dataclass(frozen=True, slots=True)
class NonEmptyWindow:
    """A window that holds events."""

    reference: int
    """End of the window in microseconds."""
    members: Indices
    """The events of the window, as indices into ``EvictionWalk``'s ``tracked``."""
    by: FiredBy | None = None
    """Reason of the firing."""


class EvictionWalk:
    """Calls an eviction policy for one unit, to choose the events of each window that the trigger has fired.

    ``tracked``: all tracked events that have not expired, those of this batch last. ``numbers``: the numbers of
    ``tracked``.
    """

    def __init__(
        self, policy: EvictionPolicy, record: UnitRecord, key: Any, tracked: TrackedEvents, numbers: NDArray[np.int64]
    ) -> None:
        self.policy, self.record, self.key, self._tracked, self._numbers = policy, record, key, tracked, numbers
        self.expired = np.zeros(len(tracked), np.bool_)
        """Mask of the events that have expired; complete after ``clear``."""

    @property
    def state(self) -> Any:
        """The state of the eviction, even if a hook has replaced the dict."""
        return self.record.eviction

    def windows(self, firings: Sequence[Firing]) -> Iterator[NonEmptyWindow]:
        """Yield the windows of these firings, in order, without empty windows."""
        for firing in firings:
            stop = int(np.searchsorted(self._numbers, firing.stop))
            members = self._members(firing, stop)
            self.record.evicted, self.record.evicted_count = firing.reference, firing.stop
            if len(members):
                yield NonEmptyWindow(firing.reference, members, firing.by)

    def _members(self, firing: Firing, stop: int) -> Indices:
        """Returns the events of a window; all are before index ``stop``."""
        raise NotImplementedError

    def clear(self) -> None:
        """Expire the events that no later window can hold; called after the last window."""


class UserEvictionWalk(EvictionWalk):
    """Calls the hooks of a user's eviction policy, for each event or for columns of events."""

    def __init__(
        self, policy: EvictionPolicy, record: UnitRecord, key: Any, tracked: TrackedEvents, numbers: NDArray[np.int64]
    ) -> None:
        super().__init__(policy, record, key, tracked, numbers)
        self._context = EvictionContext(record.eviction, key, fired=record.evicted, fired_count=record.evicted_count)
        self._tracks, self._tracks_all = overrides(policy, "track"), overrides(policy, "track_all")
        self._takes_columns, self._resets = overrides(policy, "evict_all"), overrides(policy, "reset")
        self._examined_stop = 0
        self._unexpired: list[int] = []
        self._unexpired_indices: Indices = range(0)
        self._event = QueuedEvent(0, 0, tracked.lists, 0, tracked.streams)

    @property
    def state(self) -> Any:
        return self._context.state

    @cached_property
    def _lists(self) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """The numbers, times and rows of the events as Python numbers, for hooks that are called event by event."""
        return self._numbers.tolist(), self._tracked.times.tolist(), self._tracked.rows

    def _members(self, firing: Firing, stop: int) -> Indices:
        context = self._context
        self._track(firing.stop)
        context.time = context.reference = firing.reference
        context.count = firing.stop
        members = self._evict_columns(stop) if self._takes_columns else self._evict_each(stop)
        context.fired, context.fired_count = firing.reference, firing.stop
        if self._resets:
            call_hook(self, "reset", self._window_in_words, context)
        return members

    def _track(self, until: int) -> None:
        """Call ``track`` or ``track_all`` for the events before number ``until`` that these hooks have not seen."""
        record, context = self.record, self._context
        tracked_before, record.tracked = record.tracked, max(record.tracked, until)
        if not (self._tracks or self._tracks_all):
            return
        low, high = np.searchsorted(self._numbers, (tracked_before, until)).tolist()
        if low == high:
            return
        if self._tracks_all:
            events = self._tracked.columns(range(low, high), self._numbers[low:high])
            context.count = int(self._numbers[high - 1]) + 1
            context.time = context.reference = int(self._tracked.times[high - 1])
            call_hook(self, "track_all", f"events {self._numbers[low]} to {self._numbers[high - 1]}", events, context)
            return
        numbers, times, rows = self._lists
        event, track = self._event, self.policy.track
        try:
            for index in range(low, high):
                event.number, event.timestamp, event._index = numbers[index], times[index], rows[index]
                context.count = numbers[index] + 1
                context.time = context.reference = times[index]
                track(event, context)
        except USER_EXCEPTIONS as error:
            raise PolicyFailure(self.policy, "track", event, self.key, error) from error

    def _evict_each(self, stop: int) -> Indices:
        candidates, (numbers, times, rows) = self._unexpired, self._lists
        candidates.extend(range(self._examined_stop, stop))
        self._examined_stop = max(self._examined_stop, stop)
        evict, event, context = self.policy.evict, self._event, self._context
        members, unexpired = list[int](), list[int]()
        process, keep, expire = Action.PROCESS, Action.KEEP, Action.EXPIRE
        try:
            for position, index in enumerate(candidates):
                event.number, event.timestamp, event._index = numbers[index], times[index], rows[index]
                action = evict(event, context)
                if action is process:
                    members.append(index)
                    unexpired.append(index)
                elif action is expire:
                    self.expired[index] = True
                elif action is keep:
                    unexpired.append(index)
                elif action is Action.STOP:
                    unexpired.extend(candidates[position:])
                    break
                else:
                    what = f"it answered {repr_of(action):.60} ({type(action).__name__}), which is no Action"
                    raise PolicyFailure(
                        self.policy, "evict", event, self.key, f"{what}: use Action.EXPIRE, PROCESS, KEEP or STOP"
                    )
        except PolicyFailure:
            raise
        except USER_EXCEPTIONS as error:
            raise PolicyFailure(self.policy, "evict", event, self.key, error) from error
        self._unexpired = unexpired
        return compact_indices(np.array(members, np.int64))

    def _evict_columns(self, stop: int) -> Indices:
        candidates = _append_range(self._unexpired_indices, self._examined_stop, stop)
        self._examined_stop = max(self._examined_stop, stop)
        if not len(candidates):
            return candidates
        index = as_index(candidates)
        events = self._tracked.columns(candidates, self._numbers[index])
        try:
            actions = self.policy.evict_all(events, self._context)
        except USER_EXCEPTIONS as error:
            raise PolicyFailure(self.policy, "evict_all", self._window_in_words, self.key, error) from error
        is_valid = (
            isinstance(actions, np.ndarray) and actions.dtype.kind in "iu" and actions.shape == (len(candidates),)
        )
        largest = int(actions.max()) if is_valid else 0
        if not is_valid or largest > _STOP or actions.min() < _EXPIRE:
            what = (
                f"it answered {describe_answer(actions)}; the answer is an Action for each of {len(candidates)} events"
            )
            raise PolicyFailure(
                self.policy,
                "evict_all",
                self._window_in_words,
                self.key,
                f"{what}: np.where(good, Action.PROCESS, Action.EXPIRE)",
            )
        if largest == _STOP:
            actions = np.where(np.arange(len(actions)) >= np.argmax(actions == _STOP), _KEEP, actions)
        unexpired = actions != _EXPIRE
        self.expired[index] |= ~unexpired
        self._unexpired_indices = select_indices(candidates, unexpired)
        return select_indices(candidates, actions == _PROCESS)

    @property
    def _window_in_words(self) -> str:
        """A description of the window whose events are being chosen, for error texts."""
        return f"the window that ends at {show(self._context.reference)}"


class CountEvictionWalk(EvictionWalk):
    """Evicts as a ``CountEvictionPolicy`` does, beside a user's trigger policy."""

    def _members(self, firing: Firing, stop: int) -> Indices:
        assert isinstance(self.policy, CountEvictionPolicy)
        start = int(np.searchsorted(self._numbers, firing.stop - self.policy.length.value))
        self.expired[:start] = True
        return range(start, stop)

    def clear(self) -> None:
        assert isinstance(self.policy, CountEvictionPolicy)
        stop_of_window = max(
            self.record.count - self.record.ties, self.record.fired_count
        )  # a window may end before the ties
        self.expired[: int(np.searchsorted(self._numbers, stop_of_window - self.policy.length.value))] = True


class TimeEvictionWalk(EvictionWalk):
    """Evicts as a ``TimeEvictionPolicy`` does, beside a user's trigger policy."""

    def __init__(
        self, policy: EvictionPolicy, record: UnitRecord, key: Any, tracked: TrackedEvents, numbers: NDArray[np.int64]
    ) -> None:
        super().__init__(policy, record, key, tracked, numbers)
        self._in_time_order = bool((tracked.times[1:] >= tracked.times[:-1]).all())
        self._unexpired: Indices = range(0)
        """The events before index ``_examined_stop`` that have not expired."""
        self._examined_stop = 0

    def _members(self, firing: Firing, stop: int) -> Indices:
        assert isinstance(self.policy, TimeEvictionPolicy)
        unexpired = self._expire(firing.reference, stop)
        if self.policy.bounds is Bounds.END:
            return unexpired
        if self._in_time_order and isinstance(
            unexpired, range
        ):  # the others wait for the next window, as with ``evict``
            return range(unexpired.start, max(self._first_index(firing.reference, unexpired, "left"), unexpired.start))
        return select_indices(unexpired, self._tracked.times[as_index(unexpired)] < firing.reference)

    def clear(self) -> None:
        if self.record.time is not None:
            self._expire(self.record.time, len(self._tracked))

    def _expire(self, reference: int, stop: int) -> Indices:
        """Expire the events before index ``stop`` that are too old for a window that ends at the reference; return the
        other events before ``stop``."""
        assert isinstance(self.policy, TimeEvictionPolicy)
        candidates = _append_range(self._unexpired, self._examined_stop, stop)
        self._examined_stop = max(self._examined_stop, stop)
        start, at_start = reference - self.policy.length.micros, self.policy.bounds is Bounds.START
        if self._in_time_order and isinstance(candidates, range):
            first_kept = self._first_index(start, candidates, "left" if at_start else "right")
            self.expired[candidates.start : first_kept] = True
            self._unexpired = range(first_kept, candidates.stop)
            return self._unexpired
        times = self._tracked.times[as_index(candidates)]
        is_over = times < start if at_start else times <= start
        self.expired[as_index(select_indices(candidates, is_over))] = True
        self._unexpired = select_indices(candidates, ~is_over)
        return self._unexpired

    def _first_index(self, time: int, indices: range, side: Literal["left", "right"]) -> int:
        """Returns the index of the first event in ``indices`` that is not before a time; with "right", of the first
        event after the time. The events are in order of time."""
        return indices.start + int(np.searchsorted(self._tracked.times[indices.start : indices.stop], time, side))


def _append_range(before: Indices, start: int, stop: int) -> Indices:
    """Returns the ascending indices ``before``, followed by the indices from ``start`` to ``stop``."""
    if start >= stop:
        return before
    if not len(before):
        return range(start, stop)
    if isinstance(before, range) and before.stop == start:
        return range(before.start, stop)
    return np.concatenate([np.asarray(before), np.arange(start, stop)])


def has_user_hooks(policy: EvictionPolicy) -> bool:
    """True if an eviction policy has hooks of the user to call; built-in policies choose events without calls."""
    built_in = isinstance(policy, CountEvictionPolicy | TimeEvictionPolicy)
    return not built_in or overrides(policy, "evict", "evict_all", "track", "track_all")


def eviction_walk(
    policy: EvictionPolicy, record: UnitRecord, key: Any, tracked: TrackedEvents, numbers: NDArray[np.int64]
) -> EvictionWalk:
    """Returns the walk of an eviction policy."""
    if has_user_hooks(policy):
        return UserEvictionWalk(policy, record, key, tracked, numbers)
    kind = CountEvictionWalk if isinstance(policy, CountEvictionPolicy) else TimeEvictionWalk
    return kind(policy, record, key, tracked, numbers)
