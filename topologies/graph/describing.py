"""A topology in words: its spouts, bolts and sinks with what there is to know about each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from policies.protocol import is_own
from topologies.graph.graph import Graph
from topologies.graph.nodes.plain import PlainNode
from topologies.graph.nodes.sink import SinkNode
from topologies.graph.nodes.spout import SpoutNode
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.rules_in_words import (
    capacity_in_words,
    key_trigger_in_words,
    late_in_words,
    policies_in_words,
    policy_in_words,
    rules_in_words,
)
from topologies.graph.side_streams import ERRORS
from topologies.graph.streams import stream_label
from topologies.io.file_spout import FileSpout
from topologies.io.kafka import KafkaSink, KafkaSpout
from topologies.io.pulled import PulledSpout
from topologies.io.sinks import ConsoleSink, DiscardSink, FileSink, FunctionSink, MemorySink, Sink
from topologies.io.spouts import AnySpout, FrameSpout, MemorySpout
from windowing.bolts.joins.window_join import WindowJoin
from windowing.bolts.ready.aggregate_bolt import AggregateBolt
from windowing.bolts.ready.passing import Passing
from windowing.bolts.ready.shifts import AlterLifetime, ShiftTime
from windowing.bolts.ready.unions import Union
from windowing.bolts.windowed_bolt import StatefulWindowedBolt
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.data.schema import SchemaLike, format_schema, parse_schema
from windowing.settings.bounds import Bounds
from windowing.settings.rules import Aligned
from windowing.time.durations import Count, Duration

BoltNode = PlainNode | WindowedNode
SHIFTS = (ShiftTime, AlterLifetime)
"""Plain bolts that emit a row for every event."""


def topology_text(topology: Graph) -> str:
    """The topology for people: each spout, bolt and sink with what there is to know about it."""
    blocks = [[f"topology {topology.name}"]]
    if topology.stop_on_invalid:
        blocks[0].append("  stops at the first input that cannot be read")
    blocks += [_block(part.title, part.facts) for part in described(topology)]
    return "\n\n".join("\n".join(block) for block in blocks)


@dataclass(frozen=True)
class Described:
    """What there is to know of a spout, a bolt or a sink."""

    name: str
    title: str
    """What it is: ``bolt revenue (RevenuePerUser, 2 tasks)``."""
    facts: tuple[tuple[str, str], ...]
    """Pairs of a word and a fact; facts of one word follow each other."""


def described(topology: Graph) -> list[Described]:
    """The spouts, the bolts, each after those it reads from, and the sinks."""
    return [
        *(Described(node.name, f"spout {node.name}", tuple(_spout_facts(node))) for node in topology.spouts.values()),
        *(Described(node.name, _bolt_title(node), tuple(_bolt_facts(topology, node))) for node in bolts_of(topology)),
        *(Described(node.name, f"sink {node.name}", tuple(_sink_facts(node))) for node in topology.sinks.values()),
    ]


def window_in_words(node: WindowedNode) -> str:
    """The windows of a bolt: ``20s long, one every 10s, (start, end]``."""
    settings = node.bolt.settings
    if isinstance(node.bolt, Union):
        return "none: each event by itself, in order of time, once the watermark has passed it"
    if settings.key_trigger is not None:
        words, most = key_trigger_in_words(settings.key_trigger), settings.capacity
        if most is None:
            return words
        of = f" of {', '.join(most.columns)}" if most.columns else ""
        return f"{words}; at most {capacity_in_words(most.events, most.bytes)}{of}"
    if settings.eviction is not None or settings.trigger is not None:
        return policies_in_words(node.eviction, node.trigger)
    if settings.kinds:
        bounds = f", {settings.bounds.value}" if any(kind.edges_known for kind in settings.kinds) else ""
        return "; ".join(kind.in_words() for kind in settings.kinds) + bounds
    length, slide = settings.length, settings.slide
    words = _window(length, slide)
    if isinstance(length, Duration) or (isinstance(slide, Duration) and settings.bounds is not Bounds.END):
        words += f", {settings.bounds.value}"
    if settings.offset.micros:
        starts = settings.anchor is not None or settings.aligned is Aligned.STARTS
        words += f", {'starts' if starts else 'ends'} shifted by {settings.offset}"
    if type(length) is type(slide) and _size(slide) > _size(length):
        words += "; what falls between two windows is in none"
    return words


def time_in_words(node: WindowedNode) -> str:
    """Where a windowed bolt's time comes from, how far its watermark stays behind, and its time settings."""
    return "; ".join(_time(node))


