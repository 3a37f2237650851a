"""What an eviction is told of one task, or of one key, and which events its windows hold (decision 96)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from manager.own_policies.trigger_walk import Firing, described
from manager.own_policies.unit import (
    Indices,
    PolicyFailure,
    ToldEvents,
    UnitRecord,
    among,
    at,
    call,
    packed,
)
from policies.eviction import CountEvictionPolicy, TimeEvictionPolicy
from policies.protocol import Action, EvictionContext, EvictionPolicy, QueuedEvent, overrides
from windowing.settings.bounds import Bounds
from windowing.settings.triggers import FiredBy
from windowing.time.timestamps import show

if TYPE_CHECKING:
    from numpy.typing import NDArray


_EXPIRE, _PROCESS, _KEEP, _STOP = map(int, Action)


@dataclass(frozen=True, slots=True)
class HeldWindow:
    """A window that holds events."""

    reference: int
    """Its end in microseconds."""
    members: Indices
    """Its events, by their indices among the told ones that are held."""
    by: FiredBy | None = None
    """What fired it."""


class EvictionWalk:
    """An eviction of one unit: it decides about the windows that the trigger has fired, one after another.

    ``held`` are all told events that have not expired, those of this batch last, and ``numbers`` their numbers.
    """

    def __init__(
        self, policy: EvictionPolicy, record: UnitRecord, key: Any, held: ToldEvents, numbers: NDArray[np.int64]
    ) -> None:
        self.policy, self.record, self.key, self._held, self._numbers = policy, record, key, held, numbers
        self.expired = np.zeros(len(held), np.bool_)
        """Which events have expired, when the windows are exhausted."""

    @property
    def state(self) -> Any:
        """The state of the eviction, also where a hook has put another dict in the place of it."""
        return self.record.eviction

    def windows(self, firings: Sequence[Firing]) -> Iterator[HeldWindow]:
        """Yield the windows that hold events, in order."""
        for firing in firings:
            stop = int(np.searchsorted(self._numbers, firing.stop))
            members = self._members(firing, stop)
            self.record.evicted, self.record.evicted_count = firing.reference, firing.stop
            if len(members):
                yield HeldWindow(firing.reference, members, firing.by)

    def _members(self, firing: Firing, stop: int) -> Indices:
        """The events of a window, among those before index ``stop``."""
        raise NotImplementedError

    def clear(self) -> None:
        """Let those expire, after the last window, that no window to come can hold."""


class AskedEviction(EvictionWalk):
    """An eviction of a user's own, which is asked about each event, or about columns."""

    def __init__(
        self, policy: EvictionPolicy, record: UnitRecord, key: Any, held: ToldEvents, numbers: NDArray[np.int64]
    ) -> None:
        super().__init__(policy, record, key, held, numbers)
        self._context = EvictionContext(record.eviction, key, fired=record.evicted, fired_count=record.evicted_count)
        self._tracks, self._tracks_all = overrides(policy, "track"), overrides(policy, "track_all")
        self._by_columns, self._resets = overrides(policy, "evict_all"), overrides(policy, "reset")
        self._reached = 0
        self._retained: list[int] = []
        self._columns: Indices = range(0)
        self._event = QueuedEvent(0, 0, held.lists, 0, held.streams)

    @property
    def state(self) -> Any:
        return self._context.state

    @cached_property
    def _lists(self) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """The numbers, times and places of the events, for hooks that are called event by event."""
        return self._numbers.tolist(), self._held.times.tolist(), self._held.rows

    def _members(self, firing: Firing, stop: int) -> Indices:
        context = self._context
        self._track(firing.stop)
        context.time = context.reference = firing.reference
        context.count = firing.stop
        members = self._by_arrays(stop) if self._by_columns else self._one_by_one(stop)
        context.fired, context.fired_count = firing.reference, firing.stop
        if self._resets:
            call(self, "reset", self._about, context)
        return members

    def _track(self, until: int) -> None:
        """Tell the events before a number that have not been told yet."""
        record, context = self.record, self._context
        before, record.tracked = record.tracked, max(record.tracked, until)
        if not (self._tracks or self._tracks_all):
            return
        low, high = np.searchsorted(self._numbers, (before, until)).tolist()
        if low == high:
            return
        if self._tracks_all:
            events = self._held.columns(range(low, high), self._numbers[low:high])
            context.count = int(self._numbers[high - 1]) + 1
            context.time = context.reference = int(self._held.times[high - 1])
            call(self, "track_all", f"events {self._numbers[low]} to {self._numbers[high - 1]}", events, context)
            return
        numbers, times, places = self._lists
        event, track = self._event, self.policy.track
        try:
            for index in range(low, high):
                event.number, event.timestamp, event._index = numbers[index], times[index], places[index]
                context.count = numbers[index] + 1
                context.time = context.reference = times[index]
                track(event, context)
        except (Exception, SystemExit) as error:
            raise PolicyFailure(self.policy, "track", event, self.key, error) from error

    def _one_by_one(self, stop: int) -> Indices:
        retained, (numbers, times, places) = self._retained, self._lists
        retained.extend(range(self._reached, stop))
        self._reached = max(self._reached, stop)
        evict, event, context = self.policy.evict, self._event, self._context
        members, left = list[int](), list[int]()
        process, keep, expire = Action.PROCESS, Action.KEEP, Action.EXPIRE
        try:
            for place, index in enumerate(retained):
                event.number, event.timestamp, event._index = numbers[index], times[index], places[index]
                action = evict(event, context)
                if action is process:
                    members.append(index)
                    left.append(index)
                elif action is expire:
                    self.expired[index] = True
                elif action is keep:
                    left.append(index)
                elif action is Action.STOP:
                    left.extend(retained[place:])
                    break
                else:
                    said = f"it answered {action!r:.60} ({type(action).__name__}), which is no Action"
                    raise PolicyFailure(
                        self.policy, "evict", event, self.key, f"{said}: use Action.EXPIRE, PROCESS, KEEP or STOP"
                    )
        except PolicyFailure:
            raise
        except (Exception, SystemExit) as error:
            raise PolicyFailure(self.policy, "evict", event, self.key, error) from error
        self._retained = left
        return packed(np.array(members, np.int64))

    def _by_arrays(self, stop: int) -> Indices:
        asked = _with_those_behind(self._columns, self._reached, stop)
        self._reached = max(self._reached, stop)
        if not len(asked):
            return asked
        which = at(asked)
        events = self._held.columns(asked, self._numbers[which])
        try:
            actions = self.policy.evict_all(events, self._context)
        except (Exception, SystemExit) as error:
            raise PolicyFailure(self.policy, "evict_all", self._about, self.key, error) from error
        good = isinstance(actions, np.ndarray) and actions.dtype.kind in "iu" and actions.shape == (len(asked),)
        most = int(actions.max()) if good else 0
        if not good or most > _STOP or actions.min() < _EXPIRE:
            said = f"it answered {described(actions)}; the answer is an Action for each of {len(asked)} events"
            raise PolicyFailure(
                self.policy,
                "evict_all",
                self._about,
                self.key,
                f"{said}: np.where(good, Action.PROCESS, Action.EXPIRE)",
            )
        if most == _STOP:
            actions = np.where(np.arange(len(actions)) >= np.argmax(actions == _STOP), _KEEP, actions)
        left = actions != _EXPIRE
        self.expired[which] |= ~left
        self._columns = among(asked, left)
        return among(asked, actions == _PROCESS)

    @property
    def _about(self) -> str:
        """The window that is decided about, in words."""
        return f"the window that ends at {show(self._context.reference)}"


