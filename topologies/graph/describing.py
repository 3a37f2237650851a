"""A topology described: in words, as JSON, as a flowchart and as HTML."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from policies.protocol import EvictionPolicy, Policy, TriggerPolicy, is_custom
from policies.storm import CountEvictionPolicy, CountTriggerPolicy, TimeEvictionPolicy, TimeTriggerPolicy
from topologies.graph.graph import ERRORS, Graph, Input, PlainNode, SinkNode, SpoutNode, WindowedNode, stream_label
from topologies.graph.html import Arrow, Box, as_svg, framed, heading, table
from topologies.graph.java_sums import reads_source_rows, why_rows_go_to_python
from topologies.io.file_spout import FileSpout
from topologies.io.kafka import KafkaSink, KafkaSpout
from topologies.io.pulled import PulledSpout, RangedSpout
from topologies.io.sinks import ConsoleSink, DiscardSink, FileSink, FunctionSink, MemorySink, Sink, TableSink
from topologies.io.spouts import AnySpout, FrameSpout, MemorySpout
from topologies.io.topics.encode import TopicRecords
from windowing.bolts.aggregate_bolt import AggregateBolt
from windowing.bolts.bolt import StatefulBolt, StatefulTaskBolt
from windowing.bolts.joins import Join, WindowJoin
from windowing.bolts.passing import AlterLifetime, EventFilter, ShiftTime, Union
from windowing.durations import Count, Duration
from windowing.reprs import repr_of
from windowing.schema import DEFAULT_STREAM, SchemaLike, format_schema, parse_schema
from windowing.settings import DECLARED, OF_INPUT, WindowSettings
from windowing.settings.declaration import DescribedBy
from windowing.settings.kinds import WindowKind
from windowing.settings.panes import PaneTrigger
from windowing.settings.rules import Aligned, Bounds, LateAction
from windowing.settings.triggers import CountTrigger, DailyByRule, DailyTrigger, KeyTrigger, RuleTrigger
from windowing.settings.words import trigger_in_words

# The windows and the time settings of a bolt in words, for people and for checkpoints: only differences from Storm.


_NOT_IN_RULES = {
    "length", "slide", "timestamp_extractor", "extractor_on_columns", "extractor_on_error",
    "extractor_on_truncation",
    *(name for name, declared in DECLARED.items() if declared.has_json_key),
}  # fmt: skip
"""Settings that have their own place in the JSON of a topology, outside the rules."""


def changed_rules(settings: WindowSettings) -> dict[str, Any]:
    """Returns the rules that differ from Storm, by name, as plain JSON."""
    return {
        each.name: _to_plain_json(getattr(settings, each.name))
        for each in fields(settings)
        if each.compare and each.name not in _NOT_IN_RULES and getattr(settings, each.name) != each.default
    }


def key_trigger_in_words(trigger: KeyTrigger) -> str:
    """Says when the window of a key fires: ``until 2 events, 100ms after the first or after the last``."""
    match trigger:
        case CountTrigger(count, timeout, from_first):
            text = f"from the first event of a key until there are {count}"
            return text + _timeout_in_words(timeout, from_first=from_first)
        case RuleTrigger(rule, timeout, from_first):
            text = f"from the first event of a key until {_rule_name(rule)} says so"
            return text + _timeout_in_words(timeout, from_first=from_first)
        case DailyTrigger(time, most):
            return f"from the first event of a key until {time}, daily{_forgetting_in_words(most)}"
        case DailyByRule(rule, most):
            text = f"from the first event of a key until the time that {_rule_name(rule)} takes from it"
            return text + _forgetting_in_words(most)


def capacity_in_words(events: int | None, size: int | None) -> str:
    """Says how much a window may hold: ``100,000 events or 64 MiB``; empty if there is no bound."""
    return " or ".join(
        [
            *([] if events is None else [f"{events:,} event{'' if events == 1 else 's'}"]),
            *([] if size is None else [_bytes_in_words(size)]),
        ]
    )


def _bytes_in_words(number: int) -> str:
    for power, unit in ((20, "MiB"), (10, "KiB")):
        if number % (1 << power) == 0:
            return f"{number >> power:,} {unit}"
    return f"{number:,} byte{'' if number == 1 else 's'}"


def _timeout_in_words(timeout: Duration | None, *, from_first: bool) -> str:
    if timeout is None:
        return ""
    return f", or {timeout} after the {'first' if from_first else 'last'}"


def _forgetting_in_words(most: int | None) -> str:
    return "" if most is None else f"; forgotten after {most} empty days in a row"


def _rule_name(rule: object) -> str:
    return getattr(rule, "__name__", type(rule).__name__)


def policies_in_words(eviction: EvictionPolicy, trigger: TriggerPolicy) -> str:
    """Describes the windows of two policies, of which a user wrote one or both; a user's policy is named by its
    class."""
    holds = fires = ""
    if not is_custom(eviction):
        match eviction:
            case CountEvictionPolicy(length):
                holds = f"the last {length}"
            case TimeEvictionPolicy(length, bounds):
                holds = f"the last {length}, {bounds.value}"
    if not is_custom(trigger):
        match trigger:
            case CountTriggerPolicy(count):
                fires = "at every event" if count.value == 1 else f"every {count}"
            case TimeTriggerPolicy(slide):
                fires = f"every {slide}"
    return f"{holds or f'what {type(eviction).__name__} keeps'}, fired {fires or f'by {type(trigger).__name__}'}"


def policy_in_words(policy: Policy, *, keyed: bool) -> str:
    """Describes a user's policy: its parameters, its moments, its columns and its state."""
    every = getattr(policy, "every", None)
    shift = getattr(policy, "offset", None)
    words = [repr_of(policy)]
    if every is not None:
        words.append(f"moments every {every}" + (f", shifted by {shift}" if shift is not None and shift.micros else ""))
    if policy.forget_after is not None:
        words.append(f"forgets {'a key' if keyed else 'its task'} after {policy.forget_after} without an event")
    if policy.state_types:
        words.append("keeps " + ", ".join(f"{name} {kind.__name__}" for name, kind in policy.state_types.items()))
    read = policy.columns_read
    words.append("reads all columns" if read is None else f"reads {', '.join(sorted(read)) or 'no column'}")
    return "; ".join(words)


