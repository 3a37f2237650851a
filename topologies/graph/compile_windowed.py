"""Compiles a declared windowed bolt to a node of the topology, with its time, its windows and its streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from policies.choose_policies import choose_assigners, choose_policies, uses_policy_windows, with_placeholder_lengths
from topologies.graph.check_streams import late_by_window_fits, limit_errors, mistakes_of, stateful_bolt_errors
from topologies.graph.check_windows import CheckedBolt
from topologies.graph.declarations import Mistakes, declared_columns, distinct_presets, how_to_have
from topologies.graph.effects import EVENT_TIME, Situation, all_ineffective, ineffective_setting
from topologies.graph.graph import (
    ERRORS,
    LATE_COLUMNS,
    REASON,
    Input,
    Origin,
    WindowedNode,
    reserved_columns,
    stream_label,
)
from topologies.io.kafka import KafkaSpout
from windowing.bolts.bolt import StatefulBolt, StatefulTaskBolt, TaskBolt
from windowing.bolts.joins import Join
from windowing.bolts.read_code import asks_for_expired
from windowing.durations import Duration
from windowing.errors import ConfigError
from windowing.settings.panes import RETRACT, PaneMode
from windowing.settings.presets import RULES, Preset
from windowing.settings.rules import Arrival, DefaultTime, InputRules, LateAction, LateBy
from windowing.timestamps import is_time

if TYPE_CHECKING:
    from topologies.graph.declarations import BoltDeclarer, DeclaredTopology, KnownStreams
    from windowing.settings import WindowSettings


# Sources of event times: a field, an extractor, the bolts before, or the clock.


@dataclass(frozen=True)
class EventTimes:
    """Kind of time that the windows of a bolt use."""

    event_time: bool
    """True for event time; False for processing time."""
    brings_time: tuple[bool, ...]
    """For each input, True if its events already have times, from a windowed bolt before."""


def event_times(
    name: str,
    settings: WindowSettings,
    inputs: Sequence[tuple[Input, pa.Schema]],
    brings_time: Sequence[bool],
    mistakes: Mistakes,
) -> EventTimes:
    """Returns the kind of time of bolt ``name``. ``brings_time``: for each input, True if its events have times."""
    no_input = (False,) * len(inputs)
    if settings.processing_time:
        return EventTimes(False, no_input)
    if settings.timestamp_extractor is not None:
        return EventTimes(True, no_input)
    if settings.timestamp_field is not None:
        return EventTimes(
            True, _inputs_with_carried_times(name, settings.timestamp_field, inputs, brings_time, mistakes)
        )
    without_times = [
        stream_label(each.stream) for (each, _), has_time in zip(inputs, brings_time, strict=True) if not has_time
    ]
    if any(brings_time) and without_times:
        mistakes.tell(
            f"bolt {name!r} reads streams with event times, and {', '.join(without_times)} without",
            "a window has one kind of time",
            "call with_timestamp_field, with_timestamp_extractor or with_time(processing=True)",
        )
    return EventTimes(any(brings_time), tuple(brings_time))


def _inputs_with_carried_times(
    name: str, field: str, inputs: Sequence[tuple[Input, pa.Schema]], brings_time: Sequence[bool], mistakes: Mistakes
) -> tuple[bool, ...]:
    """Returns, for each input, True if it lacks the time field, and its events have times from a bolt before. Adds to
    ``mistakes`` inputs that have neither, and time fields of a wrong type."""
    for (each, schema), has_time in zip(inputs, brings_time, strict=True):
        label = stream_label(each.stream)
        if field in schema.names:
            kind = schema.field(field).type
            if not is_time(kind):
                mistakes.tell(
                    f"bolt {name!r}: timestamp field {field!r} of {label!r} is {kind}",
                    "event times are timestamps, dates, or whole numbers of milliseconds",
                    "name another field, or use with_timestamp_extractor",
                )
        elif not has_time:
            mistakes.tell(
                f"bolt {name!r}: {label!r} has no timestamp field {field!r}",
                f"it has {', '.join(schema.names)}",
                how_to_have(field, "name another field, or use with_timestamp_extractor"),
            )
    return tuple(
        has_time and field not in schema.names for (_, schema), has_time in zip(inputs, brings_time, strict=True)
    )


# Time rules of a spout: defaults for every bolt that reads the spout (SI-17, SI-18).


_PER_INPUT = ("watermark_every", "lag", "ahead", "late_action", "watermark_field", "close_fires")
"""Rules that may differ between the inputs of a bolt, if all inputs have the rules of StreamInsight."""


def checked_source_time(name: str, time: object) -> Preset | None:
    """Returns the time rules of a spout. Raises ConfigError for other objects, and for rules that name other inputs."""
    if time is None:
        return None
    if not isinstance(time, Preset):
        raise ConfigError(
            f"set_spout({name!r}, time={time!r:.60})", do="give one of windbolt.presets, such as presets.atlas()"
        )
    if time.rules.get("watermark_imports"):
        raise ConfigError(
            f"spout {name!r} imports watermarks",
            why="an import names another input of a bolt, which a source does not know",
            do="call with_time(presets.streaminsight(imports=...)) on the bolt",
        )
    return time


def with_source_time(
    name: str,
    settings: WindowSettings,
    inputs: Sequence[tuple[Input, pa.Schema]],
    brings_time: Sequence[bool],
    times: Mapping[str, tuple[Preset | None, ...]],
) -> WindowSettings:
    """Returns the settings of bolt ``name``, with the rules of its sources unless it has its own (SI-18).

    ``brings_time``: True for inputs with the times and the watermark of a windowed bolt. ``times``: for each component,
    the rules of the spouts that it reads with no window between; None for a spout without rules. Raises ConfigError if
    the rules contradict each other.
    """
    if set(RULES) <= settings.given:
        return settings
    outside_inputs = [
        (each, schema) for (each, schema), has_time in zip(inputs, brings_time, strict=True) if not has_time
    ]
    presets_by_input = {stream_label(each.stream): times.get(each.stream[0], (None,)) for each, _ in outside_inputs}
    all_presets = distinct_presets([preset for presets in presets_by_input.values() for preset in presets])
    if all_presets in ((), (None,)):
        return settings
    if None in all_presets:
        undeclared = ", ".join(repr(label) for label, presets in presets_by_input.items() if None in presets)
        raise ConfigError(
            f"bolt {name!r} reads sources that declare time rules, and {undeclared}, which declares none",
            why="its inputs share one watermark",
            do="declare them there too: set_spout(..., time=...); or for the bolt: with_time(...)",
        )
    presets_found = [preset for preset in all_presets if preset is not None]
    if len(presets_found) == 1:
        return _with_preset(settings, presets_found[0])
    schema_by_input = {stream_label(each.stream): schema for each, schema in outside_inputs}
    return _with_rules_by_input(name, settings, schema_by_input, presets_by_input, presets_found)


class SourceRules:
    """Time rules of spouts, and the bolts that use them.

    A rule of a spout is a default for all bolts that read the spout (SI-17): at least one of them must use it.
    """

    def __init__(self) -> None:
        self._ineffective: dict[tuple[str, str], list[ConfigError | None]] = {}
        """For each setting and call of a spout: the reasons why the setting has no effect, for each bolt that inherits
        the setting."""

    def note(
        self,
        bolt: str,
        situation: Situation,
        settings: WindowSettings,
        inputs: Sequence[Input],
        brings_time: Sequence[bool],
        times: Mapping[str, tuple[Preset | None, ...]],
    ) -> None:
        """Records the use of source rules by a bolt. ``settings``: the bolt's own; the other arguments are those of
        ``with_source_time``."""
        for rule, call in _asked_at_sources(settings, inputs, brings_time, times):
            self._ineffective.setdefault((rule, call), []).append(ineffective_setting(bolt, situation, rule, call))

    def ineffective_errors(self) -> Iterator[ConfigError]:
        """Yields errors for rules that have no effect on any bolt."""
        for reasons in self._ineffective.values():
            if reasons[0] is not None and None not in reasons:
                yield reasons[0]


def _asked_at_sources(
    settings: WindowSettings,
    inputs: Sequence[Input],
    brings_time: Sequence[bool],
    times: Mapping[str, tuple[Preset | None, ...]],
) -> tuple[tuple[str, str], ...]:
    """Returns the rules that the sources of a bolt set by name, as pairs of setting and argument
    (``WindowSettings``)."""
    components = [each.stream[0] for each, has_time in zip(inputs, brings_time, strict=True) if not has_time]
    presets = [preset for component in components for preset in times.get(component, ()) if preset is not None]
    asked = [each for preset in presets for each in preset.asked if each[0] not in settings.given]
    return tuple(dict.fromkeys(asked))


def _with_rules_by_input(
    name: str,
    settings: WindowSettings,
    schema_by_input: Mapping[str, pa.Schema],
    presets_by_input: Mapping[str, tuple[Preset | None, ...]],
    presets_found: Sequence[Preset],
) -> WindowSettings:
    """Returns settings in which each input has the rules of its source, if the rules differ only where inputs may
    differ."""
    shared_rules = [
        {rule: value for rule, value in each.changes().items() if rule not in _PER_INPUT} for each in presets_found
    ]
    fields = sorted({each.rules["watermark_field"] for each in presets_found if each.rules.get("watermark_field")})
    labels_of_several = [label for label, presets in presets_by_input.items() if len(presets) > 1]
    labels_with_other_field = [
        label
        for label, presets in presets_by_input.items()
        for preset in presets
        if preset is not None
        and not preset.rules.get("watermark_field")
        and set(fields) & set(schema_by_input[label].names)
    ]
    differ_only_per_input = all(each.name == "streaminsight" for each in presets_found) and all(
        each == shared_rules[0] for each in shared_rules
    )
    if not differ_only_per_input or labels_of_several or labels_with_other_field or len(fields) > 1:
        names = {
            label: [each.name for each in presets if each is not None] for label, presets in presets_by_input.items()
        }
        by_source = "; ".join(
            f"{label!r} has those of {' and '.join(preset_names)}" for label, preset_names in names.items()
        )
        raise ConfigError(
            f"the sources of bolt {name!r} declare different time rules: {by_source}",
            why="between inputs only StreamInsight's generation, delay and policy may differ",
            do="call with_time(...) on the bolt, or declare the same at its sources",
        )
    settings = _with_preset(settings, presets_found[0])
    settings_by_input = {
        label: _with_preset(settings, presets[0])
        for label, presets in presets_by_input.items()
        if presets[0] is not None
    }
    return replace(
        settings,
        watermark_field=settings.watermark_field if "watermark_field" in settings.given else next(iter(fields), None),
        # The end of the streams releases events up to the least time of all inputs.
        close_fires=all(each.close_fires for each in settings_by_input.values()),
        input_rules={
            label: InputRules(each.watermark_every, each.delay, each.late_action)
            for label, each in settings_by_input.items()
        },
    )


def _with_preset(settings: WindowSettings, preset: Preset) -> WindowSettings:
    """Returns the settings with the rules of a preset, except for settings that the user gave by name.

    Another setting of the bolt may imply how often watermarks are made. The preset replaces that rule if it has one.
    """
    changes = preset.changes()
    if settings.every_is_derived and changes["watermark_every"] is not None:
        settings = replace(settings, given=settings.given - {"watermark_every"}, every_is_derived=False)
    rules = {rule: value for rule, value in changes.items() if rule not in settings.given}
    return replace(settings, **rules)


# The default time of a bolt without a time setting: it depends on the system, and some systems have none.


RECORD_TIME = "kafka_timestamp"
"""The column with the time of the Kafka record, for topics of JSON objects."""


def names_no_time(settings: WindowSettings) -> bool:
    """True if no setting of the user determines the time of events."""
    return not settings.reads_timestamps and not settings.processing_time


def with_record_time(spout: object, declared: Preset | None, readers: Sequence[object]) -> object:
    """Returns a spout that adds the time of records to JSON objects of a topic, if one of its readers uses that time;
    else the spout itself.

    Like ``_ts`` of Atlas, this time is a column of the stream (AT-10). ``declared``: the time settings of the spout.
    """
    default_of_spout = None if declared is None else declared.rules.get("default_time")
    is_used = any(
        isinstance(bolt, TaskBolt)
        and names_no_time(bolt.settings)
        and (bolt.settings.default_time if "default_time" in bolt.settings.given else default_of_spout)
        is DefaultTime.RECORD
        for bolt in readers
    )
    if is_used and isinstance(spout, KafkaSpout) and spout.declared is not None and RECORD_TIME not in spout.metadata:
        return replace(spout, metadata=(*spout.metadata, RECORD_TIME))
    return spout


def without_arrival(settings: WindowSettings) -> WindowSettings:
    """Returns the settings of a bolt that reads only windowed bolts, without a preset's rules about arrival.

    Only events from outside have an arrival. Arrival rules that the user sets by name are kept here, and refused later.
    """
    asked = {rule for rule, _ in settings.asked}
    rules: dict[str, Any] = {"arrival": None, "estimate_arrival": False}
    return replace(settings, **{rule: value for rule, value in rules.items() if rule not in asked})


def with_default_time(
    name: str,
    settings: WindowSettings,
    inputs: Sequence[tuple[Input, pa.Schema]],
    brings_time: Sequence[bool],
    spouts: Mapping[str, object],
) -> WindowSettings:
    """Returns the settings of bolt ``name``, with the default time of its system if the bolt sets no time.

    ``brings_time``: True for inputs whose events have times from a windowed bolt. Raises ConfigError if the system has
    no default time for these inputs.
    """
    if not names_no_time(settings) or all(brings_time):
        return settings
    match settings.default_time:
        case DefaultTime.RECORD:
            return replace(settings, timestamp_field=_record_time(name, inputs, brings_time, spouts))
        case DefaultTime.ARRIVAL if settings.arrival_is_time:
            return _with_arrival_as_time(name, settings)
        case DefaultTime.NONE:
            raise ConfigError(
                f"bolt {name!r} has a preset that needs event times, and names none",
                why="StreamInsight has no processing time",
                do="call with_timestamp_field or with_timestamp_extractor",
            )
    return settings


def _record_time(
    name: str,
    inputs: Sequence[tuple[Input, pa.Schema]],
    brings_time: Sequence[bool],
    spouts: Mapping[str, object],
) -> str:
    """Returns the column with the time at which Kafka's broker received a record (AT-10). Raises ConfigError if an
    input has no such column, or the inputs have different ones."""
    column_by_input: dict[str, str | None] = {}
    for (each, schema), has_time in zip(inputs, brings_time, strict=True):
        if not has_time:
            column_by_input[stream_label(each.stream)] = _record_time_column(spouts.get(each.stream[0]), schema)
    without_record_time = [label for label, column in column_by_input.items() if column is None]
    if without_record_time:
        raise ConfigError(
            f"bolt {name!r} names no time, and {', '.join(map(repr, without_record_time))} has no record time",
            why="this preset goes by event time; without a timestamp it takes the time at which the broker took a "
            f"record, on topics of Kafka, or in a column {RECORD_TIME!r} that a bolt behind them passes on",
            do="call with_timestamp_field; or with_time(processing=True) for processing time",
        )
    columns = sorted({column for column in column_by_input.values() if column is not None})
    if len(columns) > 1:
        raise ConfigError(
            f"bolt {name!r} names no time, and its inputs have the record time in {' and '.join(map(repr, columns))}",
            why="a bolt reads its time from one column",
            do="rename it in a bolt before, and name it: with_timestamp_field(...)",
        )
    return columns[0]


def _record_time_column(source: object, schema: pa.Schema) -> str | None:
    if isinstance(source, KafkaSpout) and source.declared is None:
        return "timestamp"
    is_there = RECORD_TIME in schema.names and is_time(schema.field(RECORD_TIME).type)
    return RECORD_TIME if is_there else None


def _with_arrival_as_time(name: str, settings: WindowSettings) -> WindowSettings:
    """Returns settings with arrival as the time of events, so that nothing is early, late or adjusted (AZ-1, AZ-7).

    An event that arrived before an earlier one, as events of several partitions may, keeps its time: it is in those of
    its windows that are still open, and late if all have closed.
    """
    assert settings.arrival is not None
    if settings.allowed_lateness.micros:
        raise ConfigError(
            f"bolt {name!r}: with_lateness(allowed=...) {EVENT_TIME.without}", why=EVENT_TIME.why, do=EVENT_TIME.do
        )
    by_arrival = replace(
        settings,
        timestamp_field=settings.arrival.field,
        arrival=Arrival(settings.arrival.field, None, Duration(0), LateAction.DIVERT),
        lag=None,
        ahead=Duration(0),
        # An unlimited tolerance needs no estimate of arrivals; here arrival itself is estimated.
        estimate_arrival=settings.estimate_arrival or settings.arrival.late is None,
        late_action=LateAction.DIVERT,
        late_by=LateBy.WINDOW,
    )
    return by_arrival if late_by_window_fits(by_arrival) else replace(by_arrival, late_by=LateBy.WATERMARK)


# Compiling a declared windowed bolt: its time, its windows, its streams.


MAX_INPUTS = 127
"""Most inputs, because the number of an event's input is kept in one byte."""