class CountedEviction(EvictionWalk):
    """``CountEvictionPolicy`` besides a trigger of a user's own: the last events up to the one that fires."""

    def _members(self, firing: Firing, stop: int) -> Indices:
        assert isinstance(self.policy, CountEvictionPolicy)
        start = int(np.searchsorted(self._numbers, firing.stop - self.policy.length.value))
        self.expired[:start] = True
        return range(start, stop)

    def clear(self) -> None:
        assert isinstance(self.policy, CountEvictionPolicy)
        least = max(self.record.count - self.record.ties, self.record.fired_count)  # a window may end before the ties
        self.expired[: int(np.searchsorted(self._numbers, least - self.policy.length.value))] = True


class TimedEviction(EvictionWalk):
    """``TimeEvictionPolicy`` besides a trigger of a user's own: the events of a length of time up to the firing."""

    def _members(self, firing: Firing, stop: int) -> Indices:
        assert isinstance(self.policy, TimeEvictionPolicy)
        self._expire(firing.reference, stop)
        held = ~self.expired[:stop]
        if self.policy.bounds is Bounds.START:
            held &= self._held.times[:stop] < firing.reference  # the others wait for the next window, as evict says
        return packed(np.flatnonzero(held))

    def clear(self) -> None:
        if self.record.time is not None:
            self._expire(self.record.time, len(self._held))

    def _expire(self, reference: int, stop: int) -> None:
        assert isinstance(self.policy, TimeEvictionPolicy)
        start = reference - self.policy.length.micros
        times = self._held.times[:stop]
        self.expired[:stop] |= times <= start if self.policy.bounds is Bounds.END else times < start


def _with_those_behind(before: Indices, start: int, stop: int) -> Indices:
    """Indices that ascend, and behind them those from ``start`` to ``stop``."""
    if start >= stop:
        return before
    if not len(before):
        return range(start, stop)
    if isinstance(before, range) and before.stop == start:
        return range(before.start, stop)
    return np.concatenate([np.asarray(before), np.arange(start, stop)])


def is_asked(policy: EvictionPolicy) -> bool:
    """True for an eviction that is asked about the events of each window; others let events expire without one."""
    built_in = isinstance(policy, CountEvictionPolicy | TimeEvictionPolicy)
    return not built_in or overrides(policy, "evict", "evict_all", "track", "track_all")


def eviction_walk(
    policy: EvictionPolicy, record: UnitRecord, key: Any, held: ToldEvents, numbers: NDArray[np.int64]
) -> EvictionWalk:
    """The walk of an eviction."""
    if is_asked(policy):
        return AskedEviction(policy, record, key, held, numbers)
    kind = CountedEviction if isinstance(policy, CountEvictionPolicy) else TimedEviction
    return kind(policy, record, key, held, numbers)
