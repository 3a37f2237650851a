"""What windbolt must answer where watermarks come with events, worked out the slow and obvious way.

``answer(scenario)`` reads a scenario of one bare bolt whose watermark is made at events (``watermark_every``, a preset
of Atlas, StreamInsight or Azure, substreams) and takes one event after the other in order of arrival. It shares no
code with windbolt, and knows no batches: where they end must not matter. ``window_oracle.py`` is its elder brother,
for watermarks that come at ticks; where inputs are combined by other rules than the least of all, or events have
arrival times, this one knows marks at ticks as well (``watermark_every`` of "ticks").

Times are integer microseconds inside, milliseconds at the edges; None is a watermark that there is not yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.oracles.window_oracle import duration, microseconds, milliseconds

Json = dict[str, Any]
Key = tuple[str | None, ...] | None
Input = tuple[str, str | None]
"""A stream, and the partition on it."""

NEVER = 1 << 62
"""As many events as never come."""
TICKS = "ticks"
"""Marks are made at ticks, and not at events."""

RULES: Json = {
    "bounds": "(start, end]",
    "aligned": "ends",
    "closes_after_end": False,
    "every": None,
    "field": None,
    "lag": 0,
    "over": "min",
    "imports": {},
    "imports_beside": False,
    "estimate_arrival": False,
    "idle_timeout": None,
    "idle_rule": "after_window_end",
    "partition_idle_timeout": None,
    "close_fires": True,
    "late_by": "watermark",
    "late_by_session": False,
    "late_per_input": False,
    "late": "divert",
    "allowed_lateness": 0,
    "arrival": None,
    "early": None,
    "late_arrival": None,
    "late_arrival_action": "adjust",
}
"""Storm's rules; presets change them, and settings of the bolt change presets."""


def answer(scenario: Json) -> Json:
    """The whole answer to a scenario: windows, events, late, counts, pending and clocks."""
    return _run(scenario).answer()


def _run(scenario: Json) -> Run:
    run = Run(read_rules(scenario["bolt"]), scenario["bolt"], tuple(scenario.get("streams", ["s1"])))
    clocks = [step.get("clock", step.get("arrival")) for step in scenario["steps"] if {"clock", "arrival"} & set(step)]
    run.clock = microseconds(clocks[0]) if clocks else 0
    run.began = run.looked_at = run.clock
    run.exist(scenario.get("partitions"))
    for step in scenario["steps"]:
        run.take(step)
        run.check_the_accounts()
    return run


def in_gaps(scenario: Json) -> set[str]:
    """The events that are let in and lie between windows."""
    run = _run(scenario)
    return set(ids(run.unwindowed))


# ---- the settings


def read_rules(bolt: Json) -> Json:
    """What a preset and the single settings of a bolt come to."""
    rules = {**RULES, **_preset(bolt.get("preset"))}
    for name in ("bounds", "closes_after_end", "imports_beside", "estimate_arrival", "close_fires", "late", "late_by",
                 "late_by_session", "late_per_input"):  # fmt: skip
        if bolt.get(name) is not None:
            rules[name] = bolt[name]
    for name in ("lag", "allowed_lateness", "idle_timeout", "partition_idle_timeout"):
        if bolt.get(name) is not None:
            rules[name] = duration(bolt[name])
    if bolt.get("idle_rule") is not None:
        rules["idle_rule"] = bolt["idle_rule"]
    if bolt.get("watermark_combine") is not None:
        rules["over"] = bolt["watermark_combine"]
    if bolt.get("imports") is not None:
        rules["imports"] = bolt["imports"]
    if bolt.get("watermark_every") is not None:
        rules["every"] = bolt["watermark_every"]
    if bolt.get("watermark_field") is not None:
        rules["field"] = bolt["watermark_field"]
        rules["every"] = NEVER if rules["every"] is None else rules["every"]
    if bolt.get("substreams") is not None and rules["every"] is None:
        rules["every"] = 1
    if (arrival := bolt.get("arrival")) is not None:
        rules["arrival"] = arrival.get("field")
        rules["early"] = _optional(arrival.get("early"))
        rules["late_arrival"] = _optional(arrival.get("late"))
        rules["late_arrival_action"] = arrival.get("action", "adjust")
    if isinstance(rules["every"], str) and rules["every"] != TICKS:
        rules["every"] = ("time", duration(rules["every"]))
    if rules["every"] is None:
        raise ValueError("the oracle knows watermarks at events only")
    return rules


def _optional(text: str | None) -> int | None:
    return None if text is None else duration(text)


