"""Which windows there are, and which events each of them holds: one class for each way, one object for each key.

Each answers the same questions. ``over`` says whether time has closed a window with a given end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from tests.oracles.interpreter.values import EPOCH, FOREVER, Event, Key, Over, Window, in_order
from windowing.daytimes import DayTime
from windowing.durations import Count, Duration
from windowing.settings import WindowSettings
from windowing.settings.kinds import Calendar, CountByStart, Hopping, Lull, Onset, Session, SlidingLog, Snapshot
from windowing.settings.rules import Aligned, Bounds, LateBy


class Kind:
    """The windows of one kind and one key."""

    counts = False
    """Whether the number of events decides what a window is."""

    def __init__(self, rules: WindowSettings, kind: Any, key: Key, place: int, began: int) -> None:
        self.rules, self.kind, self.key, self.place, self.began = rules, kind, key, place, began
        self.open: list[Window] = []
        self.purged: list[Event] = []
        """The events that were thrown away before they could be in a window."""

    def in_gap(self, event: Event) -> bool:
        """True if no window can ever hold an event of this time ("Lateness": an event in a gap between windows)."""
        return False

    def takes(self, event: Event, over: Over) -> bool:
        """True if an open window would hold the event."""
        raise NotImplementedError

    def see(self, event: Event) -> None:
        """The event has come; it may be in a gap."""

    def put(self, event: Event, over: Over) -> None:
        """Put the event into the windows that are open for it."""
        raise NotImplementedError

    def close(self, over: Over) -> list[Window]:
        """Take out the windows that time has closed."""
        done = [window for window in self.open if over(window.end)]
        self.open = [window for window in self.open if window not in done]
        return done

    def now_open(self) -> list[Window]:
        """The open windows as they would fire now."""
        return self.open

    def listed(self) -> list[Window]:
        """The open windows that hold events, for who asks what a window holds at this moment."""
        return [window for window in self.now_open() if window.events and not window.shut]

    def remember(self, windows: list[Window]) -> None:
        """A batch is over, with these windows open."""

    def repair(self, event: Event) -> None:
        """The event is another now, or will be taken out: what windows have shown of it does not hold."""
        for window in self.open:
            window.repaired |= event in window.events and window.fired > 0

    def cut_short(self, event: Event, over: Over) -> None:
        """An event that had no end has one now; where that is its start, nothing is left of it."""

    def take_out(self, event: Event) -> None:
        """The windows that are still to fire are as if it had never come."""
        for window in self.open:
            window.events = [each for each in window.events if each is not event]
        self.open = [window for window in self.open if window.events or window.shut]

    def supersedes(self, window: Window, other: Window) -> bool:
        """True if the row of a window takes back that of another one."""
        return (window.start, window.end) == (other.start, other.end)

    def ends(self) -> list[int]:
        """The ends of the open windows that hold events ("Idleness": only these are closed)."""
        return [window.end for window in self.open if window.events]

    def needs(self, event: Event, over: Over) -> bool:
        """True if an open window may still need an event that was put here."""
        return any(event in window.events for window in self.open if not over(window.end))

    def remembers(self, event: Event, over: Over) -> bool:
        """True if the id of an event that was put here still counts (guide, "Messages that come again")."""
        return self.needs(event, over)

    def window(self, start: int | None, end: int, events: list[Event]) -> Window:
        return Window(start, end, events, self.key, self.place)


# ---- windows whose edges are known without any event


class Fixed(Kind):
    """Tumbling, hopping and calendar windows, and snapshots of points: each window is two moments."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.lasting: dict[Event, int] = {}
        """The events without an end, each with the end of the last window that time has reached since it came."""
        self.seen: list[Event] = []
        """All its events, those in gaps among them."""

    def spans(self, event: Event) -> list[tuple[int, int]]:
        """Every window that holds the event, in order."""
        if isinstance(self.kind, Snapshot | Onset):  # "Bounds": for points one instant; of a join the begin of a life
            early = 1 if self.holds_end else 0
            return [(event.time - early, event.time - early + 1)]
        return [(start, end) for start, end in self.grid(event) if self.holds(event, start, end)]

    @property
    def holds_end(self) -> bool:
        """semantics, "What each preset sets": bounds. A calendar's windows hold their start unless it is said."""
        if isinstance(self.kind, Calendar) and "bounds" not in self.rules.given and len(self.rules.kinds) == 1:
            return False
        return self.rules.bounds is Bounds.END

    def holds(self, event: Event, start: int, end: int) -> bool:
        """ "Bounds": ``(start, end]`` or ``[start, end)``; what lasts is in every window that its lifetime overlaps."""
        if event.until is not None:  # [time, until), to the microsecond, and a point is [time, time + 1us)
            last = event.until - 1
            return event.time <= end and last > start if self.holds_end else event.time < end and last >= start
        return start < event.time <= end if self.holds_end else start <= event.time < end

    def grid(self, event: Event) -> Iterator[tuple[int, int]]:
        """The windows around an event; "Alignment": counted from 1970 or an anchor, shifted by an offset."""
        last = event.time if event.until is None else event.until
        if isinstance(self.kind, Calendar):
            yield from calendar_grid(self.kind, event.time, last)
            return
        length, slide = self.kind.length.micros, self.kind.slide.micros
        edge, first = self.rules.offset.micros, None
        anchor = self.rules.anchor
        if anchor is not None:  # "The first window": none begins before that moment
            first = self.began if anchor == "start" else int(anchor)
            edge += first
        elif self.rules.aligned is Aligned.ENDS:
            edge -= length
        start = edge + (event.time - length - edge) // slide * slide
        while start <= last:
            if first is None or start >= first:
                yield start, start + length
            start += slide

    def is_open(self, event: Event) -> bool:
        """True if the event has no end, so that there is no last window that holds it."""
        return event.until == FOREVER and not isinstance(self.kind, Onset)

    def in_gap(self, event: Event) -> bool:
        return not self.is_open(event) and not self.spans(event)

    def takes(self, event: Event, over: Over) -> bool:
        return self.is_open(event) or bool(self.taking(event, over))

    def taking(self, event: Event, over: Over) -> list[tuple[int, int]]:
        """The windows that hold it and have not closed, neither by time nor by a firing."""
        shut = {(window.start, window.end) for window in self.open if window.shut}
        return [span for span in self.spans(event) if not over(span[1]) and span not in shut]

    def see(self, event: Event) -> None:
        self.seen.append(event)

    def take_out(self, event: Event) -> None:
        super().take_out(event)
        self.lasting.pop(event, None)
        self.seen = [each for each in self.seen if each is not event]

    @property
    def latest(self) -> int:
        """The latest moment at which an event is known to be."""
        return max(each.time if each.until in (None, FOREVER) else each.until - 1 for each in self.seen)

    def put(self, event: Event, over: Over) -> None:
        if self.is_open(event):
            self.lasting[event] = event.time - 1  # windows that have closed are passed over
            list(self.reach(event, over))
        else:
            for span in self.taking(event, over):
                self.at(span).events.append(event)

    def at(self, span: tuple[int, int]) -> Window:
        """The open window with these edges."""
        found = [window for window in self.open if (window.start, window.end) == span]
        if not found:
            found = [self.window(*span, [])]
            self.open += found
        return found[0]

    def reach(self, event: Event, over: Over) -> Iterator[tuple[int, int]]:
        """The windows that time has reached since it last asked for those of an event without an end."""
        if over(FOREVER - 1):  # "Bounds": an event without an end
            ended = replace(event, until=self.latest + 1)
            yield from (span for span in self.spans(ended) if span[1] > self.lasting[event])
            return
        while over((span := self.next_edges(self.lasting[event]))[1]):
            self.lasting[event] = span[1]
            if self.holds(event, *span):
                yield span

    def close(self, over: Over) -> list[Window]:
        """An event without an end is in each window that time reaches."""
        for event in self.lasting:
            for span in self.reach(event, over):
                self.at(span).events.append(event)
        if over(FOREVER - 1):
            self.lasting = {}
        return super().close(over)

    def cut_short(self, event: Event, over: Over) -> None:
        if self.lasting.pop(event, None) is not None and event.until != event.time:
            self.put(event, over)

    def needs(self, event: Event, over: Over) -> bool:
        """guide, "Messages that come again": in a join, as long as the event lasts."""
        if isinstance(self.kind, Onset):
            return not over(event.time + 1 if event.until is None else event.until)
        return (event in self.lasting and not over(FOREVER - 1)) or super().needs(event, over)

    def remembers(self, event: Event, over: Over) -> bool:
        """Until the last window of its time has ended, also where a firing has closed that before."""
        if isinstance(self.kind, Onset):
            return self.needs(event, over)
        if self.is_open(event):
            return not over(FOREVER - 1)
        return any(not over(end) for _, end in self.spans(event))

    def next_edges(self, end: int) -> tuple[int, int]:
        """The first window that ends after this moment."""
        if isinstance(self.kind, Calendar):
            return min(span for span in calendar_grid(self.kind, end, end + 1) if span[1] > end)
        first, length, slide = end, self.kind.length.micros, self.kind.slide.micros
        if self.rules.anchor is not None:
            first = max(end, length - 1 + (self.began if self.rules.anchor == "start" else int(self.rules.anchor)))
        probe = Event("", first, 0, until=first + length + 2 * slide)
        return min(span for span in self.grid(probe) if span[1] > end)


