"""Checks of a windowed bolt's settings against its streams; all mistakes of a bolt are found at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from topologies.graph.check_windows import (
    CheckedBolt,
    empty_window_errors,
    expired_errors,
    key_trigger_errors,
    pane_errors,
    parallel_window_errors,
    policy_errors,
    window_errors,
)
from topologies.graph.effects import ineffective_settings
from topologies.graph.graph import STATE_COLUMN, Input, stream_label
from topologies.graph.groupings import FieldsGrouping, GlobalGrouping, Grouping, ShuffleGrouping, hash_class
from windowing.bolts.bolt import StatefulTaskBolt
from windowing.durations import Count, Duration
from windowing.errors import ConfigError
from windowing.settings.kinds import Lull, Session, SlidingLog, Snapshot, WindowKind
from windowing.settings.panes import RETRACT
from windowing.settings.rules import NO_COLUMN, LateAction, LateBy
from windowing.timestamps import is_time

if TYPE_CHECKING:
    from windowing.bolts.bolt import StatefulBolt
    from windowing.settings import WindowSettings


# Checks that events which a bolt processes together come to one task.


def key_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Checks that all events of a key come to one task."""
    columns = bolt.settings.key
    if bolt.settings.watermark_per_key and not columns:
        yield bolt.error(
            "has a watermark for each key, but no key",
            "the key says which events share a watermark",
            "call with_key",
        )
    for label, grouping in _inputs_splitting_keys(bolt, columns) if columns and not bolt.is_temporal_join else ():
        yield bolt.error(
            f"has the key {', '.join(columns)}, {bolt.parallelism} tasks, and reads {label!r} by {grouping}",
            "events of one key would go to several tasks",
            f"use {grouping_call(label, columns)}",
        )


def grouping_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Checks that events with equal values of their grouping fields go to the same task, also from different inputs."""
    grouped_inputs = [(each, schema) for each, schema in bolt.inputs if isinstance(each.grouping, FieldsGrouping)]
    if bolt.parallelism == 1 or len(grouped_inputs) < 2:
        return
    if bolt.join_keys is not None:  # a join compares the types of its keys itself
        return
    (first_input, first_fields), *others = ((each, _grouping_fields(each, schema)) for each, schema in grouped_inputs)
    for each, fields in others:
        if len(fields) != len(first_fields):
            continue
        for (name, kind), (other_name, other_kind) in zip(first_fields, fields, strict=True):
            if hash_class(kind) != hash_class(other_kind):
                yield bolt.error(
                    f"has {bolt.parallelism} tasks, and reads {stream_label(first_input.stream)!r} by {name!r}, "
                    f"which is {kind}, and {stream_label(each.stream)!r} by {other_name!r}, which is {other_kind}",
                    "events with equal values would go to several tasks",
                    "declare both columns with one type, or cast one in a bolt before it",
                )


def _grouping_fields(read: Input, schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Returns the fields by which an input is grouped, with their types; empty if a field is missing, which another
    check reports."""
    assert isinstance(read.grouping, FieldsGrouping)
    names = read.grouping.fields
    return [(name, schema.field(name).type) for name in names] if set(names) <= set(schema.names) else []


def group_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Checks that all events in a group of a bolt go to one task; with windows per key they always do."""
    by = bolt.groups_by
    for label, grouping in () if by is None or bolt.settings.key else _inputs_splitting_keys(bolt, by):
        fields = f"groups events by {', '.join(by)}" if by else "looks at all events together"
        yield bolt.error(
            f"{fields}, has {bolt.parallelism} tasks, and reads {label!r} by {grouping}",
            "each task would have a part of the result",
            f"use {grouping_call(label, by)}" if by else "use one task",
        )


def edge_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Checks that an end edge comes to the task of its start edge (SI-19). Fields besides ``edge_key`` may keep them
    together too."""
    lifetime = bolt.settings.lifetime
    if lifetime is None or lifetime.shape_field is None or bolt.parallelism == 1:
        return
    for each, _ in bolt.inputs:
        if isinstance(each.grouping, ShuffleGrouping):
            label = stream_label(each.stream)
            yield bolt.error(
                f"has edges, {bolt.parallelism} tasks, and reads {label!r} by {each.grouping}",
                "an end edge could go to another task than its start edge, which would last for ever",
                f"use {grouping_call(label, lifetime.edge_key)}"
                if lifetime.edge_key
                else f"use fields_grouping({label!r}, ...) by fields that both edges have, such as a key, or one task",
            )


