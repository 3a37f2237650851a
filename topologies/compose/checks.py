"""What the rules of time ask of a windowed bolt's streams and of each other; every fault is found when it is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from topologies.compose.effects import Situation, idle_settings
from topologies.graph.groupings import FieldsGrouping, GlobalGrouping, Grouping, ShuffleGrouping
from topologies.graph.model import RETRACT, Input, stream_label
from windowing.errors import ConfigError
from windowing.settings.bounds import Bounds
from windowing.settings.kinds import Calendar, CountByStart, Hopping, Onset, Session, SlidingLog, Snapshot, longest_of
from windowing.settings.panes import PaneMode
from windowing.settings.rules import LateAction, LateBy, OutputTime
from windowing.time.durations import Count, Duration
from windowing.time.timestamps import is_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from windowing.settings import WindowSettings


def faults(
    name: str,
    settings: WindowSettings,
    inputs: Sequence[tuple[Input, pa.Schema]],
    outputs: Sequence[pa.Schema],
    *,
    parallelism: int,
    event_time: bool,
    by: tuple[str, ...] | None = None,
    asks_for_expired: bool = False,
    partitioned: bool = False,
    joined: Mapping[str, tuple[str, ...]] | None = None,
) -> Iterator[ConfigError]:
    """What is wrong with the time settings of bolt ``name``; ``inputs`` with their columns.

    ``by``: the columns by which the bolt groups its events, if it does. ``asks_for_expired``: whether it was told, or
    its code was seen, to ask its windows what has expired. ``partitioned``: whether a source behind its inputs has
    partitions of its own. ``joined``: the key columns of each input by its name, if the bolt is a join.
    """
    checks = _Checks(
        name, settings, inputs, outputs, parallelism, event_time, by, asks_for_expired, partitioned, joined
    )
    for check in (
        checks.without_effect, checks.columns, checks.imports, checks.partitions, checks.key, checks.sums, checks.joins,
        checks.keys_watermark, checks.lateness, checks.late_stream, checks.windows, checks.panes, checks.expired,
        checks.message_ids,
        checks.policies,
        checks.key_trigger,
    ):  # fmt: skip
        yield from check()


def late_by_window_fits(settings: WindowSettings) -> bool:
    """Whether events of a bolt with event times can be late by their windows (C-23)."""
    if settings.eviction is not None or settings.trigger is not None:
        return False
    checks = _Checks("", settings, (), (), 1, True, None)
    return not any((*checks.lateness(), *checks.windows()))


@dataclass(frozen=True)
class _Checks:
    name: str
    settings: WindowSettings
    inputs: Sequence[tuple[Input, pa.Schema]]
    outputs: Sequence[pa.Schema]
    parallelism: int
    event_time: bool
    by: tuple[str, ...] | None
    asks_for_expired: bool = False
    partitioned: bool = False
    joined: Mapping[str, tuple[str, ...]] | None = None
    """Of a join: the key columns of each input, by its name."""

    @property
    def temporal(self) -> bool:
        """Whether the bolt is a temporal join, whose key is that of the join."""
        return self.joined is not None and any(isinstance(kind, Onset) for kind in self.settings.kinds)

    def without_effect(self) -> Iterator[ConfigError]:
        """What was asked for and changes nothing (ST-18, AT-22)."""
        yield from idle_settings(
            self.name, Situation(self.settings, self.event_time, len(self.inputs), self.partitioned)
        )

    def columns(self) -> Iterator[ConfigError]:
        """The columns that settings name are there, and of a type that fits."""
        settings = self.settings
        for field in () if self.temporal else settings.key:
            yield from self._column("with_key", field, everywhere=True)
        if settings.lifetime is not None:
            yield from self._column("with_lifetime", settings.lifetime.end_field, is_time, "a time")
            if settings.lifetime.shape_field is not None:
                yield from self._column("with_lifetime", settings.lifetime.shape_field, _is_text, "a text")
            for field in settings.lifetime.edge_key:
                yield from self._column("with_lifetime", field)
        if settings.arrival is not None and settings.arrival.field is not None:
            yield from self._column(
                "with_lateness(arrival=...)", settings.arrival.field, is_time, "a time", everywhere=True
            )
        if settings.watermark_field is not None:
            yield from self._column("with_watermark(field=...)", settings.watermark_field, is_time, "a time")
        if isinstance(settings.watermark_partition, str):
            yield from self._column("with_watermark(partition=...)", settings.watermark_partition)
        for kind in settings.kinds:
            if isinstance(kind, Session) and kind.gap_field is not None:
                yield from self._column("with_window(Session(...))", kind.gap_field, _is_span, "a number or a duration")

    def imports(self) -> Iterator[ConfigError]:
        """Watermarks are imported from another input of the bolt (SI-15)."""
        imports = self.settings.watermark_imports or {}
        labels = [stream_label(each.stream) for each, _ in self.inputs]
        for taker, giver in imports.items():
            for label in (taker, giver):
                if label not in labels:
                    yield self._fault(
                        f"imports the watermarks of {giver!r} for {taker!r}, but has no input {label!r} (SI-15)",
                        f"it reads {', '.join(labels)}",
                        "name one of these",
                    )
            if giver in imports:
                yield self._fault(
                    f"imports the watermarks of {giver!r}, which imports its own",
                    "watermarks must be made by the input from which they are imported (SI-15)",
                    "import from an input that makes watermarks",
                )

    def partitions(self) -> Iterator[ConfigError]:
        """Partitions that are said to exist are those of an input that has the column (AT-20)."""
        settings = self.settings
        labels = [stream_label(each.stream) for each, _ in self.inputs]
        for label in settings.partitions if isinstance(settings.partitions, Mapping) else ():
            if label not in labels:
                yield self._fault(
                    f"names partitions of {label!r}, but has no such input",
                    f"it reads {', '.join(labels)}",
                    "name one of these in with_watermark(partitions=...)",
                )

    def key(self) -> Iterator[ConfigError]:
        """All events of a key come to one task."""
        key = self.settings.key
        if self.settings.watermark_per_key and not key:
            yield self._fault(
                "has a watermark for each key, but no key",
                "the key says which events share a watermark (AZ-15)",
                "call with_key",
            )
        for label, grouping in self._apart(key) if key and not self.temporal else ():
            yield self._fault(
                f"has the key {', '.join(key)}, {self.parallelism} tasks, and reads {label!r} by {grouping}",
                "events of one key would go to several tasks",
                f"use {grouping_call(label, key)}",
            )

    def sums(self) -> Iterator[ConfigError]:
        """All events that a bolt groups come to one task; those of windows per key do already."""
        by = self.by
        for label, grouping in () if by is None or self.settings.key else self._apart(by):
            fields = f"groups events by {', '.join(by)}" if by else "looks at all events together"
            yield self._fault(
                f"{fields}, has {self.parallelism} tasks, and reads {label!r} by {grouping}",
                "each task would have a part of the result",
                f"use {grouping_call(label, by)}" if by else "use one task",
            )

    def joins(self) -> Iterator[ConfigError]:
        """Events that a window join compares come to one task; those of windows per key do already."""
        keys = self.joined
        if keys is None or (self.settings.key and not self.temporal) or self.parallelism == 1:
            return
        groupings = [each.grouping for each, _ in self.inputs]
        if all(isinstance(grouping, GlobalGrouping) for grouping in groupings):
            return
        places = [_places(each.grouping, keys.get(stream_label(each.stream), ())) for each, _ in self.inputs]
        if None not in places and len(set(places)) == 1:
            return
        sides = " = ".join(f"{name}.{'+'.join(columns)}" for name, columns in keys.items())
        ways = ", ".join(f"{stream_label(each.stream)!r} by {each.grouping}" for each, _ in self.inputs)
        calls = (grouping_call(name, columns) for name, columns in keys.items())
        yield self._fault(
            f"joins {sides}, has {self.parallelism} tasks, and reads {ways}",
            "events with equal keys would go to several tasks, and not meet",
            f"use {' and '.join(calls)}",
        )

    def _apart(self, key: tuple[str, ...]) -> Iterator[tuple[str, Grouping]]:
        """The inputs, and their groupings, by which events with equal keys may go to several tasks."""
        if self.parallelism == 1:
            return
        first = self.inputs[0][0].grouping
        for each, _ in self.inputs:
            grouping = each.grouping
            apart = not isinstance(grouping, FieldsGrouping) or not set(grouping.fields) <= set(key)
            if grouping != first or (apart and not isinstance(grouping, GlobalGrouping)):
                yield stream_label(each.stream), grouping

    def keys_watermark(self) -> Iterator[ConfigError]:
        """A watermark for each key leaves no room for other rules that make one (AZ-15)."""
        settings = self.settings
        if not settings.watermark_per_key or not self.event_time:
            return
        others = {
            "with_watermark(partition=...)": ("watermark_partition", "with_watermark(partition=...)") in settings.asked
            or None,
            "with_watermark(field=...)": settings.watermark_field,
            "imports of watermarks": settings.watermark_imports,
            "with_watermark(idle_timeout=...)": settings.idle_timeout,
            "with_watermark(partition_idle_timeout=...)": settings.partition_idle_timeout,
            "with_trigger(Panes(...))": settings.panes,
        }
        for call in [call for call, given in others.items() if given is not None]:
            yield self._fault(
                f"has a watermark for each key, and {call}",
                "there is no watermark of the whole bolt to which it could apply (AZ-15)",
                "leave one of the two out",
            )
        if settings.watermark_every != Count(1):
            yield self._fault(
                "has a watermark for each key, and not at every event",
                "a key's watermark follows each of its events (AZ-15)",
                "use with_watermark(every=1)",
            )

    def lateness(self) -> Iterator[ConfigError]:
        """Lateness by window needs windows whose end follows from an event (C-23)."""
        settings = self.settings
        if not self.event_time:
            return
        if settings.late_by is LateBy.WATERMARK:
            if settings.allowed_lateness.micros:
                yield self._fault(
                    "allows lateness, but judges lateness by the watermark",
                    "an event behind the watermark is then late even if its window is open (C-23)",
                    "use with_lateness(by='window', allowed=...), or with_lag for a watermark that stays behind",
                )
            return
        if settings.late_action in (LateAction.ADJUST, LateAction.CUT):
            yield self._fault(
                f"is to {settings.late_action.value} events whose windows have closed",
                "by window there is no earliest time that is in time, to which an event could be moved",
                "use with_lateness(by='watermark'), or divert or drop them",
            )
        others = [kind for kind in settings.kinds if not isinstance(kind, (Hopping, Calendar))]
        if others and len(settings.kinds) > 1:
            yield self._fault(
                f"has {type(others[0]).__name__} besides other windows, and judges lateness by window",
                "an event can be late for one kind and not for the other",
                "use with_lateness(by='watermark'), or a bolt for each kind",
            )
        lasting = settings.lifetime is not None
        if any(isinstance(kind, SlidingLog) or (isinstance(kind, Snapshot) and lasting) for kind in settings.kinds):
            yield self._fault(
                "judges lateness by window, but every event changes its windows",
                "a late event would change windows that have fired",
                "use with_lateness(by='watermark')",
            )
        by_count = not settings.kinds and not (
            isinstance(settings.length, Duration) and isinstance(settings.slide, Duration)
        )
        if by_count or any(isinstance(kind, CountByStart) for kind in settings.kinds):
            yield self._fault(
                "judges lateness by window, but its windows are counts of events",
                "the window of a late event would depend on the other events",
                "use with_lateness(by='watermark')",
            )

    def late_stream(self) -> Iterator[ConfigError]:
        """A late stream that nothing can come to."""
        settings, arrival = self.settings, self.settings.arrival
        if settings.late_stream is None or not self.event_time or settings.late_action is LateAction.DIVERT:
            return
        early = arrival is not None and arrival.early is not None
        by_arrival = arrival is not None and arrival.late is not None and arrival.action is LateAction.DIVERT
        if not early and not by_arrival:
            yield self._fault(
                f"has a late stream {settings.late_stream!r}, but the action for late events is "
                f"{settings.late_action.value!r}",
                "no event would ever go to that stream",
                "remove it, or use with_lateness(action='divert')",
            )

    def windows(self) -> Iterator[ConfigError]:
        """Kinds of windows that do not go with what else is set."""
        settings = self.settings
        sessions = [kind for kind in settings.kinds if isinstance(kind, Session)]
        ends_promised = settings.output_watermark is OutputTime.END
        if settings.output_time is OutputTime.START and ends_promised and self.event_time:
            yield self._fault(
                "emits rows at the start of windows, and promises the next bolt a watermark that follows their ends",
                "the rows would be late at the next bolt (SI-24)",
                "leave out output_watermark, or use with_time(output_time='window end')",
            )
        by_start = settings.output_time is OutputTime.START and settings.late_by is LateBy.WINDOW and self.event_time
        if by_start and any(isinstance(kind, (Session, Snapshot)) for kind in settings.kinds):
            yield self._fault(
                "emits rows at the start of windows that late events can still extend backwards",
                "the next bolt could get no watermark, or the rows would be late there (SI-24)",
                "use with_time(output_time='window end'), or with_lateness(by='watermark')",
            )
        if len(sessions) > 1 and any(kind.gap_field is not None for kind in sessions):
            yield self._fault(
                "has several kinds of sessions with a gap_field",
                "each event has one gap, which all kinds would use",
                "give each kind a bolt of its own",
            )
        adjusts = settings.late_action is LateAction.ADJUST or (
            settings.arrival is not None
            and settings.arrival.late is not None
            and settings.arrival.action is LateAction.ADJUST
        )
        if settings.lifetime is not None and adjusts and self.event_time:
            yield self._fault(
                "has events that last, and adjusts late ones",
                "a lifetime would end before it begins",
                "use with_lateness(action='cut'), which lets late events begin later, or drop or divert them",
            )
        yield from self._too_long()
        slides = [kind.slide for kind in settings.kinds if isinstance(kind, Hopping)] + [settings.slide]
        longest = max((slide.micros for slide in slides if isinstance(slide, Duration)), default=None)
        if longest is not None and abs(settings.offset.micros) >= longest:
            yield self._fault(
                f"has an offset of {settings.offset}, and slides by {Duration(longest)}",
                "an offset of a slide or more gives the same ends as the rest after whole slides",
                "use that rest, which is less than the slide",
            )
        for kind in settings.kinds:
            if settings.lifetime is not None and isinstance(kind, (SlidingLog, Session, CountByStart)):
                yield self._fault(
                    f"has events that last, and {type(kind).__name__} windows",
                    "these windows need points in time",
                    "leave with_lifetime out, or use snapshot, hopping or calendar windows",
                )
            if settings.lifetime is not None and isinstance(kind, Snapshot) and settings.bounds is Bounds.END:
                yield self._fault(
                    "has snapshots of events that last, with bounds (start, end]",
                    "a lifetime holds its start and not its end (SI-3)",
                    "use with_alignment(bounds='[start, end)')",
                )
            if isinstance(kind, Session) and kind.gap_field is not None and kind.max_duration is not None:
                yield self._fault(
                    "has sessions with a gap for each event and a maximum duration",
                    "there is no rule for where such a session would be cut",
                    "leave one of the two out",
                )
        if settings.anchor is not None and settings.kinds and not any(isinstance(k, Hopping) for k in settings.kinds):
            yield self._fault(
                "has an anchor, and no aligned windows", "only aligned windows are counted from an anchor", "remove it"
            )

    def _too_long(self) -> Iterator[ConfigError]:
        """Windows longer than the system has that the preset stands for (AZ-19)."""
        settings, most = self.settings, self.settings.longest_window
        lengths = [settings.length, *map(longest_of, settings.kinds)]
        for length in dict.fromkeys(each for each in lengths if isinstance(each, Duration)):
            if most is not None and length > most:
                yield self._fault(
                    f"has windows of {length}",
                    f"the longest window allowed here is {most} (AZ-19)",
                    "make them shorter, or lift the limit: with_alignment(longest_window=None)",
                )

    def panes(self) -> Iterator[ConfigError]:
        """Windows that fire more than once."""
        settings, panes = self.settings, self.settings.panes
        if panes is None:
            return
        if any(not isinstance(kind, (Hopping, Calendar, Session)) for kind in settings.kinds):
            yield self._fault(
                "has panes on windows that change with every event",
                "snapshots, sliding logs and counts fire when they are complete",
                "use hopping, calendar or session windows with with_trigger(Panes(...))",
            )
        if len(settings.kinds) > 1 and any(isinstance(kind, Session) for kind in settings.kinds):
            yield self._fault(
                "has panes, and sessions besides other windows",
                "which events are new to a session would depend on the firings of the others",
                "give the sessions a bolt of their own",
            )
        if settings.lifetime is not None:
            yield self._fault(
                "has panes, and events that last",
                "a long event is in many future windows, and all of them would fire early",
                "leave one of the two out",
            )
        if panes.late is not None and self.event_time and not settings.allowed_lateness.micros:
            yield self._fault(
                "has panes for late events, but allows no lateness",
                "without it a window takes no events after its end",
                "give with_lateness(by='window', allowed=...)",
            )
        if panes.mode is PaneMode.RETRACTING and any(RETRACT in schema.names for schema in self.outputs):
            yield self._fault(
                f"emits a column {RETRACT!r}", "windbolt adds a column of that name when it retracts rows", "rename it"
            )

    def expired(self) -> Iterator[ConfigError]:
        """What has expired is what was in the window before, so there must be one (ST-21)."""
        settings = self.settings
        if not self.asks_for_expired or settings.follow_each_other:
            return
        which = (
            "Panes, whose windows fire more than once and in turns" if settings.panes is not None
            else "with_trigger, whose windows are cleared when they have fired" if settings.key_trigger is not None
            else "several kinds of window, which fire in turns"
        )  # fmt: skip
        yield self._fault(
            f"uses window.expired, and has {which}",
            "expired events were in the previous window, and such windows have none (ST-21)",
            "do not use window.expired; or call with_policies(expired=False), if `expired` means something else",
        )

    def message_ids(self) -> Iterator[ConfigError]:
        """Equal messages meet, and it is known when a window has no use for one any more (ST-27)."""
        settings = self.settings
        field = settings.message_id_field
        if field is None:
            return
        call = "with_message_id_field"
        yield from self._column(
            call, field, _is_id, "a text, bytes, a whole number, a time or a decimal", everywhere=True
        )
        if settings.key_trigger is not None or settings.eviction is not None or settings.trigger is not None:
            what = "a trigger of keys" if settings.key_trigger is not None else "a policy of its own"
            yield self._fault(
                f"has {call}({field!r}), and {what}",
                f"windbolt cannot know how long {what} keeps an event, and so how long its id must not repeat",
                "leave one of the two out, or drop repeated messages in a bolt before it",
            )
        groupings = [(stream_label(each.stream), each.grouping) for each, _ in self.inputs]
        for label, grouping in groupings if self.parallelism > 1 else ():
            if isinstance(grouping, ShuffleGrouping) or grouping != groupings[0][1]:
                yield self._fault(
                    f"has {call}({field!r}), {self.parallelism} tasks, and reads {label!r} by {grouping}",
                    "a repeated message could go to another task, which does not know the first",
                    f"use fields_grouping({label!r}, ...) by the same fields for every input, or one task",
                )

    def policies(self) -> Iterator[ConfigError]:
        """Policies of the user's own decide about the queue of a task; assigned windows have none."""
        settings = self.settings
        if settings.eviction is None and settings.trigger is None:
            return
        asked = {
            "with_key": bool(settings.key),
            "with_trigger(Panes(...))": settings.panes is not None,
            "with_lifetime": settings.lifetime is not None,
            "with_alignment(anchor=...)": settings.anchor is not None,
            "another kind of window": bool(settings.kinds),
            "with_lateness(by='window')": settings.late_by is LateBy.WINDOW and self.event_time,
        }
        for call in [call for call, given in asked.items() if given]:
            yield self._fault(
                f"has a policy of its own, and {call}",
                "a policy works on the queue of a task, which such windows do not have",
                "leave one of the two out",
            )

    def key_trigger(self) -> Iterator[ConfigError]:
        """A trigger of keys leaves nothing for other rules to decide (UH-4)."""
        settings = self.settings
        if settings.key_trigger is None:
            return
        if not settings.key:
            yield self._fault("has a trigger but no key", "a trigger has windows for each key (UH-4)", "call with_key")
        for field in () if settings.capacity is None else settings.capacity.columns:
            yield from self._column("with_trigger(bytes_of=...)", field, everywhere=True)
        if self.event_time:
            yield self._fault(
                "has a trigger, and event times",
                "triggers of keys work in processing time (UH-15)",
                "call with_time(processing=True)",
            )
        asked = {
            "with_trigger(Panes(...))": settings.panes,
            "with_lifetime": settings.lifetime,
            "with_alignment(anchor=...)": settings.anchor,
            "a policy of its own": settings.eviction or settings.trigger,
            "with_watermark(per_key=True)": settings.watermark_per_key or None,
        }
        for call in [call for call, given in asked.items() if given is not None]:
            yield self._fault(
                f"has a trigger, and {call}",
                "the trigger alone decides when its windows fire",
                "leave one of the two out",
            )

    def _column(
        self,
        call: str,
        field: str,
        fits: Callable[[pa.DataType], bool] = lambda kind: True,
        wanted: str = "",
        *,
        everywhere: bool = False,
    ) -> Iterator[ConfigError]:
        found = False
        for each, schema in self.inputs:
            label = stream_label(each.stream)
            if field in schema.names:
                found = True
                kind = schema.field(field).type
                if not fits(kind):
                    yield self._fault(
                        f"{call} names {field!r}, which is {kind} in {label!r}",
                        f"it must be {wanted}",
                        "name another column",
                    )
            elif everywhere:
                yield self._fault(
                    f"{call} names {field!r}", f"{label!r} has {', '.join(schema.names)}", "name columns of every input"
                )
        if not found and not everywhere:
            columns = "; ".join(f"{stream_label(each.stream)!r} has {', '.join(s.names)}" for each, s in self.inputs)
            yield self._fault(f"{call} names {field!r}", columns, "name a column of an input")

    def _fault(self, what: str, why: str, do: str) -> ConfigError:
        return ConfigError(f"bolt {self.name!r}: {what}", why=why, do=do)


def grouping_call(label: str, fields: Sequence[str]) -> str:
    """The call that groups a stream by fields: a stream of another name is an argument of its own."""
    component, _, stream = label.partition(".")
    named = [repr(component), *map(repr, fields), *([f"stream={stream!r}"] if stream else [])]
    return f"fields_grouping({', '.join(named)})"


def _places(grouping: Grouping, keys: tuple[str, ...]) -> tuple[int, ...] | None:
    """Which of the keys a stream is grouped by; None where it is grouped by something else."""
    if not isinstance(grouping, FieldsGrouping) or not set(grouping.fields) <= set(keys):
        return None
    return tuple(map(keys.index, grouping.fields))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind))


def _is_id(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_id(kind.value_type)
    others = pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_null(kind)
    return not others


def _is_span(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_duration(kind))
