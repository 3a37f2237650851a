"""The settings of a windowed bolt, with their declarations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from windowing.durations import Count, Duration, Shift
from windowing.reprs import fields_repr
from windowing.settings import words
from windowing.settings.declaration import (
    ABOVE_ZERO,
    ANCHOR,
    ARRIVAL,
    BYTES,
    DURATION,
    EDGE,
    EVERY,
    FLAG,
    IMPORTS,
    LISTED,
    NAME,
    PARTITION,
    PARTITIONS,
    SHIFT,
    STREAM,
    AdmittedBy,
    Declaration,
    DescribedBy,
    ListedKeys,
    by_argument,
    choice,
    declarations,
    setting,
    unchecked,
)
from windowing.settings.kinds import WindowKind
from windowing.settings.panes import Panes
from windowing.settings.rules import (
    Aligned,
    Arrival,
    Bounds,
    DefaultTime,
    IdleRule,
    InputRules,
    LateAction,
    LateBy,
    Lifetime,
    OutputTime,
    Partition,
    WatermarkCombiner,
)
from windowing.settings.triggers import Capacity, KeyTrigger
from windowing.timestamps import show

_OVERLAPPING = "not if windows are then stored otherwise: overlapping ones, between none and some"
_SUMS = "not between none and some, for an `AggregateBolt` that keeps partial results in place of events"
_SAME_CLASS = f"the same class only; {_SUMS}"
_OF_JOINS = "for a join with `outputs`, which keeps all columns with it"
_PER_INPUT = "not if windows are then stored otherwise: overlapping ones, with lateness per input"


@dataclass(frozen=True)
class WindowSettings:
    """The settings that the methods ``WindowedBolt.with_...`` change; policies are made from them when a topology is
    built.

    The defaults are Storm's. A preset (``windbolt.presets``) sets the rules of another system. Presets, scenario files,
    ``build()``, ``describe``, checkpoints and docs/settings.md read the declarations of ``setting(...)``.
    """

    # -- windows
    length: Duration | Count | None = None
    slide: Duration | Count = Count(1)
    kinds: tuple[WindowKind, ...] = ()
    """Kinds of window, in place of length and slide; a bolt may have several kinds (AZ-26)."""
    key: tuple[str, ...] = setting(
        (),
        unchecked("the names of columns"),
        "with_key",
        scenario=None,
        resumes=False,
        admitted_by=AdmittedBy.READER,
        words=words.key,
    )
    """The columns of the key: windows are formed for each of its values, not for each task."""

    # -- where the time of an event comes from
    timestamp_field: str | None = setting(
        None,
        NAME,
        "with_timestamp_field",
        scenario=None,
        resumes=False,
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("time", has_json_key=True),
    )
    """The column of the event time: timestamps, dates, or whole numbers of milliseconds since the epoch (ST-9)."""
    timestamp_extractor: Callable[..., Any] | None = None
    extractor_on_columns: bool = False
    extractor_on_error: str | None = None
    """Rule for an event on which the extractor fails: ``"stop"`` or ``"errors"``; None: the default."""
    extractor_on_truncation: str = "cut"
    """Rule for an event whose extracted time is finer than microseconds: ``"cut"`` or ``"error"``."""
    processing_time: bool = setting(
        False,
        FLAG,
        "with_time.processing",
        scenario=None,
        resumes="not between event time and processing time",
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("time", has_json_key=True),
    )
    """True if the bolt is in processing time. If False, and the bolt has no timestamp field or extractor, the input
    streams decide."""
    default_time: DefaultTime = setting(
        DefaultTime.CLOCK,
        choice(DefaultTime),
        "with_time.default_time",
        preset=True,
        needs=("no time of its own",),
        scenario=None,
        resumes=False,
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("time", has_json_key=True),
    )
    """The time of events if no other setting names one and the inputs carry no times (AT-10, SI-1, AZ-1)."""

    # -- the watermark
    lag: Duration | None = setting(
        None,
        DURATION,
        "with_lag",
        preset=True,
        needs=("event time", "marks made here"),
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("time", has_json_key=True),
    )
    """Time by which the watermark is behind the latest event (ST-13)."""
    watermark_interval: Duration = setting(
        Duration(0),
        ABOVE_ZERO,
        "with_watermark_interval",
        preset=True,
        needs=("event time", "watermarks at ticks"),
        resumes="not between none and some",
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("time", has_json_key=True),
    )
    """The shortest interval between two watermarks, by the clock (ST-15); by default a watermark at each
    micro-batch."""
    watermark_every: Count | Duration | None = setting(
        None,
        EVERY,
        "with_watermark.every",
        preset=True,
        needs=("event time",),
        resumes=_OVERLAPPING,
        admitted_by=AdmittedBy.FOLLOWING_EVENTS,
        words=words.watermark_every,
    )
    """Interval at which an input makes a watermark: a number of its events, or a duration of its event time (AT-12,
    SI-5). None: at ticks."""
    ahead: Duration = setting(
        Duration(0),
        DURATION,
        "with_watermark.ahead",
        preset=True,
        needs=("event time", "watermarks with events", "marks made here"),
        scenario=None,
        admitted_by=AdmittedBy.READER,
        words=lambda value, _: f"the watermark is {value} past the latest event",
    )
    """Time by which the watermark is ahead of the latest event, not behind it: a negative delay (SI-9)."""
    watermark_field: str | None = setting(
        None,
        NAME,
        "with_watermark.field",
        preset=True,
        needs=("event time",),
        resumes=_OVERLAPPING,
        admitted_by=AdmittedBy.FOLLOWING_EVENTS,
        words=words.watermark_field,
    )
    """A column in which the source sends watermarks (SI-4, SI-11); a row with a time in it is not an event."""
    watermark_partition: str | Partition | None = setting(
        None,
        PARTITION,
        "with_watermark.partition",
        preset=True,
        needs=("event time", "partitions"),
        resumes=False,
        admitted_by=AdmittedBy.FOLLOWING_EVENTS,
        words=words.watermark_partition,
    )
    """A column, or SOURCE: each value of the column, or each partition of the source, has its own mark, and the
    watermark is the least of all marks (AT-21, AZ-18)."""
    partitions: tuple[str, ...] | Mapping[str, tuple[str, ...]] | None = setting(
        None,
        PARTITIONS,
        "with_watermark.partitions",
        preset=True,
        scenario=None,
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("watermark_partition"),
    )
    """The existing values of ``watermark_partition``, for all inputs or per input: the watermark waits for each of
    these partitions before its first event too (AT-20). None: a partition counts from its first event."""
    watermark_combine: WatermarkCombiner = setting(
        WatermarkCombiner.MIN,
        choice(WatermarkCombiner),
        "with_watermark.combine",
        preset=True,
        needs=("event time", "one watermark", "several marks"),
        resumes=_PER_INPUT,
        admitted_by=AdmittedBy.FOLLOWING_EVENTS,
        words=lambda *_: "the fastest input decides the watermark",
    )
    """MIN: the least of several marks is the watermark; MAX: the greatest."""
    watermark_per_key: bool = setting(
        False,
        FLAG,
        "with_watermark.per_key",
        needs=("event time",),
        scenario=None,
        resumes=False,
        admitted_by=AdmittedBy.TASK,
        words=DescribedBy("key"),
    )
    """True if each key has its own watermark (AZ-15)."""
    watermark_imports: Mapping[str, str] | None = setting(
        None,
        IMPORTS,
        "with_watermark.imports",
        preset=True,
        needs=("event time",),
        scenario="imports",
        admitted_by=AdmittedBy.FOLLOWING_EVENTS,
        words=words.imports,
    )
    """Inputs that take the marks of another input (SI-15): ``{"lookup": "data"}``."""
    watermark_imports_beside: bool = setting(
        False,
        FLAG,
        "with_watermark.imports_beside",
        preset=True,
        needs=("event time", "imports"),
        scenario="imports_beside",
        admitted_by=AdmittedBy.READER,
        words=lambda *_: "inputs that take watermarks make their own as well, and the greater counts",
    )
    """True if inputs that take marks also make marks themselves; the greater mark counts (SI-16)."""
    estimate_arrival: bool = setting(
        False,
        FLAG,
        "with_watermark.estimate_arrival",
        preset=True,
        resumes=_OVERLAPPING,
        needs=("event time", "events from outside", "late tolerance"),
        admitted_by=AdmittedBy.FOLLOWING_EVENTS,
        words=lambda *_: "when nothing comes, the watermark follows the estimated arrival",
    )
    """True if the watermark follows the estimated arrival, less the late tolerance, while no event comes (AZ-5,
    AZ-6)."""
    idle_timeout: Duration | None = setting(
        None,
        DURATION,
        "with_watermark.idle_timeout",
        preset=True,
        needs=("event time", "no CTIs"),
        resumes="not if windows are then stored otherwise: those of a length in time, between none and some",
        admitted_by=AdmittedBy.FOLLOWING_EVENTS,
        words=words.idle_timeout,
    )
    """Time without events after which the clock closes windows (AT-17 to AT-19)."""
    idle_rule: IdleRule = setting(
        IdleRule.AFTER_WINDOW_END,
        choice(IdleRule),
        "with_watermark.idle_rule",
        preset=True,
        needs=("event time", "idle timeout"),
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("idle_timeout"),
    )
    """When the idle timeout closes a window (AT-17, AT-19)."""
    partition_idle_timeout: Duration | None = setting(
        None,
        DURATION,
        "with_watermark.partition_idle_timeout",
        preset=True,
        needs=("event time", "several marks", "the least mark"),
        resumes=_PER_INPUT,
        admitted_by=AdmittedBy.FOLLOWING_EVENTS,
        words=lambda value, _: f"an input that is silent for {value} is left out of the watermark",
    )
    """Time without events after which an input or partition is left out of the least mark (AT-20), at the end of the
    micro-batch."""

    # -- lateness
    arrival: Arrival | None = setting(
        None,
        ARRIVAL,
        "with_lateness.arrival",
        preset=True,
        needs=("event time", "events from outside", "early or late by arrival"),
        admitted_by=AdmittedBy.TASK,
        words=words.arrival,
    )
    """Limits on the time between an event of a spout and its arrival (AZ-8, AZ-12); rows of windowed bolts have no
    arrival."""
    late_by: LateBy = setting(
        LateBy.WATERMARK,
        choice(LateBy),
        "with_lateness.by",
        preset=True,
        needs=("event time", "no instants"),
        resumes="not if windows are then stored otherwise: overlapping ones, and those that close after their end",
        admitted_by=AdmittedBy.TASK,
        words=words.late_by,
    )
    """When an event is late: if it is behind the watermark, or if its window has closed (AT-16)."""
    allowed_lateness: Duration = setting(
        Duration(0),
        DURATION,
        "with_lateness.allowed",
        preset=True,
        needs=("event time",),
        admitted_by=AdmittedBy.TASK,
        words=words.allowed_lateness,
    )
    """Time for which a window stays open after the watermark has reached its end (AT-14)."""
    late_by_session: bool = setting(
        False,
        FLAG,
        "with_lateness.by_session",
        preset=True,
        needs=("event time", "sessions that are late by window"),
        admitted_by=AdmittedBy.READER,
        words=lambda *_: "an event is late for a session when the one that it would open or join has closed",
    )
    """True if an event is late when the session that it would open or join has closed (Flink, Kafka Streams); False if
    it is late when it is behind the watermark and fits no open session (AT-7)."""
    late_per_input: bool = setting(
        False,
        FLAG,
        "with_lateness.per_input",
        preset=True,
        needs=("event time", "late by watermark", "several marks"),
        resumes=_PER_INPUT,
        admitted_by=AdmittedBy.FOLLOWING_EVENTS,
        words=lambda *_: "late is what is behind the mark of its own input or partition",
    )
    """True if lateness is measured against the mark of the event's input or partition (SI-2, AZ-4), not against the
    watermark of the bolt."""
    late_action: LateAction = setting(
        LateAction.DIVERT,
        choice(LateAction),
        "with_lateness.action",
        preset=True,
        needs=("event time",),
        scenario="late",
        admitted_by=AdmittedBy.TASK,
        words=lambda action, _: f"behind the watermark: {action.value}",
    )
    """Action for late events (ST-18, SI-12, SI-13)."""
    late_stream: str | None = setting(
        None,
        STREAM,
        "with_late_tuple_stream",
        needs=("event time",),
        resumes=f"not between none and some, {_OF_JOINS}",
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("late", has_json_key=True),
    )
    """The output stream of late events (ST-18)."""

    # -- which events a window holds, and when it fires
    message_id_field: str | None = setting(
        None,
        NAME,
        "with_message_id_field",
        resumes=_SUMS,
        admitted_by=AdmittedBy.TASK_IN_ANY_TIME,
        words=lambda name, _: f"an event with the {name} of a live one is a duplicate, and in no window",
    )
    """The column of message ids: an event with the id of a live event is a duplicate, and in no window (ST-27)."""
    panes: Panes | None = setting(
        None,
        unchecked("`Panes`"),
        "with_trigger.trigger",
        given_as="Panes(...)",
        needs=("late panes",),
        scenario=None,
        resumes=False,
        admitted_by=AdmittedBy.READER,
        words=words.panes,
    )
    """Firings of a window besides the one at its end."""
    key_trigger: KeyTrigger | None = setting(
        None,
        unchecked("`CountTrigger`, `RuleTrigger`, `DailyTrigger` or `DailyByRule`"),
        "with_trigger.trigger",
        given_as="a trigger of windbolt.triggers",
        scenario=None,
        resumes="the same class only",
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("windows"),
    )
    """A trigger of keys, in place of a kind of window: the window of a key lasts until the trigger fires and purges it
    (UH-10 to UH-23)."""
    refused_stream: str | None = setting(
        None,
        STREAM,
        "with_trigger.refused_stream",
        scenario=None,
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("emits"),
    )
    """The output stream of events for which a rule of the trigger raises an exception."""
    capacity: Capacity | None = setting(
        None,
        unchecked("whole numbers, and the names of columns"),
        "with_trigger",
        given_as="max_events=..., max_bytes=..., bytes_of=...",
        scenario=None,
        resumes=f"`max_bytes` not between none and some, {_OF_JOINS}",
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("windows"),
    )
    """Limits of the size of the window of a key, beyond which the window fires whatever its trigger decides."""
    eviction: Any = setting(
        None,
        unchecked("an `EvictionPolicy`"),
        "with_policies.eviction",
        scenario=None,
        resumes=_SAME_CLASS,
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("windows", has_json_key=True),
    )
    """A custom policy that decides which events a window holds."""
    trigger: Any = setting(
        None,
        unchecked("a `TriggerPolicy`"),
        "with_policies.trigger",
        scenario=None,
        resumes=_SAME_CLASS,
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("windows", has_json_key=True),
    )
    """A custom policy that decides when windows fire."""
    expired: bool | None = setting(
        None,
        FLAG,
        "with_policies.expired",
        scenario=None,
        resumes="not with a key, nor for sessions and other kinds of window",
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("keeps", has_json_key=True),
    )
    """True if windows must have ``window.expired`` (ST-21); None: only if the code of the bolt names it."""

    empty_windows_until: Duration | None = setting(
        None,
        ABOVE_ZERO,
        "with_empty_windows.until",
        needs=("windows on a grid", "room for an empty window"),
        resumes="not if windows are then stored otherwise: those of a length in time, and those of an `AggregateBolt` "
        "that keeps partial results, between none and some",
        admitted_by=AdmittedBy.READER,
        words=lambda until, _: f"windows without events fire too, until {until} after the last one with events",
    )
    """Greatest time from the end of a key's last window with events to the end of windows without events, which then
    fire too; None: windows without events do not fire."""
    listed_keys: ListedKeys | None = setting(
        None,
        LISTED,
        "with_empty_windows.keys",
        needs=("windows on a grid",),
        admitted_by=AdmittedBy.READER,
        words=lambda listed, _: f"keys known since {show(listed.since)}: {len(listed.values)}",
    )
    """Keys whose windows without events fire before their first event."""

    # -- limits
    window_bytes: int | None = setting(
        None,
        BYTES,
        "with_limits.window_bytes",
        scenario=None,
        admitted_by=AdmittedBy.READER,
        words=lambda value, _: f"a window of more than {value:,} bytes ends the run",
    )
    """Greatest number of bytes of a window with which the bolt is called; more is an error."""
    call_time: Duration | None = setting(
        None,
        ABOVE_ZERO,
        "with_limits.call_time",
        scenario=None,
        admitted_by=AdmittedBy.READER,
        words=lambda value, _: f"a call that takes more than {value} ends the run",
    )
    """Longest time that a call of the bolt may take; a longer call is an error."""

    # -- bounds and alignment
    bounds: Bounds = setting(
        Bounds.END,
        choice(Bounds),
        "with_alignment.bounds",
        preset=True,
        needs=("edges",),
        resumes=False,
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("windows", has_json_key=True),
    )
    """The edge that belongs to a window: its end, as in Storm (ST-10), or its start."""
    aligned: Aligned = setting(
        Aligned.ENDS,
        choice(Aligned),
        "with_alignment.aligned",
        preset=True,
        needs=("edges off the grid",),
        resumes=False,
        admitted_by=AdmittedBy.READER,
        words=words.aligned,
    )
    """Which edges of windows are multiples of the slide (AT-3)."""
    offset: Shift = setting(
        Shift(0),
        SHIFT,
        "with_alignment.offset",
        needs=("a grid",),
        resumes=False,
        admitted_by=AdmittedBy.READER,
        words=DescribedBy("windows", has_json_key=True),
    )
    """Time by which aligned ends are shifted from the multiples of the slide, modulo the slide; backwards if below
    zero."""
    anchor: str | int | None = setting(
        None,
        ANCHOR,
        "with_alignment.anchor",
        resumes=False,
        admitted_by=AdmittedBy.READER,
        words=words.anchor,
    )
    """The moment from which aligned windows are counted: a time, ``"start"`` for the first clock of the run, or None
    for the epoch. No window begins before a moment that is given (AT-3)."""
    closes_after_end: bool = setting(
        False,
        FLAG,
        "with_alignment.closes_after_end",
        preset=True,
        needs=("a held end",),
        resumes="not if windows are then stored otherwise: overlapping ones, and those with lateness by window",
        admitted_by=AdmittedBy.TASK,
        words=lambda *_: "a window closes when the watermark is past its end, not at it",
    )
    """True if a window with an inclusive end closes when the watermark is past this end, not at it, because events of
    that instant may still come (AZ-11)."""
    longest_window: Duration | None = setting(
        None,
        ABOVE_ZERO,
        "with_alignment.longest_window",
        preset=True,
        needs=("lengths",),
        admitted_by=AdmittedBy.READER,
        words=lambda value, _: f"no window may be longer than {value}",
    )
    """Greatest length of the windows of the bolt: 7 days in Azure (AZ-19)."""

    # -- events that last, emitted rows, and the end of the streams
    lifetime: Lifetime | None = setting(
        None,
        unchecked("the name of a column, and `Lifetime`'s other arguments"),
        "with_lifetime",
        scenario=None,
        resumes=False,
        admitted_by=AdmittedBy.READER,
        words=words.lifetime,
    )
    """The column of the ends of events, if events last from their timestamp to an end (SI-3)."""
    output_time: OutputTime = setting(
        OutputTime.END,
        choice(OutputTime),
        "with_time.output_time",
        preset=True,
        needs=("event time", "starts"),
        admitted_by=AdmittedBy.READER,
        words=words.output_time,
    )
    """The event time of emitted rows: the window's end, its last microsecond, or its start (SI-31)."""
    output_watermark: OutputTime | None = setting(
        None,
        EDGE,
        "with_time.output_watermark",
        preset=True,
        needs=("event time", "starts", "windows that last", "open windows behind closed ones"),
        admitted_by=AdmittedBy.READER,
        words=words.output_watermark,
    )
    """Which times the next bolt's watermark follows: the ends of open windows, or the start of the earliest open window
    (SI-24). None: as ``output_time`` requires."""
    close_fires: bool = setting(
        True,
        FLAG,
        "with_time.close_fires",
        preset=True,
        needs=("open windows at the end",),
        admitted_by=AdmittedBy.READER,
        words=lambda *_: "the end of the streams fires nothing",
    )
    """True if the end of the streams fires the open windows (SI-7); False if they stay open for the next run."""

    # -- settings that inputs decide, and records of the user's calls
    input_rules: Mapping[str, InputRules] | None = None
    """Rules for watermarks and late events that the sources of inputs declare, by the label of the input (SI-17)."""
    given: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """The settings that calls have set; a source does not replace them (SI-18)."""
    asked: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    """The settings that the user has named, as (setting, call), in order. ``build()`` refuses one without effect; a
    setting that only a preset has set may have none."""
    every_is_derived: bool = field(default=False, compare=False, repr=False)
    """True if ``watermark_every`` was derived from other settings, and not set by the user."""
    forgotten: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The calls whose settings a later preset has replaced."""

    def __repr__(self) -> str:
        return fields_repr(self)

    def changed(self, **changes: Any) -> WindowSettings:
        """Returns a copy with these changes, like ``dataclasses.replace`` but ten times as fast."""
        unknown = changes.keys() - _FIELDS
        if unknown:
            raise TypeError(f"there is no setting {', '.join(sorted(unknown))}")
        copied = object.__new__(type(self))
        vars(copied).update({name: value for name, value in vars(self).items() if name in _FIELDS}, **changes)
        return copied

    @property
    def follow_each_other(self) -> bool:
        """True if the windows of a task or key follow each other, so that events can expire from one to the next."""
        return self.panes is None and self.key_trigger is None and len(self.kinds) <= 1

    @property
    def follows_events(self) -> bool:
        """True if in event time the watermark advances with the events in their order of arrival, not at ticks."""
        return any(self._changes(each) for each in _FOLLOWING_EVENTS)

    @property
    def watermark_moves_within_batch(self) -> bool:
        """True if the watermark may advance between two events of a micro-batch."""
        return self.watermark_every is not None or self.estimate_arrival

    def admitted_by_tasks(self, *, event_time: bool) -> bool:
        """True if the settings make the bolt's tasks, not the readers, admit its events; ``event_time``: False for
        processing time."""
        return any(self._changes(each) for each in (_BY_TASKS_IN_EVENT_TIME if event_time else _BY_TASKS))

    def _changes(self, declared: Declaration) -> bool:
        return bool(getattr(self, declared.name) != declared.default)

    @property
    def reads_timestamps(self) -> bool:
        """True if the bolt has a timestamp field or a timestamp extractor."""
        return self.timestamp_field is not None or self.timestamp_extractor is not None

    @property
    def arrival_is_time(self) -> bool:
        """True if events have no other time than the column of their arrival (AZ-1)."""
        by_default = self.default_time is DefaultTime.ARRIVAL and not self.reads_timestamps and not self.processing_time
        return by_default and self.arrival is not None and self.arrival.field is not None

    @property
    def admits_behind_watermark(self) -> bool:
        """True if an event behind the watermark of the bolt may be in time for its input or partition.

        That is possible if lateness is measured per input or partition, and one of them is new or was left out as idle.
        """
        may_be_left_out = isinstance(self.watermark_partition, str) or self.partition_idle_timeout is not None
        per_input = self.late_per_input and not self.watermark_per_key and self.late_by is LateBy.WATERMARK
        return per_input and may_be_left_out and self.watermark_combine is WatermarkCombiner.MIN

    @property
    def delay(self) -> int:
        """Microseconds by which the watermark is behind the latest event; below zero if it is ahead of it."""
        return (self.lag or Duration(0)).micros - self.ahead.micros

    @property
    def by_input(self) -> Mapping[str, WindowSettings]:
        """For each input, by its label, the settings with the rules of this input; empty if all inputs have the same
        rules (SI-17)."""
        rules = self.input_rules or {}
        return {} if len(set(rules.values())) < 2 else {label: self._with_rules(each) for label, each in rules.items()}

    def _with_rules(self, rules: InputRules) -> WindowSettings:
        lag, ahead = Duration(max(rules.delay, 0)), Duration(max(-rules.delay, 0))
        every, action = rules.watermark_every, rules.late_action
        return replace(self, lag=lag, ahead=ahead, watermark_every=every, late_action=action, input_rules=None)

    def of_input(self, label: str) -> InputRules:
        """Returns the rules for the watermarks and late events of an input."""
        rules = (self.input_rules or {}).get(label)
        return rules or InputRules(self.watermark_every, self.delay, self.late_action)


_FIELDS: Final = frozenset(each.name for each in fields(WindowSettings))

DECLARED: Final[Mapping[str, Declaration]] = declarations(WindowSettings)
"""The declarations of settings, by name."""

OF_INPUT: Final = ("lag", "ahead", "watermark_every", "late_action")
"""The settings that may differ between the inputs of a bolt, because their sources declare them."""

ARGUMENTS: Final[Mapping[tuple[str, str], Declaration]] = by_argument(DECLARED)
"""The declarations of settings by (method, argument); the argument is "" if the method sets only one setting."""

_FOLLOWING_EVENTS = tuple(each for each in DECLARED.values() if each.admitted_by is AdmittedBy.FOLLOWING_EVENTS)
_BY_TASKS = tuple(each for each in DECLARED.values() if each.admitted_by is AdmittedBy.TASK_IN_ANY_TIME)
_BY_TASKS_IN_EVENT_TIME = tuple(each for each in DECLARED.values() if each.admitted_by is not AdmittedBy.READER)