def calendar_grid(kind: Calendar, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Windows in a time zone, from well before the first time until after the last one (guide, "Other kinds")."""
    zone = ZoneInfo(kind.zone)
    reach = kind.last * {"hour": 1, "day": 3, "week": 9, "month": 34, "quarter": 100, "year": 370}[kind.unit]
    begin = (EPOCH + timedelta(microseconds=first)).astimezone(zone).date() - timedelta(days=reach)
    end = (EPOCH + timedelta(microseconds=last)).astimezone(zone).date() + timedelta(days=reach)
    edges: set[int] = set()
    day = begin
    while day <= end:
        if begins_unit(kind, day):
            for at in kind.begins or (0,):
                edges.add(local_moment(day, at, zone))
        day += timedelta(days=1)
    found = sorted(edges)
    if kind.unit == "hour":
        found = list(range(found[0], found[-1] + 1, 3_600_000_000))
    for start, stop in zip(found, found[kind.last :], strict=False):
        if start <= last and stop >= first:
            yield start, stop


def begins_unit(kind: Calendar, day: date) -> bool:
    weekdays = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    match kind.unit:
        case "week":
            return weekdays[day.weekday()] == kind.first_day
        case "month":
            return day.day == 1
        case "quarter":
            return day.day == 1 and (day.month - kind.first_month) % 3 == 0
        case "year":
            return day.day == 1 and day.month == kind.first_month
    return True


def local_moment(day: date, at: int, zone: tzinfo) -> int:
    """A local time; one that is skipped is taken with the offset before, one that is there twice is the first."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    return ((midnight + timedelta(microseconds=at)).astimezone(UTC) - EPOCH) // timedelta(microseconds=1)


def next_time(time: DayTime, after: int) -> int:
    """When a time of day comes next, after a moment; once a day."""
    offset = datetime.fromisoformat(f"2000-01-01T00:00{time.zone}").tzinfo if time.zone[0] in "+-" else None
    zone = offset or ZoneInfo(time.zone)
    day = (EPOCH + timedelta(microseconds=after)).astimezone(zone).date()
    moments = [local_moment(day + timedelta(days=each), time.micros, zone) for each in (-1, 0, 1, 2)]
    return min(moment for moment in moments if moment > after)


# ---- sessions


class Sessions(Kind):
    """Events with less than the gap between them (guide, "Other kinds"; semantics, "Bounds" and "Ties")."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.before: list[Window] = []
        """The sessions as they were when the last batch ended."""

    def gap(self, event: Event) -> int:
        return self.kind.gap.micros if event.gap is None else event.gap

    def joins(self, window: Window, event: Event) -> bool:
        """ "Ties": at the gap after the last event a new session begins, unless ``touching``."""
        assert window.start is not None
        if window.follows and event.time <= window.start:
            return False
        if self.kind.touching:
            return window.start <= event.time + self.gap(event) and event.time <= window.end
        return window.start < event.time + self.gap(event) and event.time < window.end

    def with_event(self, event: Event) -> list[Window]:
        """The open sessions with one more event: those that it joins are one (AT-6)."""
        together = [window for window in self.open if self.joins(window, event)]
        mine = self.window(event.time, event.time + self.gap(event), [event])
        for window in sorted(together, key=lambda each: each.start or 0):
            assert mine.start is not None
            assert window.start is not None
            merged = self.window(min(mine.start, window.start), max(mine.end, window.end), window.events + mine.events)
            merged.follows = window.follows if window.start <= mine.start else mine.follows
            merged.behind = window.behind + mine.behind
            mine = merged
        return [*(window for window in self.open if window not in together), mine]

    def cut(self, windows: list[Window], over: Over) -> tuple[list[Window], list[Window]]:
        """Sessions that their longest duration has closed where that moment is over, and what is left (AZ-22).

        "Alignment": it is checked at its multiples since 1970. A session that has lasted longer there is closed;
        what comes within the gap after it follows from there.
        """
        waiting = sorted(windows, key=lambda window: window.start or 0)
        if self.kind.max_duration is None:
            return [], waiting
        closed, left = [], []
        while waiting:
            window = waiting.pop(0)
            assert window.start is not None
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
            rest = self.window(check, end, after)
            alone = self.checked_at(first, first) == check  # else it shows only with those behind it where it was cut
            rest.follows, rest.behind = True, before.events if alone else window.behind + before.events
            if waiting and self.touches(rest, waiting[0]):
                following = waiting.pop(0)
                behind = rest.behind + following.behind
                rest = self.window(check, max(following.end, end), [*after, *following.events])
                rest.follows, rest.behind = True, behind
            waiting.insert(0, rest)
        return closed, left

    def checked_at(self, start: int, first: int) -> int:
        """The multiple of the longest duration at which a session that has lasted longer is closed (AZ-22)."""
        assert self.kind.max_duration is not None
        longest = self.kind.max_duration.micros
        check = (start // longest + 1) * longest
        while check - start <= longest or check < first:
            check += longest
        return int(check)

    def touches(self, rest: Window, following: Window) -> bool:
        assert following.start is not None
        return following.start <= rest.end if self.kind.touching else following.start < rest.end

    def cut_before(self, event: Event, over: Over) -> bool:
        """True if the session that would hold the event was cut, and that cut has closed (guide, ``max_duration``)."""
        for window in self.open:
            if (
                window.follows
                and window.start is not None
                and event.time <= window.start < event.time + self.gap(event)
            ):
                return True
        closed, _ = self.cut(self.with_event(event), over)
        return any(event in window.events for window in closed)

    def takes(self, event: Event, over: Over) -> bool:
        """ "Lateness", an event is late, Atlas, without the watermark: see ``late_for_sessions``."""
        return not self.cut_before(event, over)

    def put(self, event: Event, over: Over) -> None:
        self.open = self.with_event(event)

    def close(self, over: Over) -> list[Window]:
        closed, left = self.cut(self.open, over)
        done = [window for window in left if over(window.end)]
        self.open = [window for window in left if window not in done]
        return [self.known(window) for window in closed + done if window.events]

    def now_open(self) -> list[Window]:
        """The sessions, or with a longest duration their parts, each with what is known of its firings."""
        closed, left = self.cut(self.open, lambda _: True) if self.kind.max_duration is not None else ([], self.open)
        return [self.known(window) for window in closed + left if window.events]

    def remember(self, windows: list[Window]) -> None:
        self.before = windows

    def repair(self, event: Event) -> None:
        for window in self.now_open():
            for each in self.before:
                each.repaired |= event in window.events and each.fired > 0 and window.overlaps(each)

    def take_out(self, event: Event) -> None:
        held = [window for window in self.open if event in window.events]
        self.open = [window for window in self.open if window not in held]
        for other in sorted((e for window in held for e in window.events), key=lambda each: each.number):
            self.open = self.with_event(other) if other is not event else self.open

    def supersedes(self, window: Window, other: Window) -> bool:
        return window.overlaps(other)

    def known(self, window: Window) -> Window:
        """ "Closing": a session goes on with the firings of all that it covers; one that holds only a part of a session
        begins anew."""
        assert window.start is not None
        covered = [each for each in self.before if window.covers(each)]
        crossed = [each for each in self.before if each not in covered and window.overlaps(each)]
        window.fired = max((each.fired for each in covered), default=0)
        window.shown = {event for each in self.before for event in each.shown} & set(window.events)
        there = [each for each in covered if each.end == window.end]
        window.ended_at = max((each.ended_at for each in there or covered if each.ended_at is not None), default=None)
        window.mark = min((each.mark for each in covered if each.mark is not None), default=None)
        window.clock = min((each.clock for each in covered if each.clock is not None), default=None)
        window.repaired = any(each.repaired for each in covered)
        grown = len(window.shown) < len(window.events)
        moved = [each for each in covered if each.fired and (each.start, each.end) != (window.start, window.end)]
        window.parts_of_shown = any(each.fired for each in crossed) or (bool(moved) and not grown)
        return window

    def ends(self) -> list[int]:
        closed, left = self.cut(self.open, lambda _: True)
        return [window.end for window in closed + left if window.events]

    def needs(self, event: Event, over: Over) -> bool:
        left = [window for window in self.cut(self.open, over)[1] if not over(window.end)]
        return any(event in window.events or event in window.behind for window in left)


# ---- windows at the moments at which events enter and leave


class Listed(Kind):
    """Windows that are formed anew of all events, whenever one asks for them."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.events: list[Event] = []

    def cut_short(self, event: Event, over: Over) -> None:
        if event.until == event.time:
            self.take_out(event)

    def take_out(self, event: Event) -> None:
        self.events = [each for each in self.events if each is not event]

    def put(self, event: Event, over: Over) -> None:
        self.events.append(event)


class Log(Listed):
    """The last events, at each moment at which one enters or leaves (AZ-21; decision 72)."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.moments: set[int] = set()
        self.done: set[int] = set()

    def content(self, at: int) -> list[Event]:
        return [event for event in self.events if at - self.kind.length.micros < event.time <= at]

    def takes(self, event: Event, over: Over) -> bool:
        """ "Lateness": the last window that could hold it is open; by window, that which it opens, or another."""
        length = self.kind.length.micros
        if self.rules.late_by is LateBy.WATERMARK:
            return not over(event.time + length - 1)
        held = [at for at in self.moments - self.done if event.time <= at < event.time + length and not over(at)]
        return not over(event.time) or bool(held)

    def put(self, event: Event, over: Over) -> None:
        super().put(event, over)
        self.moments.update(at for at in self.moments_of(event) if not over(at))

    def moments_of(self, event: Event) -> tuple[int, int]:
        """When it enters, and when it leaves."""
        return event.time, event.time + self.kind.length.micros

    def take_out(self, event: Event) -> None:
        super().take_out(event)
        self.moments &= {at for each in self.events for at in self.moments_of(each)}

    def close(self, over: Over) -> list[Window]:
        due = sorted(at for at in self.moments - self.done if over(at))
        self.done.update(due)
        return [self.window(at - self.kind.length.micros, at, self.content(at)) for at in due if self.content(at)]

    def listed(self) -> list[Window]:
        return [self.window(at - self.kind.length.micros, at, self.content(at)) for at in self.ends()]

    def ends(self) -> list[int]:
        return [at for at in self.moments - self.done if self.content(at)]

    def needs(self, event: Event, over: Over) -> bool:
        return event in self.events and not over(event.time + self.kind.length.micros)  # a window ends as it leaves


class Starts(Listed):
    """Each run of so many distinct start times (SI-30; "Bounds": it ends 1 us after the last of them)."""

    counts = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.done: set[int] = set()
        """The start times whose run has closed: none of them begins another, also where a repair has taken out the last
        event of that run."""

    def runs(self) -> list[tuple[int, int]]:
        times, count = sorted({event.time for event in self.events}), self.kind.count.value
        return [(times[at], times[at + count - 1]) for at in range(len(times) - count + 1)]

    def takes(self, event: Event, over: Over) -> bool:
        return True

    def content(self, first: int, last: int) -> list[Event]:
        return [event for event in self.events if first <= event.time <= last]

    def close(self, over: Over) -> list[Window]:
        due = [(first, last) for first, last in self.runs() if first not in self.done and over(last + 1)]
        self.done.update(first for first, _ in due)
        return [self.window(first, last + 1, self.content(first, last)) for first, last in due]

    def listed(self) -> list[Window]:
        runs = [(first, last) for first, last in self.runs() if first not in self.done]
        return [self.window(first, last + 1, self.content(first, last)) for first, last in runs]

    def ends(self) -> list[int]:
        return [window.end for window in self.listed()]

    def needs(self, event: Event, over: Over) -> bool:
        """Until the run that begins with it has closed; one that is not full at the end of the streams never is."""
        if event not in self.events or event.time in self.done:
            return False
        last = [last for first, last in self.runs() if first == event.time]
        return not over(last[0] + 1 if last else FOREVER - 1)


class Lives(Listed):
    """Snapshots of events that last: the slices between the moments at which events begin or end (SI-29)."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.done: list[tuple[int, int]] = []

    def life(self, event: Event) -> tuple[int, int]:
        return event.time, event.time + 1 if event.until is None else event.until

    def slices(self) -> list[Window]:
        lives = [(*self.life(event), event) for event in self.events]
        edges = sorted({edge for start, end, _ in lives for edge in (start, end)})
        found = []
        for start, end in itertools.pairwise(edges):
            held = in_order(event for begin, finish, event in lives if begin <= start and end <= finish)
            if held and all(end > done_start or start >= done_end for done_start, done_end in self.done):
                found.append(self.window(start, end, held))
        return [window for window in found if not any(window.start < end for _, end in self.done)]  # type: ignore[operator]

    def takes(self, event: Event, over: Over) -> bool:
        return not over(self.life(event)[1])

    def close(self, over: Over) -> list[Window]:
        due = [window for window in self.slices() if over(window.end)]
        self.done += [(window.start or 0, window.end) for window in due]
        return due

    def listed(self) -> list[Window]:
        return self.slices()

    def ends(self) -> list[int]:
        return [window.end for window in self.slices()]

    def needs(self, event: Event, over: Over) -> bool:
        return event in self.events and not over(self.life(event)[1])


class Lulls(Listed):
    """The last event before each stretch without one of its key (guide, ``Silence``)."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.told: set[Event] = set()

    def end(self, event: Event) -> int:
        return int(event.time + self.kind.length.micros)

    def lulls(self) -> list[Event]:
        ordered = in_order(self.events)
        followed = itertools.pairwise(ordered)
        last = [one for one, other in followed if other.time >= self.end(one)] + ordered[-1:]
        return [event for event in last if event not in self.told]

    def takes(self, event: Event, over: Over) -> bool:
        return not over(self.end(event))

    def close(self, over: Over) -> list[Window]:
        due = [event for event in self.lulls() if over(self.end(event))]
        self.told.update(due)
        return [self.window(event.time, self.end(event), [event]) for event in due]

    def ends(self) -> list[int]:
        return [self.end(event) for event in self.lulls()]

    def needs(self, event: Event, over: Over) -> bool:
        """Until another event of its key has followed it, and time has passed that one; or its silence was told."""
        ordered = in_order(self.events)
        after = ordered[ordered.index(event) + 1 :]
        return event not in self.told and not any(over(other.time) for other in after)


# ---- Storm's windows with a count


class Counted(Listed):
    """A length or a slide in events: the events up to the watermark, in order of (time, arrival), are walked.

    guide, "Windows"; DESIGN, section 3: count slide, time slide with a count length.
    """

    counts = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.shown: set[Event] = set()
        self.slides = 0
        self.passed: int | None = None
        self.now: int | None = None
        """How far time has come; None before the first watermark."""
        self.last_time: int | None = None
        """How far time had come when the streams ended."""
        self.length, self.slide = self.rules.length, self.rules.slide

    @property
    def event_time(self) -> bool:
        return self.rules.reads_timestamps

    @property
    def holds_end(self) -> bool:
        return self.rules.bounds is Bounds.END

    def settled(self) -> list[Event]:
        return in_order(event for event in self.events if self.now is not None and event.time <= self.now)

    def takes(self, event: Event, over: Over) -> bool:
        return True

    def close(self, over: Over) -> list[Window]:
        found = self.at_counts() if isinstance(self.slide, Count) else self.at_ends(over)
        for window in found:
            self.shown.update(window.events)
        return found

    def at_counts(self) -> list[Window]:
        """Every m-th event fires, with the last n, or those of the length before it."""
        assert isinstance(self.slide, Count)
        ordered, found = self.settled(), []
        while len(ordered) >= (self.slides + 1) * self.slide.value:
            self.slides += 1
            upto = ordered[: self.slides * self.slide.value]
            reference = upto[-1].time
            if isinstance(self.length, Count):
                end = reference if self.event_time else -FOREVER
                found.append(self.window(None, end, upto[-self.length.value :]))
            else:
                assert isinstance(self.length, Duration)
                start = reference - self.length.micros
                found.append(self.window(start, reference, [event for event in upto if event.time > start]))
        return found

    def take_out(self, event: Event) -> None:
        """ "Others have their places by it": one that no window will hold again is counted on."""
        if self.needs(event, lambda end: False):
            super().take_out(event)

    def first_end_after(self, time: int) -> int:
        """The first aligned end, of those that have not passed, that an event of this time comes before, or at, where
        the end belongs to windows."""
        assert isinstance(self.slide, Duration)
        least = time if self.holds_end else time + 1
        if self.passed is not None:
            least = max(least, self.passed + 1)
        return least + (self.rules.offset.micros - least) % self.slide.micros

    def at_ends(self, over: Over) -> list[Window]:
        """A length in events at ends in time: an end fires if it brings an event that was in no window yet."""
        assert isinstance(self.length, Count)
        found = []
        fresh = {self.first_end_after(event.time) for event in self.events if event not in self.shown}
        for end in sorted(end for end in fresh if over(end)):  # later ends hold these events no more than the first
            before = in_order(e for e in self.events if (e.time <= end if self.holds_end else e.time < end))
            content = before[-self.length.value :]
            self.passed = end
            if any(event not in self.shown for event in content):
                found.append(self.window(None, end, content))
                self.shown.update(content)
        if self.now is not None and self.now < FOREVER:
            past = waits_past_the_end(self.rules, [None]) if self.event_time else True
            passed = self.now - 1 if past and self.holds_end else self.now
            self.passed = passed if self.passed is None else max(passed, self.passed)
        return found

    def ends(self) -> list[int]:
        if isinstance(self.slide, Count):
            full, every = in_order(self.events), self.slide.value
            return [full[at - 1].time for at in range((self.slides + 1) * every, len(full) + 1, every)]
        return [self.first_end_after(event.time) for event in self.events if event not in self.shown]

    def needs(self, event: Event, over: Over) -> bool:
        if event not in self.events:
            return False
        ordered = self.settled()
        if event not in ordered:
            return True
        if isinstance(self.slide, Count):
            if isinstance(self.length, Count):
                upto = (self.slides + 1) * self.slide.value
                return ordered.index(event) >= upto - self.length.value
            assert isinstance(self.length, Duration)
            assert self.now is not None
            time = self.now if self.now < FOREVER else self.last_time
            return time is None or event.time > time - self.length.micros
        if self.now is not None and self.now >= FOREVER:
            return False
        assert isinstance(self.length, Count)
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


def windows_of(rules: WindowSettings, kind: Any, key: Key, place: int, began: int) -> Kind:
    """The windows of one kind and one key, of which there are none yet."""
    from tests.oracles.interpreter.own import Own, Triggered

    if rules.trigger is not None:
        return Own(rules, kind, key, place, began)
    if rules.key_trigger is not None:
        return Triggered(rules, kind, key, place, began)
    match kind:
        case Session():
            made: type[Kind] = Sessions
        case SlidingLog():
            made = Log
        case CountByStart():
            made = Starts
        case Snapshot():
            made = Fixed if rules.lifetime is None else Lives
        case Lull():
            made = Lulls
        case None:
            made = Counted
        case _:
            made = Fixed
    return made(rules, kind, key, place, began)


def waits_past_the_end(rules: WindowSettings, kinds: list[Any]) -> bool:
    """Whether windows close only when time is past their end ("Closing", and why Azure's close at W > end)."""
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
            case Session():
                if kind.touching or kind.max_duration is not None:
                    return True
            case Snapshot():
                if rules.lifetime is None and rules.bounds is Bounds.END:
                    return True
    with_events = rules.watermark_every is not None or rules.estimate_arrival
    by_count = kinds == [None] and with_events
    return (rules.closes_after_end or by_count) and rules.bounds is Bounds.END