def _time(node: WindowedNode) -> Iterator[str]:
    settings = node.bolt.settings
    if not node.event_time:
        yield "processing time: the clock at an event's arrival"
        yield from rules_in_words(node)
        return
    if settings.timestamp_field is not None:
        carried = [label for label, carries in zip(node.streams, node.carries_time, strict=True) if carries]
        source = f"event time from {settings.timestamp_field}"
        source += f" (of {', '.join(carried)}: that of its rows)" if carried else ""
    elif settings.timestamp_extractor is not None:
        source = f"event time from {_called(settings.timestamp_extractor)}"
    else:
        source = f"event time of {', '.join(sorted({each.bolt for origins in node.origins for each in origins}))}"
    interval = settings.watermark_interval
    often = f", at most every {interval}" if interval.micros else ""
    yield f"{source}, lag {node.lag}{often}"
    yield from rules_in_words(node)


def spout_in_words(spout: AnySpout) -> str:
    """Where a spout's events come from."""
    match spout:
        case FileSpout():
            limit = f", at most {spout.files_per_batch} a batch" if spout.files_per_batch else ""
            if spout.bytes_per_batch:
                limit = f", at most {spout.bytes_per_batch} bytes a batch"
            order = f", merged by {spout.merge_by}" if spout.merge_by else ""
            gone = "; one that is gone is invalid" if spout.on_missing == "invalid" else ""
            paths = ", ".join(map(_near, spout.paths))
            folders = f", with {', '.join(spout.partitions.names)} of their folders" if spout.partitions.names else ""
            return f"{spout.format.name} files {paths}{folders}{limit}{order}{_zone(spout)}{gone}"
        case KafkaSpout():
            limit = f", at most {spout.records_per_batch} records a batch" if spout.records_per_batch else ""
            what = "records" if spout.declared is None else "JSON"
            return f"{what} of Kafka {spout.display_name} at {spout.servers}{limit}{_zone(spout)}"
        case FrameSpout():
            return "a streaming DataFrame"
        case PulledSpout():
            return f"{type(spout.spout).__name__}, about {spout.spout.rows_per_batch:,} rows a batch"
        case MemorySpout():
            number = len(spout.batches)
            return f"memory, {number} batch{'' if number == 1 else 'es'}"
    return type(spout).__name__


def _zone(spout: FileSpout | KafkaSpout) -> str:
    return f", times without a zone are of {spout.timezone}" if spout.timezone else ""


def sink_in_words(sink: Sink) -> str:  # noqa: PLR0911 - one for each kind
    """Where a sink's rows go."""
    match sink:
        case FileSink():
            return f"{sink.format.name} files in {_near(sink.path)}"
        case ConsoleSink():
            return f"standard output, {sink.rows} rows a batch"
        case MemorySink():
            return "memory"
        case FunctionSink():
            return f"function {_called(sink.function)} ({sink.frame})"
        case KafkaSink(servers, topic):
            return f"Kafka {'topics by the row' if topic is None else f'topic {topic}'} at {servers}"
        case DiscardSink():
            return "nowhere"
    return type(sink).__name__


def bolts_of(topology: Graph) -> list[BoltNode]:
    """The bolts, each after those it reads from."""
    waiting: dict[str, BoltNode] = {**topology.plain, **topology.windowed}
    placed: list[BoltNode] = []
    while waiting:
        ready = [node for node in waiting.values() if not any(each.stream[0] in waiting for each in node.inputs)]
        placed += ready
        for node in ready:
            del waiting[node.name]
    return placed


def _block(title: str, facts: Iterable[tuple[str, str]]) -> list[str]:
    lines, last = [title], ""
    for word, fact in facts:
        lines.append(f"  {'' if word == last else word:<9}{fact}")
        last = word
    return lines


def _spout_facts(node: SpoutNode) -> Iterator[tuple[str, str]]:
    yield "from", spout_in_words(node.spout)
    for column, default in node.defaults.in_words().items():
        yield "default", f"{default} in {column}, where a row has no value"
    yield from _emitted(node.outputs)


def _bolt_title(node: BoltNode) -> str:
    tasks = f", {node.parallelism} tasks" if node.parallelism > 1 else ""
    return f"bolt {node.name} ({type(node.bolt).__name__}{tasks})"


