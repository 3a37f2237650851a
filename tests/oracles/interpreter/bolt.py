"""One windowed bolt, an event at a time: times, lateness, windows, firings, accounts.

The settings are those of the product (``WindowSettings``); every rule is said here again, from docs/semantics.md, whose
section each function names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tests.oracles.interpreter import panes
from tests.oracles.interpreter.kinds import Counted, Fixed, Kind, kinds_of, waits_past_the_end, windows_of
from tests.oracles.interpreter.own import Own, Refused
from tests.oracles.interpreter.times import Times
from tests.oracles.interpreter.values import (
    FOREVER,
    OPEN_END,
    Event,
    Json,
    Key,
    Over,
    Window,
    duration,
    ids,
    in_order,
    milliseconds,
    moment_in,
    most,
    text,
)
from windowing.durations import Duration
from windowing.settings import WindowSettings
from windowing.settings.kinds import Calendar, Hopping, Lull, Onset
from windowing.settings.panes import PaneMode
from windowing.settings.rules import SOURCE, Arrival, LateAction, LateBy, WatermarkCombiner
from windowing.timestamps import show

Source = dict[str, dict[str, int]]
"""By stream, the partitions that its source has, each with the number of the first batch whose plan has it."""

ACCOUNTS = (
    "received", "adjusted", "late", "early", "dropped", "duplicate", "invalid", "unwindowed", "purged",
)  # fmt: skip
Repairs = dict[int, tuple[set[str], dict[str, str]]]
"""After which batches stored events are repaired: the ids of those that are taken out, and other ids for some."""


def resolved(rules: WindowSettings) -> WindowSettings:
    """The rules of a bolt that goes by arrival: its policies are off ("Which time", decision 27)."""
    if rules.arrival is None or not rules.arrival_is_time:
        return rules
    kinds = kinds_of(rules)
    late_by_watermark = any(
        kind is None
        or kind.counts
        or (len(kinds) > 1 and not kind.edges_known)
        or (rules.watermark_per_key and (kind.merges or isinstance(kind, Lull)))
        or (rules.lifetime is not None and kind.between_edges)
        for kind in kinds
    )
    return replace(
        rules,
        timestamp_field=rules.arrival.field,
        late_by=LateBy.WATERMARK if late_by_watermark else LateBy.WINDOW,
        late_per_input=False,
        late_action=LateAction.DIVERT,
        lag=Duration(0),
        estimate_arrival=True,
        arrival=Arrival(rules.arrival.field, None, Duration(0), LateAction.DIVERT),
    )


def partition_of(batches: dict[str, int], event: Json, batch: int) -> str:
    """The partition that an event comes from: the one that it names, if there is one of that name already."""
    named = str(event.get("p"))
    return named if batches.get(named, batch + 1) <= batch else next(iter(batches))


class Stop(Exception):
    """A rule stops the run: what this batch has done is undone, and each attempt ends like this one."""

    batch = 0

    def __init__(self, says: list[str]) -> None:
        """``says``: of these texts the error has one."""
        super().__init__(says)
        self.says = says

    def tells(self, error: str) -> bool:
        """True for an error of this rule."""
        return any(text in error for text in self.says)


@dataclass(eq=False)
class Fired:
    """A firing, for what is made of it."""

    window: Window
    content: list[Event]
    expired: list[Event]
    shown: Json
    """As an answer has it."""
    number: int
    """How many windows of its key have fired by then."""
    task: int
    is_final: bool = True
    """Whether its row is not taken back any more."""

    @property
    def pane(self) -> Json | None:
        return self.shown.get("pane")


@dataclass
class Bolt:
    """Everything that a bolt remembers."""

    rules: Any
    """Its ``WindowSettings``."""
    streams: tuple[str, ...] = ("s1",)
    began: int = 0
    partitions: Any = None
    """Those that are named beforehand: of every stream, or by stream."""
    source: Source | None = None
    """The partitions that its source has, where they have marks of their own."""
    tasks: int = 1
    inner: frozenset[str] = frozenset()
    """The inputs that come from other windowed bolts."""
    lasting: str | None = None
    """The input of a join whose events are versions, each of which lasts until the next one."""
    of_inputs: dict[str, WindowSettings] = field(default_factory=dict)
    """The rules for watermarks and late events of inputs whose sources have their own (SI-17)."""
    rows_ahead: Callable[[], list[int]] = list
    """Of a temporal join: the ends of the moments at which rows are yet to come."""

    batch: int = 0
    number: int = 0
    waiting: list[Event] = field(default_factory=list)
    """What has come in this batch."""
    last_arrival: int | None = None
    latest_event: int | None = None
    stopping: list[str] = field(default_factory=list)
    """What an error of this batch may say."""
    closed: bool = False
    reached: int | None = None
    """How far time had come when the streams ended."""
    by_idleness: int | None = None
    """The end of the last window that the idle timeout closed."""
    told: int | None = None
    """The watermark at the end of the last batch."""

    formed: dict[tuple[Key, int], Kind] = field(default_factory=dict)
    accepted: list[Event] = field(default_factory=list)
    gone: set[Event] = field(default_factory=set)
    """Accepted, and in a gap between windows; or an end edge that has ended its event."""
    half: list[Event] = field(default_factory=list)
    """The end edges whose start has not come."""
    windowed: set[Event] = field(default_factory=set)
    accounts: dict[str, list[str]] = field(default_factory=dict)

    due: list[Window] = field(default_factory=list)
    """What has closed in this batch."""
    emitted: list[Fired] = field(default_factory=list)
    standing: list[Fired] = field(default_factory=list)
    """The firings whose rows have not been taken back."""
    out: list[Fired] = field(default_factory=list)
    """What fired in this batch."""
    diverted: list[tuple[str, Json]] = field(default_factory=list)
    """The rows of this batch for the streams of late events, and of those on which a rule has failed."""
    events: list[Json] = field(default_factory=list)
    """What was decided of each event."""

    def __post_init__(self) -> None:
        has_partitions = self.source is not None or isinstance(self.rules.watermark_partition, str)
        self.times = Times(self.rules, self.streams, self.began, self.of_inputs, self.inner, has_partitions)
        for stream in self.streams:
            named = self.partitions.get(stream, []) if isinstance(self.partitions, dict) else self.partitions or []
            self.times.exist(stream, named)
        self.now = self.began
        """In processing time: the clock."""
        self.kinds = kinds_of(self.rules)
        self.waits = waits_past_the_end(self.rules, self.kinds, by_clock=not self.event_time)

    @property
    def event_time(self) -> bool:
        return bool(self.rules.reads_timestamps)

    @property
    def listed(self) -> dict[Key, int]:
        """The keys that are there from a moment on, with or without events."""
        listed = self.rules.listed_keys
        values = [] if listed is None else [each if isinstance(each, tuple) else (each,) for each in listed.values]
        return {tuple(map(text, each)): listed.since for each in values}

    @property
    def last_ends(self) -> dict[Key, int]:
        """Where windows without events fire: the end of the last one of each key that held an event."""
        found = self.listed
        for fired in self.emitted if self.rules.empty_windows_until is not None else ():
            if fired.content:
                found[fired.window.key] = max(fired.window.end, found.get(fired.window.key, -FOREVER))
        return found

    # ---- closing

    def time(self, key: Key) -> int | None:
        """How far time has come."""
        return self.times.watermark(key) if self.event_time else self.now

    def is_past(self, end: int, time: int) -> bool:
        """ "Closing": whether a window with this end closes at this time."""
        return time > end if self.waits else time >= end

    def over(self, key: Key, lateness: int | None = None) -> Over:
        """ "Closing": when a window with this end closes; "Idleness": what the clock has closed stays closed."""
        late = self.rules.allowed_lateness.micros if lateness is None else lateness

        def is_over(end: int) -> bool:
            if not self.event_time:  # "In processing time ..."
                return self.now > end if self.waits_for_clock else self.now >= end
            if self.by_idleness is not None and end <= self.by_idleness:
                return True
            time = self.times.watermark(key)
            return time is not None and self.is_past(end, time - (late if time < FOREVER else 0))

        return is_over

    @cached_property
    def waits_for_clock(self) -> bool:
        made = [windows_of(self, None, place) for place in range(len(self.kinds))]
        aligned = [each for each in made if isinstance(each.kind, Hopping | Calendar | None)]
        return self.waits or any(isinstance(each, Fixed | Counted) and each.holds_end for each in aligned)

    def of(self, key: Key, place: int) -> Kind:
        """The windows of a key and a kind; asking leaves nothing behind."""
        return self.formed.get((key, place)) or windows_of(self, key, place)

    def all_of(self, key: Key) -> list[Kind]:
        return [self.of(key, place) for place in range(len(self.kinds))]

    # ---- an event

    def arrive(self, at: int, fields: Json, stream: str, own: int | None, task: int, *, copy: bool, last: bool) -> None:
        """An event comes, with the time that it says; it is looked at once all events of its batch are there.

        ``copy``: each task has one of it; ``last``: whether it is the last of these, after which time moves.
        """
        rules = self.rules
        key: Key = tuple(text(fields.get(name)) for name in rules.key) if rules.key else None
        if self.tasks > 1 and (key is None or copy):  # windows belong to a task, not to a key, unless the bolt has one
            key = (f"task {task}", *(key or ()))
        self.number += 1
        event = Event(fields["id"], self.number, fields, stream, task, at, last, own, own or 0, key)
        lifetime = rules.lifetime
        if lifetime is not None and lifetime.end_field in fields:  # joins, "By lifetime": else points
            end = moment_in(fields, lifetime.end_field)
            event.end = FOREVER if end is None or end >= OPEN_END else end
            if lifetime.shape_field is not None:  # SI-3: points and start edges say no end, and the two others must
                shape = str(fields.get(lifetime.shape_field))
                event.shape = shape if shape in ("point", "start_edge") or event.end < FOREVER else None
                event.end = {"point": None, "start_edge": FOREVER}.get(shape, event.end)
                if shape not in ("point", "interval", "start_edge", "end_edge"):
                    event.shape = None  # anything else is no event
        if stream == self.lasting and event.end is None:
            event.end = FOREVER
        for name in (getattr(kind, "gap_field", None) for kind in self.kinds):
            if name is not None and fields.get(name) is not None:
                event.gap = duration(fields[name])
        if rules.message_id_field:
            event.message = text(fields.get(rules.message_id_field))
        event.arrived = at
        if self.arrival_field is not None and stream not in self.inner:
            event.arrived = moment_in(fields, self.arrival_field)
        put_in = self.of_inputs.get(stream, rules).watermark_field if self.event_time else None
        event.sent = moment_in(fields, put_in)  # the clock has no marks
        self.waiting.append(event)

    @property
    def arrival_field(self) -> str | None:
        return self.rules.arrival.field if self.rules.arrival is not None and self.event_time else None

    @cached_property
    def is_judged_at_once(self) -> bool:
        """Whether events are judged where they are read, by the watermark of the last tick, as in Storm."""
        rules = self.rules
        of_its_own = rules.kinds or rules.key or rules.key_trigger or rules.trigger or rules.eviction
        return not of_its_own and not rules.admitted_by_tasks(event_time=self.event_time)

    def ingest(self) -> None:
        """Look at what has come in this batch."""
        waiting, self.waiting = self.waiting, []
        for place, event in enumerate(waiting):
            self.move_clock(event.clock)
            self.receive(event, waiting[place + 1 :])

    def receive(self, event: Event, behind: list[Event]) -> None:
        """An event, with those that come behind it in the batch."""
        rules, times = self.rules, self.times
        self.meet_partitions()
        where: Any = event.key if times.per_key else (event.stream, self.partition(event))
        if event.sent is not None:
            times.sent(where, event.sent)
            self.decide(event, "watermark", where)
            return
        self.account("received", event)
        self.last_arrival = times.clock
        if not self.event_time:
            event.own = event.time = times.clock
        if not is_valid(event):
            self.account("invalid", event)
            if event.last:
                times.touch(where)
            self.decide(event, "invalid", where)
            return
        if event.stream not in self.inner:  # "A bolt behind a windowed bolt": rules by arrival are for others
            latest: Any = most(event.arrived, times.latest_arrival and times.latest_arrival[0])
            times.latest_arrival = latest, times.clock
            outer = [each for each in behind if each.stream not in self.inner and each.sent is None]
            ahead = [each.arrived for each in outer if is_valid(each)]
            times.silent_until = min([latest, *ahead])
        repeated = self.is_repeated(event)  # found before lateness is judged (decision 29)
        action = self.judge(event, where)
        if event.last:
            times.pass_arrivals(where)
        if self.event_time and event.last:
            if action in ("early", "dropped_late", "late_arrival", "stopped_by_arrival"):
                times.touch(where)
            else:
                times.count(where, event.came, is_end=event.shape == "end_edge")  # being moved says nothing of time
                if event.shape != "end_edge":
                    self.latest_event = most(event.time, self.latest_event)
        action = "duplicate" if repeated else "late" if action == "late_arrival" else action
        if action.startswith("stopped"):
            self.stopping += [f"an event of {show(time)} " for time in (event.own or 0, event.time)]
            if self.tasks == 1 and not self.rules.key:  # else several tasks may have them, and either is the first
                raise Stop(self.stopping)
        if action.startswith(("accepted", "adjusted")):
            if action != "accepted":
                self.account("adjusted", event)
            action = self.let_in(event) or action
        else:
            self.account("dropped" if action.startswith(("dropped", "stopped")) else action, event)
            if action in ("late", "early") and rules.late_stream is not None:
                self.diverted.append((rules.late_stream, {**event.fields, "_event_time": milliseconds(event.time)}))
        self.decide(event, action, where)

    def partition(self, event: Event) -> str | None:
        column = self.rules.watermark_partition
        if column is SOURCE and self.source:
            return f"={partition_of(self.source[event.stream], event.fields, self.batch)}"
        return f"={text(event.fields.get(column))}" if isinstance(column, str) else None

    def meet_partitions(self) -> None:
        """Those that the plan of this batch is the first to have ("Partitions": which exist)."""
        for stream, batches in (self.source or {}).items():
            self.times.exist(stream, [name for name, batch in batches.items() if batch == self.batch])

    def account(self, name: str, event: Event) -> None:
        self.accounts.setdefault(name, []).append(event.id)

    def decide(self, event: Event, action: str, where: Any) -> None:
        """Time moves, and an answer tells what has become of the event."""
        if event.last:
            self.advance(event.key)
        is_in = action.startswith(("accepted", "adjusted", "unwindowed", "stopped"))
        self.events.append(
            {
                "id": event.id,
                "time": milliseconds(event.time) if is_in else None,
                "action": action,
                "watermark": milliseconds(self.times.watermark()),
                "mark": milliseconds(self.times.before(where)),
            }
        )

    # ---- lateness

    def judge(self, event: Event, where: Any) -> str:
        """ "Lateness": early, then late by arrival, then out of order (AZ-14). May move the event's time."""
        if not self.event_time:
            return "accepted"
        arrival, action = self.rules.arrival if event.stream not in self.inner else None, "accepted"
        ahead: int = event.time - event.arrived  # type: ignore[operator]
        if arrival is not None and arrival.early is not None and ahead > arrival.early.micros:
            return "early"
        if arrival is not None and arrival.late is not None and -ahead > arrival.late.micros:
            match arrival.action:
                case LateAction.ADJUST:
                    event.time, action = event.time - ahead - arrival.late.micros, "adjusted_late"
                case LateAction.DROP:
                    return "dropped_late"
                case LateAction.DIVERT:
                    return "late_arrival"
                case LateAction.ERROR:
                    return "stopped_by_arrival"
        event.came = event.time
        if not self.is_late(event, where):
            return action
        match self.of_inputs.get(event.stream, self.rules).late_action:
            case LateAction.DIVERT:
                return "late"
            case LateAction.CUT:  # SI-13
                reference = self.reference(event.key, where)
                if event.end is None or reference is None or event.end <= reference:
                    return "dropped_out_of_order"
                event.time = reference
                return "adjusted_out_of_order"
            case LateAction.ADJUST:
                self.move(event, where)
                return "adjusted_out_of_order"
            case LateAction.ERROR:  # SI-14
                return "stopped"
        return "dropped_out_of_order"

    def move(self, event: Event, where: Any) -> None:
        """ "A late event is moved to that mark", and to one microsecond after it where its window has closed there."""
        reference = self.reference(event.key, where)
        if self.overtakes:
            event.time = reference if reference is not None else event.time
            if reference is None or self.has_no_place(event):
                reference = most(reference, self.times.watermark(event.key))
        event.time = reference  # type: ignore[assignment]
        if self.is_late(event, where):
            event.time += 1

    def reference(self, key: Key, where: Any) -> int | None:
        """What an event is late against: the watermark, or the mark of its own input or partition (SI-2, AZ-4)."""
        watermark = self.times.watermark(key)
        if not self.rules.late_per_input or self.times.per_key:
            return watermark
        mark = self.times.before(where)
        return mark if self.overtakes else most(mark, watermark)

    @property
    def overtakes(self) -> bool:
        """ "Partitions": whether an event behind the watermark, in order in its own partition, is in open windows."""
        rules = self.rules
        unknown = isinstance(rules.watermark_partition, str) or rules.partition_idle_timeout is not None
        one_by_one = rules.late_per_input and rules.late_by is LateBy.WATERMARK and not self.times.per_key
        aligned = rules.lifetime is None and all(isinstance(kind, Hopping | Calendar) for kind in self.kinds)
        return bool(one_by_one and unknown and aligned and rules.watermark_combine is WatermarkCombiner.MIN)

    def is_late(self, event: Event, where: Any) -> bool:
        """ "Lateness", an event is late; "Ties", at exactly the watermark; the end of an edge is judged by its end."""
        reference = self.reference(event.key, where) if self.rules.late_by is LateBy.WATERMARK else None
        if event.shape == "end_edge":
            return reference is not None and event.until < reference
        return (reference is not None and event.time < reference) or self.has_no_place(event)

    def has_no_place(self, event: Event) -> bool:
        """ "When all windows that could hold it have closed"; what is in a gap is never late for that."""
        held = [each for each in self.all_of(event.key) if not each.in_gap(event)]
        return bool(held) and not any(each.takes(event) for each in held)

    def is_repeated(self, event: Event) -> bool:
        """guide, "Messages that come again": its id is that of an event that a window may still need."""
        same = [e for e in self.accepted if e.message == event.message and e.task == event.task]
        same = [e for e in same if e.message is not None and (not self.times.per_key or e.key == event.key)]
        return any(windows.needs(each) for each in same for windows in self.all_of(each.key))

    def needs(self, event: Event) -> bool:
        return event in self.half or any(windows.needs(event) for windows in self.all_of(event.key))

    def let_in(self, event: Event) -> str:
        """Put an event into the windows that are open for it; what it is where it is in none of them."""
        self.accepted.append(event)
        event.met = self.times.watermark(event.key)
        if event.shape == "end_edge":
            self.end_start(event)
            return ""
        if event.shape == "start_edge":
            for edge in [each for each in self.half if self.edge(each) == self.edge(event)][:1]:
                self.half.remove(edge)
                self.put_together(event, edge)
            if event in self.gone:
                return "unwindowed"
        for place in range(len(self.kinds)):
            self.formed.setdefault((event.key, place), windows_of(self, event.key, place))
        try:
            held = [] if self.is_at_no_time(event) else [each.let_in(event) for each in self.all_of(event.key)]
        except Refused:
            self.accepted.remove(event)
            self.diverted.append((str(self.rules.refused_stream), event.fields))
            self.account("invalid", event)
            return "invalid"
        if not any(held):
            self.gone.add(event)
            return "unwindowed"
        return ""

    def is_at_no_time(self, event: Event) -> bool:
        """ "Bounds": the row of a window without an end, which no window of time holds."""
        return event.time == FOREVER and not all(isinstance(each, None | Onset) for each in self.kinds)

    # ---- edges

    def edge(self, event: Event) -> Any:
        """By what an end edge finds its start."""
        columns = self.rules.lifetime.edge_key
        return event.stream, event.task, event.own, [text(event.fields.get(name)) for name in columns]

    def end_start(self, edge: Event) -> None:
        """SI-3: an end edge ends the first event of its start that has no end; it waits for one that is to come."""
        starts = [each for each in self.accepted if each.shape == "start_edge" and each.until == FOREVER]
        starts = [each for each in starts if self.edge(each) == self.edge(edge)][:1]
        if not starts:
            self.half.append(edge)
        for start in starts:
            self.put_together(start, edge)
            for windows in self.all_of(start.key):
                windows.cut_short(start)

    def put_together(self, start: Event, edge: Event) -> None:
        """joins, "By lifetime": of a start that was cut to begin where it ends, or later, nothing is left."""
        start.end = max(edge.until, start.time)
        self.gone |= {edge, start} if start.end == start.time else {edge}

    def give_up_edges(self) -> None:
        """joins, "By lifetime": no start can come any more for an end that the watermark has passed."""
        for edge in list(self.half):
            watermark = self.times.watermark()
            if watermark is not None and watermark > edge.until:
                self.half.remove(edge)
                self.accepted.remove(edge)
                self.account("invalid", edge)

    # ---- time advances

    def advance(self, key: Key = None) -> None:
        """The watermark follows the marks, and what it has reached closes."""
        if self.event_time:
            self.times.follow(key)
        self.close_windows()

    def close_windows(self) -> None:
        """Take out what time has closed: its content is final."""
        self.give_up_edges()
        for windows in list(self.formed.values()):
            self.due += windows.close()

    def move_clock(self, clock: int) -> None:
        self.times.clock = max(self.times.clock, clock)
        if not self.event_time and not self.closed:
            self.now = max(self.now, self.times.clock)
            self.close_windows()

    def end_batch(self, *, tick: bool, close: bool) -> int | None:
        """A micro-batch ends; it may be one in which nothing came, and only the clock has moved.

        Returns the watermark, if it has moved in this batch.
        """
        self.ingest()
        if self.stopping:
            raise Stop(self.stopping)
        times = self.times
        self.meet_partitions()
        times.looked_at = times.clock
        if self.event_time:
            if tick or close:
                times.tick()
            if not times.per_key:
                times.follow()
            times.raise_keys()
            if times.nothing_came():
                self.close_windows()
            self.close_idle()
        self.close_windows()
        self.batch += 1
        before, self.told = self.told, times.watermark()
        if close:
            self.end_streams()
        self.emit()
        return self.told if self.told != before else None

    def close_idle(self) -> None:
        """ "Idleness": an event at the very moment of the timeout comes first, so that one of zero is a microsecond."""
        if self.rules.idle_timeout is None or self.last_arrival is None:
            return
        timeout, arrived, due = max(self.rules.idle_timeout.micros, 1), self.last_arrival, []
        for windows in self.formed.values():
            for end in (*windows.ends(), *self.rows_ahead()):
                by_rule = self.rules.idle_rule.value == "max_remaining"
                when = max(end, arrived + timeout) if by_rule else max(end, arrived) + timeout
                due += [end] if when <= self.times.clock else []
        if due:
            self.by_idleness = most(self.by_idleness, *due)
            self.times.lift(None, max(due))

    def end_streams(self) -> None:
        """ "The end of the streams closes all open windows", unless ``close_fires=False`` (decision 4)."""
        self.closed = True
        self.reached = self.time(None)
        if self.rules.close_fires:
            for key in {None, *(key for key, _ in self.formed), *(edge.key for edge in self.half)}:
                self.times.watermarks[key] = FOREVER
            self.now = FOREVER
            self.close_windows()

    def repair(self, out: set[str], renamed: dict[str, str]) -> None:
        """docs/repairing.md: as if the input had been so from the beginning; windows that have fired do so again."""
        pending = {*self.fates()["pending"], *self.gone}
        for event in [each for each in self.accepted if each.id in out or each.id in renamed]:
            for windows in self.formed.values():
                windows.repair(event)
            event.id = renamed.get(event.id, event.id)
            if event.id not in out:
                continue
            for windows in self.formed.values():
                windows.take_out(event)
            self.accepted.remove(event)
            self.gone.discard(event)
            if event not in self.windowed:
                self.account("purged" if event in pending else "unwindowed", event)

    # ---- what the bolts behind it are told

    def closed_until(self) -> int | None:
        """The time up to which all windows have closed; the end of the streams closes, but is no time."""
        if not self.event_time:
            return None
        fires = self.closed and self.rules.close_fires
        at = self.reached if fires else self.times.watermark()
        at = None if at is None else at - self.rules.allowed_lateness.micros - int(self.waits)
        if not fires:
            return most(at, self.by_idleness)
        ends = (each.window.end for each in self.emitted)
        calls = (each.last_call for each in self.formed.values() if isinstance(each, Own))
        past = (each + 1 for each in calls if each is not None)  # a moment of policies is over when time is past it
        return most(at, self.by_idleness, self.latest, *ends, *past)  # decision 4: the last window's end, or event

    # ---- firing

    def emit(self) -> None:
        """What has closed fires at the end of the batch, in order of its ends ("Closing")."""
        rules, due = self.rules, self.due
        if rules.panes is not None:
            found = panes.fire(self)
            fired = [window for window, *_ in found]
            for window in due:  # one that closes without firing takes nothing back any more: what it has shown stays
                for before in [] if window in fired else self.taken_back(window):
                    before.is_final = True
        else:
            if rules.trigger is not None:  # those of one key and end stay in their order
                due.sort(key=lambda window: window.end)
            elif None not in self.kinds or rules.key or rules.key_trigger is not None:
                due.sort(key=lambda window: (window.end, window.start or 0, window.place))
            due = due if rules.empty_windows_until is None else self.with_empty(due)
            found = [(window, in_order(window.events), None) for window in due]  # type: ignore[misc]
        self.due = []
        for window, content, pane in found:
            self.show(window, content, pane)

    def with_empty(self, due: list[Window]) -> list[Window]:
        """guide, "Windows in which nothing happened": those that end at most so long after the last with an event."""
        until, found, ends = self.rules.empty_windows_until.micros, [], self.last_ends
        for key in {*ends, *(window.key for window in due)}:
            grid: Any = self.of(key, 0)
            since, last = self.listed.get(key, -FOREVER), ends.get(key, -FOREVER)
            done = max([last, *(each.window.end for each in self.emitted if each.window.key == key)])
            for ahead in (*sorted((window for window in due if window.key == key), key=lambda each: each.end), None):
                while last > -FOREVER and (span := grid.next_edges(done))[1] <= last + until:
                    if not (self.empty_is_over(grid, span) if ahead is None else span[1] < ahead.end):
                        break
                    found.append(grid.window(*span, []))
                    done = span[1]
                if ahead is not None:
                    found.append(ahead)
                    done = max(ahead.end, since)
                    last = max(last, done)
        return sorted(found, key=lambda window: (window.end, window.start))

    def empty_is_over(self, grid: Fixed, span: tuple[int, int]) -> bool:
        """At the end of the streams only those that do not begin after the latest event of the bolt (decision 46)."""
        if not self.closed or not self.rules.close_fires:
            return grid.over(span[1])
        closed = self.closed_before_the_end
        if closed is not None and span[1] <= closed:
            return True
        return self.latest is not None and span[0] < self.latest + int(not grid.holds_end)

    @property
    def latest(self) -> int | None:
        """The latest time that has come when the streams end: of an event, or where the bolts before it are."""
        if not self.event_time:
            return self.reached
        if self.times.per_key:
            return most(self.latest_event, self.times.floor if self.inner else None)
        inner = (mark.latest for (stream, _), mark in self.times.marks.items() if stream in self.inner)
        return most(self.latest_event, *inner)

    @property
    def closed_before_the_end(self) -> int | None:
        """The time up to which windows had closed when the streams ended."""
        if not self.event_time or self.reached is None:
            return self.by_idleness
        return most(self.reached - self.rules.allowed_lateness.micros - int(self.waits), self.by_idleness)

    def show(self, window: Window, content: list[Event], pane: Json | None) -> None:
        """A window fires."""
        last = next((each for each in reversed(self.emitted) if each.window.key == window.key), None)
        before = (last.content if last else []) if pane is None else self.windowed
        expired = [event for event in before if event in self.accepted and event not in content]
        key = window.key[-len(self.rules.key) :] if self.rules.key and window.key else None
        shown: Json = {
            "start": milliseconds(window.start),
            "end": None if window.end == -FOREVER else milliseconds(window.end),
            "events": ids(content),
            "key": None if not key else key[0] if len(key) == 1 else list(key),
        }
        if self.tasks > 1 and not self.rules.key:
            shown["task"] = task_of(window, content)
        if len(self.kinds) > 1:
            shown["kind"] = window.place
        else:
            shown |= {"new": ids(event for event in content if event not in before), "expired": ids(expired)}
        if pane is not None:
            shown["pane"] = pane
            shown.pop("expired", None)
        number = last.number + 1 if last else 1
        fired = Fired(replace(window), content, expired, shown, number, task_of(window, content))
        fired.is_final = pane is None or pane["last"]
        if self.rules.panes is not None and self.rules.panes.mode is not PaneMode.DISCARDING:
            taken = self.taken_back(window)
            self.standing = [each for each in self.standing if each not in taken]
        for fires in (self.standing, self.emitted, self.out):
            fires.append(fired)
        self.windowed.update(content)

    def taken_back(self, window: Window) -> list[Fired]:
        """guide, "Firing more than once": with retractions the rows of a firing take back those of earlier ones, but
        not of windows that have closed."""
        windows, left = self.of(window.key, window.place), [each for each in self.standing if not each.is_final]
        same = [each for each in left if (each.window.key, each.window.place) == (window.key, window.place)]
        return [each for each in same if windows.supersedes(window, each.window)]

    # ---- the answer

    def fates(self) -> dict[str, list[Event]]:
        """guide, "The accounts": what was in no window has been thrown away ("Keys that fall silent"); or it can be in
        none, or in none of those that are left; or it waits for one."""
        purged = [e for windows in self.formed.values() for e in windows.purged if e not in self.windowed]
        left = [e for e in self.accepted if e not in self.windowed and e not in purged]
        pending = [e for e in left if e not in self.gone and self.needs(e)]
        return {"purged": purged, "unwindowed": [e for e in left if e not in pending], "pending": pending}

    def in_gaps(self) -> set[Event]:
        """Those in no window, which may be told at once or when time has passed them: those of a count that came at the
        very watermark, and start edges that have been ended before the first window that would hold them."""
        out = self.fates()["unwindowed"]
        ties = {event for event in out if self.counts_events and event.time == self.times.watermark()}
        ended = {event for event in out if event.shape == "start_edge" and event.until != FOREVER}
        return self.gone | ties | {event for event in ended if not self.over(event.key)(event.until)}

    @property
    def counts_events(self) -> bool:
        return not self.rules.key and isinstance(self.of(None, 0), Counted)

    def counts(self) -> dict[str, int]:
        counts = {name: len(self.accounts.get(name, [])) for name in ACCOUNTS}
        counts |= {"windowed": len(self.windowed), "pending": 0}
        for name, events in self.fates().items():
            counts[name] += len(events)
        out = counts["received"] + counts["adjusted"] + counts["received"]
        assert sum(counts.values()) == out, counts  # each event is in exactly one account
        return counts


def is_valid(event: Event) -> bool:
    """An event has a time, a shape that there is, an end after its time, and an arrival where a column has that."""
    return None not in (event.own, event.shape, event.arrived) and event.until > event.own  # type: ignore[operator]


def task_of(window: Window, content: list[Event]) -> int:
    """The task that a window belongs to, by itself or by its events."""
    if window.key and str(window.key[0]).startswith("task "):
        return int(str(window.key[0]).removeprefix("task "))
    return content[0].task if content else 0