def rules_in_words(node: WindowedNode) -> Iterator[str]:
    """Yields a sentence for each time setting of a bolt that has an effect and differs from Storm."""
    differing_names = OF_INPUT if node.bolt.settings.by_input else ()
    for name in DECLARED:
        if name in node.ineffective or name in differing_names:
            continue
        if name == "output_time" and isinstance(node.bolt, Union):  # a union has no windows
            continue
        yield from _setting_in_words(name, node.bolt.settings)


def _setting_in_words(name: str, settings: WindowSettings) -> Iterator[str]:
    declared, value = DECLARED[name], getattr(settings, name)
    if not isinstance(declared.words, DescribedBy) and value != declared.default:
        words = declared.words(value, settings)
        yield from [words] if isinstance(words, str) and words else words


def late_in_words(node: WindowedNode, diverted: str) -> Iterator[str]:
    """Yields a phrase for each way in which events are rejected or moved. ``diverted``: the phrase for diverted
    events."""
    settings, arrival = node.bolt.settings, node.bolt.settings.arrival
    outcome_of_action = {
        LateAction.DIVERT: diverted,
        LateAction.DROP: "dropped, and counted as such",
        LateAction.CUT: "what lasts beyond the watermark is cut to begin there, the rest dropped",
        LateAction.ERROR: "the first one stops the run",
    }
    diverts_early = arrival is not None and arrival.early is not None
    by_arrival = arrival.action if arrival is not None and arrival.late is not None else None
    outcome_behind_watermark = outcome_of_action | {LateAction.ADJUST: "moved to the watermark"}
    outcome_of_bolt = outcome_behind_watermark[settings.late_action]
    if by_arrival is None and not diverts_early:
        outcome_of_input = {
            label: outcome_behind_watermark[settings_of_input.late_action]
            for label, settings_of_input in settings.by_input.items()
        }
        differ = len(set(outcome_of_input.values())) > 1
        yield from (
            (f"of {label}: {outcome}" for label, outcome in outcome_of_input.items()) if differ else [outcome_of_bolt]
        )
        return
    if by_arrival is LateAction.ADJUST:
        yield "by arrival: moved to the earliest time that is in time"
    elif by_arrival is not None:
        yield f"by arrival: {outcome_of_action[by_arrival]}"
    yield f"behind the watermark: {outcome_of_bolt}"
    if diverts_early:
        yield f"early: {diverted}"


