"""What windbolt must answer, worked out the slow and obvious way.

``answer(scenario)`` reads a scenario of one bare bolt with one task and gives the answer that the semantics
demand. It shares no code with windbolt and knows no trick: every event that was let in stays in one list for
ever, and each window is built from that whole list by its definition. Property tests hold the real thing
against it.

Times are integer microseconds inside, milliseconds at the edges. ``+infinity`` is the watermark, or the clock,
of a closed bolt.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]
Time = float | int  # whole microseconds, or an infinity

SCENARIO_KEYS = {"name", "meta", "bolt", "streams", "steps", "expect"}
BOLT_KEYS = {"length", "sliding", "tumbling", "timestamp_field", "lag", "late_stream", "bounds", "offset"}
UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OTHER_ACCOUNTS = ("early", "dropped", "duplicate", "invalid", "purged")  # no setting that the oracle knows fills them


def answer(scenario: Json) -> Json:
    """The whole answer to a scenario: windows, late, watermarks, pending and counts."""
    _refuse_unknown(scenario, SCENARIO_KEYS, "scenario")
    run = _Run(_Bolt.read(scenario["bolt"]), tuple(scenario.get("streams", ["s1"])))
    for step in scenario["steps"]:
        run.take(step)
        run.check_the_accounts()
    return run.answer()


def microseconds(time: Any) -> int:
    """A time of a scenario file, a number of milliseconds or an ISO 8601 text, in microseconds since 1970."""
    if isinstance(time, str):
        moment = datetime.fromisoformat(time)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return (moment - EPOCH) // timedelta(microseconds=1)
    if isinstance(time, bool) or not isinstance(time, int | float):
        raise ValueError(f"not a time: {time!r}")
    return time * 1000 if isinstance(time, int) else round(time * 1000)


def milliseconds(time: int) -> int | float:
    """Microseconds as an answer shows them: whole milliseconds, or a fraction where they are not whole."""
    return time // 1000 if time % 1000 == 0 else time / 1000


def duration(text: str) -> int:
    """``"150us"``, ``"20ms"``, ``"5s"`` … in microseconds."""
    match = re.fullmatch(r"(-?\d+)(us|ms|s|m|h|d)", text)
    if match is None:
        raise ValueError(f"not a duration: {text!r}")
    return int(match[1]) * UNITS[match[2]]


def _refuse_unknown(mapping: Json, known: set[str], what: str) -> None:
    unknown = set(mapping) - known
    if unknown:
        raise ValueError(f"the oracle does not know these keys of a {what}: {sorted(unknown)}")


@dataclass(frozen=True)
class _Bolt:
    """The settings. A length or a slide is either a count or a time; the other one is None."""

    length_count: int | None
    length_time: int | None
    slide_count: int | None
    slide_time: int | None
    timestamp_field: str | None
    lag: int
    end_is_in: bool
    offset: int

    @classmethod
    def read(cls, bolt: Json) -> _Bolt:
        _refuse_unknown(bolt, BOLT_KEYS, "bolt")
        length = bolt["length"]
        slide = length if bolt.get("tumbling") else bolt.get("sliding", 1)
        bounds = bolt.get("bounds", "(start, end]")
        if bounds not in ("(start, end]", "[start, end)"):
            raise ValueError(f"not bounds: {bounds!r}")
        return cls(
            length_count=length if isinstance(length, int) else None,
            length_time=duration(length) if isinstance(length, str) else None,
            slide_count=slide if isinstance(slide, int) else None,
            slide_time=duration(slide) if isinstance(slide, str) else None,
            timestamp_field=bolt.get("timestamp_field"),
            lag=duration(bolt.get("lag", "0ms")),
            end_is_in=bounds == "(start, end]",
            offset=duration(bolt.get("offset", "0ms")),
        )

    @property
    def in_event_time(self) -> bool:
        return self.timestamp_field is not None

    def first_end_after(self, ts: int) -> int:
        """The first aligned end that an event of this time comes before (or at, where the end is in)."""
        assert self.slide_time is not None
        end = ts - (ts - self.offset) % self.slide_time  # the aligned time at ts or before it
        while not self.comes_before_end(ts, end):
            end += self.slide_time
        return end

    def comes_before_end(self, ts: int, end: int) -> bool:
        return ts <= end if self.end_is_in else ts < end

    def comes_after_start(self, ts: int, start: int) -> bool:
        return ts > start if self.end_is_in else ts >= start

    def ends_that_hold(self, ts: int) -> list[int]:
        """Every aligned end whose window of time holds this time; none for a time in a gap."""
        assert self.slide_time is not None
        assert self.length_time is not None
        ends = []
        end = self.first_end_after(ts)
        while self.comes_after_start(ts, end - self.length_time):
            ends.append(end)
            end += self.slide_time
        return ends


@dataclass(frozen=True)
class _Event:
    id: str
    ts: int
    arrival: int


@dataclass
class _Run:
    bolt: _Bolt
    streams: tuple[str, ...]
    clock: Time = -math.inf  # processing time; +inf once closed
    watermark: Time = -math.inf  # event time; the last one emitted, -inf before the first, +inf once closed
    closed: bool = False
    last_time: Time = -math.inf  # how far time had come when the bolt was closed
    closed_at: Time = -math.inf  # the same, or when the end came to be known by the clock if that is later
    latest: dict[str, int] = field(default_factory=dict)  # of each stream that has delivered
    received: list[_Event] = field(default_factory=list)
    accepted: list[_Event] = field(default_factory=list)
    late: list[_Event] = field(default_factory=list)
    in_gaps: list[_Event] = field(default_factory=list)  # of windows of time: known when they arrive
    windowed: set[_Event] = field(default_factory=set)
    given_up: set[_Event] = field(default_factory=set)  # everything that was unwindowed after any step
    fired: list[Json] = field(default_factory=list)
    last_window: list[_Event] = field(default_factory=list)
    passed: Time = -math.inf  # the aligned ends up to here have been passed, fired or empty
    slides_done: int = 0  # of a count slide
    watermarks: list[int | None] = field(default_factory=list)

    # ---- the steps

    def take(self, step: Json) -> None:
        if self.closed:
            raise ValueError(f"a step after close: {step}")
        match step:
            case {"event": event, **rest}:
                _refuse_unknown(rest, {"stream", "clock"}, "step")
                if "clock" in rest:
                    self.move_clock(microseconds(rest["clock"]))
                self.receive(event, rest.get("stream", self.streams[0] if len(self.streams) == 1 else None))
            case {"tick": "watermark"}:
                self.tick()
            case {"close": True, **rest}:
                self.close(microseconds(rest["clock"]) if "clock" in rest else -math.inf)
            case {"clock": time}:
                self.move_clock(microseconds(time))
            case {"crash": True}:
                pass  # what was not committed is delivered again: no difference to be seen
            case _:
                raise ValueError(f"not a step: {step}")

    def receive(self, fields: Json, stream: str | None) -> None:
        if stream not in self.streams:
            raise ValueError(f"not one of the streams {self.streams}: {stream!r}")
        event = _Event(fields["id"], self.time_of(fields), arrival=len(self.received))
        self.received.append(event)
        if self.is_late(event.ts):
            self.late.append(event)
        elif self.no_window_can_hold(event.ts):
            self.in_gaps.append(event)
        else:
            self.accepted.append(event)
        # A late event counts as delivered, but it can never lift its stream's maximum above the watermark.
        self.latest[stream] = max(event.ts, self.latest.get(stream, event.ts))
        if not self.bolt.in_event_time:
            self.fire_count_slides()

    def time_of(self, fields: Json) -> int:
        if self.bolt.timestamp_field is not None:
            return microseconds(fields[self.bolt.timestamp_field])
        if not isinstance(self.clock, int):
            raise ValueError(f"an event in processing time before the clock was ever set: {fields}")
        return self.clock

    def is_late(self, ts: int) -> bool:
        if not self.bolt.in_event_time or ts > self.watermark:
            return False
        if ts < self.watermark:
            return True
        if self.bolt.length_time is None or self.bolt.slide_time is None:
            return False
        ends = self.bolt.ends_that_hold(ts)
        return bool(ends) and ends[-1] == self.watermark

    def no_window_can_hold(self, ts: int) -> bool:
        if self.bolt.length_time is None or self.bolt.slide_time is None:
            return False
        return not self.bolt.ends_that_hold(ts)

    def tick(self) -> None:
        if not self.bolt.in_event_time or len(self.latest) < len(self.streams):
            self.watermarks.append(None)
            return
        watermark = min(self.latest.values()) - self.bolt.lag
        if watermark <= self.watermark:
            self.watermarks.append(None)
            return
        self.watermarks.append(watermark)
        self.watermark = watermark
        self.fire()

    def move_clock(self, time: int) -> None:
        if time < self.clock:
            raise ValueError(f"the clock cannot go back to {time}")
        self.clock = time
        if not self.bolt.in_event_time:
            self.fire()

    def close(self, clock: Time) -> None:
        """The end of the streams; ``clock``: when it comes to be known, for a bolt by the clock."""
        self.last_time = max([self.now, *(event.ts for event in self.received)])
        self.closed_at = max(self.last_time, clock)
        self.closed = True
        self.watermark = self.clock = math.inf
        self.fire()

    @property
    def now(self) -> Time:
        """How far the bolt's own time has come."""
        return self.watermark if self.bolt.in_event_time else self.clock

    # ---- windows

    def fire(self) -> None:
        if self.bolt.slide_time is None:
            self.fire_count_slides()
        else:
            self.fire_time_slides()

    def settled(self) -> list[_Event]:
        """The accepted events that nothing can come before any more, in the order of the queue."""
        return in_order(event for event in self.accepted if event.ts <= self.now)

    def is_due(self, end: int) -> bool:
        # In processing time an end that is in waits for the clock to be past it, so that events of that instant are.
        reached = self.bolt.in_event_time or not self.bolt.end_is_in
        return end <= self.now if reached else end < self.now

    def fire_count_slides(self) -> None:
        """Every m-th event of those in order fires."""
        if self.bolt.slide_count is None:
            return
        ordered = self.settled()
        while len(ordered) >= (self.slides_done + 1) * self.bolt.slide_count:
            self.slides_done += 1
            up_to_it = ordered[: self.slides_done * self.bolt.slide_count]
            reference = up_to_it[-1].ts
            if self.bolt.length_count is not None:
                end = reference if self.bolt.in_event_time else None
                self.emit(None, end, up_to_it[-self.bolt.length_count :])
            else:
                assert self.bolt.length_time is not None
                start = reference - self.bolt.length_time
                self.emit(start, reference, [event for event in up_to_it if event.ts > start])

    def fire_time_slides(self) -> None:
        """Every aligned end that is due, has not been passed, and has something to show fires."""
        for end in self.ends_to_look_at():
            if end <= self.passed or not self.is_due(end):
                continue
            self.passed = end
            before_end = self.accepted_before(end)
            if self.bolt.length_count is not None:
                content = before_end[-self.bolt.length_count :]
                if any(event not in self.windowed for event in content):
                    self.emit(None, end, content)
            else:
                assert self.bolt.length_time is not None
                start = end - self.bolt.length_time
                content = [event for event in before_end if self.bolt.comes_after_start(event.ts, start)]
                if content:
                    self.emit(start, end, content)
        # The empty ends have been passed as well.
        reached = self.bolt.in_event_time or not self.bolt.end_is_in
        self.passed = max(self.passed, self.now if reached else self.now - 1)

    def accepted_before(self, end: int) -> list[_Event]:
        return in_order(event for event in self.accepted if self.bolt.comes_before_end(event.ts, end))

    def ends_to_look_at(self) -> list[int]:
        """Every end that could have something to show; there are endlessly many others."""
        ends = set()
        for event in self.accepted:
            if self.bolt.length_time is not None:
                ends.update(self.bolt.ends_that_hold(event.ts))
            elif event not in self.windowed:
                # Later ends would hold it no more than the first one does: what pushed it out stays before it.
                ends.add(self.first_end_to_come_after(event.ts))
        return sorted(ends)

    def first_end_to_come_after(self, ts: int) -> int:
        end = self.bolt.first_end_after(ts)
        while end <= self.passed:  # the event came at the watermark, after that end had been passed
            assert self.bolt.slide_time is not None
            end += self.bolt.slide_time
        return end

    def emit(self, start: int | None, end: int | None, content: list[_Event]) -> None:
        assert content, "an empty window never fires"
        self.fired.append(
            {
                "start": None if start is None else milliseconds(start),
                "end": None if end is None else milliseconds(end),
                "events": ids(content),
                "new": ids(event for event in content if event not in self.last_window),
                "expired": ids(event for event in self.last_window if event not in content),
            }
        )
        self.last_window = content
        self.windowed.update(content)

    # ---- the accounts

    def unwindowed(self) -> list[_Event]:
        """The events that were let in, have been in no window, and that no window to come can hold."""
        never_shown = [event for event in self.out_of_reach() if event not in self.windowed]
        return in_order([*self.in_gaps, *never_shown])

    def out_of_reach(self) -> list[_Event]:
        settled = self.settled()
        bolt = self.bolt
        if bolt.slide_count is not None and bolt.length_count is not None:
            # Of every m events only the last n are in the window; places in the order are final once settled.
            gap = bolt.slide_count - bolt.length_count
            return [event for place, event in enumerate(settled) if place % bolt.slide_count < gap]
        if bolt.slide_count is not None:
            assert bolt.length_time is not None
            time = self.closed_at if self.closed else self.now
            return [event for event in settled if event.ts <= time - bolt.length_time]
        if bolt.length_count is not None:
            # Of the settled events that come before every end to come, the last n push the others out. All do, but
            # in processing time with the end out: the end at the very clock has not fired, and ends before them.
            if self.closed:
                return settled
            entering = [event for event in settled if self.first_end_to_come_after(event.ts) == self.next_end()]
            return entering[: -bolt.length_count]
        return []  # time by time: all but the events in gaps get into a window

    def next_end(self) -> int:
        """The first aligned end that has not been passed."""
        assert isinstance(self.passed, int)
        assert self.bolt.slide_time is not None
        return self.passed + self.bolt.slide_time - (self.passed - self.bolt.offset) % self.bolt.slide_time

    def pending(self) -> list[_Event]:
        out = {*self.late, *self.windowed, *self.unwindowed()}
        return in_order(event for event in self.received if event not in out)

    def counts(self) -> dict[str, int]:
        accounts = {
            "windowed": len(self.windowed),
            "late": len(self.late),
            "unwindowed": len(self.unwindowed()),
            "pending": len(self.pending()),
            **dict.fromkeys(OTHER_ACCOUNTS, 0),
        }
        return {"received": len(self.received), **accounts}

    def check_the_accounts(self) -> None:
        """Every event is in exactly one account, and never comes back from one it cannot leave."""
        counts = self.counts()
        assert counts["received"] == sum(counts.values()) - counts["received"], counts
        unwindowed = set(self.unwindowed())
        assert self.given_up <= unwindowed, "an event came back that no window could hold"
        assert not unwindowed & (self.windowed | set(self.late))
        assert not self.windowed & set(self.late)
        self.given_up = unwindowed
        if self.closed and self.bolt.slide_time is not None:
            assert not self.pending(), "ends of time fire on close until nothing is left"

    def answer(self) -> Json:
        return {
            "windows": self.fired,
            "late": ids(self.late),
            "watermarks": [None if time is None else milliseconds(time) for time in self.watermarks],
            "pending": ids(self.pending()),
            "counts": self.counts(),
        }


def in_order(events: Any) -> list[_Event]:
    """The order of the queue; in processing time, as the clock never goes back, that is the order of arrival."""
    return sorted(events, key=lambda event: (event.ts, event.arrival))


def ids(events: Any) -> list[str]:
    return [event.id for event in events]
