"""Which windows there are, and which events each of them holds: one class for each way, one object for each key.

Each answers the same questions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from tests.oracles.interpreter.values import EPOCH, FOREVER, Event, Key, Over, Window, in_order, most
from windowing.daytimes import DayTime
from windowing.durations import Count, Duration
from windowing.settings import WindowSettings
from windowing.settings.kinds import Calendar, CountByStart, Hopping, Lull, Onset, Session, SlidingLog, Snapshot
from windowing.settings.rules import Aligned, Bounds, LateBy

if TYPE_CHECKING:
    from tests.oracles.interpreter.bolt import Bolt


class Kind:
    """The windows of one kind and one key."""

    def __init__(self, bolt: Bolt, key: Key, place: int) -> None:
        self.bolt, self.key, self.place = bolt, key, place
        self.rules, self.kind, self.over = bolt.rules, bolt.kinds[place], bolt.over(key)
        self.open: list[Window] = []
        self.purged: list[Event] = []
        """The events that were thrown away before they could be in a window."""

    @property
    def holds_end(self) -> bool:
        """semantics, "What each preset sets": bounds. A calendar's windows hold their start unless it is said."""
        if isinstance(self.kind, Calendar) and "bounds" not in self.rules.given and len(self.rules.kinds) == 1:
            return False
        return self.rules.bounds is Bounds.END

    # ---- an event

    def in_gap(self, event: Event) -> bool:
        """True if no window can ever hold an event of this time ("Lateness": an event in a gap between windows)."""
        return False

    def takes(self, event: Event) -> bool:
        """True if an open window would hold the event."""
        return True

    def let_in(self, event: Event) -> bool:
        """Put the event into the windows that are open for it; False if there are none."""
        if self.in_gap(event) or not self.takes(event):
            return False
        self.put(event)
        return True

    def put(self, event: Event) -> None:
        raise NotImplementedError

    def needs(self, event: Event) -> bool:
        """True if an open window may still need an event that was put here."""
        return any(event in window.events for window in self.open if not self.over(window.end))

    def cut_short(self, event: Event) -> None:
        """An event that had no end has one now; where that is its start, nothing is left of it."""

    # ---- firing

    def close(self) -> list[Window]:
        """Take out the windows that time has closed."""
        done = [window for window in self.open if self.over(window.end)]
        self.open = [window for window in self.open if window not in done]
        return done

    def now_open(self) -> list[Window]:
        """The open windows as they would fire now."""
        return self.open

    def listed(self) -> list[Window]:
        """The open windows that hold events, for who asks what a window holds at this moment."""
        return [window for window in self.now_open() if window.events and not window.shut]

    def ends(self) -> list[int]:
        """The ends of the open windows that hold events ("Idleness": only these are closed)."""
        return [window.end for window in self.now_open() if window.events]

    def remember(self, windows: list[Window]) -> None:
        """A batch is over, with these windows open."""

    def supersedes(self, window: Window, other: Window) -> bool:
        """True if the row of a window takes back that of another one."""
        return (window.start, window.end) == (other.start, other.end)

    def window(self, start: int | None, end: int, events: list[Event]) -> Window:
        return Window(start, end, events, self.key, self.place)

    # ---- repairs

    def repair(self, event: Event) -> None:
        """The event is another now, or will be taken out: what windows have shown of it does not hold."""
        for window in self.open:
            window.repaired |= event in window.events and window.fired > 0

    def take_out(self, event: Event) -> None:
        """The windows that are still to fire are as if it had never come."""
        for window in self.open:
            window.events = [each for each in window.events if each is not event]
        self.open = [window for window in self.open if window.events or window.shut]


# ---- windows whose edges are known without any event