@dataclass(frozen=True)
class _CompiledInputs:
    """Inputs of a windowed bolt, with their columns and origins."""

    bolt: str
    inputs: tuple[Input, ...]
    schemas: tuple[pa.Schema, ...]
    """Per input: its columns."""
    origins: tuple[tuple[Origin, ...], ...]
    """For each input, the windowed bolts whose watermark it carries."""

    @classmethod
    def of(cls, declarer: BoltDeclarer, known: KnownStreams) -> Self:
        inputs = tuple(declarer.inputs)
        schemas = tuple(known.schemas[each.stream] for each in inputs)
        return cls(declarer.name, inputs, schemas, tuple(known.origins(each.stream) for each in inputs))

    @property
    def streams(self) -> list[tuple[Input, pa.Schema]]:
        return list(zip(self.inputs, self.schemas, strict=True))

    @property
    def brings_time(self) -> list[bool]:
        """For each input, True if its events have times from a bolt before."""
        return [bool(origins) for origins in self.origins]


def windowed_node(
    declarer: BoltDeclarer,
    outputs: Mapping[str, pa.Schema],
    declared: DeclaredTopology,
    known: KnownStreams,
    source_rules: SourceRules,
    mistakes: Mistakes,
) -> WindowedNode | None:
    """Returns the bolt as a node; None after a mistake.

    Changes three arguments: adds the bolt's streams to ``known``, its use of source rules to ``source_rules``, and its
    mistakes to ``mistakes``.
    """
    mistakes_before, name, declared_bolt, compiled_inputs = (
        len(mistakes),
        declarer.name,
        declarer.bolt,
        _CompiledInputs.of(declarer, known),
    )
    assert isinstance(declared_bolt, TaskBolt)
    try:
        bolt = _with_its_time(declared_bolt, compiled_inputs, known)
    except ConfigError as error:
        mistakes.append(error)
        return None
    settings = bolt.settings
    schema = _schema(bolt, compiled_inputs, mistakes)
    times = event_times(name, settings, compiled_inputs.streams, compiled_inputs.brings_time, mistakes)
    if not isinstance(bolt, StatefulBolt):  # a stateful bolt holds no events
        mistakes.extend(limit_errors(name, settings, declared.message_timeout, declared.max_spout_pending))
    if len(compiled_inputs.inputs) > MAX_INPUTS:
        mistakes.tell(
            f"bolt {name!r} reads {len(compiled_inputs.inputs)} streams",
            f"a bolt can read at most {MAX_INPUTS}",
            "merge some in a plain bolt before it",
        )
    checked = _checked_bolt(bolt, declarer.parallelism, compiled_inputs, times, outputs, known)
    if isinstance(bolt, StatefulBolt):
        mistakes.extend(stateful_bolt_errors(name, bolt, times_pass=all(compiled_inputs.brings_time)))
    else:
        source_rules.note(
            name,
            checked.situation,
            declared_bolt.settings,
            compiled_inputs.inputs,
            compiled_inputs.brings_time,
            known.source_times,
        )
    mistakes.extend(mistakes_of(checked))
    if schema is None or len(mistakes) > mistakes_before:
        return None
    outputs = _with_added_outputs(name, settings, outputs, schema, mistakes)
    try:
        node = _node(bolt, schema, times, outputs, checked, compiled_inputs, known)
    except ConfigError as error:
        mistakes.tell_of(f"bolt {name!r}", error)
        return None
    if node.partial_sums is not None and {"window_bytes", "call_time"} & {rule for rule, _ in settings.asked}:
        mistakes.tell(
            f"bolt {name!r}: with_limits on an AggregateBolt whose windows are sums",
            "it holds no events, and no code of yours is called with its windows",
            "leave with_limits out",
        )
    if len(mistakes) > mistakes_before:
        return None
    _add_to_known(node, compiled_inputs, known)
    return node