def _to_plain_json(value: Any) -> Any:  # noqa: PLR0911 - one for each type
    match value:
        case Enum():
            return value.value
        case Duration():
            return str(value)
        case Count():
            return value.value
        case dict():
            return value
        case tuple():
            return [_to_plain_json(each) for each in value]
        case PaneTrigger():
            return trigger_in_words(value)
        case CountTrigger() | RuleTrigger() | DailyTrigger() | DailyByRule():
            return key_trigger_in_words(value)
        case WindowKind():
            return value.in_words()
        case None | bool() | int() | str():
            return value
    if is_dataclass(value):
        return {each.name: _to_plain_json(getattr(value, each.name)) for each in fields(value)}
    return repr_of(value)


# A topology in words: its spouts, bolts and sinks, with the facts about each.


BoltNode = PlainNode | WindowedNode
ROW_PER_EVENT_BOLTS = (ShiftTime, AlterLifetime)
"""Plain bolts that emit a row for every event."""


def topology_text(topology: Graph) -> str:
    """Describes the topology for people: each spout, bolt and sink with the facts about it."""
    blocks = [[f"topology {topology.name}"]]
    if topology.stop_on_invalid:
        blocks[0].append("  stops at the first input that cannot be read")
    blocks += [_block(part.title, part.facts) for part in describe_parts(topology)]
    return "\n\n".join("\n".join(block) for block in blocks)


@dataclass(frozen=True)
class DescribedPart:
    """Description of a spout, a bolt or a sink."""

    name: str
    title: str
    """Kind, name and class: ``bolt revenue (RevenuePerUser, 2 tasks)``."""
    facts: tuple[tuple[str, str], ...]
    """Pairs of a label and a fact; facts with the same label follow each other."""


def describe_parts(topology: Graph) -> list[DescribedPart]:
    """Returns the spouts, the bolts, each after those it reads from, and the sinks."""
    return [
        *(
            DescribedPart(node.name, f"spout {node.name}", tuple(_spout_facts(node)))
            for node in topology.spouts.values()
        ),
        *(
            DescribedPart(node.name, _bolt_title(node), tuple(_bolt_facts(topology, node)))
            for node in bolts_of(topology)
        ),
        *(DescribedPart(node.name, f"sink {node.name}", tuple(_sink_facts(node))) for node in topology.sinks.values()),
    ]


def window_in_words(node: WindowedNode) -> str:
    """Returns the windows of a bolt: ``20s long, one every 10s, (start, end]``."""
    settings = node.bolt.settings
    if node.without_windows or isinstance(node.bolt, Union):
        order = "as it comes" if node.without_windows else "in order of time, once the watermark has passed it"
        return f"none: each event by itself, {order}"
    if settings.key_trigger is not None:
        words, capacity = key_trigger_in_words(settings.key_trigger), settings.capacity
        if capacity is None:
            return words
        of_columns = f" of {', '.join(capacity.columns)}" if capacity.columns else ""
        return f"{words}; at most {capacity_in_words(capacity.events, capacity.bytes)}{of_columns}"
    if settings.eviction is not None or settings.trigger is not None:
        return policies_in_words(node.eviction, node.trigger)
    if settings.kinds:
        bounds = f", {settings.bounds.value}" if any(kind.edges_known for kind in settings.kinds) else ""
        return "; ".join(kind.in_words() for kind in settings.kinds) + bounds
    length, slide = settings.length, settings.slide
    words = _extents_in_words(length, slide)
    if isinstance(length, Duration) or (isinstance(slide, Duration) and settings.bounds is not Bounds.END):
        words += f", {settings.bounds.value}"
    if settings.offset.micros:
        by_starts = settings.anchor is not None or settings.aligned is Aligned.STARTS
        words += f", {'starts' if by_starts else 'ends'} shifted by {settings.offset}"
    if type(length) is type(slide) and _extent_size(slide) > _extent_size(length):
        words += "; what falls between two windows is in none"
    return words