def _bolt_facts(topology: Graph, node: BoltNode) -> Iterator[tuple[str, str]]:
    for each in node.inputs:
        yield "reads", f"{stream_label(each.stream)}, grouping {each.grouping}"
    late = None
    if isinstance(node, WindowedNode):
        yield "windows", window_in_words(node)
        yield from _own_policies(node)
        for rule in _time(node):
            yield "time", rule
        if before := _plain_before(topology, node):
            yield "time", f"passes with the rows that {', '.join(before)} emit{'s' if len(before) == 1 else ''}"
        late = node.bolt.settings.late_stream
        if node.event_time:
            to = "counted only; with_late_tuple_stream gives them a stream"
            if late is not None:
                read = (node.name, late) in topology.readers or (node.name, late) in topology.takers
                to = f"to stream {node.name}.{late}" + ("" if read else ", which nothing reads")
            for fate in late_in_words(node, to):
                yield "late", fate
        if isinstance(node.bolt, StatefulWindowedBolt):
            yield "state", _state_in_words(node.bolt)
        if node.bolt.declared_columns is not None:
            yield "columns", f"{format_schema(node.schema)}: those of reads, and those that its rules name"
        if node.remembers:
            yield "keeps", f"the last window of each {'key' if node.bolt.settings.key else 'task'}, for window.expired"
        if isinstance(node.bolt, WindowJoin):
            yield "joins", f"{node.bolt.left}, {node.bolt.right} on {node.bolt.keys} ({node.bolt.how})"
        if isinstance(node.bolt, AggregateBolt):
            yield "adds up", _sums_in_words(node.bolt)
            yield "keeps", "the events of its windows" if node.slicing is None else "sums by slice of time, no events"
    yield from _emitted({name: schema for name, schema in node.outputs.items() if name != late})


def _own_policies(node: WindowedNode) -> Iterator[tuple[str, str]]:
    own = [policy for policy in (node.eviction, node.trigger) if node.by_policies and is_own(policy)]
    for policy in own:
        yield "policy", policy_in_words(policy)


def _state_in_words(bolt: StatefulWindowedBolt) -> str:
    """What a bolt remembers from window to window; of ready bolts the columns, which is all that users know of."""
    if isinstance(bolt, Passing):
        columns = ", ".join(bolt.remembered_columns)
        return f"of the events that have passed: their time and {columns}" + (
            "" if bolt.within is None else f", for {bolt.within}"
        )
    return ", ".join(f"{name} {_type(kind)}" for name, kind in bolt.state_types.items()) or "none declared"


def _plain_before(topology: Graph, node: WindowedNode) -> list[str]:
    """The plain bolts whose rows alone tell a windowed bolt the time, while its source may read many more."""
    if not node.event_time:
        return []
    read = [each.stream[0] for each, origins in zip(node.inputs, node.origins, strict=True) if not origins]
    return [name for name in read if name in topology.plain and not isinstance(topology.plain[name].bolt, SHIFTS)]


def _sums_in_words(bolt: AggregateBolt) -> str:
    sums = ", ".join(f"{name} = {aggregate}" for name, aggregate in bolt.aggregates.items())
    return f"by {', '.join(bolt.by)}: {sums}" if bolt.by else sums


def _sink_facts(node: SinkNode) -> Iterator[tuple[str, str]]:
    yield "takes", ", ".join(map(stream_label, node.streams))
    yield "to", sink_in_words(node.sink)
    yield "columns", format_schema(node.schema)


def _emitted(outputs: Mapping[str, pa.Schema]) -> Iterator[tuple[str, str]]:
    for stream, schema in outputs.items():
        if stream != ERRORS:
            yield "emits", ("" if stream == DEFAULT_STREAM else f"{stream}: ") + (format_schema(schema) or "nothing")


def _window(length: Duration | Count | None, slide: Duration | Count) -> str:
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


def _size(extent: Duration | Count | None) -> int:
    return extent.micros if isinstance(extent, Duration) else 0 if extent is None else extent.value


def _type(kind: type | SchemaLike) -> str:
    return kind.__name__ if isinstance(kind, type) else f"({format_schema(parse_schema(kind))})"


def _called(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _near(path: str) -> str:
    """A path as it is seen from here, where that is shorter."""
    if "://" in path or not os.path.isabs(path):
        return path
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