def _with_its_time(bolt: TaskBolt, compiled_inputs: _CompiledInputs, known: KnownStreams) -> TaskBolt:
    """Returns the bolt with the rules of its sources, and with the default time of its system if it sets no time."""
    if isinstance(bolt, StatefulBolt):
        return bolt  # event times pass through unchanged
    name, streams, brings_time = compiled_inputs.bolt, compiled_inputs.streams, compiled_inputs.brings_time
    settings = with_source_time(name, bolt.settings, streams, brings_time, known.source_times)
    if all(brings_time):
        settings = without_arrival(settings)
    return bolt.configured(with_default_time(name, settings, streams, brings_time, known.spouts))


def _schema(bolt: TaskBolt, compiled_inputs: _CompiledInputs, mistakes: Mistakes) -> pa.Schema | None:
    """Returns the columns of the bolt's windows; None after a mistake, which is reported here."""
    name = compiled_inputs.bolt
    try:
        schema = pa.unify_schemas(compiled_inputs.schemas)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        mistakes.tell(
            f"bolt {name!r} reads streams whose columns of one name differ in type",
            str(error).splitlines()[0],
            "rename or cast one of them in a bolt before it",
        )
        return None
    reserved = reserved_columns(schema.names)
    if reserved:
        mistakes.tell(
            f"bolt {name!r} reads columns {reserved}",
            "windbolt keeps columns of these names beside those of the events",
            "rename them in a bolt before it",
        )
    try:
        return declared_columns(name, bolt, schema, compiled_inputs.inputs)
    except ConfigError as error:
        mistakes.append(error)
        return None