def time_in_words(node: WindowedNode) -> str:
    """Describes where the times of a windowed bolt come from, how far its watermark stays behind, and its time
    settings."""
    return "; ".join(_time_facts(node))


def _time_facts(node: WindowedNode) -> Iterator[str]:
    settings = node.bolt.settings
    if isinstance(node.bolt, StatefulBolt):
        passes = "the time of an event is that of what is emitted for it, and the watermark passes through"
        yield passes if node.passes_time else "none of its own"
        if node.bolt.clock_every is not None:
            yield f"on_clock every {node.bolt.clock_every} by the clock"
        return
    if not node.event_time:
        yield "processing time: the clock at an event's arrival"
        yield from rules_in_words(node)
        return
    if settings.timestamp_field is not None:
        streams_with_time = [label for label, has_time in zip(node.streams, node.brings_time, strict=True) if has_time]
        source = f"event time from {settings.timestamp_field}"
        source += f" (of {', '.join(streams_with_time)}: that of its rows)" if streams_with_time else ""
    elif settings.timestamp_extractor is not None:
        source = f"event time from {_function_name(settings.timestamp_extractor)}"
    else:
        source = f"event time of {', '.join(sorted({each.bolt for origins in node.origins for each in origins}))}"
    interval = settings.watermark_interval
    interval_in_words = f", at most every {interval}" if interval.micros else ""
    by_input = settings.by_input
    yield f"{source}{'' if by_input else f', lag {node.lag}'}{interval_in_words}"
    for label, settings_of_input in by_input.items():
        delay = f"{settings_of_input.ahead} ahead" if settings_of_input.ahead.micros else f"lag {settings_of_input.lag}"
        rules = (
            words for name in ("watermark_every", "late_action") for words in _setting_in_words(name, settings_of_input)
        )
        yield ", ".join([f"of {label}: {delay}", *rules])
    yield from rules_in_words(node)


def spout_in_words(spout: AnySpout) -> str:  # noqa: PLR0911 - one for each kind
    """Describes where the events of a spout come from."""
    match spout:
        case FileSpout():
            limit = f", at most {spout.files_per_batch} a batch" if spout.files_per_batch else ""
            if spout.bytes_per_batch:
                limit = f", at most {spout.bytes_per_batch} bytes a batch"
            order = f", merged by {spout.merge_by}" if spout.merge_by else ""
            on_missing_in_words = "; one that is gone is invalid" if spout.on_missing == "invalid" else ""
            paths = ", ".join(map(_relative_if_shorter, spout.paths))
            folders = f", with {', '.join(spout.partitions.names)} of their folders" if spout.partitions.names else ""
            return f"{spout.format.name} files {paths}{folders}{limit}{order}{_zone(spout)}{on_missing_in_words}"
        case KafkaSpout():
            limit = f", at most {spout.records_per_batch} records a batch" if spout.records_per_batch else ""
            what = "records" if spout.declared is None else _WORDS[spout.format]
            inside = f" in {_WORDS[spout.envelope]} envelope" if spout.envelope else ""
            by = f", schemas by {spout.registry.shown}" if spout.registry else ""
            return f"{what}{inside} of Kafka {spout.display_name} at {spout.servers}{by}{limit}{_zone(spout)}"
        case FrameSpout():
            return "a streaming DataFrame (over Spark Connect its rows are kept in the checkpoint first)"
        case RangedSpout():
            limit = f", about {spout.spout.rows_per_batch:,} rows a batch"
            order = f", merged by {spout.merge_by}" if spout.merge_by else ""
            return f"{type(spout.spout).__name__}, with partitions{limit}{order}"
        case PulledSpout():
            return f"{type(spout.spout).__name__}, about {spout.spout.rows_per_batch:,} rows a batch"
        case MemorySpout():
            number = len(spout.batches)
            return f"memory, {number} batch{'' if number == 1 else 'es'}"
    return type(spout).__name__