class Fixed(Kind):
    """Tumbling, hopping and calendar windows, and snapshots of points: each window is two moments."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.lasting: dict[Event, int] = {}
        """The events without an end, each with the end of the last window that time has reached since it came."""

    def spans(self, event: Event) -> list[tuple[int, int]]:
        """Every window that holds the event, in order."""
        if isinstance(self.kind, Snapshot | Onset):  # "Bounds": for points one instant; of a join the begin of a life
            start = event.time - int(self.holds_end)
            return [(start, start + 1)]
        if event.time == FOREVER:  # the row of a window without an end
            return []
        return [span for span in self.grid(event.time, event.until) if self.holds(event, *span)]

    def holds(self, event: Event, start: int, end: int) -> bool:
        """ "Bounds": ``(start, end]`` or ``[start, end)``; what lasts is in every window that its lifetime overlaps."""
        last = event.until - 1
        return event.time <= end and last > start if self.holds_end else event.time < end and last >= start

    @property
    def anchor(self) -> int | None:
        """ "The first window": none begins before that moment."""
        anchor = self.rules.anchor
        return self.bolt.began if anchor == "start" else None if anchor is None else int(anchor)

    def grid(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The windows around two moments; "Alignment": counted from 1970 or an anchor, shifted by an offset."""
        if isinstance(self.kind, Calendar):
            yield from calendar_grid(self.kind, first, last)
            return
        length, slide = self.kind.length.micros, self.kind.slide.micros
        edge = self.rules.offset.micros
        if self.anchor is not None:
            edge += self.anchor
        elif self.rules.aligned is Aligned.ENDS:
            edge -= length
        start = edge + (first - length - edge) // slide * slide
        while start <= last:
            if self.anchor is None or start >= self.anchor:
                yield start, start + length
            start += slide

    def next_edges(self, end: int) -> tuple[int, int]:
        """The first window that ends after this moment."""
        first, ahead = end, 1
        if not isinstance(self.kind, Calendar):
            length = self.kind.length.micros
            first = end if self.anchor is None else max(end, length - 1 + self.anchor)
            ahead = length + 2 * self.kind.slide.micros
        return min(span for span in self.grid(first, first + ahead) if span[1] > end)

    def is_open(self, event: Event) -> bool:
        """True if the event has no end, so that there is no last window that holds it."""
        return event.until == FOREVER and not isinstance(self.kind, Onset)

    def in_gap(self, event: Event) -> bool:
        return not self.is_open(event) and not self.spans(event)

    def takes(self, event: Event) -> bool:
        return self.is_open(event) or bool(self.taking(event))

    def taking(self, event: Event) -> list[tuple[int, int]]:
        """The windows that hold it and have not closed, neither by time nor by a firing."""
        shut = {(window.start, window.end) for window in self.open if window.shut}
        return [span for span in self.spans(event) if not self.over(span[1]) and span not in shut]

    def put(self, event: Event) -> None:
        if self.is_open(event):
            self.lasting[event] = event.time - 1
            self.reach(event)  # windows that have closed are passed over
        else:
            for span in self.taking(event):
                self.at(span).events.append(event)

    def at(self, span: tuple[int, int]) -> Window:
        """The open window with these edges."""
        found = [window for window in self.open if (window.start, window.end) == span]
        if not found:
            found = [self.window(*span, [])]
            self.open += found
        return found[0]

    def reach(self, event: Event) -> list[tuple[int, int]]:
        """The windows that time has reached since it last asked for those of an event without an end."""
        last: Any = most(self.bolt.time(self.key), self.bolt.by_idleness, event.time)
        if self.over(FOREVER - 1):  # "Bounds": until the latest time of the bolt, or the last end known of its key
            ends = [each.until for each in self.bolt.accepted if each.key == self.key and each.shape != "end_edge"]
            known = [*(end for end in ends if end < FOREVER), self.bolt.closed_before_the_end]
            last = most(self.bolt.latest, *(end - 1 for end in known if end is not None))
        spans = self.spans(replace(event, end=last + 1))
        found = [span for span in spans if self.over(span[1]) and span[1] > self.lasting[event]]
        self.lasting[event] = max([self.lasting[event], *(end for _, end in found)])
        return found

    def close(self) -> list[Window]:
        """An event without an end is in each window that time reaches."""
        for event in self.lasting:
            for span in self.reach(event):
                self.at(span).events.append(event)
        if self.over(FOREVER - 1):
            self.lasting = {}
        return super().close()

    def cut_short(self, event: Event) -> None:
        if self.lasting.pop(event, None) is not None and event.until != event.time:
            self.put(event)

    def take_out(self, event: Event) -> None:
        super().take_out(event)
        self.lasting.pop(event, None)

    def needs(self, event: Event) -> bool:
        """guide, "Messages that come again": in a join, as long as the event lasts."""
        if isinstance(self.kind, Onset):
            return not self.over(event.until)
        return (event in self.lasting and not self.over(FOREVER - 1)) or super().needs(event)


