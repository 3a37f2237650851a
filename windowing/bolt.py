"""The classes that users subclass: bolts that work on tuples, on batches, and on windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import pyarrow as pa

from windowing import presets
from windowing.bounds import Bounds
from windowing.durations import Count, Duration, as_duration, as_extent
from windowing.errors import ConfigError
from windowing.kinds import Calendar, CalendarUnit, CountByStart, Session, SlidingLog, Snapshot, WindowKind
from windowing.panes import PaneMode, Panes, PaneTrigger, after_clock, after_count
from windowing.presets import SOURCE_ONLY, Preset, as_every
from windowing.rows import DEFAULT_STREAM, Rows
from windowing.rules import (
    SOURCE,
    START,
    Arrival,
    IdleRule,
    LateAction,
    LateBy,
    Lifetime,
    OutputTime,
    Partition,
    WatermarkCombiner,
    one_of,
)
from windowing.schema import parse_schema
from windowing.settings import WindowSettings
from windowing.state import StateType, new_state
from windowing.timestamps import from_datetime
from windowing.triggers import Capacity, CountTrigger, KeyTrigger
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from windowing.tuples import Tuple

Extent = Duration | Count | timedelta | str | int
Time = Duration | timedelta | str


@dataclass(frozen=True)
class TaskContext:
    """Which of a bolt's tasks this is."""

    component: str
    task: int
    parallelism: int
    run: str = ""
    """Which run of the topology this is: another one after each start."""
    counters: Counter[str] = field(default_factory=Counter, compare=False)
    """What a windowed bolt counts by itself: ``context.counters["declined"] += 1``.

    The totals are in the reports of the run. They are committed with the batch: each call counts once, whatever fails.
    """


class Component:
    """What every bolt has: declared outputs, and a call before the first event."""

    outputs: ClassVar[str | pa.Schema | Mapping[str, str | pa.Schema]] = {}
    """The columns that the bolt emits, ``"user string, revenue double"``; a mapping for several streams."""

    def prepare(self, context: TaskContext) -> None:
        """Called before the bolt is given anything, on each task and in each micro-batch anew.

        Open here what cannot be sent to another process. What is kept on ``self`` is gone after the micro-batch;
        a StatefulWindowedBolt's ``state`` stays.
        """

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """The bolt as it reads these streams: called once, when the topology is built, with the columns of each.

        For bolts whose own columns follow from those. What it returns is run; a ConfigError is one of the mistakes
        that ``build`` reports.
        """
        return self

    def output_schemas(self) -> dict[str, pa.Schema]:
        """The declared columns of each output stream."""
        if isinstance(self.outputs, Mapping):
            return {stream: parse_schema(schema) for stream, schema in self.outputs.items()}
        return {DEFAULT_STREAM: parse_schema(self.outputs)}


class Bolt(Component):
    """A bolt that works tuple by tuple: map, filter and flat-map."""

    time_shift: int = 0
    """Microseconds by which it moves the time of what passes through it, and the watermark with it (SI-25)."""
    refused_stream: str | None = None
    """An output stream for what it cannot read: counted as invalid at the windowed bolts that it feeds."""

    def execute(self, tuple: Tuple) -> Rows:
        """Called for each event; what it returns, a row, several or None, is emitted with the time of that event."""
        raise NotImplementedError


class BatchBolt(Component):
    """A bolt that works on whole Arrow tables: map, filter and flat-map, fast.

    Where a table is cut is not the bolt's business: each row must be treated as if it were alone.
    """

    time_shift: int = 0
    """Microseconds by which it moves the time of what passes through it, and the watermark with it (SI-25)."""
    refused_stream: str | None = None
    """An output stream for what it cannot read: counted as invalid at the windowed bolts that it feeds."""

    def execute(self, batch: pa.Table) -> Rows:
        """Called with events as they come, at least one; what it returns is emitted."""
        raise NotImplementedError