_WORDS = {
    "json": "JSON",
    "avro": "Avro",
    "protobuf": "Protobuf",
    "json_schema": "JSON with a schema",
    "connect": "Kafka Connect's",
    "debezium": "Debezium's",
}


def _zone(spout: FileSpout | KafkaSpout) -> str:
    return f", times without a zone are of {spout.timezone}" if spout.timezone else ""


def sink_in_words(sink: Sink) -> str:  # noqa: PLR0911 - one for each kind
    """Describes where the rows of a sink go."""
    match sink:
        case FileSink():
            return f"{sink.format.name} files in {_relative_if_shorter(sink.path)}"
        case ConsoleSink():
            return f"standard output, {sink.rows} rows a batch"
        case MemorySink():
            return "memory"
        case FunctionSink():
            return f"function {_function_name(sink.function)} ({sink.frame})"
        case KafkaSink(servers, topic, records=TopicRecords() as records):
            by = f", schemas by {records.registry.shown}" if records.registry else ""
            return f"{_WORDS[records.format]} in Kafka topic {topic} at {servers}{by}"
        case KafkaSink(servers, topic):
            return f"Kafka {'topics by the row' if topic is None else f'topic {topic}'} at {servers}"
        case TableSink(table):
            return f"table {table}"
        case DiscardSink():
            return "nowhere"
    return type(sink).__name__


def bolts_of(topology: Graph) -> list[BoltNode]:
    """Returns the bolts, each after those it reads from."""
    bolts_left: dict[str, BoltNode] = {**topology.plain, **topology.windowed}
    in_order: list[BoltNode] = []
    while bolts_left:
        ready = [node for node in bolts_left.values() if not any(each.stream[0] in bolts_left for each in node.inputs)]
        in_order += ready
        for node in ready:
            del bolts_left[node.name]
    return in_order


def _block(title: str, facts: Iterable[tuple[str, str]]) -> list[str]:
    lines, last_word = [title], ""
    for word, fact in facts:
        lines.append(f"  {'' if word == last_word else word:<9}{fact}")
        last_word = word
    return lines


def _spout_facts(node: SpoutNode) -> Iterator[tuple[str, str]]:
    yield "from", spout_in_words(node.spout)
    for column, default in node.defaults.in_words().items():
        yield "default", f"{default} in {column}, where a row has no value"
    yield from _output_facts(node.outputs)


def _bolt_title(node: BoltNode) -> str:
    tasks = f", {node.parallelism} tasks" if node.parallelism > 1 else ""
    return f"bolt {node.name} ({type(node.bolt).__name__}{tasks})"


