"""The rules of a topology as plain values, which its checkpoint keeps, with the rules that must not change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from manager.slices import PartialSums
from policies import assigners
from policies.assigners import AlignedWindows, WindowAssigner
from policies.protocol import forget_after, is_custom
from policies.storm import TimeTriggerPolicy
from topologies.graph.describing import boxes_and_arrows, changed_rules, window_in_words
from topologies.graph.graph import (
    Graph,
    SpoutNode,
    Stream,
    WindowedNode,
    decisive_columns,
    has_windows_of_time,
)
from topologies.graph.groupings import FieldsGrouping, GlobalGrouping, ShuffleGrouping
from topologies.graph.html import Arrow, Box
from topologies.io.kafka import KafkaSpout
from topologies.io.pulled import RangedSpout
from topologies.io.spouts import FrameSpout
from windowing.bolts.bolt import StatefulTaskBolt
from windowing.bolts.read_code import asks_for_expired
from windowing.conversion import REFUSED, convert_column
from windowing.durations import Count, Duration
from windowing.schema import format_schema, parse_schema, value_type
from windowing.settings import DECLARED, WindowSettings
from windowing.settings.declaration import SOURCE_ONLY
from windowing.settings.panes import Panes
from windowing.settings.rules import START, Bounds, IdleRule, WatermarkCombiner

# Policies and the values of settings as plain JSON, and in words.


_ASSIGNERS = {name: getattr(assigners, name) for name in assigners.__all__ if name.endswith("Windows")}


def to_plain_json(value: Any) -> Any:  # noqa: PLR0911 - one for each type
    """Returns an assigner, a partial aggregate, or the value of a setting, as plain JSON."""
    match value:
        case pa.DataType():
            return {"type": str(value)}
        case Duration(micros):
            return {"micros": micros}
        case Count(number):
            return {"count": number}
        case Enum():
            return {"enum": value.value}
        case tuple():
            return {"tuple": [to_plain_json(each) for each in value]}
        case None | bool() | int() | float() | str():
            return value
    if is_dataclass(value):
        values_by_field = {each.name: to_plain_json(getattr(value, each.name)) for each in fields(value) if each.repr}
        return {"class": type(value).__name__, "fields": values_by_field}
    return repr(value)


def assigner_from(values: Mapping[str, Any]) -> WindowAssigner:
    """Returns the assigner that ``to_plain_json`` converted. Raises KeyError, TypeError or ValueError for any other
    values."""
    assigner: WindowAssigner = _ASSIGNERS[values["class"]](
        **{name: _from_plain_json(value) for name, value in values["fields"].items()}
    )
    return assigner


def _from_plain_json(value: Any) -> Any:
    match value:
        case {"micros": int(micros)}:
            return Duration(micros)
        case {"count": int(number)}:
            return Count(number)
        case {"enum": chosen}:  # the only enum of assigners
            return Bounds(chosen)
        case {"tuple": list(items)}:
            return tuple(_from_plain_json(each) for each in items)
    return value


def plain_json_in_words(value: Any) -> str:
    """Shows plain JSON as people write it, such as ``SessionWindows(gap=5m)``. Fields that are not set are left out."""
    match value:
        case {"class": str(kind), "fields": dict(values)}:
            set_fields = {name: each for name, each in values.items() if each is not None and each is not False}
            fields_in_words = [f"{name}={plain_json_in_words(each)}" for name, each in set_fields.items()]
            return f"{kind}({', '.join(fields_in_words)})"
        case {"micros": int()} | {"count": int()}:
            return str(_from_plain_json(value))
        case {"enum": chosen}:
            return str(chosen)
        case {"tuple": list(items)}:
            return f"({', '.join(map(plain_json_in_words, items))}{',' * (len(items) == 1)})"
        case list():
            return "; ".join(each if isinstance(each, str) else plain_json_in_words(each) for each in value)
    return repr(value)


# The rules of a windowed bolt, each declared once.


STATE_SETTINGS = tuple(name for name, declared in DECLARED.items() if declared.resumes is False)
"""Settings on which the state in a checkpoint depends, so that they must not change. Other settings may change between
two runs; some of them only if the windows, their policies and the kind of time stay the same."""


def _unchanging(called: str, part: Callable[[BoltRules], Any] | None = None) -> Any:
    """Declares a rule that all runs on a checkpoint must share, because stored state depends on it.

    ``called``: its name for users; empty if the field holds several rules by their names. ``part``: returns the part of
    the rule that must not change, or None if there is no such part; by default the value of the field.
    """
    return field(metadata={"called": called, "of": part})


@dataclass(frozen=True, kw_only=True)
class BoltRules:
    """The rules of a windowed bolt as plain JSON: a complete description of the bolt and its state, without its code.

    Times are in microseconds. Rules that ``_unchanging`` declares stay the same as long as a checkpoint is used; the
    others may change between two runs. A new field, or a new meaning of one, needs a higher ``FORMAT``.
    """

    parallelism: int = _unchanging("parallelism")
    inputs: list[str]
    origins: dict[str, list[str]]
    """For each input that comes from windowed bolts, the names of these bolts."""
    groupings: dict[str, str] = _unchanging(
        "", lambda rules: {f"grouping of {name!r}": grouping for name, grouping in rules.groupings.items()}
    )
    """For each input, its grouping in words."""
    grouped: list[list[str]]
    """For each input, the fields that it is grouped by; none for other groupings."""
    keys: list[list[str]] = _unchanging("key", lambda rules: rules._keys_that_differ)
    """For each input, the columns of its key; none if the bolt has none."""
    columns: str = _unchanging("columns")
    """The columns of its windows, as a declaration."""
    decisive: list[list[str]]
    """For each input, the columns that decide where its events belong, and when: the columns of its key and of its
    grouping, and the columns that time rules name."""
    state: dict[str, str] | None = _unchanging("state")
    """For each state of a stateful bolt, its type; None for other bolts."""

    # Its windows.
    windows: str
    """The windows in words."""
    window_length: str = _unchanging("window length")
    window_slide: str = _unchanging("slide")
    window_offset: str = _unchanging("offset")
    """Shift of the windows to later times, less than a slide: with slides of 10 s, a shift by -3 s is stored as 7 s."""
    eviction: str = _unchanging("eviction")
    """The class of its eviction policy."""
    trigger: str = _unchanging("trigger")
    """The class of its trigger policy."""
    key_trigger: str | None = _unchanging("trigger of keys")
    """The class of the trigger that fires the windows of keys; None without such a trigger."""
    policies: list[str]
    """The class names of its trigger policy and its eviction policy if a user wrote one of them ("" for a policy of
    windbolt); else empty."""
    forget_after: int | None
    """Time for which its policies remember a key or a task without events; None for ever."""
    by_event: bool = _unchanging("called", lambda rules: "for events as they come" if rules.by_event else None)
    """True if it has no windows, and is called for events as they come."""
    by_place: bool
    """True if its windows hold or count events by their places among all events of a task, and not by their times."""
    assigners: list[dict[str, Any]] = _unchanging("windows", lambda rules: rules.assigners or None)
    """The assigners that form its windows (``to_plain_json``); empty if the windows are runs of a queue."""
    length: int | None
    """Length of windows of time that begin at regular times; None for other windows."""
    slide: int | None
    offset: int
    """For windows at regular times: the shift of their ends from the multiples of the slide. For windows that are
    counted from the first clock of the run: the shift from that clock."""
    from_first_clock: bool
    """True if aligned windows are counted from the first clock of the run."""
    end_belongs: bool = _unchanging("bounds", lambda rules: rules.bounds.value)
    """True if a window includes an event at its end and not one at its start; False: the other way round."""
    remembers: bool = _unchanging(
        "expired", lambda rules: "the last window of each key is kept" if rules.remembers else None
    )
    """True if its tasks keep the last window of each key, to tell which events have expired."""
    sums: dict[str, Any] | None = _unchanging("sums")
    """Its sums, kept in place of events: the columns ``by`` which it adds up, and the partial aggregates
    (``to_plain_json``); None if its windows need the events themselves."""
    versions: str | None = _unchanging("versions")
    """The input whose events are versions, which end when the next version of their key begins; None without such an
    input."""
    settings: dict[str, Any] = _unchanging("", lambda rules: rules.settings)
    """Further settings on which the state depends, by name, if they differ from Storm's."""

    # When they fire.
    event_time: bool = _unchanging("time", lambda rules: "event time" if rules.event_time else "processing time")
    timestamp_field: str | None = _unchanging("timestamp field")
    past_end: int
    """How far the watermark must be past the end of a window before the window is due: the allowed lateness, plus 1 if
    an event at the end belongs to the window."""
    first_past_end: int | None
    """For windows that fire early or for late events: how far the watermark must be past the end of a window for the
    firing at its end. After that firing, it may fire again. None for other windows."""
    fires_once: bool
    """True if the first firing of such a window is the only one."""
    least_at_end: int
    """Least number of events with which a window fires at its end, for windows that may fire more than once."""
    empty_windows: bool
    """True if windows without events fire too."""

    # Its watermark.
    delay: int
    """Time that the watermark stays behind the latest event."""
    follows_events: bool
    """True if each input, or partition, has a mark of its own; False: the watermark is made at ticks."""
    tick: int = _unchanging("watermark", lambda rules: "by the clock" if rules.tick else "at every batch")
    """The least time between two ticks; 0: at each batch."""
    per_key: bool
    greatest: bool
    """True if the watermark is the greatest of the marks; False: the least."""
    mark_rules: dict[str, dict[str, int | None]]
    """For each input, how its events move its watermark. ``count``: every so many events; 0 if only the source moves
    the watermark. ``span``: with an event that is later by this than the event that moved it last. Both are None if
    ticks move the watermark. ``delay``: as the field above."""
    imports: dict[str, str]
    """For each input without watermarks by its own events, the input whose watermarks it takes."""
    by_arrival: bool
    """True if arrival times decide which events are early or late. The time of such an event does not move the
    watermark unchanged."""
    idle_timeout: int | None
    idle_waits_for_end: bool
    """True if the idle timeout runs from the end of a window, if that is after the last event."""
    partition_idle_timeout: int | None
    late_tolerance: int | None
    """Time that the watermark stays behind the estimated arrival time; None if it does not follow the clock."""

    # How the state of its tasks can be moved to other tasks.
    types: str
    """The fields of ``grouped`` of the first input with their types, as a declaration; empty if there is none."""
    reasons_not_to_move: list[str]
    """Reasons why no state can be moved; empty if it can."""
    reasons_not_to_divide: list[str]
    """Reasons why the state of tasks can be joined as a whole, but not divided; empty if it can be divided."""
    state_keys: dict[str, list[str]]
    """For each state of a stateful bolt that is kept by key, its key columns, in the order of the fields of the first
    input. A state without columns is the same in all tasks."""
    state_by_method: bool
    """True if the bolt has a method that moves its state."""

    def unchanging_rules(self) -> dict[str, Any]:
        """Returns the rules that must not change while a checkpoint is used, by their names for users."""
        single, several = dict[str, Any](), dict[str, Any]()
        for rule in fields(self):
            if rule.metadata:
                called, part = rule.metadata["called"], rule.metadata["of"]
                value = getattr(self, rule.name) if part is None else part(self)
                if called:
                    single[called] = value
                else:
                    several |= value
        # The key of each input says more than the setting of that name.
        named_rules = [*several.items(), *single.items()]
        return {called: value for called, value in named_rules if value is not None}

    @property
    def bounds(self) -> Bounds:
        """The end of a window that belongs to it."""
        return Bounds.END if self.end_belongs else Bounds.START

    @property
    def key(self) -> list[str]:
        """The columns of its key, or else those by which its first input is grouped."""
        return self.keys[0] or self.grouped[0]

    @property
    def columns_of_keys(self) -> list[list[str]]:
        """Per input: the columns of its key, or else those by which it is grouped; one list if all have the same."""
        if any(self.keys):
            return self.keys
        return self.grouped if all(self.grouped) else [self.key]

    @property
    def _keys_that_differ(self) -> list[str] | None:
        if all(key == self.keys[0] for key in self.keys):
            return None
        return [f"{name}: {', '.join(key)}" for name, key in zip(self.inputs, self.keys, strict=True)]

    @property
    def in_one_task(self) -> bool:
        """True if all events go to the first task, whatever the number of tasks."""
        return not any(self.grouped)

    def assigners_from(self, anchor: int | None) -> tuple[WindowAssigner, ...]:
        """Returns the assigners that form its windows; none if they are runs of a queue. ``anchor``: the first clock of
        the run, if windows are counted from it."""
        assigners = tuple(map(assigner_from, self.assigners))
        if not self.from_first_clock or anchor is None:
            return assigners
        return tuple(each.anchored(anchor, self.offset) for each in assigners)

    def regular_windows(self, anchor: int | None) -> AlignedWindows | None:
        """Returns its windows of time that begin at regular times; None if there are no such windows. ``anchor``: as of
        ``assigners_from``."""
        if self.length is None or self.slide is None:
            return None
        for each in self.assigners_from(anchor):
            return each if isinstance(each, AlignedWindows) else None
        length, slide = Duration(self.length), Duration(self.slide)
        return AlignedWindows(length, slide, self.bounds, Duration(self.offset % self.slide))

    @staticmethod
    def of(topology: Graph, node: WindowedNode) -> BoltRules:
        """Returns the rules of a bolt of a topology."""
        bolt, settings = node.bolt, node.bolt.settings
        not_by_queue = bool(settings.kinds) or settings.key_trigger is not None or node.by_policies
        slide_of_queue = None if not_by_queue else settings.slide
        length = settings.length
        arrival, panes = settings.arrival, settings.panes
        forget_time = forget_after(node.eviction, node.trigger) if node.by_policies else None
        stateful = bolt if isinstance(bolt, StatefulTaskBolt) else None
        groupings = [each.grouping for each in node.inputs]
        grouped = [list(each.fields) if isinstance(each, FieldsGrouping) else [] for each in groupings]
        typed_fields = grouped[0] if set(grouped[0]) <= set(node.schema.names) else []
        return BoltRules(
            parallelism=node.parallelism,
            inputs=list(node.streams),
            origins={
                name: [origin.bolt for origin in origins]
                for name, origins in zip(node.streams, node.origins, strict=True)
                if origins
            },
            groupings=dict(zip(node.streams, map(str, groupings), strict=True)),
            grouped=grouped,
            keys=[list(key) for key in node.keys],
            columns=format_schema(node.schema),
            decisive=[list(columns) for columns in decisive_columns(node)],
            state=None
            if stateful is None
            else {name: _state_type_in_words(kind) for name, kind in stateful.state_types.items()},
            windows=window_in_words(node),
            window_length=str(length),
            window_slide=str(settings.slide),
            window_offset=_window_offset(settings),
            eviction=type(node.eviction).__name__,
            trigger=type(node.trigger).__name__,
            key_trigger=None if settings.key_trigger is None else type(settings.key_trigger).__name__,
            policies=[type(each).__name__ if is_custom(each) else "" for each in (node.trigger, node.eviction)]
            if node.by_policies
            else [],
            forget_after=_micros(forget_time),
            by_event=node.without_windows,
            by_place=not node.without_queue and not has_windows_of_time(node),
            assigners=[to_plain_json(each) for each in node.assigners],
            length=length.micros if isinstance(length, Duration) and isinstance(slide_of_queue, Duration) else None,
            slide=slide_of_queue.micros if isinstance(slide_of_queue, Duration) else None,
            offset=_offset(node),
            from_first_clock=settings.anchor == START,
            end_belongs=settings.bounds is Bounds.END,
            remembers=node.keeps_last_window,
            sums=None if node.partial_sums is None else _sums_as_json(node.partial_sums),
            versions=None if node.versions_input is None else node.streams[node.versions_input],
            settings=_state_settings(settings),
            event_time=node.event_time,
            timestamp_field=settings.timestamp_field,
            past_end=_past_end(node),
            first_past_end=int(node.closes_after_end) if node.event_time and _fires_before_it_closes(panes) else None,
            fires_once=panes is not None and panes.closes,
            least_at_end=1 if panes is None or panes.at_end is None else panes.at_end.value,
            empty_windows=settings.empty_windows_until is not None,
            delay=settings.delay if node.follows_events else node.lag.micros,
            follows_events=node.follows_events,
            tick=settings.watermark_interval.micros,
            per_key=settings.watermark_per_key,
            greatest=settings.watermark_combine is WatermarkCombiner.MAX,
            mark_rules={name: _mark_rules(node, name) for name in node.streams},
            imports={} if settings.watermark_imports_beside else dict(settings.watermark_imports or {}),
            by_arrival=arrival is not None,
            idle_timeout=_micros(settings.idle_timeout),
            idle_waits_for_end=settings.idle_rule is IdleRule.AFTER_WINDOW_END,
            partition_idle_timeout=_micros(settings.partition_idle_timeout),
            late_tolerance=_micros(arrival.late) if settings.estimate_arrival and arrival is not None else None,
            types=format_schema(
                pa.schema([(name, _declarable_type(node.schema.field(name).type)) for name in typed_fields])
            ),
            reasons_not_to_move=list(_reasons_not_to_move(topology, node, grouped)),
            reasons_not_to_divide=list(_reasons_not_to_divide(node)) if any(grouped) else [],
            state_keys={} if stateful is None else _state_keys(stateful, grouped[0]),
            state_by_method=stateful is not None and has_move_method(stateful),
        )