def _preset(preset: Any) -> Json:
    if preset is None:
        return {}
    ((name, given),) = ({preset: {}} if isinstance(preset, str) else preset).items()
    starts = {"bounds": "[start, end)", "aligned": "starts"}
    match name:
        case "storm":
            return {"lag": duration(given.get("lag", "0s"))}
        case "atlas":
            return {
                **starts,
                "every": 1,
                "late_by": "window",
                "allowed_lateness": duration(given.get("allowed_lateness", "3s")),
                "idle_timeout": _optional(given.get("idle_timeout")),
                "idle_rule": given.get("idle_rule", "after_window_end"),
                "partition_idle_timeout": _optional(given.get("partition_idle_timeout")),
            }
        case "streaminsight":
            every, delay = given.get("every", 1), given.get("delay", "0s")
            action = given.get("policy", "drop")
            return {
                **starts,
                "every": NEVER if every is None else every,
                "field": given.get("field"),
                "lag": duration(delay),
                "late_per_input": True,
                "late": "cut" if action == "adjust" else action,
                "imports": given.get("imports") or {},
                "close_fires": given.get("to_infinity", False),
            }
        case "increasing_start_time":
            return _preset({"streaminsight": {"to_infinity": True}})
        case "strictly_increasing_start_time":
            return _preset({"streaminsight": {"to_infinity": True, "delay": "-1us"}})
        case "azure":
            action = given.get("action", "adjust")
            late = _optional(given.get("late", "5s"))
            return {
                "aligned": "starts",
                "closes_after_end": True,
                "every": 1,
                "lag": duration(given.get("out_of_order", "0s")),
                "arrival": given.get("arrival_field"),
                "early": _optional(given.get("early", "5m")),
                "late_arrival": late,
                "late_arrival_action": action,
                "late": action,
                "estimate_arrival": late is not None,
                "late_per_input": True,
            }
    raise ValueError(f"the oracle does not know the preset {name!r}")


# ---- the state


@dataclass(frozen=True)
class Event:
    """An event that was let in, with the time that it was assigned."""

    id: str
    time: int
    number: int
    key: Key


@dataclass
class Mark:
    """How far an input, a partition of one, or a key has come."""

    mark: int | None = None
    events: int = 0
    """Since the last mark was made."""
    since: int | None = None
    """The time of the event that made the last mark, or of the first event."""
    arrived: int = 0
    """The clock at the last event."""
    delivered: bool = False
    latest: int | None = None
    """The latest time of its events, for marks at ticks."""


@dataclass
class Window:
    """A window that is open, and the events in it."""

    start: int
    end: int
    events: list[Event] = field(default_factory=list)
    follows: bool = False
    """Whether it is a session that begins where the clock closed another one, and does not hold that moment."""


@dataclass
class Formed:
    """The windows of one key and one kind."""

    kind: Json
    key: Key
    place: int
    open: list[Window] = field(default_factory=list)
    moments: set[int] = field(default_factory=set)
    """Of a sliding log: when its content changes."""
    events: list[Event] = field(default_factory=list)
    """Of a sliding log and of a count: all events."""
    done: set[int] = field(default_factory=set)
    """The moments, or the ends, that have been given out."""
    last: list[Event] = field(default_factory=list)


