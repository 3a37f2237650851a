"""One windowed bolt, an event at a time: times, lateness, windows, firings, accounts.

``answer(scenario)`` reads a scenario of a bare bolt and gives what ``windbolt replay --json`` must print. The settings
are those of the product (``WindowSettings``); every rule is said here again, from docs/semantics.md, whose section each
function names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from tests.oracles.interpreter import panes
from tests.oracles.interpreter.kinds import (
    Counted,
    Fixed,
    Kind,
    Sessions,
    kinds_of,
    waits_past_the_end,
    windows_of,
)
from tests.oracles.interpreter.own import Own, Refused, Triggered
from tests.oracles.interpreter.times import Times
from tests.oracles.interpreter.values import (
    FOREVER,
    NO_END,
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
    moment,
)
from windowing.durations import Duration
from windowing.settings import WindowSettings
from windowing.settings.kinds import Calendar, Hopping
from windowing.settings.panes import PaneMode
from windowing.settings.rules import SOURCE, LateAction, LateBy, WatermarkCombiner
from windowing.timestamps import show


def resolved(rules: WindowSettings) -> WindowSettings:
    """The rules of a bolt that goes by arrival: its policies are off ("Which time", decision 27)."""
    if not rules.arrival_is_time:
        return rules
    assert rules.arrival is not None
    by_count = not rules.kinds and not (isinstance(rules.length, Duration) and isinstance(rules.slide, Duration))
    counts = by_count or any(kind.counts for kind in rules.kinds)
    return replace(
        rules,
        timestamp_field=rules.arrival.field,
        late_by=LateBy.WATERMARK if counts else LateBy.WINDOW,
        late_per_input=False,
        late_action=LateAction.DIVERT,
        lag=Duration(0),
        estimate_arrival=True,
        arrival=replace_arrival(rules.arrival),
    )


def replace_arrival(arrival: Any) -> Any:
    return type(arrival)(arrival.field, None, Duration(0), "divert")


class Stop(Exception):
    """A rule stops the run: what this batch has done is undone, and each attempt ends like this one."""

    def __init__(self, says: list[str]) -> None:
        """``says``: of these texts the error has one."""
        super().__init__(says)
        self.says = says
        self.batch = 0

    def tells(self, error: str) -> bool:
        """True for an error of this rule."""
        return any(text in error for text in self.says)


Source = dict[str, dict[str, int]]
"""By stream, the partitions that its source has, each with the number of the first batch whose plan has it."""


def partition_of(batches: dict[str, int], event: Json, batch: int) -> str:
    """The partition that an event comes from: the one that it names, if there is one of that name already."""
    named = str(event.get("p"))
    return named if batches.get(named, batch + 1) <= batch else next(iter(batches))


Repairs = dict[int, tuple[set[str], dict[str, str]]]
"""After which batches stored events are repaired: the ids of those that are taken out, and other ids for some."""


@dataclass
class Fired:
    """A firing, for what is made of it."""

    window: Window
    content: list[Event]
    expired: list[Event]
    pane: Json | None


@dataclass
class Bolt:
    """Everything that a bolt remembers."""

    rules: WindowSettings
    streams: tuple[str, ...] = ("s1",)
    partitions: Any = None
    began: int = 0
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
    times: Times = field(init=False)
    number: int = 0
    closed: bool = False
    now: int = -FOREVER
    """In processing time: the clock."""
    by_idleness: int | None = None
    """The end of the last window that the idle timeout closed."""
    last_arrival: int | None = None
    rows_in_batch: int = 0
    batch: int = 0
    arrivals: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By the number of an event, its batch and when it arrived."""
    stops: bool = True
    """False to go on where a rule stops the run, for what does not depend on it."""
    stopping: list[str] = field(default_factory=list)
    """What an error of this batch may say."""
    stopped: Stop | None = None
    """Why there are no further batches."""
    coming: dict[int, int] = field(default_factory=dict)
    """The earliest arrival that is still to come in the batch, after each event ("Partitions")."""
    formed: dict[tuple[Key, int], Kind] = field(default_factory=dict)
    accepted: list[Event] = field(default_factory=list)
    gone: set[Event] = field(default_factory=set)
    """Accepted, and in a gap between windows; or an end edge that has ended its event."""
    half: list[Event] = field(default_factory=list)
    """The end edges whose start has not come."""
    refused: list[Event] = field(default_factory=list)
    """The events on which a rule failed in this batch."""
    ends_before: dict[tuple[Key, int], list[int]] = field(default_factory=dict)
    """The ends of the windows that were open when the last batch ended."""
    windowed: set[Event] = field(default_factory=set)
    accounts: dict[str, list[str]] = field(default_factory=dict)
    due: list[Window] = field(default_factory=list)
    """What has closed in this batch."""
    seen: list[Window] = field(default_factory=list)
    last: dict[Key, list[Event]] = field(default_factory=dict)
    fired: list[Json] = field(default_factory=list)
    standing: list[tuple[Window, Json]] = field(default_factory=list)
    """The firings whose rows have not been taken back, and these rows."""
    revocable: dict[tuple[Key, int], list[tuple[Window, Json]]] = field(default_factory=dict)
    """Those of windows that may fire again."""
    emitted: list[tuple[Window, Json]] = field(default_factory=list)
    """All of them."""
    emitted_of: dict[Key, int] = field(default_factory=dict)
    """Their number by key."""
    repairs: Repairs = field(default_factory=dict)
    look: Callable[[Bolt], Any] | None = None
    """Called after each batch, before a repair; None where nobody asks for what it tells."""
    looks: list[Any] = field(default_factory=list)
    """What it told."""
    purged: int = 0
    """The events that repairs have taken out before a window had held them."""
    given_up: int = 0
    """Those that no window would have held."""
    opened: list[list[Json] | None] = field(default_factory=list)
    """The windows that were open after each batch."""
    of_keys: list[dict[Key, Json] | None] = field(default_factory=list)
    """What was known of keys then: their watermarks, the ends of their last windows with events, and the caches of
    the rules of their triggers; None after the end of the streams, and where tasks have windows of their own."""
    out: list[Fired] = field(default_factory=list)
    """What fired in this batch."""
    turned_away: list[Event] = field(default_factory=list)
    """The events of the late stream in this batch."""
    fired_ends: set[int] = field(default_factory=set)
    events: list[Json] = field(default_factory=list)
    ticks: list[int | None] = field(default_factory=list)
    clocks: list[int | None] = field(default_factory=list)
    known: dict[Key, int] = field(default_factory=dict)
    """The end of the last window of each key that held an event, where windows without events fire."""
    latest_event: int | None = None

    def __post_init__(self) -> None:
        self.times = Times(
            self.rules, self.streams, self.began, self.of_inputs, self.inner, clock=self.began, looked_at=self.began
        )
        self.times.has_partitions = self.source is not None or isinstance(self.rules.watermark_partition, str)
        self.times.exist(self.partitions)
        self.kinds = kinds_of(self.rules)
        self.waits = waits_past_the_end(self.rules, self.kinds)
        if self.rules.listed_keys is not None:
            for value in self.rules.listed_keys.values:
                key = value if isinstance(value, tuple) else (value,)
                self.known[tuple(None if each is None else str(each) for each in key)] = self.rules.listed_keys.since

    @property
    def bolts(self) -> list[Bolt]:
        return [self]

    @property
    def event_time(self) -> bool:
        return self.rules.reads_timestamps

    @property
    def looks_ahead(self) -> bool:
        """Whether it makes a difference which arrivals of a batch are still to come."""
        several = len(self.streams) > 1 or self.times.has_partitions
        return self.rules.estimate_arrival and several and not self.times.per_key

    def still_to_come(self) -> dict[int, int]:
        """For each event the earliest arrival among those that came after it in its batch."""
        return {
            number: min(
                (at for later, (of, at) in self.arrivals.items() if of == batch and later > number), default=FOREVER
            )
            for number, (batch, _) in self.arrivals.items()
        }

    # ---- closing

    def over(self, key: Key) -> Over:
        """ "Closing": when a window with this end closes; "Idleness": what the clock has closed stays closed."""

        def is_over(end: int) -> bool:
            if not self.event_time:  # "In processing time ..."
                return self.now > end if self.waits_for_clock else self.now >= end
            if self.by_idleness is not None and end <= self.by_idleness:
                return True
            watermark = self.times.watermark(key)
            if watermark is None:
                return False
            reached = watermark - (self.rules.allowed_lateness.micros if watermark < FOREVER else 0)
            return reached > end if self.waits else reached >= end

        return is_over

    @property
    def waits_for_clock(self) -> bool:
        fixed = [self.of(None, place) for place, kind in enumerate(self.kinds) if isinstance(kind, Hopping | Calendar)]
        made = windows_of(self.rules, self.kinds[0], None, 0, self.began)
        counted = isinstance(made, Counted) and made.holds_end
        return self.waits or counted or any(isinstance(each, Fixed) and each.holds_end for each in fixed)

    def of(self, key: Key, place: int) -> Kind:
        """The windows of a key and a kind; asking leaves nothing behind."""
        found = self.formed.get((key, place))
        return found or windows_of(self.rules, self.kinds[place], key, place, self.began)

    # ---- an event

    def receive(
        self,
        fields: Json,
        stream: str,
        own: int | None,
        arrived: int | None = None,
        *,
        task: int = 0,
        copy: bool = False,
        last: bool = True,
    ) -> None:
        """An event arrives at the clock. ``own`` is the time that it says.

        ``copy``: each task has one of it; ``last``: whether it is the last of these, after which time moves.
        """
        rules, times = self.rules, self.times
        key: Key = tuple(_text(fields.get(name)) for name in rules.key) if rules.key else None
        if self.tasks > 1 and (key is None or copy):  # windows belong to a task, not to a key, unless the bolt has one
            key = (f"task {task}", *(key or ()))
        self.meet_partitions()
        where: Any = key if times.per_key else (stream, self.partition(fields, stream))
        self.rows_in_batch += 1
        self.ticking = False
        put_in = (
            self.of_inputs.get(stream, rules).watermark_field if self.event_time else None
        )  # the clock has no marks
        if put_in is not None and fields.get(put_in) is not None:
            times.sent(where, moment(fields[put_in]))
            self.advance(key)
            self.note(fields["id"], None, "watermark", where)
            return
        self.number += 1
        self.account("received", fields["id"])
        self.last_arrival = times.clock
        if not self.event_time:
            own = times.clock
        event = Event(fields["id"], own or 0, self.number, key, stream=stream, fields=fields, task=task)
        self.extras(event, fields)
        column = rules.arrival.field if rules.arrival is not None and self.event_time else None
        without_arrival = column is not None and stream not in self.inner and arrived is None
        if own is None or event.shape is None or (event.until is not None and event.until <= own) or without_arrival:
            self.account("invalid", fields["id"])
            if last:
                times.touch(where)
                self.advance(key)
            self.note(fields["id"], None, "invalid", where)
            return
        outside = (
            stream not in self.inner
        )  # "A bolt behind a windowed bolt": rules by arrival are for events from outside
        arrived = times.clock if arrived is None else arrived
        latest = arrived if times.latest_arrival is None else max(arrived, times.latest_arrival[0])
        if outside:
            times.latest_arrival = latest, times.clock
            self.arrivals[self.number] = self.batch, arrived
            times.silent_until = min(latest, self.coming.get(self.number, FOREVER))
        event.message = _text(fields.get(rules.message_id_field)) if rules.message_id_field else None
        repeated = self.is_repeated(event)  # found before lateness is judged (decision 29)
        action = self.judge(event, own, arrived, where)
        if last:
            times.pass_arrivals(where)
        if self.event_time and last:
            turned_away = action in ("early", "dropped_late", "late_arrival", "stopped_by_arrival")
            if turned_away:
                times.touch(where)
            else:
                moved = action == "adjusted_out_of_order"
                came = event.came if moved else event.time  # being moved shows nothing about time
                times.count(where, came, is_end=event.shape == "end_edge")
                self.latest_event = max(event.time, event.time if self.latest_event is None else self.latest_event)
        action = "duplicate" if repeated else "late" if action == "late_arrival" else action
        if action.startswith("stopped") and self.stops:
            self.stopping += [f"an event of {show(time)} " for time in (own, event.time)]
            if self.tasks == 1:  # else it is not said which of them is first
                raise Stop(self.stopping)
        if action in ("accepted", "adjusted_late", "adjusted_out_of_order"):
            if action != "accepted":
                self.account("adjusted", event.id)
            action = self.let_in(event) or action
        else:
            account = "dropped" if action.startswith(("dropped", "stopped")) else action
            if account in ("late", "early"):
                self.turned_away.append(event)
            self.account(account, event.id)
        if last:
            self.advance(key)
        time = None if action in ("late", "early", "duplicate") or action.startswith("dropped") else event.time
        self.note(event.id, time, action, where)

    def extras(self, event: Event, fields: Json) -> None:
        """What lasts, and gaps of events."""
        lifetime = self.rules.lifetime
        if lifetime is not None and lifetime.end_field in fields:  # joins, "By lifetime": else points
            end = fields.get(lifetime.end_field)
            event.until = FOREVER if end is None or moment(end) >= OPEN_END else moment(end)
            if lifetime.shape_field is not None:
                self.shape(event, str(fields.get(lifetime.shape_field)), end)
                of = tuple(_text(fields.get(name)) for name in lifetime.edge_key)
                event.edge = event.stream, event.task, event.time, of
        if event.stream == self.lasting:
            event.until = FOREVER if event.until is None else event.until
        for kind in self.kinds:
            name = getattr(kind, "gap_field", None)
            if name is not None and fields.get(name) is not None:
                event.gap = duration(fields[name])

    def shape(self, event: Event, shape: str, end: Any) -> None:
        """SI-3: points and start edges say no end, and the two others must; anything else is no event."""
        event.shape = shape if shape in ("point", "interval", "start_edge", "end_edge") else None
        if shape == "point":
            event.until = None
        elif shape == "start_edge":
            event.until = FOREVER
        elif end is None:
            event.shape = None

    def partition(self, fields: Json, stream: str) -> str | None:
        column = self.rules.watermark_partition
        if column is SOURCE and self.source:
            return f"={partition_of(self.source[stream], fields, self.batch)}"
        return f"={_text(fields.get(column))}" if isinstance(column, str) else None

    def meet_partitions(self) -> None:
        """Those that the plan of this batch is the first to have ("Partitions": which exist)."""
        for stream, batches in (self.source or {}).items():
            self.times.exist({stream: [name for name, batch in batches.items() if batch == self.batch]})

    def account(self, name: str, event: str) -> None:
        self.accounts.setdefault(name, []).append(event)

    # ---- lateness

    def judge(self, event: Event, own: int, arrived: int, where: Any) -> str:
        """ "Lateness": early, then late by arrival, then out of order (AZ-14). May move the event's time."""
        rules = self.rules
        if not self.event_time:
            return "accepted"
        arrival, action = rules.arrival if event.stream not in self.inner else None, "accepted"
        if arrival is not None and arrival.early is not None and own - arrived > arrival.early.micros:
            return "early"
        if arrival is not None and arrival.late is not None and arrived - own > arrival.late.micros:
            match arrival.action:
                case LateAction.ADJUST:
                    event.time, action = arrived - arrival.late.micros, "adjusted_late"
                case LateAction.DROP:
                    return "dropped_late"
                case LateAction.DIVERT:
                    return "late_arrival"
                case LateAction.ERROR:
                    return "stopped_by_arrival"
        event.came = event.time
        if not self.is_late(event, where):
            return action
        match self.of_inputs.get(event.stream, rules).late_action:
            case LateAction.DIVERT:
                return "late"
            case LateAction.DROP:
                return "dropped_out_of_order"
            case LateAction.CUT:  # SI-13
                reference = self.reference(event.key, where)
                if event.until is None or reference is None or event.until <= reference:
                    return "dropped_out_of_order"
                event.time = reference
                return "adjusted_out_of_order"
            case LateAction.ADJUST:
                self.move(event, where)
                return "adjusted_out_of_order"
            case LateAction.ERROR:  # SI-14
                return "stopped"
        raise AssertionError(rules.late_action)

    def move(self, event: Event, where: Any) -> None:
        """ "A late event is moved to that mark", and to one microsecond after it where its window has closed there."""
        reference, watermark = self.reference(event.key, where), self.times.watermark(event.key)
        if self.overtakes:
            event.time = reference if reference is not None else event.time
            if reference is None or self.has_no_place(event):
                assert watermark is not None
                reference = watermark if reference is None else max(reference, watermark)
        assert reference is not None
        event.time = reference
        if self.is_late(event, where):
            event.time += 1

    def reference(self, key: Key, where: Any) -> int | None:
        """What an event is late against: the watermark, or the mark of its own input or partition (SI-2, AZ-4)."""
        watermark = self.times.watermark(key)
        if not self.rules.late_per_input or self.times.per_key:
            return watermark
        mark = self.times.before(where)
        if self.overtakes:
            return mark
        return mark if watermark is None else watermark if mark is None else max(mark, watermark)

    @property
    def overtakes(self) -> bool:
        """ "Partitions": whether an event behind the watermark, in order in its own partition, is in open windows."""
        rules = self.rules
        unknown = isinstance(rules.watermark_partition, str) or rules.partition_idle_timeout is not None
        points = rules.lifetime is None
        one_by_one = rules.late_per_input and rules.late_by is LateBy.WATERMARK and not self.times.per_key
        aligned = all(isinstance(kind, Hopping | Calendar) for kind in self.kinds)
        return one_by_one and unknown and points and rules.watermark_combine is WatermarkCombiner.MIN and aligned

    def is_late(self, event: Event, where: Any) -> bool:
        """ "Lateness", an event is late; "Ties", at exactly the watermark."""
        edge = event.until if event.shape == "end_edge" else None  # "the end of an edge is judged by its end"
        if self.rules.late_by is LateBy.WATERMARK:
            reference = self.reference(event.key, where)
            if reference is not None and (event.time if edge is None else edge) < reference:
                return True
            if edge is not None:
                return False
        return self.has_no_place(event if edge is None else replace(event, time=edge, until=None))

    def has_no_place(self, event: Event) -> bool:
        """ "When all windows that could hold it have closed"; what is in a gap is never late for that."""
        held = [self.of(event.key, place) for place in range(len(self.kinds))]
        held = [each for each in held if not each.in_gap(event)]
        return bool(held) and not any(self.has_place(each, event) for each in held)

    def has_place(self, windows: Kind, event: Event) -> bool:
        over = self.over(event.key)
        if isinstance(windows, Sessions):
            return self.late_for_sessions(windows, event, over)
        return windows.takes(event, over)

    def late_for_sessions(self, windows: Sessions, event: Event, over: Over) -> bool:
        """ "Lateness": behind W - allowed lateness, and no open session of its key takes it; or ``by_session``."""
        if windows.cut_before(event, over):
            return False
        if any(windows.joins(window, event) for window in windows.open):
            return True
        opens = event.time + windows.gap(event)
        if self.rules.late_by_session:
            return not over(opens)
        if self.by_idleness is not None and event.time < self.by_idleness:
            return False
        watermark = self.times.watermark(event.key)
        return watermark is None or event.time >= watermark - self.rules.allowed_lateness.micros

    def is_repeated(self, event: Event) -> bool:
        """guide, "Messages that come again": its id is that of an event that a window may still need."""
        if event.message is None:
            return False
        same = [
            e
            for e in self.accepted
            if e.message == event.message and e.task == event.task and (not self.times.per_key or e.key == event.key)
        ]
        return any(self.remembers(each) for each in same)

    def remembers(self, event: Event) -> bool:
        over = self.over(event.key)
        return any(self.of(event.key, place).remembers(event, over) for place in range(len(self.kinds)))

    def needs(self, event: Event) -> bool:
        over = self.over(event.key)
        return event in self.half or any(
            self.of(event.key, place).needs(event, over) for place in range(len(self.kinds))
        )

    def let_in(self, event: Event) -> str:
        """Put an event into the windows that are open for it; what it is where it is in none of them."""
        self.accepted.append(event)
        event.met = self.times.watermark(event.key)
        over, found = self.over(event.key), False
        if event.shape == "end_edge":
            self.end_start(event)
            return ""
        for edge in [each for each in self.half if event.shape == "start_edge" and each.edge == event.edge][:1]:
            self.half.remove(edge)
            self.put_together(event, edge)
            if event in self.gone:
                return "unwindowed"
        for place, kind in enumerate(self.kinds):
            windows = self.formed.setdefault(
                (event.key, place), windows_of(self.rules, kind, event.key, place, self.began)
            )
            windows.see(event)
            if windows.in_gap(event):
                continue
            if isinstance(windows, Sessions) or windows.takes(event, over):
                try:
                    windows.put(event, over)
                except Refused:
                    self.accepted.remove(event)
                    self.refused.append(event)
                    self.account("invalid", event.id)
                    return "invalid"
                found = True
        if not found:
            self.gone.add(event)
        return "" if found else "unwindowed"

    # ---- edges

    def end_start(self, edge: Event) -> None:
        """SI-3: an end edge ends the first event of its start that has no end; it waits for one that is to come."""
        starts = [e for e in self.accepted if e.shape == "start_edge" and e.edge == edge.edge and e.until == FOREVER]
        if not starts:
            self.half.append(edge)
            return
        start = starts[0]
        self.put_together(start, edge)
        for place in range(len(self.kinds)):
            self.of(start.key, place).cut_short(start, self.over(start.key))

    def put_together(self, start: Event, edge: Event) -> None:
        """joins, "By lifetime": of a start that was cut to begin where it ends, or later, nothing is left."""
        assert edge.until is not None
        start.until = max(edge.until, start.time)
        self.gone |= {edge, start} if start.until == start.time else {edge}

    def give_up_edges(self) -> None:
        """joins, "By lifetime": no start can come any more for an end that the watermark has reached, or passed where
        late events are cut."""
        for edge in list(self.half):
            watermark = self.times.watermark(edge.key) if self.event_time else self.now
            assert edge.until is not None
            action = self.of_inputs.get(edge.stream, self.rules).late_action
            end = edge.until + (action is LateAction.CUT)
            if watermark is not None and watermark >= min(end + self.rules.allowed_lateness.micros, FOREVER):
                self.half.remove(edge)
                self.accepted.remove(edge)
                self.account("invalid", edge.id)

    # ---- time advances

    def advance(self, key: Key = None) -> None:
        """The watermark follows the marks, and what it has reached closes."""
        if self.event_time:
            self.times.follow(key)
        self.close_windows()

    def close_windows(self) -> None:
        """Take out what time has closed: its content is final."""
        self.give_up_edges()
        for (key, _), windows in list(self.formed.items()):
            if isinstance(windows, Counted | Own | Triggered):
                watermark = self.times.watermark(key) if self.event_time else self.now
                at_once = self.rules.comes_with_events or not isinstance(windows, Counted) or self.rules.key
                if not at_once and self.event_time and watermark == windows.now:
                    continue  # what came at the watermark is looked at once a tick has moved it
                windows.now = watermark
                windows.last_time = self.last_time
            self.due += windows.close(self.over(key))

    last_time: int | None = None
    ticking: bool = False
    told: int | None = None
    """The watermark at the end of the last batch."""

    def move_clock(self, clock: int) -> None:
        self.times.clock = max(self.times.clock, clock)
        if not self.event_time and not self.closed:
            self.now = max(self.now, self.times.clock)
            self.close_windows()

    def end_batch(self, *, tick: bool = False, close: bool = False) -> int | None:
        """A micro-batch ends; it may be one in which nothing came, and only the clock has moved.

        Returns the watermark, if it has moved in this batch.
        """
        if self.stopping:
            raise Stop(self.stopping)
        times = self.times
        self.meet_partitions()
        times.looked_at = times.clock
        before, self.ticking = self.told, tick or close
        if self.event_time:
            if times.at_ticks and (tick or close) and times.is_due():
                times.tick()
            if not times.per_key:
                times.follow()
            self.nothing_came()
            self.close_idle()
            self.close_windows()
            self.ends_before = {at: windows.ends() for at, windows in self.formed.items()}
        else:
            self.close_windows()
        self.rows_in_batch = 0
        self.batch += 1
        self.told = times.watermark()
        if close:
            self.end_streams()
        self.emit()
        self.opened.append(self.now_open())
        self.of_keys.append(None if self.closed else self.kept_of_keys())
        if self.look is not None:
            self.looks.append(self.look(self))
        if self.batch - 1 in self.repairs:
            self.repair(*self.repairs[self.batch - 1])
        return self.told if self.told != before else None

    def repair(self, out: set[str], renamed: dict[str, str]) -> None:
        """docs/repairing.md: as if the input had been so from the beginning; windows that have fired do so again."""
        pending = {event for event in self.accepted if event.id in self.pending()} | self.gone
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
            self.last = {key: [each for each in events if each is not event] for key, events in self.last.items()}
            self.purged += event in pending
            self.given_up += event not in pending and event not in self.windowed
        if self.event_time:
            self.ends_before = {at: windows.ends() for at, windows in self.formed.items()}

    @property
    def without_end(self) -> bool:
        """True if an event is in windows without end, so that it is not said which of them are open."""
        return any(isinstance(windows, Fixed) and windows.lasting for windows in self.formed.values())

    def now_open(self) -> list[Json] | None:
        """guide, ``windbolt state``: the windows that hold events and have not fired for the last time."""
        if self.without_end:
            return None
        found = [window for windows in self.formed.values() for window in windows.listed()]
        shown = [
            {
                "kind": window.place,
                "key": list(window.key or ()),
                "start": window.start,
                "end": window.end if window.end < FOREVER else None,
                "events": len(window.events),
                "firings": window.fired,
            }
            for window in found
        ]
        return sorted(shown, key=str)

    def kept_of_keys(self) -> dict[Key, Json] | None:
        found: dict[Key, Json] = {key: {} for key in self.times.watermarks if self.times.per_key and key is not None}
        for key in found:
            found[key] = {"watermark": self.times.watermark(key)}
        for key, end in self.known.items():
            found.setdefault(key, {})["last_end"] = end
        for (key, _), windows in self.formed.items():
            if isinstance(windows, Triggered):
                found.setdefault(key, {})["cache"] = dict(windows.cache)
        return None if any(key and str(key[0]).startswith("task ") for key in found) else found

    def nothing_came(self) -> None:
        """ "Idleness": a batch without input uses the estimate, once the clock has moved.

        "The watermark": those of keys follow it at the end of every batch, since no key can have earlier events.
        """
        if self.times.per_key:
            self.times.raise_keys()
        estimate = self.times.estimate()
        if estimate is not None:
            for key in list(self.times.marks) if self.times.per_key else [None]:
                self.times.lift(key, estimate)
            if not self.times.per_key:
                for mark in (*self.times.marks.values(), *self.times.awaited.values()):
                    mark.lift(estimate)
            self.close_windows()

    def close_idle(self) -> None:
        """ "Idleness": a batch that brings an event closes nothing by it, unless the timeout is zero: then those whose
        events came with earlier batches."""
        timeout = self.rules.idle_timeout
        if timeout is None or self.last_arrival is None or (self.rows_in_batch and timeout.micros):
            return
        due = []
        for (key, place), windows in self.formed.items():
            earlier = self.ends_before.get((key, place), []) if self.rows_in_batch else windows.ends()
            for end in (*earlier, *self.rows_ahead()):
                when = max(end, self.last_arrival) + timeout.micros
                if self.rules.idle_rule.value == "max_remaining":
                    when = max(end, self.last_arrival + timeout.micros)
                if when <= self.times.clock:
                    due.append(end)
        if due:
            self.by_idleness = max(due) if self.by_idleness is None else max(self.by_idleness, *due)
            self.times.lift(None, max(due))

    def end_streams(self) -> None:
        """ "The end of the streams closes all open windows", unless ``close_fires=False`` (decision 4)."""
        self.closed = True
        now = self.times.watermark(None) if self.event_time else self.now
        self.reached = now
        known = [each for each in (now, self.latest_event) if each is not None]
        self.last_time = max(known, default=None)
        if not self.rules.close_fires:
            return
        for key in {None, *(key for key, _ in self.formed), *(edge.key for edge in self.half)}:
            self.times.watermarks[key] = FOREVER
        self.now = FOREVER
        self.close_windows()

    reached: int | None = None

    # ---- what the bolts behind it are told

    floor: int | None = None
    """Where each key has a watermark of its own: the time before which nothing comes, of any key."""

    def raise_floor(self, to: int) -> None:
        self.floor = to if self.floor is None else max(to, self.floor)
        for key, _ in self.formed:
            self.times.lift(key, self.floor)

    def closed_until(self) -> int | None:
        """The time up to which all windows have closed; the end of the streams closes, but is no time."""
        if not self.event_time:
            return None
        at = self.reached if self.closed and self.rules.close_fires else self.times.watermark()
        if at is not None:
            at -= self.rules.allowed_lateness.micros + (1 if self.waits else 0)
        known = [at, self.by_idleness]
        if self.closed and self.rules.close_fires:  # decision 4: the end of the last window, or the latest event
            past = int(self.rules.trigger is not None)  # moments of policies are due once time is past them
            known += [self.latest_event, *(end + past for end in self.fired_ends)]
        return max((each for each in known if each is not None), default=None)

    # ---- firing

    def emit(self) -> None:
        """What has closed fires at the end of the batch, in order of its ends ("Closing")."""
        if self.rules.panes is not None:
            found = panes.fire(self)
            for window in self.due:
                if not any(window is fired for fired, _, _ in found):
                    self.forget_rows(window)
            self.due = []
            for window, shown, pane in found:
                self.show(window, shown, pane)
            return
        due, self.due = self.due, []
        if self.rules.trigger is not None:  # those of one key and end stay in their order
            due.sort(key=lambda window: window.end)
        elif self.rules.key_trigger is not None or not any(kind is None for kind in self.kinds):
            due.sort(key=lambda window: (window.end, window.start or 0, window.place))
        if self.rules.empty_windows_until is not None:
            due = self.with_empty(due)
        for window in due:
            self.show(window, in_order(window.events), None)

    def with_empty(self, due: list[Window]) -> list[Window]:
        """guide, "Windows in which nothing happened": those that end at most so long after the last with an event."""
        assert self.rules.empty_windows_until is not None
        until, keys = self.rules.empty_windows_until.micros, {*self.known, *(window.key for window in due)}
        found = []
        for key in keys:
            grid = self.of(key, 0)
            assert isinstance(grid, Fixed)
            held = sorted((window for window in due if window.key == key), key=lambda window: window.end)
            last = self.known.get(key, -FOREVER)
            done = self.passed_of.get(key, last)
            for ahead in (*held, None):
                while last > -FOREVER and (span := grid.next_edges(done))[1] <= last + until:
                    if not (self.empty_is_over(span, key) if ahead is None else span[1] < ahead.end):
                        break
                    found.append(grid.window(*span, []))
                    done = span[1]
                if ahead is not None:
                    found.append(ahead)
                    last = max(last, ahead.end, self.since(key))
                    done = max(ahead.end, self.since(key))
            if last > -FOREVER:
                self.known[key], self.passed_of[key] = last, done
        return sorted(found, key=lambda window: (window.end, window.start or 0))

    def since(self, key: Key) -> int:
        """From when on a listed key is there."""
        listed = self.rules.listed_keys
        names = [] if listed is None else [v if isinstance(v, tuple) else (v,) for v in listed.values]
        return listed.since if listed is not None and key in names else -FOREVER

    passed_of: dict[Key, int] = field(default_factory=dict)

    def empty_is_over(self, span: tuple[int, int], key: Key) -> bool:
        """At the end of the streams only those that do not begin after the latest event of the bolt (decision 46)."""
        if not self.closed or not self.rules.close_fires:
            return self.over(key)(span[1])
        if self.event_time and self.reached is not None:
            reached = self.reached - self.rules.allowed_lateness.micros - (1 if self.waits else 0)
            if span[1] <= reached:
                return True
        latest = self.latest_event if self.event_time else self.reached  # by the clock: after the last clock
        if latest is None:
            return False
        grid = self.of(key, 0)
        assert isinstance(grid, Fixed)
        return span[0] < latest if grid.holds_end else span[0] <= latest

    def show(self, window: Window, content: list[Event], pane: Json | None) -> None:
        """A window as an answer has it."""
        last, gone = self.last.get(window.key, []), list[Event]()
        key = window.key[1:] if window.key is not None and len(window.key) > len(self.rules.key) else window.key
        shown: Json = {
            "start": milliseconds(window.start),
            "end": None if window.end == -FOREVER else milliseconds(window.end),
            "events": ids(content),
            "key": None if not key else key[0] if len(key) == 1 else list(key),
        }
        if self.tasks > 1 and not self.rules.key and window.key is not None:
            shown["task"] = int(str(window.key[0]).removeprefix("task "))
        if pane is None:
            gone = [event for event in last if event not in content]
            shown["new"] = ids(event for event in content if event not in last)
            shown["expired"] = ids(gone)
        else:
            shown["pane"] = pane
            shown["new"] = ids(event for event in content if event not in self.windowed)
        if len(self.kinds) > 1:
            shown["kind"] = window.place
            shown.pop("new", None)
            shown.pop("expired", None)
        self.stand(window, content, is_last=pane is None or bool(pane["last"]))
        self.last[window.key] = content
        self.windowed.update(content)
        self.fired.append(shown)
        self.out.append(Fired(window, content, gone, pane))
        self.fired_ends.add(window.end)

    def stand(self, window: Window, content: list[Event], *, is_last: bool) -> None:
        """guide, "Firing more than once": with retractions the rows of a firing take back those of earlier ones, but
        not of windows that have closed."""
        if self.rules.panes is not None and self.rules.panes.mode is not PaneMode.DISCARDING:
            kind = self.of(window.key, window.place)
            before = self.revocable.get((window.key, window.place), [])
            taken = [other for other in before if kind.supersedes(window, other[0])]
            self.standing = [each for each in self.standing if not any(each is other for other in taken)]
            before = [other for other in before if not any(other is each for each in taken)]
            self.revocable[window.key, window.place] = before
        firing = replace(window), self.row(window, content)
        self.standing.append(firing)
        self.emitted.append(firing)
        self.emitted_of[window.key] = self.emitted_of.get(window.key, 0) + 1
        if not is_last:
            self.revocable.setdefault((window.key, window.place), []).append(firing)

    def forget_rows(self, window: Window) -> None:
        """A window that has closed takes nothing back any more, and what it has shown stays."""
        place = window.key, window.place
        kind = self.of(*place)
        left = [other for other in self.revocable.get(place, []) if not kind.supersedes(window, other[0])]
        self.revocable[place] = left

    def row(self, window: Window, content: list[Event]) -> Json:
        """What a bolt emits that tells its windows."""
        key = None if window.key is None else window.key[0] if len(window.key) == 1 else window.key
        return {
            "start": window.start,
            "end": window.end if window.end < FOREVER else NO_END,
            "key": str(key),
            "kind": window.place if len(self.kinds) > 1 else None,
            "events": ",".join(ids(content)),
            "number": 1 + self.emitted_of.get(window.key, 0) if self.rules.key else None,
        }

    # ---- the answer

    def note(self, name: str, time: int | None, action: str, where: Any) -> None:
        mark = self.times.marks[where].mark if where in self.times.marks else None
        watermark = self.times.watermark(None)
        self.events.append(
            {
                "id": name,
                "time": milliseconds(time),
                "action": action,
                "watermark": milliseconds(watermark),
                "mark": milliseconds(mark),
            }
        )

    def unwindowed(self) -> list[Event]:
        """guide, "The accounts": no window can hold them; or, at the end, none of those that are left did."""
        out = self.windowed | set(self.thrown_away())
        return [e for e in self.accepted if e not in out and (e in self.gone or not self.needs(e))]

    def thrown_away(self) -> list[Event]:
        """guide, "Keys that fall silent": purged before they were in a window."""
        purged = [event for windows in self.formed.values() for event in windows.purged]
        return [event for event in purged if event not in self.windowed]

    def at_the_watermark(self) -> set[Event]:
        """Those in no window of a count that came at the very watermark: they are looked at with the next one."""
        return {event for event in self.unwindowed() if self.counts_events and event.time == self.times.watermark()}

    def in_gaps(self) -> set[Event]:
        """Those in no window, which may be told at once or when time has passed them: also start edges that have been
        ended before the first window that would hold them."""
        ended = {event for event in self.unwindowed() if event.shape == "start_edge" and event.until != FOREVER}
        cut_short = {event for event in ended if event.until is not None and not self.over(event.key)(event.until)}
        return self.gone | self.at_the_watermark() | cut_short

    @property
    def counts_events(self) -> bool:
        return not self.rules.key and isinstance(self.of(None, 0), Counted)

    def pending(self) -> list[str]:
        out = {*self.unwindowed(), *self.thrown_away()}
        return ids(event for event in self.accepted if event not in self.windowed and event not in out)

    def counts(self) -> dict[str, int]:
        names = ("received", "late", "early", "dropped", "duplicate", "invalid", "adjusted")
        counts = {name: len(self.accounts.get(name, [])) for name in names}
        counts |= {"windowed": len(self.windowed), "unwindowed": len(self.unwindowed()) + self.given_up}
        counts |= {"pending": len(self.pending()), "purged": self.purged + len(self.thrown_away())}
        out = counts["received"] + counts["adjusted"] + counts["received"]
        assert sum(counts.values()) == out, counts  # each event is in exactly one account
        return counts

    def answer(self) -> Json:
        return {
            "windows": self.fired,
            "late": self.accounts.get("late", []),
            "pending": self.pending(),
            "counts": self.counts(),
            "events": self.events,
            "clocks": [milliseconds(at) for at in self.clocks],
            "watermarks": [milliseconds(at) for at in self.ticks],
            "gaps": ids(self.in_gaps()),
            "opened": self.opened,
            "rows": sorted((row for _, row in self.emitted), key=str),
            "standing": sorted((row for _, row in self.standing), key=str),
        }


class Played(Protocol):
    """A bolt, or a topology."""

    batch: int
    stops: bool
    stopped: Stop | None

    @property
    def bolts(self) -> list[Bolt]: ...


P = TypeVar("P", bound=Played)


def settled(begin: Callable[[], P], play: Callable[[P], None]) -> P:
    """Plays a case; to its end before that where rules ask which arrivals of a batch are still to come, and once more
    without the batch in which a rule stops it."""
    coming: list[dict[int, int]] = [{} for _ in begin().bolts]
    if any(bolt.looks_ahead for bolt in begin().bolts):
        ahead = begin()
        ahead.stops = False
        for bolt in ahead.bolts:
            bolt.stops = False
        play(ahead)
        coming = [bolt.still_to_come() for bolt in ahead.bolts]
    stop: Stop | None = None
    while True:
        played = begin()
        played.stopped = stop
        for bolt, known in zip(played.bolts, coming, strict=True):
            bolt.coming = known
        try:
            play(played)
        except Stop as found:
            stop, found.batch = found, played.batch
        else:
            return played


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