def _checked_bolt(
    bolt: TaskBolt,
    parallelism: int,
    compiled_inputs: _CompiledInputs,
    times: EventTimes,
    outputs: Mapping[str, pa.Schema],
    known: KnownStreams,
) -> CheckedBolt:
    settings = bolt.settings
    return CheckedBolt(
        name=compiled_inputs.bolt,
        settings=settings,
        inputs=compiled_inputs.streams,
        brings_time=compiled_inputs.brings_time,
        outputs=[schema for stream, schema in outputs.items() if stream != ERRORS],
        parallelism=parallelism,
        event_time=times.event_time,
        groups_by=bolt.groups_by,
        rows_are_of_events=bolt.rows_are_of_events,
        takes_retractions=bolt.takes_retractions,
        asks_for_expired=asks_for_expired(bolt) if settings.expired is None else settings.expired,
        source_has_partitions=any(each.stream[0] in known.partitioned for each in compiled_inputs.inputs),
        parallel_windows=bolt.parallel_windows,
        stateful=isinstance(bolt, StatefulTaskBolt),
        join_keys=bolt.keys_by_stream if isinstance(bolt, Join) else None,
    )


def _with_added_outputs(
    name: str, settings: WindowSettings, outputs: Mapping[str, pa.Schema], schema: pa.Schema, mistakes: Mistakes
) -> dict[str, pa.Schema]:
    """Returns the output streams of the bolt, including those that its settings add. Adds conflicts to ``mistakes``."""
    all_outputs = dict(outputs)
    if settings.panes is not None and settings.panes.mode is PaneMode.RETRACTING:
        retract = pa.field(RETRACT, pa.bool_())
        all_outputs = {
            stream: each if stream == ERRORS else each.append(retract) for stream, each in all_outputs.items()
        }
    for stream, columns, stream_in_words in (
        (settings.late_stream, LATE_COLUMNS, "late stream"),
        (settings.refused_stream, [pa.field(REASON, pa.string())], "refused stream"),
    ):
        if stream is None:
            continue
        if stream in all_outputs:
            mistakes.tell(f"bolt {name!r} has two streams {stream!r}", do=f"rename the {stream_in_words}")
        added_names = [field.name for field in columns]
        conflicting = [column for column in schema.names if column in added_names]
        if conflicting:
            mistakes.tell(
                f"bolt {name!r} reads columns {conflicting}, and has a stream {stream!r}",
                f"the {stream_in_words} has the event's columns and adds columns of these names",
                "rename them in a bolt before it, or leave them out of those that the bolt declares (reads)",
            )
            continue
        all_outputs[stream] = pa.schema([*schema, *columns])
    return all_outputs