@dataclass
class Run:
    rules: Json
    bolt: Json
    streams: tuple[str, ...]
    clock: int = 0
    began: int = 0
    watermarks: dict[Key, int] = field(default_factory=dict)
    """Of the bolt under None; with substreams of each key."""
    marks: dict[Any, Mark] = field(default_factory=dict)
    """Of inputs and partitions; with substreams of keys."""
    awaited: dict[str, Mark] = field(default_factory=dict)
    """Of inputs of which nothing is known."""
    closed_by_idleness: int | None = None
    """The end of the last window that the idle timeout closed."""
    last_arrival: int | None = None
    latest_arrival: tuple[int, int] | None = None
    """The latest time of arrival, and the clock at the last event."""
    events_since_clock: bool = False
    closed: bool = False
    formed: dict[tuple[Key, int], Formed] = field(default_factory=dict)
    received: list[str] = field(default_factory=list)
    accepted: list[Event] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)
    adjusted: list[str] = field(default_factory=list)
    unwindowed: set[Event] = field(default_factory=set)
    windowed: set[Event] = field(default_factory=set)
    fired: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    clocks: list[int | None] = field(default_factory=list)
    looked_at: int = 0
    """The clock by which inputs are idle: a batch that begins later may bring events of them."""
    ticks: list[int | None] = field(default_factory=list)
    """The watermark after each tick."""

    def __post_init__(self) -> None:
        self.kinds = kinds_of(self.bolt)
        self.substreams = tuple(self.bolt.get("substreams") or ())
        self.key = self.substreams or tuple(self.bolt.get("key") or ())

    def exist(self, partitions: Any) -> None:
        """The partitions that exist hold the watermark before they deliver (AT-20, AZ-18)."""
        for stream in self.streams:
            names = partitions.get(stream, []) if isinstance(partitions, dict) else partitions or []
            for name in names:
                self.marks[stream, f"={name}"] = Mark(arrived=self.began)
            if not names:
                self.awaited[stream] = Mark(arrived=self.began)

    # ---- steps

    def take(self, step: Json) -> None:
        if self.closed:
            raise ValueError(f"a step after close: {step}")
        match step:
            case {"event": event, **rest}:
                if "arrival" in rest:
                    self.clock = microseconds(rest["arrival"])
                if "clock" in rest and microseconds(rest["clock"]) > self.clock:
                    self.move_clock_to_event(microseconds(rest["clock"]))
                    self.looked_at = self.clock
                self.receive(event, rest.get("stream", self.streams[0] if len(self.streams) == 1 else None))
            case {"clock": time}:
                self.move_clock(microseconds(time))
                self.clocks.append(self.watermark(None))
            case {"tick": "watermark"}:
                self.end_batch()
            case {"crash": True}:
                pass  # a process ends, which makes no difference
            case {"close": True}:
                self.closed = True
                if self.rules["close_fires"]:
                    for key in {None, *self.watermarks, *(each.key for each in self.formed.values())}:
                        self.watermarks[key] = NEVER
                    self.fire()
            case _:
                raise ValueError(f"not a step: {step}")

    def move_clock_to_event(self, clock: int) -> None:
        """What is due before an event comes; at the very instant of an idle timeout the event is first (AT-17)."""
        timeouts = self.rules["idle_timeout"], self.rules["partition_idle_timeout"]
        self.move_clock(clock - 1 if any(each is not None for each in timeouts) else clock)
        self.clock = clock

    def end_batch(self) -> None:
        """A micro-batch ends: marks at ticks are made, and inputs that brought nothing may be idle now."""
        self.looked_at = self.clock
        if self.rules["every"] == TICKS:
            for where, mark in self.marks.items():
                if mark.latest is not None and self.makes_marks(where):
                    self.lift(mark, mark.latest - self.rules["lag"])
        if not self.substreams:
            self.follow_marks()
        self.ticks.append(self.watermark(None))

    def move_clock(self, clock: int) -> None:
        moved = clock > self.clock
        self.clock = self.looked_at = max(self.clock, clock)
        if moved or not self.events_since_clock:
            self.look_at_the_clock()
        self.events_since_clock = False

    def look_at_the_clock(self) -> None:
        """Nothing came, and time has passed."""
        if self.rules["partition_idle_timeout"] is not None:
            self.follow_marks()
        if self.rules["estimate_arrival"] and self.latest_arrival is not None:
            arrival, clock = self.latest_arrival
            estimate = arrival + (self.clock - clock) - self.rules["late_arrival"]
            for key in self.marks if self.substreams else [None]:
                self.raise_watermark(key, estimate)
            if not self.substreams:
                for mark in (*self.marks.values(), *self.awaited.values()):
                    self.lift(mark, estimate)
            self.fire()
        if self.rules["idle_timeout"] is not None:
            self.close_idle()

    def close_idle(self) -> None:
        """Close windows that hold events, and take the watermark to the end of the last of them (AT-17 to AT-19)."""
        if self.last_arrival is None:
            return
        timeout, last = self.rules["idle_timeout"], self.last_arrival
        due = []
        for formed in self.formed.values():
            for end in self.open_ends(formed):
                when = max(end, last) + timeout
                if self.rules["idle_rule"] == "max_remaining":
                    when = max(end, last + timeout)
                if when <= self.clock:
                    due.append(end)
        if due:
            self.closed_by_idleness = max(due)
            self.raise_watermark(None, max(due))
            self.fire()

    def open_ends(self, formed: Formed) -> list[int]:
        """The ends of the windows that hold events and have not fired."""
        if formed.kind["is"] == "sliding_log":
            return [moment for moment in formed.moments - formed.done if self.content_of_log(formed, moment)]
        closed, remaining = checked(formed.kind, formed.open, lambda check: True)
        return [window.end for window in closed + remaining if window.events]

    # ---- an event

    def receive(self, fields: Json, stream: str | None) -> None:
        if stream not in self.streams:
            raise ValueError(f"not one of the streams {self.streams}: {stream!r}")
        self.events_since_clock = True
        key = tuple(_text(fields.get(name)) for name in self.key) if self.key else None
        where: Any = key if self.substreams else self.input_of(fields, stream)
        if self.rules["field"] is not None and fields.get(self.rules["field"]) is not None:
            mark = self.mark_of(where)
            self.lift(mark, microseconds(fields[self.rules["field"]]))
            mark.arrived, mark.delivered = self.clock, True
            self.follow_marks()
            self.note(fields["id"], None, "watermark", where)
            return
        self.received.append(fields["id"])
        self.last_arrival = self.clock
        if fields.get(self.bolt["timestamp_field"]) is None:
            self.invalid.append(fields["id"])
            self.touch(where)
            self.follow_marks(key if self.substreams else None)
            self.note(fields["id"], None, "invalid", where)
            return
        own = microseconds(fields[self.bolt["timestamp_field"]])
        arrived = self.clock if self.rules["arrival"] is None else microseconds(fields[self.rules["arrival"]])
        latest = arrived if self.latest_arrival is None else max(arrived, self.latest_arrival[0])
        self.latest_arrival = latest, self.clock
        time, action = self.judge(own, arrived, key, where)
        self.pass_time(where)
        turned_away_by_arrival = self.is_late_by_arrival(own, arrived) and self.rules["late_arrival_action"] != "adjust"
        if action in ("early", "dropped_late") or (action == "late" and turned_away_by_arrival):
            self.touch(where)  # one that is adjusted, and late all the same, counts as any other late event does
        else:
            self.count(where, own if time is None or (self.overtakes and action != "adjusted_late") else time)
        match action:
            case "early":
                self.early.append(fields["id"])
            case "late":
                self.late.append(fields["id"])
            case "dropped_late" | "dropped_out_of_order":
                self.dropped.append(fields["id"])
            case _:
                assert time is not None
                if action != "accepted":
                    self.adjusted.append(fields["id"])
                found = self.let_in(Event(fields["id"], time, len(self.received), key))
                if not found and self.is_queue and action == "accepted":
                    action = "unwindowed"
        self.follow_marks(key if self.substreams else None)
        self.note(fields["id"], None if action == "late" else time, action, where)

    def judge(self, own: int, arrived: int, key: Key, where: Any) -> tuple[int | None, str]:
        """The time that an event is assigned, and what was decided: early, then late, then out of order (AZ-14)."""
        rules = self.rules
        if rules["early"] is not None and own - arrived > rules["early"]:
            return None, "early"
        time, action = own, "accepted"
        if self.is_late_by_arrival(own, arrived):
            match rules["late_arrival_action"]:
                case "adjust":
                    time, action = arrived - rules["late_arrival"], "adjusted_late"
                case "drop":
                    return None, "dropped_late"
                case _:
                    return None, "late"
        if not self.is_late(time, key, where):
            return time, action
        match rules["late"]:
            case "divert":
                return None, "late"
            case "drop" | "cut":  # points are not cut (SI-13)
                return None, "dropped_out_of_order"
            case "adjust":
                reference, watermark = self.reference(key, where), self.watermark(key)
                if self.overtakes and (reference is None or self.closed_at(reference, key)):
                    assert watermark is not None
                    reference = watermark if reference is None else max(reference, watermark)
                assert reference is not None
                time = reference
                if self.is_late(time, key, where):
                    time += 1
                assert not self.is_late(time, key, where)
                return time, "adjusted_out_of_order"
        raise ValueError(rules["late"])

    def is_late_by_arrival(self, own: int, arrived: int) -> bool:
        return self.rules["late_arrival"] is not None and arrived - own > self.rules["late_arrival"]

    def reference(self, key: Key, where: Any) -> int | None:
        """What an event is late against: the mark of its own input, or the watermark."""
        watermark = self.watermark(key)
        if not self.rules["late_per_input"] or self.substreams:
            return watermark
        mark = self.mark_before(where)
        if self.overtakes:
            return mark
        return mark if watermark is None else watermark if mark is None else max(mark, watermark)

    def is_late(self, time: int, key: Key, where: Any) -> bool:
        if self.rules["late_by"] == "window":
            return all(self.has_no_place(kind, time, key) for kind in self.kinds) and any(
                not is_in_gap(kind, self.rules, time) for kind in self.kinds
            )
        reference = self.reference(key, where)
        if self.overtakes and (reference is None or time >= reference):
            return self.closed_at(time, key)
        if reference is None or time > reference:
            return False
        if time < reference:
            return True
        return self.closed_at(time, key)

    @property
    def by_partition(self) -> bool:
        return self.bolt.get("watermark_partition") is not None

    @property
    def overtakes(self) -> bool:
        """Whether an event behind the watermark is let in that is in order by its own mark, and has an open window."""
        rules = self.rules
        unknown = self.by_partition or rules["partition_idle_timeout"] is not None
        one_by_one = rules["late_per_input"] and rules["late_by"] == "watermark" and not self.substreams
        aligned = all(kind["is"] == "hopping" for kind in self.kinds)
        return one_by_one and unknown and rules["over"] == "min" and aligned

    def closed_at(self, time: int, key: Key) -> bool:
        """Whether windows hold an event of this time, and all of them are over: one at the very watermark is late."""
        ends = [last_end(kind, self.rules, time) for kind in self.kinds if not is_in_gap(kind, self.rules, time)]
        return bool(ends) and all(end is not None and self.is_over(end, key) for end in ends)

    def has_no_place(self, kind: Json, time: int, key: Key) -> bool:
        """Whether no window of a kind can take an event of this time."""
        if is_in_gap(kind, self.rules, time):
            return True
        if kind["is"] == "session":
            sessions = self.formed.get((key, kind["place"]), Formed(kind, key, 0)).open
            if self.is_closed_by_the_clock(kind, sessions, time, key):
                return True
            if any(joins(kind, window, time) for window in sessions):
                return False
            if self.rules["late_by_session"]:  # it would open one, which is over
                return self.is_over(time + kind["gap"], key)
            watermark = self.watermark(key)
            over = self.closed_by_idleness is not None and time + kind["gap"] <= self.closed_by_idleness
            return over or (watermark is not None and time < watermark - self.rules["allowed_lateness"])
        if kind["is"] == "sliding_log":
            formed = self.formed.get((key, kind["place"]))
            moments = set() if formed is None else formed.moments - formed.done
            held = any(time <= moment < time + kind["length"] and not self.is_over(moment, key) for moment in moments)
            return self.is_over(time, key) and not held
        end = last_end(kind, self.rules, time)
        assert end is not None
        return self.is_over(end, key)

    def is_closed_by_the_clock(self, kind: Json, sessions: list[Window], time: int, key: Key) -> bool:
        """Whether the session that would hold an event of this time lasted too long, and its check is over."""
        if any(window.follows and window.start - kind["gap"] < time <= window.start for window in sessions):
            return True
        mine = Event("", time, NEVER, key)
        closed, _ = checked(kind, put_together(kind, sessions, mine), lambda check: self.is_over(check, key))
        return any(mine in window.events for window in closed)

    def let_in(self, event: Event) -> bool:
        """Put an event into the windows that are open for it; whether there are any."""
        self.accepted.append(event)
        found = False
        for kind in self.kinds:
            formed = self.formed.setdefault((event.key, kind["place"]), Formed(kind, event.key, kind["place"]))
            found = self.put(formed, event) or found
        if not found:
            self.unwindowed.add(event)
        return found

    def put(self, formed: Formed, event: Event) -> bool:
        kind = formed.kind
        match kind["is"]:
            case "hopping" | "snapshot":
                spans = [
                    span for span in spans_of(kind, self.rules, event.time) if not self.is_over(span[1], event.key)
                ]
                for start, end in spans:
                    window = next((each for each in formed.open if (each.start, each.end) == (start, end)), None)
                    if window is None:
                        window = Window(start, end)
                        formed.open.append(window)
                    window.events.append(event)
                return bool(spans)
            case "session":
                formed.open = put_together(kind, formed.open, event)
                return True
            case "sliding_log":
                formed.events.append(event)
                moments = (event.time, event.time + kind["length"])
                formed.moments.update(moment for moment in moments if not self.is_over(moment, event.key))
                return True
            case "count_by_start":
                formed.events.append(event)
                return True
        raise ValueError(kind)

    @property
    def is_queue(self) -> bool:
        """Whether windows are Storm's, of a queue of events: they know which events were in the window before."""
        if "length" not in self.bolt or self.key:
            return False
        return self.rules["late_by"] == "watermark" or self.kinds[0]["slide"] >= self.kinds[0]["length"]

    @property
    def holds_its_end(self) -> bool:
        return self.rules["bounds"] == "(start, end]"

    # ---- watermarks

    def input_of(self, fields: Json, stream: str) -> Input:
        partition = self.bolt.get("watermark_partition")
        return stream, None if partition is None else f"={_text(fields.get(partition))}"

    def mark_of(self, where: Any) -> Mark:
        """The mark of an input, partition or key, which is known from now on."""
        if where not in self.marks and not self.substreams:
            awaited = self.awaited.pop(where[0], None)
            if awaited is not None and not self.by_partition:
                self.marks[where] = awaited
        return self.marks.setdefault(where, Mark())

    def mark_before(self, where: Any) -> int | None:
        """How far an input or partition is before an event of it."""
        if where in self.marks:
            return self.marks[where].mark
        return self.awaited[where[0]].mark if where[0] in self.awaited and not self.by_partition else None

    def touch(self, where: Any) -> None:
        """An event came that says nothing about time; it makes no partition known (AZ-4)."""
        if self.by_partition and where not in self.marks:
            return
        mark = self.mark_of(where)
        mark.arrived = self.clock

    def pass_time(self, where: Any) -> None:
        """Others than the one that an event is of can bring nothing from before what the arrivals say (AZ-5)."""
        if not self.rules["estimate_arrival"] or self.substreams or self.latest_arrival is None:
            return
        floor = self.latest_arrival[0] - self.rules["late_arrival"]
        for of, mark in self.marks.items():
            if of != where:
                self.lift(mark, floor)
        for stream, mark in self.awaited.items():
            if stream != where[0]:
                self.lift(mark, floor)

    def count(self, where: Any, time: int) -> None:
        """Make a mark, if an event completes the number or the span (SI-5, SI-6)."""
        mark = self.mark_of(where)
        mark.arrived, mark.delivered = self.clock, True
        mark.events += 1
        mark.latest = time if mark.latest is None else max(mark.latest, time)
        every = self.rules["every"]
        if every == TICKS:
            return
        if isinstance(every, int):
            made = mark.events >= every
        else:
            mark.since = time if mark.since is None else mark.since
            made = time - mark.since >= every[1]
        if made:
            mark.events, mark.since = 0, time
            if self.makes_marks(where):
                self.lift(mark, time - self.rules["lag"])

    def makes_marks(self, where: Any) -> bool:
        """An input that imports makes none of its own, unless it is to do both (SI-16)."""
        return self.substreams != () or where[0] not in self.rules["imports"] or self.rules["imports_beside"]

    def lift(self, mark: Mark, to: int) -> None:
        mark.mark = to if mark.mark is None else max(mark.mark, to)

    def follow_marks(self, key: Key = None) -> None:
        """Take the watermark to where the marks are."""
        if self.substreams:
            mark = self.marks[key].mark if key in self.marks else None
            if mark is not None:
                self.raise_watermark(key, mark)
            self.fire()
            return
        for taker, giver in self.rules["imports"].items():
            given = [mark.mark for (stream, _), mark in self.marks.items() if stream == giver and mark.mark is not None]
            if given:
                self.lift(self.marks.setdefault((taker, None), Mark()), min(given))
        marks: list[int | None] = []
        for stream in self.streams:
            parts = [mark for (of, _), mark in self.marks.items() if of == stream]
            if not parts:
                parts = [self.awaited.get(stream, Mark(arrived=self.began))]
            timeout = self.rules["partition_idle_timeout"]
            if timeout is not None:
                parts = [mark for mark in parts if self.looked_at - mark.arrived < timeout]
            marks += [mark.mark for mark in parts]
        known = [mark for mark in marks if mark is not None]
        if self.rules["over"] == "max" and known:
            self.raise_watermark(None, max(known))
        elif known and len(known) == len(marks):
            self.raise_watermark(None, min(known))
        self.fire()

    def watermark(self, key: Key) -> int | None:
        return self.watermarks.get(key if self.substreams else None)

    def raise_watermark(self, key: Key, to: int) -> None:
        self.watermarks[key] = max(to, self.watermarks.get(key, to))

    # ---- windows

    def is_over(self, end: int, key: Key) -> bool:
        if self.closed_by_idleness is not None and end <= self.closed_by_idleness:
            return True
        watermark = self.watermark(key)
        if watermark is None:
            return False
        reached = watermark - self.rules["allowed_lateness"]
        return reached > end if self.waits_for_ties else reached >= end

    @property
    def waits_for_ties(self) -> bool:
        """Whether windows are over only when the watermark is past their end: an event there may still be in them."""
        past = self.rules["closes_after_end"] and self.holds_its_end
        if any(kind["is"] == "snapshot" for kind in self.kinds):
            past = self.holds_its_end
        at_its_end = ("touching", "longest")
        return past or any(
            kind["is"] == "sliding_log" or any(kind.get(name) for name in at_its_end) for kind in self.kinds
        )

    def fire(self) -> None:
        """Everything that is over, in order of end and start."""
        due = []
        for formed in self.formed.values():
            match formed.kind["is"]:
                case "sliding_log":
                    due += [(window, formed) for window in self.due_of_log(formed)]
                case "count_by_start":
                    due += [(window, formed) for window in self.due_of_counts(formed)]
                case _:
                    due += [(window, formed) for window in self.due_of_spans(formed)]
        for window, formed in sorted(due, key=lambda each: (each[0].end, each[0].start, each[1].place)):
            content = in_order(window.events)
            self.fired.append(
                {
                    "start": milliseconds(window.start),
                    "end": milliseconds(window.end),
                    "events": ids(content),
                    "new": ids(event for event in content if event not in self.windowed),
                    "expired": ids(event for event in formed.last if event not in content) if self.is_queue else [],
                    "key": None if formed.key is None else formed.key[0] if len(formed.key) == 1 else [*formed.key],
                    **({} if len(self.kinds) == 1 else {"kind": formed.place}),
                }
            )
            formed.last = content
            self.windowed.update(content)
        if self.closed and self.rules["close_fires"]:
            self.unwindowed.update(event for event in self.accepted if event not in self.windowed)

    def due_of_spans(self, formed: Formed) -> list[Window]:
        closed, remaining = checked(formed.kind, formed.open, lambda check: self.is_over(check, formed.key))
        over = [window for window in remaining if self.is_over(window.end, formed.key)]
        formed.open = [window for window in remaining if window not in over]
        return [window for window in closed + over if window.events]

    def due_of_log(self, formed: Formed) -> list[Window]:
        due = []
        for moment in sorted(formed.moments - formed.done):
            if self.is_over(moment, formed.key):
                formed.done.add(moment)
                content = self.content_of_log(formed, moment)
                if content:
                    due.append(Window(moment - formed.kind["length"], moment, content))
        return due

    def content_of_log(self, formed: Formed, moment: int) -> list[Event]:
        return [event for event in formed.events if moment - formed.kind["length"] < event.time <= moment]

    def due_of_counts(self, formed: Formed) -> list[Window]:
        starts, due = sorted({event.time for event in formed.events}), []
        for at in range(len(starts) - formed.kind["count"] + 1):
            first, last = starts[at], starts[at + formed.kind["count"] - 1]
            if last + 1 not in formed.done and self.is_over(last + 1, formed.key):
                formed.done.add(last + 1)
                due.append(Window(first, last + 1, [event for event in formed.events if first <= event.time <= last]))
        return due

    # ---- the answer

    def note(self, name: str, time: int | None, action: str, where: Any) -> None:
        mark, watermark = self.marks[where].mark if where in self.marks else None, self.watermark(None)
        self.events.append(
            {
                "id": name,
                "time": None if time is None else milliseconds(time),
                "action": action,
                "watermark": None if watermark is None else milliseconds(watermark),
                "mark": None if mark is None else milliseconds(mark),
            }
        )

    def pending(self) -> list[str]:
        return ids(event for event in self.accepted if event not in self.windowed and event not in self.unwindowed)

    def counts(self) -> dict[str, int]:
        return {
            "received": len(self.received),
            "windowed": len(self.windowed),
            "late": len(self.late),
            "early": len(self.early),
            "dropped": len(self.dropped),
            "duplicate": 0,
            "invalid": len(self.invalid),
            "unwindowed": len(self.unwindowed),
            "purged": 0,
            "adjusted": len(self.adjusted),
            "truncated": 0,  # times of scenarios are whole microseconds
            "pending": len(self.pending()),
        }

    def check_the_accounts(self) -> None:
        """Every event is in exactly one."""
        counts = self.counts()
        assert counts["received"] == sum(counts.values()) - counts["received"] - counts["adjusted"], counts
        assert not self.windowed & self.unwindowed

    def answer(self) -> Json:
        return {
            "windows": self.fired,
            "late": self.late,
            "pending": self.pending(),
            "counts": self.counts(),
            "events": self.events,
            "clocks": [None if mark is None else milliseconds(mark) for mark in self.clocks],
            "watermarks": [None if mark is None else milliseconds(mark) for mark in self.ticks],
        }