def join_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Checks that the events compared by a window join go to one task; with windows per key they always do."""
    key_of_stream = bolt.join_keys
    if key_of_stream is None or (bolt.settings.key and not bolt.is_temporal_join) or bolt.parallelism == 1:
        return
    groupings = [each.grouping for each, _ in bolt.inputs]
    if all(isinstance(grouping, GlobalGrouping) for grouping in groupings):
        return
    positions = [
        _positions_in_key(each.grouping, key_of_stream.get(stream_label(each.stream), ())) for each, _ in bolt.inputs
    ]
    if None not in positions and len(set(positions)) == 1:
        return
    sides = " = ".join(f"{name}.{'+'.join(columns)}" for name, columns in key_of_stream.items())
    inputs = ", ".join(f"{stream_label(each.stream)!r} by {each.grouping}" for each, _ in bolt.inputs)
    calls = (grouping_call(name, columns) for name, columns in key_of_stream.items())
    yield bolt.error(
        f"joins {sides}, has {bolt.parallelism} tasks, and reads {inputs}",
        "events with equal keys would go to several tasks, and not meet",
        f"use {' and '.join(calls)}",
    )


def _inputs_splitting_keys(bolt: CheckedBolt, key: tuple[str, ...]) -> Iterator[tuple[str, Grouping]]:
    """Yields the inputs, and their groupings, by which events with equal keys may go to several tasks."""
    if bolt.parallelism == 1:
        return
    first_grouping = bolt.inputs[0][0].grouping
    for each, _ in bolt.inputs:
        grouping = each.grouping
        may_split = not isinstance(grouping, FieldsGrouping) or not set(grouping.fields) <= set(key)
        if grouping != first_grouping or (may_split and not isinstance(grouping, GlobalGrouping)):
            yield stream_label(each.stream), grouping


def _positions_in_key(grouping: Grouping, key: tuple[str, ...]) -> tuple[int, ...] | None:
    """Returns the indices in ``key`` of the columns by which a stream is grouped; None if it is grouped by anything
    else."""
    if not isinstance(grouping, FieldsGrouping) or not set(grouping.fields) <= set(key):
        return None
    return tuple(map(key.index, grouping.fields))


def grouping_call(label: str, fields: Sequence[str]) -> str:
    """Returns the call that groups a stream by fields. The name of a stream is an extra argument, unless it is the
    default stream."""
    component, _, stream = label.partition(".")
    arguments = [repr(component), *map(repr, fields), *([f"stream={stream!r}"] if stream else [])]
    return f"fields_grouping({', '.join(arguments)})"


# Watermarks and late events: rules that conflict.


def key_watermark_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Checks that no other rule makes watermarks if each key has a watermark (AZ-15)."""
    settings = bolt.settings
    if not settings.watermark_per_key or not bolt.event_time:
        return
    asks_for_partition = ("watermark_partition", "with_watermark(partition=...)") in settings.asked
    others = {
        "with_watermark(partition=...)": asks_for_partition,
        "with_watermark(field=...)": settings.watermark_field is not None,
        "imports of watermarks": settings.watermark_imports is not None,
        "with_watermark(idle_timeout=...)": settings.idle_timeout is not None,
        "with_watermark(partition_idle_timeout=...)": settings.partition_idle_timeout is not None,
        "with_trigger(Panes(...))": settings.panes is not None,
    }
    yield from bolt.exclusion_errors(
        "a watermark for each key", others, "there is no watermark of the whole bolt to which it could apply"
    )
    if settings.watermark_every != Count(1):
        yield bolt.error(
            "has a watermark for each key, and not at every event",
            "a key's watermark follows each of its events",
            "use with_watermark(every=1)",
        )