def _bolt_facts(topology: Graph, node: BoltNode) -> Iterator[tuple[str, str]]:
    for each in node.inputs:
        yield "reads", f"{stream_label(each.stream)}, grouping {each.grouping}"
    late = None
    if isinstance(node, WindowedNode):
        yield "windows", window_in_words(node)
        yield from _policy_facts(node)
        for rule in _time_facts(node):
            yield "time", rule
        if bolts_before := _plain_before(topology, node):
            yield (
                "time",
                f"passes with the rows that {', '.join(bolts_before)} emit{'s' if len(bolts_before) == 1 else ''}",
            )
        late = node.bolt.settings.late_stream
        if node.event_time:
            diverted = "counted only; with_late_tuple_stream gives them a stream"
            if late is not None:
                is_read = (node.name, late) in topology.readers or (node.name, late) in topology.sinks_reading
                diverted = f"to stream {node.name}.{late}" + ("" if is_read else ", which nothing reads")
            for outcome in late_in_words(node, diverted):
                yield "late", outcome
        if isinstance(node.bolt, StatefulTaskBolt):
            yield "state", _state_in_words(node.bolt)
        if node.bolt.declared_columns is not None:
            declared_by = "its outputs" if isinstance(node.bolt, Join) else "reads"
            yield "columns", f"{format_schema(node.schema)}: those of {declared_by}, and those that its rules name"
        if node.keeps_last_window:
            yield "keeps", f"the last window of each {'key' if node.bolt.settings.key else 'task'}, for window.expired"
        if isinstance(node.bolt, WindowJoin):
            yield "joins", f"{node.bolt.left}, {node.bolt.right} on {node.bolt.keys} ({node.bolt.how})"
        if isinstance(node.bolt, AggregateBolt):
            yield from _aggregate_facts(topology, node)
    yield from _output_facts({name: schema for name, schema in node.outputs.items() if name != late})


def _aggregate_facts(topology: Graph, node: WindowedNode) -> Iterator[tuple[str, str]]:
    assert isinstance(node.bolt, AggregateBolt)
    yield "adds up", _sums_in_words(node.bolt)
    yield "keeps", _kept_in_words(node)
    if reads_source_rows(topology, node):
        why = why_rows_go_to_python(topology, node)
        yield "added up", f"in Python: {why}" if why else "in Java where they are read, also on a cluster"


def _kept_in_words(node: WindowedNode) -> str:
    if node.partial_sums is None:
        return "the events of its windows"
    by = "slice of time" if node.slicing(traced=False) else "window" if node.session is None else "session"
    return f"sums by {by}, no events"


def _policy_facts(node: WindowedNode) -> Iterator[tuple[str, str]]:
    custom = [policy for policy in (node.eviction, node.trigger) if node.by_policies and is_custom(policy)]
    for policy in custom:
        yield "policy", policy_in_words(policy, keyed=any(node.keys))


def _state_in_words(bolt: StatefulTaskBolt) -> str:
    """Describes the state of a bolt. Users know only the columns of the state of ready-made bolts."""
    if isinstance(bolt, EventFilter):
        columns = ", ".join(bolt.remembered_columns)
        return f"of the events that have passed: their time and {columns}" + (
            "" if bolt.within is None else f", for {bolt.within}"
        )
    words = ", ".join(f"{name} {_type(kind)}" for name, kind in bolt.state_types.items()) or "none declared"
    return f"{words}; for each key" if isinstance(bolt, StatefulBolt) and bolt.settings.key else words


def _plain_before(topology: Graph, node: WindowedNode) -> list[str]:
    """Returns the plain bolts that a windowed bolt reads and that do not emit a row for every event: its time advances
    with their rows alone, even if many more rows are read before them."""
    if not node.event_time:
        return []
    components = [each.stream[0] for each, origins in zip(node.inputs, node.origins, strict=True) if not origins]
    return [
        name
        for name in components
        if name in topology.plain and not isinstance(topology.plain[name].bolt, ROW_PER_EVENT_BOLTS)
    ]


def _sums_in_words(bolt: AggregateBolt) -> str:
    sums = ", ".join(f"{name} = {aggregate}" for name, aggregate in bolt.aggregates.items())
    return f"by {', '.join(bolt.by)}: {sums}" if bolt.by else sums


def _sink_facts(node: SinkNode) -> Iterator[tuple[str, str]]:
    yield "takes", ", ".join(map(stream_label, node.streams))
    yield "to", sink_in_words(node.sink)
    yield "columns", format_schema(node.schema)