def _node(
    bolt: TaskBolt,
    schema: pa.Schema,
    times: EventTimes,
    outputs: Mapping[str, pa.Schema],
    checked: CheckedBolt,
    compiled_inputs: _CompiledInputs,
    known: KnownStreams,
) -> WindowedNode:
    """Returns the node; raises ConfigError if there are no policies for its settings."""
    settings, event_time = bolt.settings, times.event_time
    by_event = isinstance(bolt, StatefulBolt)
    assigners = () if by_event else choose_assigners(settings, event_time=event_time)
    by_trigger = settings.key_trigger is not None
    queue_settings = with_placeholder_lengths(settings) if assigners or by_trigger else settings
    eviction, trigger = choose_policies(queue_settings, event_time=event_time)
    is_decided_by_policies = not assigners and not by_trigger and uses_policy_windows(settings, eviction, trigger)
    return WindowedNode(
        name=compiled_inputs.bolt,
        bolt=bolt,
        parallelism=checked.parallelism,
        inputs=compiled_inputs.inputs,
        outputs=outputs,
        schema=schema,
        event_time=event_time,
        brings_time=times.brings_time,
        origins=compiled_inputs.origins if event_time else ((),) * len(compiled_inputs.inputs),
        eviction=eviction,
        trigger=trigger,
        level=known.level_of(compiled_inputs.inputs) + 1,
        assigners=assigners,
        brings_clock=tuple(
            ((by_trigger or by_event) and each.stream[0] in known.clocked_components) or (by_event and has_time)
            for each, has_time in zip(compiled_inputs.inputs, compiled_inputs.brings_time, strict=True)
        ),
        keeps_last_window=is_decided_by_policies or (bool(assigners) and checked.asks_for_expired),
        ineffective=all_ineffective(checked.situation),
        passes_time=by_event and (all(compiled_inputs.brings_time) or known.are_clocked(compiled_inputs.inputs)),
    )


def _add_to_known(node: WindowedNode, compiled_inputs: _CompiledInputs, known: KnownStreams) -> None:
    settings = node.bolt.settings
    if node.without_windows:
        known.pass_on(node.name, node.outputs, compiled_inputs.inputs)
    elif node.event_time:
        known.add_origins(node.name, set(node.outputs) - {settings.late_stream}, [Origin(node.name)])
    if settings.key_trigger is not None:
        known.clocked_components.add(node.name)
    known.set_level(node.name, node.level)
