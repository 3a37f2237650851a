"""What a trigger is told of one task, or of one key, and what it answers: a walk over events and moments (decision 96).

The trigger sees nothing of what the eviction decides, so it walks first, over all that is newly told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from manager.own_policies.unit import PolicyFailure, ToldEvents, UnitRecord, call
from policies.protocol import Fire, QueuedEvent, TriggerContext, TriggerPolicy, overrides
from policies.trigger import CountTriggerPolicy, TimeTriggerPolicy
from windowing.settings.triggers import FiredBy
from windowing.time.timestamps import FOREVER, show

if TYPE_CHECKING:
    from numpy.typing import NDArray


_BY = {
    "track": FiredBy.EVENT,
    "on_time": FiredBy.MOMENT,
    "on_arrival": FiredBy.ARRIVAL,
    "on_end": FiredBy.CLOSE,
}


@dataclass(frozen=True, slots=True)
class Firing:
    """A window for which the trigger has fired."""

    reference: int
    """Its end in microseconds."""
    stop: int
    """Number of events, since the task or key began, up to its end."""
    by: FiredBy | None = None
    """What fired it; None for a trigger that windbolt brings."""


class TriggerWalk:
    """A trigger is told of events in order, and of the moments between them; ``firings`` gathers its answers.

    ``record`` is kept up to date by ``tell``, ``fire`` and ``pass_until``, except for the context's moment.
    """

    def __init__(self, policy: TriggerPolicy, record: UnitRecord, key: Any) -> None:
        self.policy, self.record, self.key = policy, record, key
        self.firings: list[Firing] = []

    @property
    def state(self) -> Any:
        """The state of the trigger, also where a hook has put another dict in the place of it."""
        return self.record.trigger

    def tell(self, told: ToldEvents) -> None:
        """Tell events, in order, with the moments before each."""
        raise NotImplementedError

    def pass_until(self, frontier: int) -> None:
        """Tell the moments before a frontier in microseconds; FOREVER ends the streams."""
        raise NotImplementedError

    def fire(self) -> None:
        """Fire now, as an event on arrival has asked for."""
        raise NotImplementedError

    def end(self, moment: int) -> None:
        """Tell the moments up to this one, in microseconds, at which the unit is forgotten."""
        self.pass_until(moment + 1)

    def due_at(self, moment: int) -> int:
        """The least frontier at which the trigger is told of a moment; both in microseconds."""
        return moment + 1

    def _fired(self, reference: int, stop: int, by: FiredBy | None = None) -> None:
        record = self.record
        record.fired, record.fired_count = reference, max(stop, record.fired_count)
        self.firings.append(Firing(reference, record.fired_count, by))


class AskedTrigger(TriggerWalk):
    """A trigger of a user's own, which is asked about each event, or about pieces of columns, and at its moments."""

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

    def tell(self, told: ToldEvents) -> None:
        if not len(told):
            return
        if self.record.time is None:
            self.record.time = self._context.time = int(told.times[0])
        if overrides(self.policy, "track_all"):
            self._tell_pieces(told)
        else:
            self._tell_each(told)

    def fire(self) -> None:
        self._answer(True, "on_arrival", "an event on arrival", self.record.count)

    def pass_until(self, frontier: int) -> None:
        if frontier != FOREVER:
            self._pass(frontier)
            return
        asked = {self.record.next_end, self.record.wake_at}
        for moment in sorted(each for each in asked if each is not None):
            if moment in (self.record.next_end, self.record.wake_at):  # the earlier one may have replaced it
                self._moment(moment)
        self._end("the end of the streams")

    def end(self, moment: int) -> None:
        self._pass(moment + 1)
        self._come_to(moment)
        self._end(f"the end of the key at {show(moment)}")

    def _end(self, about: str) -> None:
        if self.record.count and overrides(self.policy, "on_end"):
            self._answer(call(self, "on_end", about, self._context), "on_end", about, self.record.count)
            self._note_wake("on_end", about)

    # -- event by event

    def _tell_each(self, told: ToldEvents) -> None:
        record, context, track, every = self.record, self._context, self.policy.track, self._every
        event = QueuedEvent(0, 0, told.lists, 0, told.streams)
        due, now, count = record.next_moment, context.time, context.count
        try:
            for time, place in zip(told.times.tolist(), told.rows, strict=True):
                if due is not None and due < time:
                    self._pass(time)
                    due, now = record.next_moment, context.time
                if time > now:
                    now = record.time = context.time = time
                    record.ties = 0
                record.ties = record.ties + 1 if time == now else 0
                event.number, event.timestamp, event._index = count, time, place
                count += 1
                record.count = context.count = count
                if every is not None and record.next_end is None:
                    record.next_end = self._multiple(now, every)
                    due = record.next_moment
                answer = track(event, context)
                if answer is not False:
                    self._answer(answer, "track", event, count - 1)
                if context.wake_at != self._wake:
                    self._note_wake("track", event)
                    due = record.next_moment
        except PolicyFailure:
            raise
        except (Exception, SystemExit) as error:
            raise PolicyFailure(self.policy, "track", event, self.key, error) from error

    # -- moments

    def _pass(self, until: int) -> None:
        """Tell the moments before a time, one after another."""
        due = self.record.next_moment
        while due is not None and due < until:
            self._moment(due)
            due = self.record.next_moment

    def _moment(self, moment: int) -> None:
        record, context = self.record, self._context
        if record.next_end == moment:
            record.next_end = None
        if record.wake_at == moment:
            record.wake_at = context.wake_at = self._wake = None
        self._come_to(moment)
        about = f"at {show(moment)}"
        answer = call(self, "on_time", about, moment, context)
        self._answer(answer, "on_time", about, record.count - record.ties)
        self._note_wake("on_time", about)

    def _come_to(self, moment: int) -> None:
        self.record.ties = self.record.ties if moment == self.record.time else 0
        self._context.time = self.record.time = moment

    def _multiple(self, time: int, every: int) -> int:
        """The first multiple of ``every`` at a time or after it."""
        offset = self.policy.offset.micros
        return -((offset - time) // every) * every + offset

    # -- answers

    def _answer(self, answer: Any, hook: str, about: QueuedEvent | str, before: int) -> None:
        """Take an answer; ``before`` is the number of events before the event or moment."""
        if answer is False:
            return
        record, context = self.record, self._context
        if answer is not True and answer is not Fire.BEFORE:
            said = f"it answered {answer!r:.60} ({type(answer).__name__})"
            raise PolicyFailure(
                self.policy, hook, about, self.key, f"{said}; the answers are True, False and Fire.BEFORE"
            )
        assert record.time is not None
        self._fired(record.time, record.count if answer is True else before, _BY[hook])
        context.fired, context.fired_count = record.fired, record.fired_count
        if self._resets:
            call(self, "reset", about, context)
            self._note_wake("reset", about)

    def _note_wake(self, hook: str, about: QueuedEvent | str) -> None:
        """Take the moment that the trigger has asked for."""
        wake, time = self._context.wake_at, self._context.time
        if wake == self._wake:
            return
        if wake is not None and (type(wake) is not int or wake <= time):
            said = f"wake_at was set to {wake!r:.60}; it is a whole number of microseconds, later than time, {time}"
            raise PolicyFailure(self.policy, hook, about, self.key, said)
        if hook == "track" and wake is not None and self._forget_after is not None and wake > time + self._forget_after:
            said = (
                f"wake_at was set to {show(wake)}; by then the key is forgotten (forget_after), and on_time would not "
                "be called"
            )
            raise PolicyFailure(self.policy, hook, about, self.key, said)
        self._wake = self.record.wake_at = wake

    # -- on arrays

    def _tell_pieces(self, told: ToldEvents) -> None:
        """Tell events in pieces between which no moment lies."""
        record, context, every, low = self.record, self._context, self._every, 0
        while low < len(told):
            first = int(told.times[low])
            self._pass(first)
            now = max(context.time, first)
            if every is not None and record.next_end is None:
                record.next_end = self._multiple(now, every)
            due, high = record.next_moment, len(told)
            if due is not None:
                high = max(int(np.searchsorted(told.times, due, "right")), low + 1)
            self._tell_piece(told, low, high, now)
            low = high

    def _tell_piece(self, told: ToldEvents, low: int, high: int, now: int) -> None:
        """Tell the events from index ``low`` to ``high``, whose times ascend."""
        record, context, count, size = self.record, self._context, self.record.count, high - low
        context.time, context.count = now, count
        about = f"events {count} to {count + size - 1}"
        events = told.columns(range(low, high), np.arange(count, count + size))
        fires = call(self, "track_all", about, events, context)
        if not isinstance(fires, np.ndarray) or fires.dtype != np.bool_ or fires.shape != (size,):
            said = f"it answered {described(fires)}; the answer is an array of bool, one for each of {size} events"
            raise PolicyFailure(self.policy, "track_all", about, self.key, said)
        if context.wake_at != self._wake:
            said = "it set wake_at, which is for rules that decide event by event; use every here"
            raise PolicyFailure(self.policy, "track_all", about, self.key, said)
        times, stops = told.times[low:high], np.flatnonzero(fires)
        for time, stop in zip(times[stops].tolist(), (stops + count + 1).tolist(), strict=True):
            self._fired(max(time, now), stop, FiredBy.EVENT)
        before, record.time = record.time, max(int(times[-1]), now)
        tied = size - int(np.searchsorted(times, record.time))
        record.ties = tied + (record.ties if tied == size and before == record.time else 0)
        record.count = context.count = count + size
        context.time, context.fired, context.fired_count = record.time, record.fired, record.fired_count


class CountedTrigger(TriggerWalk):
    """``CountTriggerPolicy`` besides an eviction of a user's own."""

    def __init__(self, policy: CountTriggerPolicy, record: UnitRecord, key: Any) -> None:
        super().__init__(policy, record, key)
        self._slide = policy.count.value

    def tell(self, told: ToldEvents) -> None:
        record, before = self.record, self.record.count
        record.count += len(told)
        for stop in range((before // self._slide + 1) * self._slide, record.count + 1, self._slide):
            self._fired(int(told.times[stop - before - 1]), stop)
        if len(told):
            record.time = int(told.times[-1])

    def pass_until(self, frontier: int) -> None:
        pass


class AlignedTrigger(TriggerWalk):
    """``TimeTriggerPolicy`` besides an eviction of a user's own: ends that an event of the unit lies before.

    Without a reach, each event makes the first end at or after it due; with one, all ends within the reach.
    """

    def __init__(self, policy: TimeTriggerPolicy, record: UnitRecord, key: Any, reach: int | None) -> None:
        super().__init__(policy, record, key)
        self._ends, self._reach, self._before = policy, reach, record.count
        self._times: list[NDArray[np.int64]] = []

    def tell(self, told: ToldEvents) -> None:
        if len(told):
            self._times.append(told.times)
            self.record.count += len(told)
            self.record.time = int(told.times[-1])

    def due_at(self, moment: int) -> int:
        return self._ends.due_at(moment)

    def pass_until(self, frontier: int) -> None:
        ends, record = self._ends, self.record
        limit, slide, offset = ends.last_due(frontier), ends.slide.micros, ends.offset.micros
        times = np.concatenate([np.zeros(0, np.int64), *self._times])
        first = ends.bounds.first_end(times, slide, offset)
        last = first if self._reach is None else ends.bounds.last_end(times, self._reach, slide, offset)
        low, high = first.tolist(), last.tolist()
        if record.next_end is not None and record.last_end is not None:
            low, high = [record.next_end, *low], [record.last_end, *high]
        record.next_end = record.last_end = None
        passed = -FOREVER
        for begin, end in zip(low, high, strict=True):
            due = max(begin, passed + slide)
            while due <= min(end, limit):
                stop = self._before + int(ends.bounds.up_to(times, np.array([due]))[0])
                self._fired(due, stop)
                record.time = max(due if record.time is None else record.time, due)
                passed, due = due, due + slide
            if due <= end:
                record.next_end = due if record.next_end is None else min(record.next_end, due)
                record.last_end = end if record.last_end is None else max(record.last_end, end)


def trigger_walk(
    policy: TriggerPolicy, record: UnitRecord, key: Any, reach: int | None, forget_after: int | None = None
) -> TriggerWalk:
    """The walk of a trigger; ``reach`` is that of the eviction, and after ``forget_after`` without an event the unit is
    forgotten; both in microseconds."""
    asked = overrides(policy, "track", "track_all", "on_time", "on_arrival", "on_end")
    match policy:
        case CountTriggerPolicy() if not asked:
            return CountedTrigger(policy, record, key)
        case TimeTriggerPolicy() if not asked:
            return AlignedTrigger(policy, record, key, reach)
    return AskedTrigger(policy, record, key, forget_after)


def described(answer: object) -> str:
    """An answer of a hook on arrays, in few words."""
    if isinstance(answer, np.ndarray):
        return f"an array of {answer.dtype} of shape {answer.shape}"
    return f"{answer!r:.60} ({type(answer).__name__})"