# ---- kinds of window


def kinds_of(bolt: Json) -> list[Json]:
    """The kinds of window of a bolt, in their order."""
    if "windows" in bolt:
        return [_kind(each, bolt, place) for place, each in enumerate(bolt["windows"])]
    return [_kind(bolt, bolt, 0)]


def _kind(given: Json, bolt: Json, place: int) -> Json:
    offset = duration(bolt.get("offset", "0s"))
    if "session" in given:
        session = given["session"]
        gap, touching = duration(session["gap"]), session.get("touching", False)
        if not gap:  # the events of one instant, which lasts until the next one, a microsecond later
            gap, touching = 1, False
        longest = _optional(session.get("max_duration"))
        return {"is": "session", "place": place, "gap": gap, "touching": touching, "longest": longest}
    if given.get("snapshot"):
        return {"is": "snapshot", "place": place}
    if "sliding_log" in given:
        return {"is": "sliding_log", "place": place, "length": duration(given["sliding_log"])}
    if "count_by_start" in given:
        return {"is": "count_by_start", "place": place, "count": given["count_by_start"]}
    if "hopping" in given:
        length, slide = given["hopping"]["length"], given["hopping"]["slide"]
    elif isinstance(given.get("tumbling"), str):
        length = slide = given["tumbling"]
    else:
        length = given["length"]
        slide = length if given.get("tumbling") else given["sliding"]
    return {
        "is": "hopping", "place": place, "length": duration(length), "slide": duration(slide), "offset": offset
    }  # fmt: skip