class WindowedBolt(Component):
    """A bolt whose ``execute`` is called once per window.

    Configure it with the ``with_...`` methods; each returns a configured copy. Names are Storm's.
    """

    settings: WindowSettings = WindowSettings()

    def execute(self, window: TupleWindow) -> Rows:
        """Called once for each window that fires, in order; what it returns is emitted with the window's end as time.

        The window may be read during the call only. See ``windowing.rows`` for what may be returned.
        """
        raise NotImplementedError

    def forget(self, key: Any) -> None:
        """Called when a trigger has forgotten a key after empty intervals (UH-22): drop what is kept of it."""

    def with_window(self, length: Extent, slide: Extent | None = None) -> Self:
        """Windows of this length, sliding by this much; without a slide, by every event (ST-8).

        A whole number counts events; durations are ``seconds(20)``, a timedelta, or ``"20s"``. A slide longer than
        the length leaves gaps, whose events are counted as ``unwindowed``.
        """
        slides = Count(1) if slide is None else as_extent(slide)
        return self._windows(kinds=(), length=as_extent(length), slide=slides)

    def with_tumbling_window(self, length: Extent) -> Self:
        """Windows of this length, one after the other (ST-1, ST-2, ST-25)."""
        return self._windows(kinds=(), length=as_extent(length), slide=as_extent(length))

    def with_timestamp_field(self, field: str) -> Self:
        """Event time from a column: timestamps, or whole numbers of milliseconds since the epoch (ST-9)."""
        self._one_time_source(f"with_timestamp_field({field!r})")
        return self._with(timestamp_field=field)

    def with_timestamp_extractor(self, extractor: Callable[..., Any], *, columns: bool = False) -> Self:
        """Event time from a function of the tuple: milliseconds since the epoch, or a datetime (ST-9).

        With ``columns=True`` the function is given a table and returns a column for all of its rows.
        """
        if not callable(extractor):
            raise ConfigError(
                f"with_timestamp_extractor({extractor!r})", why="it cannot be called", do="give a function"
            )
        self._one_time_source("with_timestamp_extractor")
        return self._with(timestamp_extractor=extractor, extractor_on_columns=columns)

    def with_processing_time(self) -> Self:
        """Time is the clock at arrival, even where the input streams carry event times."""
        self._one_time_source("with_processing_time()")
        return self._with(processing_time=True)

    def with_lag(self, lag: Time) -> Self:
        """How far behind the latest event the watermark stays (ST-13); 0 by default."""
        return self._ask("with_lag", lag=as_duration(lag))._with(ahead=Duration(0))

    def with_watermark_interval(self, interval: Time) -> Self:
        """Emit a watermark at most this often, by the clock (ST-15); by default at every micro-batch."""
        return self._ask("with_watermark_interval", watermark_interval=as_duration(interval))

    def with_time(self, preset: Preset) -> Self:
        """All rules of time of another system, ``presets.azure(late="5m")``; call it before single rules."""
        if not isinstance(preset, Preset):
            name = getattr(preset, "__name__", "")
            if callable(preset) and hasattr(presets, name):
                raise ConfigError(
                    f"with_time(presets.{name})",
                    why="that is the function that makes it",
                    do=f"call it: presets.{name}()",
                )
            raise ConfigError(f"with_time({preset!r:.60})", do="give one of windowing.presets, such as presets.atlas()")
        replaced = [each for each in self.settings.asked if each[0] in presets.RULES]
        return self._with(
            **preset.changes(),
            asked=(*(each for each in self.settings.asked if each not in replaced), *preset.asked),
            # A preset in the place of another one is no mistake: it says all that the other said.
            forgotten=(*self.settings.forgotten, *(call for _, call in replaced if not call.startswith("presets."))),
        )

    def with_key(self, *fields: str) -> Self:
        """Windows for each value of these columns, not for each task; ``window.key`` says which.

        With several tasks the inputs must be grouped by fields among these, so that a key is on one task.
        """
        if not fields or not all(isinstance(field, str) and field for field in fields):
            raise ConfigError(f"with_key{fields!r}", why="a key is one or more columns", do="name them")
        configured = self._with(key=tuple(fields))
        if self.settings.key not in ((), fields):
            raise ConfigError(
                f"with_key{fields!r} on a bolt whose key is {', '.join(self.settings.key)}",
                why="a bolt has windows for one key (substreams are keys too)",
                do="name all columns at once, or use two bolts",
            )
        return configured

    def with_session_window(
        self,
        gap: Time,
        *,
        touching: bool = False,
        max_duration: Time | None = None,
        gap_field: str | None = None,
    ) -> Self:
        """Sessions: events with less than ``gap`` between them (AT-5); ``touching``: or exactly that (UH-12).

        ``max_duration``: a session that is longer is closed at the next multiple of it on the clock (AZ-22).
        ``gap_field``: a column with a gap for each event, in milliseconds or as a duration.
        """
        longest = None if max_duration is None else _positive("max_duration", max_duration)
        return self._kinds(Session(_positive("gap", gap), touching, longest, gap_field))

    def with_snapshot_window(self) -> Self:
        """A window between each two moments at which an event begins or ends (SI-29); one per instant for points."""
        return self._kinds(Snapshot())

    def with_sliding_log_window(self, length: Time) -> Self:
        """The events of the last ``length``, at every moment at which one enters or leaves (AZ-21)."""
        return self._kinds(SlidingLog(_positive("length", length)))

    def with_count_by_start_window(self, count: int | Count) -> Self:
        """Each run of ``count`` distinct start times, with all that starts then (SI-30)."""
        return self._kinds(CountByStart(count if isinstance(count, Count) else Count(count)))

    def with_calendar_window(self, unit: CalendarUnit, zone: str) -> Self:
        """Hours, days, weeks (from Monday) or months by the clocks of a zone, ``("day", "Europe/Berlin")``.

        They hold their start and not their end, unless ``with_bounds`` says otherwise afterwards.
        """
        if unit not in get_args(CalendarUnit):
            raise ConfigError(f"with_calendar_window({unit!r})", do=f"use one of {', '.join(get_args(CalendarUnit))}")
        return self._kinds(Calendar(unit, zone))._with(bounds=Bounds.START)

    def with_windows(self, *kinds: WindowKind) -> Self:
        """Several kinds of window in one bolt (AZ-26): ``Hopping(minutes(5), minutes(5)), Session(minutes(1))``.

        Each event is in the windows of all kinds; ``window.kind`` is the place of a window's kind in this list.
        """
        if not kinds or not all(isinstance(kind, get_args(WindowKind)) for kind in kinds):
            raise ConfigError("with_windows without kinds of window", do="give some of windowing.kinds")
        return self._kinds(*kinds)

    def with_expired(self, wanted: bool = True) -> Self:
        """Whether ``window.expired`` is asked for (ST-21), which nobody has to say whose code names it.

        Storm's windows of a task have it anyway. Windows per key, and those that other rules of time or kinds of window
        need, then keep the events of the last window of each key until the key's next one has fired.
        """
        return self._with(expired=bool(wanted))

    def with_message_id_field(self, field: str) -> Self:
        """Drop messages that come again (ST-27): an event whose id is that of a live one is counted as ``duplicate``.

        Live is what some window may still need; of those with one id the first in order of arrival is kept, whatever
        stream and key they have (with ``with_substreams``: of a key). An event without an id is none. With several
        tasks the inputs must be grouped by what events hold, so that equal ones meet.
        """
        if not field or not isinstance(field, str):
            raise ConfigError(f"with_message_id_field({field!r})", why="an id is a column", do="name one")
        return self._with(message_id_field=field)

    def with_trigger(
        self,
        trigger: KeyTrigger,
        *,
        refused_stream: str | None = None,
        max_events: int | None = None,
        max_bytes: int | None = None,
        bytes_of: Sequence[str] = (),
    ) -> Self:
        """The window of a key lasts from its first event until a trigger fires and purges it (UH-10 to UH-23).

        For a bolt with a key, in processing time. ``trigger``: one of ``windowing.triggers``. Events on which its rule
        fails go to the ``errors`` stream; or, with all their columns and ``_reason``, to ``refused_stream``.

        A window that holds ``max_events`` events or ``max_bytes`` bytes fires and is cleared, whatever the trigger says
        (``window.fired_by`` is ``full``, and the reports count it): see ``windowing.triggers.Capacity``. ``bytes_of``:
        the columns whose bytes count, all unless they are named. Raises ConfigError for a count with ``max_events``.
        """
        if not isinstance(trigger, get_args(KeyTrigger)):
            raise ConfigError(f"with_trigger({trigger!r:.60})", do="give one of windowing.triggers")
        capacity = Capacity(max_events, max_bytes, tuple(bytes_of))
        if isinstance(trigger, CountTrigger) and max_events is not None:
            raise ConfigError(
                f"with_trigger(CountTrigger({trigger.count}), max_events={max_events})",
                why="its windows never hold more events than the count",
                do="leave max_events out, or lower the count",
            )
        return self._windows(
            key_trigger=trigger, refused_stream=refused_stream, capacity=None if capacity == Capacity() else capacity
        )

    def with_lifetime(self, end_field: str, *, shape_field: str | None = None, edge_key: Sequence[str] = ()) -> Self:
        """Events that last from their timestamp to ``end_field`` (SI-3); see ``windowing.rules.Lifetime``."""
        if edge_key and shape_field is None:
            raise ConfigError(
                f"with_lifetime(edge_key={list(edge_key)!r}) without shape_field=",
                why="only the edges of events are matched by it, and the column of shapes says which events are edges",
                do="name that column, or leave edge_key out",
            )
        return self._ask("with_lifetime", lifetime=Lifetime(end_field, shape_field, tuple(edge_key)))

    def with_watermark_every(self, every: int | Count | Time) -> Self:
        """A watermark at every so many events, or every so much event time, of each input (SI-5); 1 is each event.

        It then depends on the events in their order of arrival, and not on how they are cut into batches.
        """
        return self._ask("with_watermark_every", watermark_every=as_every(every))

    def with_watermark_field(self, field: str) -> Self:
        """The source puts watermarks in: a row with a time in this column is one, and no event (SI-4, SI-11)."""
        every = self.settings.watermark_every
        return self._ask("with_watermark_field", watermark_field=field)._with(
            watermark_every=SOURCE_ONLY if every is None else every
        )

    def with_watermark_partition(
        self,
        field: str | Literal[Partition.SOURCE] = SOURCE,
        *,
        partitions: Iterable[object] | Mapping[str, Iterable[object]] | None = None,
    ) -> Self:
        """Each partition of an input has a mark of its own; the watermark is the least of all of them (AT-21, AZ-18).

        ``field`` is a column, whose values are the partitions; or ``SOURCE`` (``windowing.rules``): those that the
        source itself has, those of a topic of Kafka's, which exist as soon as Kafka lists them. A source without
        partitions is one partition.

        ``partitions`` are the values of the column that exist, on every input, or per input
        (``{"orders": [0, 1], "returns": [0]}``). One of these holds the watermark before its first event, until
        ``with_partition_idle_timeout`` or, with an arrival rule, the late tolerance releases it (AT-20, AZ-18). Any
        other value takes part from its first event on, which may be late. ConfigError for partitions without a column.
        """
        return self._ask("with_watermark_partition", watermark_partition=field)._with(
            partitions=_partitions(field, partitions)
        )

    def with_substreams(self, *fields: str) -> Self:
        """Windows and a watermark for each value of these columns (AZ-15): a slow key makes no other one late."""
        every = self.settings.watermark_every
        return (
            self.with_key(*fields)
            ._ask("with_substreams", watermark_per_key=True)
            ._with(watermark_every=Count(1) if every is None else every)
        )

    def with_max_watermark(self) -> Self:
        """The watermark is the greatest of the inputs' marks, not the least: the fastest input closes windows."""
        return self._ask("with_max_watermark", watermark_over=WatermarkCombiner.MAX)

    def with_arrival(
        self,
        field: str | None = None,
        *,
        early: Time | None = None,
        late: Time | None = None,
        action: LateAction | str | None = None,
    ) -> Self:
        """How far an event may be from its arrival (AZ-8, AZ-12): the column ``field``, or the clock of the batch.

        ``early`` guards against timestamps from the future: such events are turned away, and the watermark does not
        see them. ``late``: how long after its time an event may arrive before ``action`` is taken: ``adjust`` its time
        (unless said otherwise), ``drop``, ``divert``, or ``error``.
        """
        early_ = None if early is None else as_duration(early)
        late_ = None if late is None else as_duration(late)
        chosen = LateAction.ADJUST if action is None else one_of(LateAction, action)
        if chosen is LateAction.CUT:
            raise ConfigError(
                "with_arrival(action='cut')",
                why="a lifetime is cut at the watermark (SI-13), and a late arrival is measured against the arrival",
                do="use 'adjust', 'drop', 'divert' or 'error'",
            )
        if action is not None and late_ is None:
            raise ConfigError(
                f"with_arrival(action={chosen.value!r}) without late=",
                why="no event is late by its arrival, so that nothing would be done",
                do="give late=, or leave the action out; events behind the watermark are with_late's",
            )
        if early_ is None and late_ is None and field is None:
            raise ConfigError(
                "with_arrival() without early= and late=",
                why="nothing would be early or late by its arrival",
                do="give early=, late=, or both",
            )
        return self._ask("with_arrival", arrival=Arrival(field, early_, late_, chosen))

    def with_late(self, action: LateAction | str) -> Self:
        """What becomes of late events: ``divert`` to the late stream, ``drop``, ``adjust`` their time, or ``error``."""
        return self._ask("with_late", late_action=one_of(LateAction, action))

    def with_late_by(self, rule: LateBy | str, allowed_lateness: Time = "0s") -> Self:
        """When an event is late: behind the ``watermark``, or when its ``window`` has closed (AT-16).

        For sessions: when it is before the watermark less ``allowed_lateness``, and no open session takes it (AT-7).
        Windows close ``allowed_lateness`` after the watermark has reached their end (AT-14).
        """
        return self._ask("with_late_by", late_by=one_of(LateBy, rule), allowed_lateness=as_duration(allowed_lateness))

    def with_idle_timeout(self, timeout: Time, rule: IdleRule | str = IdleRule.AFTER_WINDOW_END) -> Self:
        """Close windows by the clock when no event comes (AT-17 to AT-19); the watermark moves to their end."""
        return self._ask("with_idle_timeout", idle_timeout=as_duration(timeout))._with(idle_rule=one_of(IdleRule, rule))

    def with_partition_idle_timeout(self, timeout: Time) -> Self:
        """Leave an input or partition that has been silent for this long out of the watermark (AT-20)."""
        return self._ask("with_partition_idle_timeout", partition_idle_timeout=as_duration(timeout))

    def with_anchor(self, anchor: datetime | int | str) -> Self:
        """Count aligned windows from a moment (a datetime, milliseconds), or from ``"start"``, the run's first clock.

        No window begins before it (AT-3).
        """
        if isinstance(anchor, datetime):
            return self._ask("with_anchor", anchor=from_datetime(anchor))
        if isinstance(anchor, int) and not isinstance(anchor, bool):
            return self._ask("with_anchor", anchor=anchor * 1_000)
        if anchor != START:
            raise ConfigError(f"with_anchor({anchor!r})", do="give a datetime, milliseconds, or 'start'")
        return self._ask("with_anchor", anchor=START)

    def with_output_time(self, time: OutputTime | str, *, watermark: OutputTime | str | None = None) -> Self:
        """Emitted rows have the time of the ``"window end"`` or of the ``"window start"`` (SI-31).

        ``watermark``: the next bolt's watermark follows the ends of the windows that are still open (``"window end"``),
        or the start of the earliest of them (``"window start"``, SI-24). None: as the preset says, or else as far as
        the time of the rows allows.
        """
        promised = self.settings.output_watermark if watermark is None else one_of(OutputTime, watermark)
        return self._ask("with_output_time", output_time=one_of(OutputTime, time))._with(output_watermark=promised)

    def with_panes(
        self,
        *,
        early: PaneTrigger | int | Count | Time | None = None,
        late: PaneTrigger | bool | None = None,
        mode: PaneMode | str = PaneMode.ACCUMULATING,
    ) -> Self:
        """Firings beside the one at the end of a window; ``window.pane`` says which one a call is.

        ``early``: a trigger of ``windowing.panes``, a number of events, or a duration of the clock. ``late``: fire
        at the end, and again for late events until the allowed lateness is over; True: whenever some have come.
        """
        panes = Panes(_trigger(early), after_count(1) if late is True else late or None, one_of(PaneMode, mode))
        if panes.early is None and panes.late is None:
            raise ConfigError(
                "with_panes without early= and late=",
                why="a window would fire once, at its end, as it does anyway",
                do="give early=, late=True, or both",
            )
        return self._ask("with_panes", panes=panes)

    def with_late_tuple_stream(self, stream: str) -> Self:
        """Late events go to this output stream (ST-18), with ``_reason``, ``_late_by``, ``_watermark`` and so on."""
        if not stream or not isinstance(stream, str):
            raise ConfigError(
                f"with_late_tuple_stream({stream!r})", why="a stream has a name", do="give one, such as 'late'"
            )
        return self._ask("with_late_tuple_stream", late_stream=stream)

    def with_bounds(self, bounds: Bounds | str) -> Self:
        """Which end belongs to a window: ``"(start, end]"``, Storm's (ST-10), or ``"[start, end)"``."""
        try:
            chosen = Bounds(bounds)
        except ValueError:
            raise ConfigError(
                f"with_bounds({bounds!r})", why="there are two kinds", do="use '(start, end]' or '[start, end)'"
            ) from None
        return self._ask("with_bounds", bounds=chosen)

    def with_offset(self, offset: Time) -> Self:
        """Shift the aligned ends of a time slide from the multiples of the slide by this much."""
        return self._ask("with_offset", offset=as_duration(offset))

    def with_eviction_policy(self, policy: Any) -> Self:
        """Decide which events a window holds by a policy of one's own (``policies.EvictionPolicy``)."""
        return self._ask("with_eviction_policy", eviction=policy)

    def with_trigger_policy(self, policy: Any) -> Self:
        """Decide when windows fire by a policy of one's own (``policies.TriggerPolicy``)."""
        return self._ask("with_trigger_policy", trigger=policy)

    def with_settings(self, settings: WindowSettings) -> Self:
        """The bolt with other settings, all at once: what ``build()`` does when it settles what follows from inputs."""
        configured = copy(self)
        configured.settings = settings
        return configured

    def _ask(self, call: str, **changes: Any) -> Self:
        """Set what the user asks for by name in a call."""
        kept = [each for each in self.settings.asked if each[0] not in changes]
        forgotten = tuple(each for each in self.settings.forgotten if each != call)  # said again, and after the preset
        return self._with(**changes, asked=(*kept, *((rule, call) for rule in changes)), forgotten=forgotten)

    def _kinds(self, *kinds: WindowKind) -> Self:
        return self._windows(kinds=kinds, length=None, slide=Count(1))

    def _windows(self, **windows: Any) -> Self:
        settings, configured = self.settings, self._with(**windows)
        if (settings.length is not None or settings.kinds or settings.key_trigger is not None) and any(
            getattr(settings, name) != value for name, value in windows.items()
        ):
            raise ConfigError(
                "other windows on a bolt that has windows already",
                why="the first would be forgotten",
                do="keep one of them, or give both to with_windows(...) where each event is to be in both",
            )
        return configured

    def _one_time_source(self, call: str) -> None:
        settings = self.settings
        if settings.reads_timestamps or settings.processing_time:
            raise ConfigError(
                f"{call} on a bolt whose time is already configured",
                why="a bolt has one source of time (ST-9)",
                do="keep one of them",
            )

    def _with(self, **changes: Any) -> Self:
        return self.with_settings(replace(self.settings, **changes, given=self.settings.given | changes.keys()))