def _output_facts(outputs: Mapping[str, pa.Schema]) -> Iterator[tuple[str, str]]:
    for stream, schema in outputs.items():
        if stream != ERRORS:
            yield "emits", ("" if stream == DEFAULT_STREAM else f"{stream}: ") + (format_schema(schema) or "nothing")


def _extents_in_words(length: Duration | Count | None, slide: Duration | Count) -> str:
    match length, slide:
        case (Count() | Duration(), _) if length == slide:
            return f"{length}, one after the other"
        case Duration(), Duration():
            return f"{length} long, one every {slide}"
        case Duration(), Count(1):
            return f"the last {length}, at every event"
        case Duration(), Count():
            return f"the last {length}, every {slide}"
        case Count(), Count(1):
            return f"the last {length}, at every event"
    return f"the last {length}, every {slide}"


def _extent_size(extent: Duration | Count | None) -> int:
    return extent.micros if isinstance(extent, Duration) else 0 if extent is None else extent.value


def _type(kind: type | SchemaLike) -> str:
    return kind.__name__ if isinstance(kind, type) else f"({format_schema(parse_schema(kind))})"


def _function_name(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _relative_if_shorter(path: str) -> str:
    """Returns a path relative to the current folder, if that is shorter."""
    if "://" in path or not os.path.isabs(path):
        return path
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


# A topology as plain JSON.


def to_json(topology: Graph) -> dict[str, Any]:
    """Returns the topology as plain JSON."""
    return {
        "name": topology.name,
        "on_invalid": "stop" if topology.stop_on_invalid else "divert",
        "spouts": [
            {
                "name": node.name,
                "source": spout_in_words(node.spout),
                **({"defaults": node.defaults.in_words()} if node.defaults else {}),
                "streams": _streams(node.outputs),
            }
            for node in topology.spouts.values()
        ],
        "bolts": [_bolt_json(node) for node in bolts_of(topology)],
        "sinks": [
            {
                "name": node.name,
                "target": sink_in_words(node.sink),
                "takes": [{"component": component, "stream": stream} for component, stream in node.streams],
                "columns": format_schema(node.schema),
            }
            for node in topology.sinks.values()
        ],
    }


def _bolt_json(node: BoltNode) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": node.name,
        "class": type(node.bolt).__name__,
        "parallelism": node.parallelism,
        "inputs": [_input_json(each) for each in node.inputs],
        "streams": _streams(node.outputs),
    }
    if isinstance(node, WindowedNode):
        settings = node.bolt.settings
        described["window"] = {
            "in_words": window_in_words(node),
            "length": _extent_json(settings.length),
            "slide": _extent_json(settings.slide),
            "bounds": settings.bounds.value,
            "offset": str(settings.offset),
            "eviction": repr_of(node.eviction),
            "trigger": repr_of(node.trigger),
            "keeps_last_window": node.keeps_last_window,
        }
        described["time"] = {
            "in_words": time_in_words(node),
            "event_time": node.event_time,
            "timestamp_field": settings.timestamp_field,
            "lag": str(node.lag),
            "watermark_interval": str(settings.watermark_interval),
            "late_stream": settings.late_stream,
            "rules": changed_rules(settings),
        }
    return described


def _input_json(each: Input) -> dict[str, str]:
    return {"component": each.stream[0], "stream": each.stream[1], "grouping": str(each.grouping)}


def _streams(outputs: Mapping[str, pa.Schema]) -> dict[str, str]:
    return {stream: format_schema(schema) for stream, schema in outputs.items()}


def _extent_json(extent: Duration | Count | None) -> str | int | None:
    return extent.value if isinstance(extent, Count) else None if extent is None else str(extent)


# A topology as a flowchart in Mermaid's language.


_ENTITIES = {sign: f"#{ord(sign)};" for sign in '#"&<>|`\\'}