def _fires_before_it_closes(panes: Panes | None) -> bool:
    return panes is not None and not (panes.early is None and panes.late is None)


def _micros(duration: Duration | None) -> int | None:
    return None if duration is None else duration.micros


def _state_type_in_words(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else format_schema(parse_schema(kind))


def _state_settings(settings: WindowSettings) -> dict[str, Any]:
    changed = {name: value for name, value in changed_rules(settings).items() if name in STATE_SETTINGS}
    return {
        name: to_plain_json(getattr(settings, name)) if isinstance(value, dict) else value
        for name, value in changed.items()
    }


def _sums_as_json(partial_sums: PartialSums) -> dict[str, Any]:
    return {
        "by": list(partial_sums.aggregates.by),
        "partial": [to_plain_json(each) for each in partial_sums.accumulators],
    }


def _window_offset(settings: WindowSettings) -> str:
    slide, offset = settings.slide, settings.offset
    return str(Duration(offset.micros % slide.micros) if isinstance(slide, Duration) else offset)


def _mark_rules(node: WindowedNode, stream: str) -> dict[str, int | None]:
    if not node.follows_events:
        return {"count": None, "span": None, "delay": node.lag.micros}
    rules = node.bolt.settings.of_input(stream)
    every = rules.watermark_every
    return {
        "count": (0 if every == SOURCE_ONLY else every.value) if isinstance(every, Count) else None,
        "span": every.micros if isinstance(every, Duration) else None,
        "delay": rules.delay,
    }


def _offset(node: WindowedNode) -> int:
    if node.assigners or not isinstance(node.trigger, TimeTriggerPolicy):
        return node.bolt.settings.offset.micros
    return node.trigger.offset.micros


def _past_end(node: WindowedNode) -> int:
    if node.assigners:
        return -int(node.closed_until_at(np.zeros(1, np.int64))[0])
    return node.due_at(0) + node.bolt.settings.allowed_lateness.micros


# Moving the state of a bolt to other tasks: how, or why not.


def has_move_method(bolt: StatefulTaskBolt) -> bool:
    """True if a bolt moves its state by a method of its own."""
    return type(bolt).move_state is not StatefulTaskBolt.move_state


def _declarable_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type that users can declare in place of this one. Equal values of both types have equal hashes, so
    they go to the same tasks. Returns the type itself if there is no other."""
    if pa.types.is_unsigned_integer(kind) and kind != pa.uint64():
        return pa.int64()
    return _SAME_HASHES.get(value_type(kind), value_type(kind))


_SAME_HASHES = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary(), pa.date64(): pa.date32()}


def _state_keys(bolt: StatefulTaskBolt, fields: Sequence[str]) -> dict[str, list[str]]:
    columns_by_state = {name: _columns_of_fields(key, fields) for name, key in bolt.state_keys.items()}
    return {name: columns for name, columns in columns_by_state.items() if columns is not None}


def _columns_of_fields(key: str | Sequence[str] | Mapping[str, str], fields: Sequence[str]) -> list[str] | None:
    """Returns the columns of a state that hold these fields; None if they are missing."""
    if isinstance(key, Mapping):
        return [key[name] for name in fields] if set(fields) <= set(key) else None
    key_columns = [key] if isinstance(key, str) else list(key)
    if not key_columns or len(key_columns) == len(fields):
        return list(fields) if set(key_columns) == set(fields) else key_columns
    return list(fields) if set(fields) <= set(key_columns) else None


def _reasons_not_to_move(topology: Graph, node: WindowedNode, grouped: Sequence[Sequence[str]]) -> Iterator[str]:
    groupings = [each.grouping for each in node.inputs]
    if all(isinstance(each, GlobalGrouping) for each in groupings):
        return
    for label, grouping in zip(node.streams, groupings, strict=True):
        if not isinstance(grouping, FieldsGrouping):
            yield f"it reads {label!r} by {grouping} grouping, and only fields tell which task has an event"
            return
    yield from _shuffled_after(topology, node)
    if node.without_queue and (node.keys[0] or not node.without_windows):
        yield from _reasons_of_held_events(node, grouped)
    elif not node.without_queue:
        yield from _reasons_of_queues(node, grouped)
    yield from _reasons_of_state(node, grouped)


def _shuffled_after(topology: Graph, node: WindowedNode) -> Iterator[str]:
    """Yields a reason if rows are shuffled after this bolt: the task of a row then depends on the number of rows that
    its bolt's task has emitted before."""
    streams_to_follow: list[Stream] = [(node.name, stream) for stream in node.outputs]
    streams_seen = set(streams_to_follow)
    while streams_to_follow:
        for reader, index in topology.readers.get(streams_to_follow.pop(), ()):
            windowed_reader = topology.windowed.get(reader)
            if windowed_reader is None or windowed_reader.without_windows:  # which pass rows on in order
                node_passing_on = windowed_reader or topology.plain[reader]
                new_streams = {(reader, stream) for stream in node_passing_on.outputs} - streams_seen
                streams_seen |= new_streams
                streams_to_follow.extend(new_streams)
            if (
                windowed_reader is not None
                and windowed_reader.parallelism > 1
                and isinstance(windowed_reader.inputs[index].grouping, ShuffleGrouping)
            ):
                yield f"its rows are sent to {reader!r} by shuffle grouping, in turn for each task that emits them"


def _reasons_of_queues(node: WindowedNode, grouped: Sequence[Sequence[str]]) -> Iterator[str]:
    if not has_windows_of_time(node):
        yield "its windows count, or choose among, all the events of a task, and not those of a key (with_key)"
    yield from _reasons_of_sums(node, grouped)


def _reasons_of_sums(node: WindowedNode, grouped: Sequence[Sequence[str]]) -> Iterator[str]:
    if node.partial_sums is not None:
        by = node.partial_sums.aggregates.by
        if any(not set(each) <= set(by) for each in grouped):
            yield f"it keeps sums by {', '.join(by) or 'nothing'}, which do not tell the fields it is grouped by"


def _reasons_of_held_events(node: WindowedNode, grouped: Sequence[Sequence[str]]) -> Iterator[str]:
    settings = node.bolt.settings
    by_time_alone = all(each.by_time_alone for each in node.assigners)
    if not node.keys[0]:
        if not (node.assigners and by_time_alone):
            yield "its windows depend on all the events of a task, and not on those of a key (with_key)"
        yield from _reasons_of_sums(node, grouped)
        extras = {
            "panes": settings.panes,
            "windows without events": settings.empty_windows_until,
            "lifetimes of events": settings.lifetime,
            "events that have expired": (node.keeps_last_window and not node.by_policies) or None,
        }
        for words, feature in extras.items():
            if feature is not None:
                yield f"it has {words} for all the events of a task, and not for those of a key (with_key)"
        return
    key_positions = set()
    for label, names, key in zip(node.streams, grouped, node.keys, strict=True):
        if not set(names) <= set(key):
            yield f"it reads {label!r} by {', '.join(names)}, which is not in its key {', '.join(key)}"
            return
        key_positions.add(tuple(key.index(name) for name in names))
    if len(key_positions) > 1:
        yield "its inputs are grouped by different parts of the key"
    if settings.idle_timeout is not None and not by_time_alone:
        yield "its windows end with their events, and an idle timeout may close them"


def _reasons_not_to_divide(node: WindowedNode) -> Iterator[str]:
    """Yields reasons that hold for dividing a task, but not for joining whole tasks."""
    settings = node.bolt.settings
    asks_for_expired_events = asks_for_expired(node.bolt) if settings.expired is None else settings.expired
    if not node.without_queue and node.partial_sums is None and asks_for_expired_events:
        yield "it asks what has expired since the window before, and a task keeps that of its last window only"


def _reasons_of_state(node: WindowedNode, grouped: Sequence[Sequence[str]]) -> Iterator[str]:
    bolt = node.bolt
    if not isinstance(bolt, StatefulTaskBolt) or has_move_method(bolt) or (node.without_windows and node.keys[0]):
        return
    columns_by_state = _state_keys(bolt, grouped[0])
    for name, kind in bolt.state_types.items():
        columns = columns_by_state.get(name)
        if name not in bolt.state_keys:
            yield f"its state {name!r} is not said to be kept by key (state_keys), and it has no method move_state"
        elif columns is None:
            yield f"its state {name!r} is kept by another key than {', '.join(grouped[0])}, by which its events come"
        elif columns and isinstance(kind, type) and (kind is not dict or len(columns) != 1):
            yield f"its state {name!r} is {kind.__name__}: only a table can be kept by key, or a dict by one field"
        elif columns and not isinstance(kind, type):
            yield from _reasons_of_state_types(name, parse_schema(kind), columns, node.schema, grouped[0])


def _reasons_of_state_types(
    state: str, schema: pa.Schema, columns: Sequence[str], events: pa.Schema, fields: Sequence[str]
) -> Iterator[str]:
    """Yields columns of a state whose types cannot hold the values of the fields that events are grouped by."""
    for column, name in zip(columns, fields, strict=True):
        if column in schema.names and name in events.names:
            state_type, field_type = (
                _declarable_type(schema.field(column).type),
                _declarable_type(events.field(name).type),
            )
            try:
                convert_column(pa.nulls(0, state_type), field_type)
            except REFUSED:
                yield (
                    f"its state {state!r} has {column!r} as {state_type}, and its events are grouped by {name!r} as "
                    f"{field_type}"
                )


# The rules of a topology: of its bolts, of its spouts as far as state depends on them, and its graph.


@dataclass(frozen=True)
class TopologyRules:
    """The rules of a topology, as plain JSON: the note in a checkpoint about the last run on it."""

    name: str
    spouts: dict[str, dict[str, str]]
    """For each spout, its ``kind``, and the columns of its streams."""
    bolts: dict[str, BoltRules]
    """The rules of the windowed bolts."""
    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    """The graph; empty if nothing has noted it."""

    @staticmethod
    def of(topology: Graph) -> TopologyRules:
        """Returns the rules of a topology."""
        return TopologyRules(
            topology.name,
            {name: _spout_rules(node) for name, node in topology.spouts.items()},
            {name: BoltRules.of(topology, node) for name, node in topology.windowed.items()},
            *boxes_and_arrows(topology),
        )

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> TopologyRules:
        """Returns the rules that ``to_json`` converted."""
        return TopologyRules(
            values["name"],
            values["spouts"],
            {name: BoltRules(**each) for name, each in values["bolts"].items()},
            [Box(each["name"], each["kind"], tuple(each["facts"])) for each in values["boxes"]],
            [Arrow(**each) for each in values["arrows"]],
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the rules as plain JSON."""
        return asdict(self)

    @property
    def tasks(self) -> dict[str, int]:
        """Returns the number of tasks of each windowed bolt."""
        return {name: rules.parallelism for name, rules in self.bolts.items()}

    def with_tasks(self, tasks: Mapping[str, int]) -> TopologyRules:
        """Returns the rules with other numbers of tasks for some bolts."""
        bolts = {
            name: replace(rules, parallelism=tasks.get(name, rules.parallelism)) for name, rules in self.bolts.items()
        }
        return replace(self, bolts=bolts)


def _spout_rules(node: SpoutNode) -> dict[str, Any]:
    columns = {f"columns of {stream!r}": format_schema(schema) for stream, schema in node.outputs.items()}
    match node.spout:
        case FrameSpout():
            kind = "a streaming DataFrame"
        case KafkaSpout():
            kind = "Kafka"
        case RangedSpout():
            kind = "partitions"
        case _:
            kind = "files"
    return {"kind": kind, **columns}