def _ends_by_events(kind: WindowKind) -> bool:
    """True for windows that may have closed although no watermark has passed their time."""
    return isinstance(kind, SlidingLog | Snapshot) or (isinstance(kind, Session) and kind.max_duration is not None)


def _kind_in_words(kind: WindowKind) -> str:
    return type(kind).__name__ + (" with max_duration" if isinstance(kind, Session) else "")


def lateness_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Checks that windows whose end follows from an event are used with lateness by window (C-23)."""
    settings = bolt.settings
    if not bolt.event_time:
        return
    moves_late_events = settings.late_action in (LateAction.ADJUST, LateAction.CUT)
    if moves_late_events and settings.idle_timeout is not None and any(map(_ends_by_events, settings.kinds)):
        yield bolt.error(
            f"is to {settings.late_action.value} late events, and has with_watermark(idle_timeout=...) and "
            + next(_kind_in_words(kind) for kind in settings.kinds if _ends_by_events(kind)),
            "where such windows end depends on their events, so the clock may have closed all those of the time to "
            "which an event would be moved",
            "leave the timeout out, or divert or drop late events",
        )
    if settings.late_by is LateBy.WATERMARK:
        if settings.allowed_lateness.micros:
            yield bolt.error(
                "allows lateness, but judges lateness by the watermark",
                "an event behind the watermark is then late even if its window is open",
                "use with_lateness(by='window', allowed=...), or with_lag for a watermark that stays behind",
            )
        return
    if moves_late_events:
        yield bolt.error(
            f"is to {settings.late_action.value} events whose windows have closed",
            "by window there is no earliest time that is in time, to which an event could be moved",
            "use with_lateness(by='watermark'), or divert or drop them",
        )
    if settings.watermark_per_key and any(kind.merges or isinstance(kind, Lull) for kind in settings.kinds):
        yield bolt.error(
            "has a watermark for each key, and judges by window which events of sessions or silences are late",
            "what has closed fires before a late event beside it is taken: in the midst of a batch, and by the "
            "watermark of its key alone",
            "use with_lateness(by='watermark'), or one watermark for all keys",
        )
    others = [kind for kind in settings.kinds if not kind.edges_known]
    if others and len(settings.kinds) > 1:
        yield bolt.error(
            f"has {type(others[0]).__name__} besides other windows, and judges lateness by window",
            "an event can be late for one kind and not for the other",
            "use with_lateness(by='watermark'), or a bolt for each kind",
        )
    events_last = settings.lifetime is not None
    if events_last and any(kind.between_edges for kind in settings.kinds):
        yield bolt.error(
            "judges lateness by window, but its windows are snapshots of events that last",
            "a late event would divide windows that have fired",
            "use with_lateness(by='watermark')",
        )
    by_policy = settings.eviction is not None or settings.trigger is not None  # another check reports this
    by_count = not (by_policy or settings.kinds) and not (
        isinstance(settings.length, Duration) and isinstance(settings.slide, Duration)
    )
    if by_count or any(kind.counts for kind in settings.kinds):
        yield bolt.error(
            "judges lateness by window, but its windows are counts of events",
            "the window of a late event would depend on the other events",
            "use with_lateness(by='watermark')",
        )


def late_stream_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields an error for a late stream that would stay empty."""
    settings, arrival = bolt.settings, bolt.settings.arrival
    if settings.late_stream is None or not bolt.event_time or settings.late_action is LateAction.DIVERT:
        return
    diverts_early = arrival is not None and arrival.early is not None
    diverts_by_arrival = arrival is not None and arrival.late is not None and arrival.action is LateAction.DIVERT
    if not diverts_early and not diverts_by_arrival:
        yield bolt.error(
            f"has a late stream {settings.late_stream!r}, but the action for late events is "
            f"{settings.late_action.value!r}",
            "no event would ever go to that stream",
            "remove it, or use with_lateness(action='divert')",
        )


# The columns and streams that settings name exist, and have a suitable type.