def as_mermaid(topology: Graph) -> str:
    """Returns the topology as a flowchart in Mermaid's language."""
    lines = ["flowchart LR"]
    node_ids: dict[str, str] = {}
    for spout in topology.spouts.values():
        node_ids[spout.name] = f"n{len(node_ids)}"
        lines.append(f"    {node_ids[spout.name]}([{label(spout.name, spout_in_words(spout.spout))}])")
    for bolt in bolts_of(topology):
        node_ids[bolt.name] = f"n{len(node_ids)}"
        facts = [f"{bolt.parallelism} tasks"] if bolt.parallelism > 1 else []
        if isinstance(bolt, WindowedNode):
            facts = [window_in_words(bolt), time_in_words(bolt), *facts]
        lines.append(f"    {node_ids[bolt.name]}[{label(bolt.name, *facts)}]")
    for sink in topology.sinks.values():
        node_ids[sink.name] = f"n{len(node_ids)}"
        lines.append(f"    {node_ids[sink.name]}[({label(sink.name, sink_in_words(sink.sink))})]")
    for bolt in bolts_of(topology):
        for each in bolt.inputs:
            component, stream = each.stream
            texts = [str(each.grouping)] if stream == DEFAULT_STREAM else [stream, str(each.grouping)]
            lines.append(f"    {node_ids[component]} -->|{label(*texts)}| {node_ids[bolt.name]}")
    for sink in topology.sinks.values():
        for component, stream in sink.streams:
            text = "" if stream == DEFAULT_STREAM else f"|{label(stream)}|"
            lines.append(f"    {node_ids[component]} -->{text} {node_ids[sink.name]}")
    return "\n".join(lines)


def label(*lines: str) -> str:
    """Returns text in quotes; characters that Mermaid or HTML would interpret are written as entities."""
    safe = ("".join(_ENTITIES.get(sign, sign) for sign in line.replace("\n", " ")) for line in lines)
    return f'"{"<br/>".join(safe)}"'


# A topology as a notebook shows it: its graph, and the facts about each part.


def topology_html(topology: Graph) -> str:
    """Returns the graph of a topology and, folded, its description, as HTML."""
    parts = [(fact.title, word, what) for fact in describe_parts(topology) for word, what in fact.facts]
    details = "<details><summary>details</summary>"
    details += table(["part", "", ""], _blank_repeats(parts)) + "</details>"
    return framed(heading(topology.name), topology_svg(topology), details)


def topology_svg(topology: Graph) -> str:
    """Returns the graph alone, as SVG."""
    return as_svg(f"topology {topology.name}", *boxes_and_arrows(topology))


def boxes_and_arrows(topology: Graph) -> tuple[list[Box], list[Arrow]]:
    """Returns a box for each spout, bolt and sink, and an arrow for each stream between two of them."""
    boxes = [Box(node.name, "spout", (spout_in_words(node.spout),)) for node in topology.spouts.values()]
    arrows = []
    for bolt in bolts_of(topology):
        tasks = (f"{bolt.parallelism} tasks",) if bolt.parallelism > 1 else ()
        windows = (window_in_words(bolt),) if isinstance(bolt, WindowedNode) else ()
        boxes.append(Box(bolt.name, "bolt", (type(bolt.bolt).__name__, *windows, *tasks)))
        for each in bolt.inputs:
            component, stream = each.stream
            words = [str(each.grouping)] if stream == DEFAULT_STREAM else [stream, str(each.grouping)]
            arrows.append(Arrow(component, bolt.name, " ".join(words)))
    for sink in topology.sinks.values():
        boxes.append(Box(sink.name, "sink", (sink_in_words(sink.sink),)))
        arrows += [
            Arrow(component, sink.name, "" if stream == DEFAULT_STREAM else stream)
            for component, stream in sink.streams
        ]
    return boxes, arrows


def _blank_repeats(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Returns the rows; a part or a label appears only in the first of the rows that share it."""
    blanked, previous = [], ("", "")
    for part, word, fact in rows:
        same_part = previous[0] == part
        blanked.append(("" if same_part else part, "" if same_part and previous[1] == word else word, fact))
        previous = part, word
    return blanked