DAYS = {"hour": 1, "day": 3, "week": 9, "month": 34, "quarter": 100, "year": 370}
"""More than a unit of the calendar has."""
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def calendar_grid(kind: Calendar, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Windows in a time zone, from well before the first time until after the last one (guide, "Other kinds")."""
    zone, reach = ZoneInfo(kind.zone), timedelta(days=kind.last * DAYS[kind.unit])
    day, end = local_day(first, zone) - reach, local_day(last, zone) + reach
    edges: set[int] = set()
    while day <= end:
        if begins_unit(kind, day):
            edges |= {local_moment(day, at, zone) for at in kind.begins or (0,)}
        day += timedelta(days=1)
    found = sorted(edges)
    if kind.unit == "hour":
        found = list(range(found[0], found[-1] + 1, 3_600_000_000))
    for start, stop in zip(found, found[kind.last :], strict=False):
        if start <= last and stop >= first:
            yield start, stop


def begins_unit(kind: Calendar, day: date) -> bool:
    if kind.unit == "week":
        return WEEKDAYS[day.weekday()] == kind.first_day
    months = {"month": 1, "quarter": 3, "year": 12}.get(kind.unit)
    return months is None or (day.day == 1 and (day.month - kind.first_month) % months == 0)


def local_day(moment: int, zone: tzinfo) -> date:
    return (EPOCH + timedelta(microseconds=moment)).astimezone(zone).date()


def local_moment(day: date, at: int, zone: tzinfo) -> int:
    """A local time; one that is skipped is taken with the offset before, one that is there twice is the first."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    return ((midnight + timedelta(microseconds=at)).astimezone(UTC) - EPOCH) // timedelta(microseconds=1)


def next_time(time: DayTime, after: int) -> int:
    """When a time of day comes next, after a moment; once a day."""
    offset = datetime.fromisoformat(f"2000-01-01T00:00{time.zone}").tzinfo if time.zone[0] in "+-" else None
    zone = offset or ZoneInfo(time.zone)
    days = [local_day(after, zone) + timedelta(days=each) for each in (-1, 0, 1, 2)]
    return min(moment for moment in (local_moment(day, time.micros, zone) for day in days) if moment > after)


# ---- sessions


class Sessions(Kind):
    """Events with less than the gap between them (guide, "Other kinds"; semantics, "Bounds" and "Ties")."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.before: list[Window] = []
        """The sessions as they were when the last batch ended, without those that have closed since."""

    def gap(self, event: Event) -> int:
        return self.kind.gap.micros if event.gap is None else event.gap

    def meet(self, start: int, end: int, other: Window) -> bool:
        """ "Ties": at the gap after the last event a new session begins, unless ``touching``."""
        if self.kind.touching:
            return bool(other.start <= end and start <= other.end)
        return bool(other.start < end and start < other.end)

    def joins(self, window: Window, event: Event) -> bool:
        """True if the event belongs to a session; one that follows a cut does not hold the moment of the cut."""
        begins = not window.follows or event.time > window.start
        return begins and self.meet(event.time, event.time + self.gap(event), window)

    def with_event(self, event: Event) -> list[Window]:
        """The open sessions with one more event: those that it joins are one (AT-6)."""
        together = [window for window in self.open if self.joins(window, event)]
        mine = self.window(event.time, event.time + self.gap(event), [event])
        for window in sorted(together, key=lambda each: each.start):
            merged = self.window(min(mine.start, window.start), max(mine.end, window.end), window.events + mine.events)
            merged.follows = window.follows if window.start <= mine.start else mine.follows
            mine = merged
        return [*(window for window in self.open if window not in together), mine]

    def cut(self, over: Over, windows: list[Window] | None = None) -> tuple[list[Window], list[Window]]:
        """Sessions that their longest duration has closed where that moment is over, and what is left (AZ-22).

        "Alignment": it is checked at its multiples since 1970. A session that has lasted longer there is closed;
        what comes within the gap after it follows from there.
        """
        waiting = sorted(self.open if windows is None else windows, key=lambda window: window.start)
        if self.kind.max_duration is None:
            return [], waiting
        closed, left = [], []
        while waiting:
            window = waiting.pop(0)
            first = min((event.time for event in window.events), default=window.start)
            check = self.checked_at(window.start, first)
            if not window.events or check >= window.end or not over(check):
                left.append(window)
                continue
            before = self.window(window.start, check, [event for event in window.events if event.time <= check])
            before.follows = window.follows
            closed.append(before)
            after = [event for event in window.events if event.time > check]
            end = max((event.time + self.gap(event) for event in after), default=check + self.kind.gap.micros)
            if waiting and self.meet(check, end, waiting[0]):
                following = waiting.pop(0)
                end, after = max(following.end, end), after + following.events
            rest = self.window(check, end, after)
            rest.follows = True
            waiting.insert(0, rest)
        return closed, left

    def parts(self) -> list[Window]:
        """The sessions as their longest duration will cut them."""
        closed, left = self.cut(lambda _: True)
        return [window for window in closed + left if window.events]

    def checked_at(self, start: int, first: int) -> int:
        """The multiple of the longest duration at which a session that has lasted longer is closed (AZ-22)."""
        longest = self.kind.max_duration.micros
        check = (start // longest + 1) * longest
        while check - start <= longest or check < first:
            check += longest
        return int(check)

    def cut_before(self, event: Event) -> bool:
        """True if the session that would hold the event was cut, and that cut has closed (guide, ``max_duration``)."""
        for window in self.open:
            if window.follows and event.time <= window.start < event.time + self.gap(event):
                return True
        closed, _ = self.cut(self.over, self.with_event(event))
        return any(event in window.events for window in closed)

    def takes(self, event: Event) -> bool:
        """ "Lateness": behind W - allowed lateness, and no open session of its key takes it; or ``by_session``."""
        if self.cut_before(event):
            return False
        if any(self.joins(window, event) for window in self.open):
            return True
        if self.rules.late_by_session:
            return not self.over(event.time + self.gap(event))
        if self.bolt.by_idleness is not None and event.time < self.bolt.by_idleness:
            return False
        watermark = self.bolt.times.watermark(self.key)
        return watermark is None or event.time >= watermark - self.rules.allowed_lateness.micros

    def let_in(self, event: Event) -> bool:
        self.open = self.with_event(event)
        return True

    def close(self) -> list[Window]:
        closed, left = self.cut(self.over)
        done = [window for window in left if self.over(window.end)]
        self.open = [window for window in left if window not in done]
        found = [self.known(window) for window in closed + done if window.events]
        self.before = [each for each in self.before if not any(window.covers(each) for window in found)]
        return found

    def now_open(self) -> list[Window]:
        """The sessions, or with a longest duration their parts, each with what is known of its firings."""
        return [self.known(window) for window in self.parts()]

    def needs(self, event: Event) -> bool:
        left = [window for window in self.cut(self.over)[1] if not self.over(window.end)]
        return any(event in window.events for window in left)

    def remember(self, windows: list[Window]) -> None:
        self.before = windows

    def supersedes(self, window: Window, other: Window) -> bool:
        return window.overlaps(other)

    def repair(self, event: Event) -> None:
        for window in self.now_open():
            for each in self.before:
                each.repaired |= event in window.events and each.fired > 0 and window.overlaps(each)

    def take_out(self, event: Event) -> None:
        held = [window for window in self.open if event in window.events]
        self.open = [window for window in self.open if window not in held]
        for other in sorted((e for window in held for e in window.events), key=lambda each: each.number):
            self.open = self.with_event(other) if other is not event else self.open

    def known(self, window: Window) -> Window:
        """ "Closing": a session goes on with the firings of all that it covers; one that holds only a part of a session
        begins anew."""
        covered = [each for each in self.before if window.covers(each)]
        there = [each for each in covered if each.end == window.end]
        window.fired = max((each.fired for each in covered), default=0)
        window.shown = {event for each in self.before for event in each.shown} & set(window.events)
        window.ended_at = most(*(each.ended_at for each in there or covered))
        window.mark = min((each.mark for each in covered if each.mark is not None), default=None)
        window.clock = min((each.clock for each in covered if each.clock is not None), default=None)
        parted = [each for each in self.before if each not in covered and window.overlaps(each)]  # by a repair
        window.repaired = any(each.repaired for each in covered) or any(each.fired for each in parted)
        return window


# ---- windows that are formed anew of all events, whenever one asks for them


class Formed(Kind):
    """Says which windows its events form, but for those that have fired."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.events: list[Event] = []
        self.done: set[Any] = set()
        """What does not fire again."""

    def formed(self) -> list[Window]:
        raise NotImplementedError

    def told(self, window: Window) -> Any:
        """What is done once a window has fired."""

    def between(self, first: int, last: int) -> list[Event]:
        return [event for event in self.events if first <= event.time <= last]

    def put(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> list[Window]:
        due = [window for window in self.formed() if self.over(window.end)]
        self.done.update(map(self.told, due))
        return sorted(due, key=lambda window: window.end)

    def now_open(self) -> list[Window]:
        return self.formed()

    def cut_short(self, event: Event) -> None:
        if event.until == event.time:
            self.take_out(event)

    def take_out(self, event: Event) -> None:
        self.events = [each for each in self.events if each is not event]


class Log(Formed):
    """The last events, at each moment at which one enters or leaves (AZ-21; decision 72)."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.moments: set[int] = set()
        self.length = self.kind.length.micros

    def formed(self) -> list[Window]:
        found = [self.window(at - self.length, at, self.between(at - self.length + 1, at)) for at in self.moments]
        return [window for window in found if window.events]

    def takes(self, event: Event) -> bool:
        """ "Lateness": the last window that could hold it is open; by window, that which it opens, or another."""
        if self.rules.late_by is LateBy.WATERMARK:
            return not self.over(event.time + self.length - 1)
        return any(not self.over(at) for at in {event.time, *self.moments} if 0 <= at - event.time < self.length)

    def put(self, event: Event) -> None:
        super().put(event)
        self.moments.update(at for at in self.moments_of(event) if not self.over(at))

    def moments_of(self, event: Event) -> tuple[int, int]:
        """When it enters, and when it leaves."""
        return event.time, event.time + self.length

    def take_out(self, event: Event) -> None:
        super().take_out(event)
        self.moments &= {at for each in self.events for at in self.moments_of(each)}

    def close(self) -> list[Window]:
        due = super().close()
        self.moments = {at for at in self.moments if not self.over(at)}
        return due

    def needs(self, event: Event) -> bool:
        return event in self.events and not self.over(event.time + self.length)  # a window ends as it leaves


class Starts(Formed):
    """Each run of so many distinct start times (SI-30; "Bounds": it ends 1 us after the last of them).

    None of the start times whose run has closed begins another, also where a repair has taken out the last event of
    that run.
    """

    def formed(self) -> list[Window]:
        times = sorted({event.time for event in self.events})
        runs = zip(times, times[self.kind.count.value - 1 :], strict=False)
        return [self.window(at, to + 1, self.between(at, to)) for at, to in runs if at not in self.done]

    def told(self, window: Window) -> Any:
        return window.start

    def needs(self, event: Event) -> bool:
        """Until the run that begins with it has closed; one that is not full at the end of the streams never is."""
        if event not in self.events or event.time in self.done:
            return False
        ends = [window.end for window in self.formed() if window.start == event.time]
        return not self.over(ends[0] if ends else FOREVER - 1)


class Lives(Formed):
    """Snapshots of events that last: the slices between the moments at which events begin or end (SI-29)."""

    def formed(self) -> list[Window]:
        edges = sorted({edge for event in self.events for edge in (event.time, event.until)})
        found = []
        for start, end in itertools.pairwise(edges):
            held = in_order(event for event in self.events if event.time <= start and end <= event.until)
            if held and not any(end <= done for done in self.done):
                found.append(self.window(start, end, held))
        return found

    def told(self, window: Window) -> Any:
        return window.end

    def takes(self, event: Event) -> bool:
        return not self.over(event.until)

    def needs(self, event: Event) -> bool:
        return event in self.events and not self.over(event.until)


class Lulls(Formed):
    """The last event before each stretch without one of its key (guide, ``Silence``)."""

    def end(self, event: Event) -> int:
        return int(event.time + self.kind.length.micros)

    def formed(self) -> list[Window]:
        ordered = in_order(self.events)
        followed = [one for one, other in itertools.pairwise(ordered) if other.time < self.end(one)]
        last = [event for event in ordered if event not in followed and event not in self.done]
        return [self.window(event.time, self.end(event), [event]) for event in last]

    def told(self, window: Window) -> Any:
        return window.events[0]

    def takes(self, event: Event) -> bool:
        return not self.over(self.end(event))

    def needs(self, event: Event) -> bool:
        """Until another event of its key has followed it, and time has passed that one; or its silence was told."""
        ordered = in_order(self.events)
        after = ordered[ordered.index(event) + 1 :]
        return event not in self.done and not any(self.over(other.time) for other in after)


# ---- Storm's windows with a count


class Counted(Formed):
    """A length or a slide in events: the events up to the watermark, in order of (time, arrival), are walked.

    guide, "Windows"; DESIGN, section 3: count slide, time slide with a count length.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.shown: set[Event] = set()
        self.slides = 0
        self.passed: int | None = None
        self.now: int | None = None
        """How far time has come; None before the first watermark."""
        self.known: set[Event] = set()
        """The events that had come then."""
        self.by_count = isinstance(self.rules.slide, Count)
        self.length: Any = self.rules.length
        slide: Any = self.rules.slide
        self.slide: int = slide.value if self.by_count else slide.micros

    @property
    def ended(self) -> bool:
        return self.now is not None and self.now >= FOREVER

    def settled(self) -> list[Event]:
        now = -FOREVER if self.now is None else self.now
        return in_order(event for event in self.events if event in self.known and event.time <= now)

    def close(self) -> list[Window]:
        now = self.bolt.time(self.key)
        if (
            self.bolt.event_time
            and now == self.now
            and not self.rules.watermark_moves_within_batch
            and not self.rules.key
        ):
            return []  # what came at the watermark is looked at once a tick has moved it
        self.now, self.known = now, set(self.events)
        found = self.at_counts() if self.by_count else self.at_ends()
        for window in found:
            self.shown.update(window.events)
        return found

    def at_counts(self) -> list[Window]:
        """Every m-th event fires, with the last n, or those of the length before it."""
        ordered, found = self.settled(), []
        while len(ordered) >= (self.slides + 1) * self.slide:
            self.slides += 1
            upto = ordered[: self.slides * self.slide]
            reference = upto[-1].time
            if isinstance(self.length, Count):
                end = reference if self.bolt.event_time else -FOREVER
                found.append(self.window(None, end, upto[-self.length.value :]))
            else:
                start = reference - self.length.micros
                found.append(self.window(start, reference, [event for event in upto if event.time > start]))
        return found

    def at_ends(self) -> list[Window]:
        """A length in events at ends in time: an end fires if it brings an event that was in no window yet."""
        found = []
        for end in sorted(end for end in set(self.ends()) if self.over(end)):  # later ones hold these events no more
            before = in_order(e for e in self.events if (e.time <= end if self.holds_end else e.time < end))
            content = before[-self.length.value :]
            self.passed = end
            if any(event not in self.shown for event in content):
                found.append(self.window(None, end, content))
                self.shown.update(content)
        if self.now is not None and not self.ended:
            past = waits_past_the_end(self.rules, [None]) if self.bolt.event_time else True
            self.passed = most(self.passed, self.now - int(past and self.holds_end))
        return found

    def first_end_after(self, time: int) -> int:
        """The first aligned end, of those that have not passed, that an event of this time comes before, or at, where
        the end belongs to windows."""
        earliest = time if self.holds_end else time + 1
        if self.passed is not None:
            earliest = max(earliest, self.passed + 1)
        return earliest + (self.rules.offset.micros - earliest) % self.slide

    def formed(self) -> list[Window]:
        return []  # they are looked at where time closes them

    def ends(self) -> list[int]:
        if self.by_count:
            full, every = in_order(self.events), self.slide
            return [full[at - 1].time for at in range((self.slides + 1) * every, len(full) + 1, every)]
        return [self.first_end_after(event.time) for event in self.events if event not in self.shown]

    def take_out(self, event: Event) -> None:
        """ "Others have their places by it": one that no window will hold again is counted on."""
        if self.needs(event):
            super().take_out(event)

    def needs(self, event: Event) -> bool:
        ordered = self.settled()
        if event not in self.events:
            return False
        if event not in ordered:
            return True
        if self.by_count and isinstance(self.length, Count):
            return ordered.index(event) >= (self.slides + 1) * self.slide - self.length.value
        if self.by_count:
            time = most(self.bolt.reached, self.bolt.latest_event) if self.ended else self.now
            return time is None or event.time > time - self.length.micros
        if self.ended:
            return False
        nearest = min(self.first_end_after(each.time) for each in ordered)
        entering = [each for each in ordered if self.first_end_after(each.time) == nearest]
        return event in entering[-self.length.value :]


def kinds_of(rules: WindowSettings) -> list[Any]:
    """The kinds of window of a bolt, in their order; a length and a slide in time are one kind."""
    if rules.kinds:
        return list(rules.kinds)
    if isinstance(rules.length, Duration) and isinstance(rules.slide, Duration):
        return [Hopping(rules.length, rules.slide)]
    return [None]


KINDS: dict[type, type[Kind]] = {
    Session: Sessions,
    SlidingLog: Log,
    CountByStart: Starts,
    Lull: Lulls,
    type(None): Counted,
}
"""How the windows of a kind are found, where their edges depend on events."""


def windows_of(bolt: Bolt, key: Key, place: int) -> Kind:
    """The windows of one kind and one key, of which there are none yet."""
    from tests.oracles.interpreter.own import Own, Triggered

    made = KINDS.get(type(bolt.kinds[place]), Fixed)
    if isinstance(bolt.kinds[place], Snapshot) and bolt.rules.lifetime is not None:
        made = Lives
    if bolt.rules.trigger is not None or bolt.rules.key_trigger is not None:
        made = Triggered if bolt.rules.trigger is None else Own
    return made(bolt, key, place)


def waits_past_the_end(rules: WindowSettings, kinds: list[Any], *, by_clock: bool = False) -> bool:
    """Whether windows close only when time is past their end ("Closing", and why Azure's close at W > end); by the
    clock also those that hold their end."""
    if all(isinstance(kind, CountByStart) for kind in kinds):
        return False  # they end just after their last event
    if kinds == [None] and isinstance(rules.slide, Count):
        return False  # they end with an event
    if rules.trigger is not None:
        return False  # a policy of a user's own is told of an event once the watermark has reached its time
    for kind in kinds:
        match kind:
            case SlidingLog():
                return True
            case Session() if kind.touching or kind.max_duration is not None:
                return True
            case Snapshot() if rules.lifetime is None and rules.bounds is Bounds.END:
                return True
    if by_clock:
        return False
    with_events = rules.watermark_every is not None or rules.estimate_arrival
    by_count = kinds == [None] and with_events
    return (rules.closes_after_end or by_count) and rules.bounds is Bounds.END