def spans_of(kind: Json, rules: Json, time: int) -> list[tuple[int, int]]:
    """Start and end of every window of fixed bounds that holds this time."""
    end_is_in = rules["bounds"] == "(start, end]"
    if kind["is"] == "snapshot":
        return [(time - 1, time)] if end_is_in else [(time, time + 1)]
    length, slide, offset = kind["length"], kind["slide"], kind["offset"]
    edge = offset if rules["aligned"] == "starts" else offset - length  # one of the starts
    start = edge + (time - length - edge) // slide * slide
    found = []
    while start <= time:
        end = start + length
        if start < time <= end if end_is_in else start <= time < end:
            found.append((start, end))
        start += slide
    return found


def is_in_gap(kind: Json, rules: Json, time: int) -> bool:
    return kind["is"] == "hopping" and not spans_of(kind, rules, time)


def last_end(kind: Json, rules: Json, time: int) -> int | None:
    """The last end of a window that could hold an event of this time alone; None where there is no last one."""
    match kind["is"]:
        case "hopping" | "snapshot":
            return spans_of(kind, rules, time)[-1][1]
        case "session":
            return time + kind["gap"]
        case "sliding_log":
            return time + kind["length"] - 1
    return None


def joins(kind: Json, window: Window, time: int) -> bool:
    """Whether an event of this time shares a session: it is closer than the gap, or just as far."""
    gap = kind["gap"]
    if window.follows and time <= window.start:
        return False
    if kind["touching"]:
        return window.start - gap <= time <= window.end
    return window.start - gap < time < window.end