def column_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Checks that the columns that settings name exist, and have a type that fits."""
    settings = bolt.settings
    for field in () if bolt.is_temporal_join else settings.key:
        yield from bolt.errors_of_column("with_key", field, everywhere=True)
    if settings.lifetime is not None:
        if settings.lifetime.end_field != NO_COLUMN:
            yield from bolt.errors_of_column("with_lifetime", settings.lifetime.end_field, is_time, "a time")
        if settings.lifetime.shape_field is not None:
            yield from bolt.errors_of_column("with_lifetime", settings.lifetime.shape_field, _is_text, "a text")
        for field in settings.lifetime.edge_key:
            yield from bolt.errors_of_column("with_lifetime", field)
    if settings.arrival is not None and settings.arrival.field is not None:
        yield from bolt.errors_of_column(
            "with_lateness(arrival=...)", settings.arrival.field, is_time, "a time",
            everywhere=True, inputs=bolt.outside_inputs,
        )  # fmt: skip
    if settings.watermark_field is not None:
        yield from bolt.errors_of_column("with_watermark(field=...)", settings.watermark_field, is_time, "a time")
    if isinstance(settings.watermark_partition, str):
        yield from bolt.errors_of_column("with_watermark(partition=...)", settings.watermark_partition)
    for kind in settings.kinds:
        if isinstance(kind, Session) and kind.gap_field is not None:
            yield from bolt.errors_of_column(
                "with_window(Session(...))", kind.gap_field, _is_gap, "a number or a duration"
            )


def retraction_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Checks that retractions are not counted as events."""
    retracting = [stream_label(each.stream) for each, schema in bolt.inputs if RETRACT in schema.names]
    if retracting and not bolt.takes_retractions:
        yield bolt.error(
            f"reads {', '.join(map(repr, retracting))}, whose rows may take earlier ones back ({RETRACT})",
            "a ready bolt would count each of them as another event",
            "have the bolt before it fire each window once, or put a bolt of your own between them that heeds "
            f"{RETRACT}; an AggregateBolt may have {RETRACT} in its key",
        )


def import_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Checks that inputs import watermarks only from inputs of the same bolt that make their own (SI-15)."""
    imports = bolt.settings.watermark_imports or {}
    for taker, giver in imports.items():
        for label in (taker, giver):
            if label not in bolt.labels:
                yield bolt.error(
                    f"imports the watermarks of {giver!r} for {taker!r}, but has no input {label!r}",
                    f"it reads {', '.join(bolt.labels)}",
                    "name one of these",
                )
        if giver in imports:
            yield bolt.error(
                f"imports the watermarks of {giver!r}, which imports its own",
                "watermarks must be made by the input from which they are imported",
                "import from an input that makes watermarks",
            )
    if imports and bolt.event_time and bolt.situation.has_partitions:
        yield bolt.error(
            "imports watermarks, and has one mark for each partition",
            "an input that takes the watermark of another has that one, and no marks of its own partitions",
            "call with_watermark(partition=None), so that each input has one mark, or leave imports= out",
        )
    if imports and bolt.event_time and bolt.settings.partition_idle_timeout is not None:
        yield bolt.error(
            "imports watermarks, and has with_watermark(partition_idle_timeout=...)",
            "an input that is left out as silent has no watermark that another could take, and one that takes it holds "
            "nothing up by its own silence",
            "leave one of the two out",
        )


def partition_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Checks that declared partitions are partitions of an input that has the column (AT-20)."""
    settings = bolt.settings
    for label in settings.partitions if isinstance(settings.partitions, Mapping) else ():
        if label not in bolt.labels:
            yield bolt.error(
                f"names partitions of {label!r}, but has no such input",
                f"it reads {', '.join(bolt.labels)}",
                "name one of these in with_watermark(partitions=...)",
            )


def _leaves_events_out(settings: WindowSettings) -> bool:
    """True for windows of a count of each key with events between them."""
    length, slide = settings.length, settings.slide
    counts = isinstance(length, Count) and isinstance(slide, Count) and length.value < slide.value
    return counts and bool(settings.key) and not settings.kinds