class StatefulWindowedBolt(WindowedBolt):
    """A windowed bolt with a ``state`` that outlives the micro-batch and the process (ST-27).

    ``state_types`` declares what it holds: ``{"seen": int, "by_user": dict, "last": "user string, amount double"}``.
    int, float, str, bool, list and dict are kept as JSON; a schema declares an Arrow table. Saved with the batch,
    restored with it: exactly once.
    """

    state_types: ClassVar[Mapping[str, StateType]] = {}
    state: dict[str, Any]

    def initial_state(self) -> dict[str, Any]:
        """Called once per task, before its first window: values for the declared names; zeros and empties if not."""
        return new_state(self.state_types)


def _trigger(given: PaneTrigger | int | Count | Time | None) -> PaneTrigger | None:
    if given is None or isinstance(given, PaneTrigger):
        return given
    every = as_every(given, "an early firing")
    return after_count(every) if isinstance(every, Count) else after_clock(every)


def _partitions(
    field: str | Partition, given: Iterable[object] | Mapping[str, Iterable[object]] | None
) -> tuple[str, ...] | dict[str, tuple[str, ...]] | None:
    """The names of partitions that exist, as texts; ConfigError for what names none."""
    if given is None:
        return None
    if isinstance(field, Partition):
        raise ConfigError(
            "with_watermark_partition(SOURCE, partitions=...)",
            why="which partitions it has the source says itself",
            do="leave partitions= out, or name the column whose values they are",
        )
    if isinstance(given, Mapping):
        return {stream: _names(values) for stream, values in given.items()}
    return _names(given)


def _names(values: Iterable[object]) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ConfigError(f"partitions={values!r}", why="these are several", do="give a list of values of the column")
    found = tuple(values)
    names = tuple(map(str, found))
    if not found or None in found or len(set(names)) < len(names):
        raise ConfigError(
            f"partitions={list(found)!r:.80}",
            why="they are the values of the column that exist, each once",
            do="give a list like [0, 1, 2]",
        )
    return names


def _positive(name: str, value: Time) -> Duration:
    duration = as_duration(value)
    if duration.micros == 0:
        raise ConfigError(f"{name}={value!r}", why="a window has a length", do="give a duration above zero")
    return duration