def put_together(kind: Json, sessions: list[Window], event: Event) -> list[Window]:
    """The sessions with one more event: those that it joins are one."""
    together = [window for window in sessions if joins(kind, window, event.time)]
    mine = Window(event.time, event.time + kind["gap"], [event])
    for window in together:
        events, follows = [*window.events, *mine.events], mine.follows
        if window.start <= mine.start:
            follows = window.follows
        mine = Window(min(mine.start, window.start), max(mine.end, window.end), events, follows)
    return [*(window for window in sessions if window not in together), mine]


def checked(kind: Json, windows: list[Window], over: Callable[[int], bool]) -> tuple[list[Window], list[Window]]:
    """Windows that the clock has closed where their check is over, and what is left then (AZ-22).

    A session that has lasted longer than its longest duration at a multiple of it is closed there. Another one begins
    at once, which is none until an event comes within the gap.
    """
    longest, waiting = kind.get("longest"), sorted(windows, key=lambda window: window.start)
    if longest is None:
        return [], waiting
    closed: list[Window] = []
    remaining: list[Window] = []
    while waiting:
        window = waiting.pop(0)
        check = (window.start // longest + 1) * longest
        while check - window.start <= longest:
            check += longest
        while window.events and check < min(event.time for event in window.events):
            check += longest
        if not window.events or check >= window.end or not over(check):
            remaining.append(window)
            continue
        closed.append(Window(window.start, check, [e for e in window.events if e.time <= check], window.follows))
        after = [event for event in window.events if event.time > check]
        end = max((event.time for event in after), default=check) + kind["gap"]
        rest = Window(check, end, after, follows=True)
        if waiting and joins(kind, rest, waiting[0].start):
            following = waiting.pop(0)
            rest = Window(check, following.end, [*after, *following.events], follows=True)
        waiting.insert(0, rest)
    return closed, remaining


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def in_order(events: Any) -> list[Event]:
    """By time, and in order of arrival where times are equal."""
    return sorted(events, key=lambda event: (event.time, event.number))


def ids(events: Any) -> list[str]:
    return [event.id for event in events]