_NOT_WITH_IDS: Mapping[str, tuple[Callable[[WindowSettings], bool], str]] = {
    "a trigger of keys": (lambda settings: settings.key_trigger is not None, "which these are the trigger decides"),
    "a policy of its own": (
        lambda settings: settings.eviction is not None or settings.trigger is not None,
        "which these are the policy decides",
    ),
    "windows of a key that leave events out": (
        _leaves_events_out, "events between two windows are in none, and are kept for counting alone",
    ),
    "events whose start and end are messages of their own": (
        lambda settings: settings.lifetime is not None and settings.lifetime.shape_field is not None,
        "such an event has two ids, and the other message says how long it lasts",
    ),
    "sessions with a max_duration": (
        lambda settings: any(isinstance(kind, Session) and kind.max_duration is not None for kind in settings.kinds),
        "where one is cut depends on events of sessions before it, which have closed",
    ),
    "panes that close their windows": (
        lambda settings: settings.panes is not None and settings.panes.closes,
        "when one closes depends on its other events",
    ),
}  # fmt: skip
"""Features that cannot be combined with message ids: a test for the feature, and the reason."""


def message_id_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Checks that messages with equal ids meet in one task, and that ids can be forgotten once no window needs their
    messages (ST-27)."""
    settings = bolt.settings
    field = settings.message_id_field
    if field is None:
        return
    call = "with_message_id_field"
    yield from bolt.errors_of_column(
        call, field, _is_id, "a text, bytes, a whole number, a time or a decimal", everywhere=True
    )
    for other, (has, why) in _NOT_WITH_IDS.items():
        if has(settings):
            yield bolt.error(
                f"has {call}({field!r}), and {other}",
                f"how long an id must not repeat follows from the windows that its event may be in: {why}",
                "leave one of the two out, or drop repeated messages in a bolt before it",
            )
    groupings = [(stream_label(each.stream), each.grouping) for each, _ in bolt.inputs]
    for label, grouping in groupings if bolt.parallelism > 1 else ():
        if isinstance(grouping, ShuffleGrouping) or grouping != groupings[0][1]:
            yield bolt.error(
                f"has {call}({field!r}), {bolt.parallelism} tasks, and reads {label!r} by {grouping}",
                "a repeated message could go to another task, which does not know the first",
                f"use fields_grouping({label!r}, ...) by the same fields for every input, or one task",
            )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind))


def _is_id(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_id(kind.value_type)
    is_unsuitable = pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_null(kind)
    return not is_unsuitable


def _is_gap(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_duration(kind))


# Limits of the topology on the time for which a bolt holds events, and on their number (ST-22, ST-23).


def limit_errors(
    name: str, settings: WindowSettings, message_timeout: Duration | None, max_spout_pending: int | None
) -> Iterator[ConfigError]:
    """Yields errors for windows of bolt ``name`` that last longer, or hold more events, than the topology allows.

    As in Storm, length plus slide must be within the limits; of kinds of windows without a slide, the length, if it is
    bounded. A limit of None allows everything.
    """
    lengths = _least_held_lengths(settings)
    time = Duration(sum(length.micros for length in lengths if isinstance(length, Duration)))
    if message_timeout is not None and time > message_timeout:
        yield ConfigError(
            f"bolt {name!r}: window duration (length + sliding interval) {time} is more than the "
            f"message timeout {message_timeout}",
            why="its events are kept that long in the checkpoint, and message_timeout "
            "is the longest that the topology allows",
            do="shorten the window, or raise message_timeout, or leave it out",
        )
    count = sum(length.value for length in lengths if isinstance(length, Count))
    if max_spout_pending is not None and count > max_spout_pending:
        yield ConfigError(
            f"bolt {name!r}: window count (length + sliding interval) {count} is more than max_spout_pending "
            f"{max_spout_pending}",
            why="each of its tasks holds as many events before it lets go of them, and the topology allows no more",
            do="shorten the window, or raise max_spout_pending, or leave it out",
        )


def _least_held_lengths(settings: WindowSettings) -> list[Duration | Count]:
    """Returns lengths whose sum is the least time, or number of events, that a bolt holds."""
    if settings.key_trigger is not None:
        return []  # its rules decide when its windows end
    if not settings.kinds:
        return [each for each in (settings.length, settings.slide) if each is not None]
    least_held = [kind.least_held for kind in settings.kinds]
    spans = [each for each in least_held if isinstance(each, Duration)]
    counts = [each for each in least_held if isinstance(each, Count)]
    return [max([Duration(0), *spans]), *counts[:1]]


# All checks of a windowed bolt's settings, against its streams and against each other.


def stateful_bolt_errors(name: str, bolt: StatefulBolt, *, times_pass: bool) -> Iterator[ConfigError]:
    """Yields the mistakes of a bolt without windows. ``times_pass``: its output has the event times of its input."""
    owner, every = f"bolt {name!r}", bolt.clock_every
    if bolt.overrides_on_clock and every is None:
        yield ConfigError(
            f"{owner} has on_clock, and is not told how often to call it",
            why="it would never be called",
            do='call with_clock("10s"), or leave on_clock out',
        )
    if every is not None and not bolt.overrides_on_clock:
        yield ConfigError(
            f"{owner}: with_clock('{every}') on a bolt without on_clock",
            why="there is nothing to call",
            do="define on_clock(self, clock), or leave with_clock out",
        )
    if bolt.overrides_on_clock and not _takes_clock(bolt):
        yield ConfigError(
            f"{owner}: on_clock cannot be called with one argument, the clock",
            why="that would fail when the clock passes, long after the start",
            do="define on_clock(self, clock)",
        )
    if every is not None and times_pass:
        yield ConfigError(
            f"{owner}: with_clock('{every}') behind a windowed bolt with event times",
            why="its rows have the times of the events that it reads, and the clock has none: what on_clock emits "
            "could be late at once for the next bolt",
            do="put it before the windows, or count time by the events in execute",
        )
    state_calls = [
        call for call, is_used in (("state_keys", bolt.state_keys), ("move_state", _has_move_method(bolt))) if is_used
    ]
    if bolt.settings.key and state_calls:
        yield ConfigError(
            f"{owner} has a key and {' and '.join(state_calls)}",
            why="with a key there is a state for each key, which moves with it to another task",
            do="leave out one of the two",
        )
    reserved = [column for column in bolt.settings.key if column.partition(".")[0] == STATE_COLUMN]
    if reserved:
        yield ConfigError(
            f"{owner} has a key with the columns {reserved}",
            why="windbolt keeps columns of these names beside those of the key",
            do="rename them in a bolt before it",
        )


def _takes_clock(bolt: StatefulBolt) -> bool:
    try:
        signature = inspect.signature(bolt.on_clock)
    except (TypeError, ValueError):  # code of C cannot be inspected
        return True
    try:
        signature.bind(None)
    except TypeError:
        return False
    return True


def _has_move_method(bolt: StatefulBolt) -> bool:
    return type(bolt).move_state is not StatefulTaskBolt.move_state


CHECKS = (
    column_errors, retraction_errors, import_errors, partition_errors, key_errors, grouping_errors, group_errors,
    edge_errors, join_errors, key_watermark_errors, lateness_errors, late_stream_errors, window_errors, pane_errors,
    empty_window_errors, expired_errors, message_id_errors, parallel_window_errors, policy_errors, key_trigger_errors,
)  # fmt: skip
"""The checks, in the order in which their mistakes are reported."""


def mistakes_of(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields errors in the settings of a bolt, beginning with settings that have no effect (ST-18, AT-22)."""
    yield from ineffective_settings(bolt.name, bolt.situation)
    for check in CHECKS:
        yield from check(bolt)


def late_by_window_fits(settings: WindowSettings) -> bool:
    """True if events of a bolt with event times can be late by their windows (C-23)."""
    if settings.eviction is not None or settings.trigger is not None:
        return False
    bolt = CheckedBolt(name="", settings=settings, event_time=True)
    return not any((*lateness_errors(bolt), *window_errors(bolt)))
