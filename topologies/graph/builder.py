"""Composes a topology of named parts, as Storm's TopologyBuilder does; all mistakes are found here and reported
together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Literal, NamedTuple

import pyarrow as pa

from topologies.graph.compile_windowed import (
    SourceRules,
    checked_source_time,
    event_times,
    windowed_node,
    with_record_time,
)
from topologies.graph.declarations import (
    BoltDeclarer,
    DeclaredTopology,
    KnownStreams,
    Mistakes,
    SinkDeclarer,
    repeated_stream_errors,
)
from topologies.graph.graph import (
    ERROR_SCHEMA,
    ERRORS,
    MERGE_COLUMNS,
    Graph,
    Input,
    PlainNode,
    SinkNode,
    SpoutNode,
    Stream,
    WindowedNode,
    stream_label,
)
from topologies.graph.groupings import FieldsGrouping
from topologies.graph.html import Arrow, Box, as_svg, framed, heading
from topologies.io.file_spout import FileSpout
from topologies.io.kafka import KafkaSink, KafkaSpout, reads_topic, same_kafka
from topologies.io.paths import Place, canonical_place, files_matched_by
from topologies.io.pulled import PulledSpout, RangedSpout, zoned_defaults
from topologies.io.sinks import FileSink, MemorySink, output_file
from topologies.io.spout_columns import Defaults
from windowing.bolts.bolt import (
    BatchBolt,
    Bolt,
    Component,
    StatefulBatchBolt,
    StatefulBolt,
    StatefulTaskBolt,
    TaskBolt,
    check_types,
    copy_bolt,
)
from windowing.bolts.joins import Join
from windowing.bolts.passing import Union
from windowing.bolts.read_code import check_hooks, rebind_to_copy
from windowing.bolts.windowed_bolt import BatchWindowedBolt, WindowedBolt
from windowing.calls import checked, checked_value
from windowing.durations import Count, Duration, as_duration
from windowing.errors import ConfigError, TopologyError, WindboltError, did_you_mean_column, nearest
from windowing.reprs import one_line, repr_of
from windowing.schema import DEFAULT_STREAM
from windowing.settings import SOURCE_ONLY
from windowing.settings.rules import WatermarkCombiner
from windowing.spout import PartitionedSpout, Spout

if TYPE_CHECKING:
    from topologies.io.sinks import Sink
    from topologies.io.spouts import AnySpout
    from windowing.settings.presets import Preset


# The names of spouts, bolts and sinks.


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-]*")


def name_errors(set_names: Sequence[object]) -> Iterator[ConfigError]:
    """Yields an error for each name that is given twice, or cannot be a name."""
    for name in sorted({name for name in set_names if set_names.count(name) > 1}, key=str):
        yield ConfigError(
            f"{name!r} is set {set_names.count(name)} times",
            why="spouts, bolts and sinks share one set of names",
            do="rename one",
        )
    for name in sorted(set(set_names), key=str):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield ConfigError(
                f"{name!r} cannot be a name", why="it becomes part of file names", do="use letters, digits, _ and -"
            )


# Inputs grouped by the bolt's key: ``fields_grouping(component)`` without fields.


def with_own_key_as_fields(declarer: BoltDeclarer) -> BoltDeclarer:
    """Returns the bolt with its key as the fields of each ``fields_grouping`` without fields; unchanged if the bolt has
    no key."""
    bolt = declarer.bolt
    if not isinstance(bolt, TaskBolt):
        return declarer
    return replace(declarer, inputs=[_with_own_key(each, bolt) for each in declarer.inputs])


def _with_own_key(read: Input, bolt: TaskBolt) -> Input:
    if read.grouping != FieldsGrouping(()):
        return read
    return replace(read, grouping=FieldsGrouping(_own_key(bolt, stream_label(read.stream))))


def _own_key(bolt: TaskBolt, stream: str) -> tuple[str, ...]:
    """Returns the columns of a stream that form the bolt's key; empty without a key."""
    if isinstance(bolt, Join):
        return bolt.keys_by_stream.get(stream, ())
    return bolt.settings.key or bolt.groups_by or ()


# Idle timeouts in a chain: a bolt that passes events on, and the bolt that reads it, both have one, or neither.


def idle_timeout_errors(bolts: Mapping[str, WindowedNode]) -> Iterator[ConfigError]:
    """Yields an error for each two bolts, a ``Union`` or a bolt that passes some of its events on, and a bolt that
    reads it, of which only one has an idle timeout (AT-22).

    The first bolt releases an event once its watermark has passed it; if its input is silent, only its own timeout
    releases its last events. The second bolt then has these events, but no watermark past them, so only its own timeout
    closes their windows.
    """
    for reader in bolts.values():
        if not reader.event_time or reader.bolt.settings.watermark_per_key or not all(reader.origins):
            continue
        for name in dict.fromkeys(origin.bolt for origins in reader.origins for origin in origins):
            passing = bolts[name]
            if isinstance(passing.bolt, Union):
                yield from _idle_timeout_errors(passing, reader)


def _idle_timeout_errors(passing: WindowedNode, reader: WindowedNode) -> Iterator[ConfigError]:
    first_settings, second_settings = passing.bolt.settings, reader.bolt.settings
    first_name, second_name = repr(passing.name), repr(reader.name)
    if first_settings.estimate_arrival or (first_settings.idle_timeout is None) == (
        second_settings.idle_timeout is None
    ):
        return
    if second_settings.idle_timeout is None:
        yield ConfigError(
            f"bolt {first_name} has an idle timeout, and {second_name} behind it has none",
            why=f"{first_name} passes its last events on when its source is silent, and then {second_name} would keep "
            "its windows open: a timeout closes the windows of its own bolt",
            do=f"give {second_name} one as well: "
            f'with_watermark(idle_timeout="{first_settings.idle_timeout}"), or take that of {first_name} away',
        )
    else:
        yield ConfigError(
            f"bolt {second_name} has an idle timeout, and {first_name} before it has none",
            why=f"{first_name} holds events back until its watermark has passed them, so while its source is silent "
            f"{second_name} does not get the last ones",
            do=f"give {first_name} one as well: "
            f'with_watermark(idle_timeout="{second_settings.idle_timeout}"), or take that of {second_name} away',
        )


# Whether a bolt has the method that windbolt calls.


class _CalledMethod(NamedTuple):
    """The name of the method that windbolt calls on bolts of a kind."""

    kind: type[Component]
    method: str
    parameter: str
    when: str


_CALLED_METHODS = (
    _CalledMethod(BatchWindowedBolt, "execute_all", "windows", "for the windows that are due"),
    _CalledMethod(StatefulBatchBolt, "execute", "batch", "with the events as they come"),
    _CalledMethod(StatefulBolt, "execute", "tuple", "for each event"),
    _CalledMethod(WindowedBolt, "execute", "window", "for each window that fires"),
    _CalledMethod(BatchBolt, "execute", "batch", "with the events as they come"),
    _CalledMethod(Bolt, "execute", "tuple", "for each event"),
)
"""The methods by kind of bolt; subclasses come before their base classes."""

_HOOKS = (
    "execute", "execute_all", "prepare", "forget", "on_clock", "initial_state", "move_state", "for_inputs",
    "output_schemas",
)  # fmt: skip
"""The methods of bolts that windbolt calls."""


def missing_method(name: str, bolt: Component) -> ConfigError | None:
    """Returns an error if a bolt lacks the method that windbolt calls, perhaps because its name is misspelled; else
    None."""
    kind, method, parameter, when = next(called for called in _CALLED_METHODS if isinstance(bolt, called.kind))
    if any(_overrides(bolt, kind, each) for each in {method, "execute"}):
        return None
    class_name, do = type(bolt).__name__, f"define {method}(self, {parameter})"
    if kind is WindowedBolt and hasattr(bolt, "execute_all"):
        return ConfigError(
            f"bolt {name!r}: {class_name} has execute_all, and is no BatchWindowedBolt",
            why=f"windbolt calls execute {when}",
            do=f"subclass BatchWindowedBolt, or {do}",
        )
    own_names = {each for each in dir(type(bolt)) if not each.startswith("_")} - set(dir(kind))
    similar = nearest(method, sorted(own_names))
    what = f"has a method {similar[0]!r}; did you mean {method!r}?" if similar else f"has no method {method!r}"
    return ConfigError(f"bolt {name!r}: {class_name} {what}", why=f"windbolt calls {method} {when}", do=do)


def _overrides(bolt: Component, kind: type[Component], method: str) -> bool:
    """True if a bolt overrides a method of its kind."""
    return getattr(type(bolt), method, None) is not getattr(kind, method, None) or method in vars(bolt)


# Inputs without watermarks: they wait for a watermark column that they lack.


def missing_watermark_errors(
    bolts: Mapping[str, WindowedNode], schemas: Mapping[Stream, pa.Schema]
) -> Iterator[ConfigError]:
    """Yields an error for each bolt whose windows would stay open until the end of the streams, because every input
    must bring watermarks and one has none. ``schemas``: the columns of all streams."""
    for node in bolts.values():
        settings = node.bolt.settings
        field, imports = settings.watermark_field, settings.watermark_imports or {}
        needs_no_watermark = settings.partition_idle_timeout or settings.estimate_arrival
        waits_for_all = settings.watermark_combine is WatermarkCombiner.MIN and not settings.watermark_per_key
        if field is None or not node.event_time or needs_no_watermark or not waits_for_all:
            continue
        for label, read, origins in zip(node.streams, node.inputs, node.origins, strict=True):
            makes_no_marks = settings.of_input(label).watermark_every == SOURCE_ONLY
            waits = makes_no_marks and not origins and label not in imports
            if waits and field not in schemas[read.stream].names:
                yield _missing_watermark_error(node, field, label, schemas)


def _missing_watermark_error(
    node: WindowedNode, field: str, label: str, schemas: Mapping[Stream, pa.Schema]
) -> ConfigError:
    giver = next(stream_label(read.stream) for read in node.inputs if field in schemas[read.stream].names)
    return ConfigError(
        f"bolt {node.name!r}: no watermark can come from {label!r}, which has no column {field!r}",
        why=f"with_watermark(field={field!r}) takes the watermarks that the source puts there, and waits for those of "
        "all inputs: no window would fire before the end of the streams",
        do=f"let it take those of another input, with_watermark(field={field!r}, imports={{{label!r}: {giver!r}}}), "
        f"or have watermarks made of the events too, with_watermark(field={field!r}, every=1)",
    )


# The sinks of a topology: the streams they take, and the places they write to.


def sink_node(declarer: SinkDeclarer, known: KnownStreams, mistakes: Mistakes) -> SinkNode | None:
    """Returns a sink with the columns of its rows; None if they are not known."""
    name = declarer.name
    if not declarer.streams:
        mistakes.tell(f"sink {name!r} reads no stream", do="call from_(component) on what set_sink returns")
    schemas = []
    for stream in declarer.streams:
        if stream in known.schemas:
            schemas.append(known.schemas[stream])
        elif not known.is_broken(stream):
            mistakes.append(known.unknown(f"sink {name!r} takes", stream))
    if any(not schema.equals(schemas[0]) for schema in schemas[1:]):
        labels = ", ".join(map(stream_label, declarer.streams))
        mistakes.tell(f"sink {name!r} takes {labels}", "their columns differ", "give each a sink of its own")
    try:
        declarer.sink.check()
        if schemas and isinstance(declarer.sink, KafkaSink):
            declarer.sink.check_columns(schemas[0])
    except WindboltError as error:
        mistakes.tell_of(f"sink {name!r}", error)
    except (AttributeError, TypeError):
        mistakes.tell(
            f"sink {name!r} is {repr_of(declarer.sink):.60}",
            "that is not a sink",
            "give a sink such as sinks.files(path)",
        )
    mistakes.extend(repeated_stream_errors(f"sink {name!r} takes", declarer.streams))
    return SinkNode(name, declarer.sink, tuple(declarer.streams), schemas[0]) if schemas else None


def shared_place_errors(sinks: Sequence[SinkDeclarer]) -> Iterator[ConfigError]:
    """Yields an error for sinks that write to one folder or memory: their batches would have the same names."""
    folders: dict[Place, list[str]] = {}
    memories: dict[int, list[str]] = {}
    for declarer in sinks:
        if isinstance(declarer.sink, FileSink):
            folders.setdefault(canonical_place(declarer.sink.path), []).append(declarer.name)
        elif isinstance(declarer.sink, MemorySink):
            memories.setdefault(id(declarer.sink), []).append(declarer.name)
    for names in memories.values():
        if len(names) > 1:
            yield ConfigError(
                f"sinks {', '.join(map(repr, names))} are the same sinks.memory()",
                why="a batch of one would replace that of the other",
                do="make one for each; or let one sink take all streams, if their columns are the same",
            )
    for folder, names in folders.items():
        if len(names) > 1:
            listed = ", ".join(map(repr, names))
            yield ConfigError(
                f"sinks {listed} write to {str(folder)!r}", why="their files would bear the same names", do="use two"
            )


def feedback_loop_errors(
    spouts: Iterable[tuple[str, object]], sinks: Sequence[SinkDeclarer | SinkNode]
) -> Iterator[ConfigError]:
    """Yields an error for each spout that would read the output of a sink as new events, in the next batch or run."""
    outputs = {each.name: output_file(each.sink) for each in sinks if isinstance(each.sink, FileSink)}
    for name, spout in spouts:
        output_files_read = files_matched_by(spout.paths, outputs.values()) if isinstance(spout, FileSpout) else ()
        for each in sinks:
            sink, what = each.sink, f"spout {name!r} reads what sink {each.name!r} writes"
            if isinstance(sink, FileSink) and outputs[each.name] in output_files_read:
                yield ConfigError(
                    what,
                    why=f"its files, in {canonical_place(sink.path)}, would come back as new events",
                    do="write to a folder, or append to a table, that is not read",
                )
            elif isinstance(spout, KafkaSpout) and isinstance(sink, KafkaSink) and _reads_own_output(sink, spout):
                yield ConfigError(
                    what,
                    why=f"its records, in topic {sink.topic!r}, would come back as new events, without end",
                    do="write to a topic that is not read; where single events are to come back, such as "
                    "retries, let rows name their topic in a column 'topic', and the sink name none",
                )


def _reads_own_output(sink: KafkaSink, spout: KafkaSpout) -> bool:
    """True if the spout reads the topic of the sink."""
    return sink.topic is not None and reads_topic(spout, sink.topic) and same_kafka(spout.servers, sink.servers)


# From declarations to a topology: every mistake is found here, and all are reported together.


def build_graph(declared: DeclaredTopology) -> Graph:
    """Returns the graph of these parts; raises TopologyError with all mistakes if there are any."""
    return _Compilation(declared).graph()


class _Compilation:
    """Compiles the parts of a topology, each after the parts that it reads. Reports no mistakes that follow from
    earlier ones."""

    def __init__(self, declared: DeclaredTopology) -> None:
        self.declared = declared
        self.mistakes = Mistakes()
        self.known = KnownStreams()
        self.source_rules = SourceRules()

    def graph(self) -> Graph:
        declared, mistakes = self.declared, self.mistakes
        parts = (declared.bolts, declared.sinks)
        mistakes.extend(
            name_errors([*(name for name, _ in declared.spouts), *(each.name for part in parts for each in part)])
        )
        self.known.source_times = {name: (self._source_time(name),) for name, _ in declared.spouts}
        spouts = [spout for name, source in declared.spouts if (spout := self._spout(name, source))]
        bolts = [bolt for declarer in self._in_order() if (bolt := self._bolt(declarer))]
        if not self.known.broken:
            mistakes.extend(self.source_rules.ineffective_errors())
        sinks = [sink for each in declared.sinks if (sink := sink_node(each, self.known, mistakes))]
        mistakes.extend(shared_place_errors(declared.sinks))
        mistakes.extend(feedback_loop_errors(declared.spouts, declared.sinks))
        by_name = {bolt.name: bolt for bolt in bolts if isinstance(bolt, WindowedNode)}
        mistakes.extend(idle_timeout_errors(by_name))
        mistakes.extend(missing_watermark_errors(by_name, self.known.schemas))
        if not spouts and not mistakes:
            mistakes.tell("there is no spout", do="set_spout(name, spout)")
        if mistakes:
            raise TopologyError(declared.name, mistakes)
        plain = [bolt for bolt in bolts if isinstance(bolt, PlainNode)]
        return Graph(
            name=declared.name,
            spouts={spout.name: spout for spout in spouts},
            plain={bolt.name: bolt for bolt in plain},
            windowed=by_name,
            sinks={sink.name: sink for sink in sinks},
            stop_on_invalid=declared.on_invalid == "stop",
            readers=_readers([*plain, *by_name.values()]),
            sinks_reading=_sinks_reading(sinks),
        )

    def _source_time(self, name: str) -> Preset | None:
        try:
            return checked_source_time(name, self.declared.times.get(name))
        except ConfigError as error:
            self.mistakes.append(error)
            return None

    def _spout(self, name: str, source: object) -> SpoutNode | None:
        declared = self.declared.bolts
        readers = [each.bolt for each in declared if any(read.stream[0] == name for read in each.inputs)]
        if isinstance(source, Spout):
            self._report_shared_spout(name, source)
            source = PulledSpout(source)
        if isinstance(source, PartitionedSpout):
            self._report_shared_spout(name, source)
            source = RangedSpout(source)
        spout = with_record_time(source, self.known.source_times[name][0], readers)
        try:
            outputs = {**spout.outputs(), ERRORS: ERROR_SCHEMA}  # type: ignore[attr-defined]
            declared_defaults = getattr(spout, "defaults", None)  # spouts of scenarios have none
            declared_defaults = declared_defaults and zoned_defaults(
                declared_defaults, outputs[DEFAULT_STREAM], getattr(spout, "timezone", None)
            )
            defaults = Defaults.of(declared_defaults, outputs[DEFAULT_STREAM]) if declared_defaults else Defaults()
        except WindboltError as error:
            self.mistakes.tell_of(f"spout {name!r}", error)
            self.known.broken.add(name)
            return None
        except (AttributeError, TypeError):
            its_class = isinstance(source, type) and issubclass(source, PartitionedSpout | Spout)
            self.mistakes.tell(
                f"spout {name!r} is {repr_of(spout):.60}",
                "that is a class" if its_class else "that is not a spout",
                f"give {source.__name__}()" if its_class else "use one of windbolt.spouts, or a Spout of your own",  # type: ignore[attr-defined]
            )
            self.known.broken.add(name)
            return None
        reserved = [column for schema in outputs.values() for column in schema.names if column in MERGE_COLUMNS]
        if reserved:
            self.mistakes.tell(
                f"spout {name!r} reads columns {reserved}",
                "windbolt keeps columns of these names beside those of the rows that it merges",
                "rename them, or leave them out of the schema",
            )
        self.known.add(name, outputs)
        self.known.spouts[name] = spout
        if isinstance(spout, KafkaSpout | RangedSpout):
            self.known.partitioned.add(name)
        return SpoutNode(name, spout, outputs, defaults=defaults)  # type: ignore[arg-type]

    def _report_shared_spout(self, name: str, source: Spout | PartitionedSpout) -> None:
        """Checks that two spouts of a topology are two objects, since each has its own connection and offset."""
        other = next((each for each, spout in self.declared.spouts if spout is source), name)
        if other != name:
            self.mistakes.tell(
                f"spouts {other!r} and {name!r} are the same {type(source).__name__}",
                "each spout has its own offset",
                f"make a {type(source).__name__} for each; or let all bolts read one spout",
            )

    def _in_order(self) -> list[BoltDeclarer]:
        """Returns the bolts, each after those it reads from; a circle is a mistake, and its bolts are left out."""
        declarers = {declarer.name: declarer for declarer in self.declared.bolts}
        graph = {
            name: {each.stream[0] for each in declarer.inputs if each.stream[0] in declarers}
            for name, declarer in declarers.items()
        }
        while True:
            try:
                return [declarers[name] for name in TopologicalSorter(graph).static_order()]
            except CycleError as error:
                circle = error.args[1]
                self.mistakes.tell(
                    f"bolts {' -> '.join(reversed(circle))} read from each other in a circle",
                    "no watermark could ever advance",
                    "remove one of these streams",
                )
                self.known.broken.update(circle)
                graph = {name: sources - set(circle) for name, sources in graph.items() if name not in circle}

    def _bolt(self, declarer: BoltDeclarer) -> PlainNode | WindowedNode | None:
        """Returns a bolt as a node of the topology; None after a mistake, which is reported."""
        mistakes_before, name, known = len(self.mistakes), declarer.name, self.known
        declarer = with_own_key_as_fields(self._for_inputs(declarer))
        outputs = self._outputs(declarer)
        if not isinstance(declarer.parallelism, int) or declarer.parallelism < 1:
            self.mistakes.tell(
                f"bolt {name!r} has parallelism {declarer.parallelism!r}", do="give a whole number of 1 or more"
            )
        if not declarer.inputs:
            self.mistakes.tell(f"bolt {name!r} reads nothing", do="call a ..._grouping method on what set_bolt returns")
        self.mistakes.extend(repeated_stream_errors(f"bolt {name!r} reads", [each.stream for each in declarer.inputs]))
        readable = [each for each in declarer.inputs if self._is_readable_else_report(name, each)]
        node: PlainNode | WindowedNode | None = None
        if outputs and readable and len(readable) == len(declarer.inputs) and len(self.mistakes) == mistakes_before:
            if isinstance(declarer.bolt, TaskBolt):
                node = windowed_node(declarer, outputs, self.declared, known, self.source_rules, self.mistakes)
            else:
                node = self._plain(declarer, outputs)
        if outputs is not None and (missing := missing_method(name, declarer.bolt)):
            self.mistakes.append(missing)
        elif outputs is not None:
            try:
                check_hooks(declarer.bolt, _HOOKS)
            except ConfigError as error:
                self.mistakes.tell_of(f"bolt {name!r}", error)
        if node is None:
            known.broken.add(name)
        known.add(name, (outputs or {}) if node is None else node.outputs)  # readers are checked too
        return node

    def _for_inputs(self, declarer: BoltDeclarer) -> BoltDeclarer:
        """Returns the bolt adapted to the streams that it reads, if all of them are known."""
        schema_by_input = {stream_label(each.stream): self.known.schemas.get(each.stream) for each in declarer.inputs}
        inputs = {label: schema for label, schema in schema_by_input.items() if schema is not None}
        if not inputs or len(inputs) < len(declarer.inputs) or not isinstance(declarer.bolt, Component):
            return declarer
        try:
            return replace(declarer, bolt=rebind_to_copy(declarer.bolt.for_inputs(inputs), declarer.bolt))
        except ConfigError as error:
            self.mistakes.tell_of(f"bolt {declarer.name!r}", error)
            self._report_missing_time_field(declarer)
            return declarer

    def _report_missing_time_field(self, declarer: BoltDeclarer) -> None:
        """Reports a missing timestamp field of a bolt that is not checked further."""
        settings = declarer.bolt.settings if isinstance(declarer.bolt, TaskBolt) else None
        if settings is not None and settings.timestamp_field is not None:
            streams = [(each, self.known.schemas[each.stream]) for each in declarer.inputs]
            brings_time = [bool(self.known.origins(each.stream)) for each in declarer.inputs]
            event_times(declarer.name, settings, streams, brings_time, self.mistakes)

    def _outputs(self, declarer: BoltDeclarer) -> dict[str, pa.Schema] | None:
        """Returns the streams that a bolt declares, and its errors; None after a mistake, which is reported."""
        name, bolt = declarer.name, declarer.bolt
        if not isinstance(bolt, (Bolt, BatchBolt, TaskBolt)):
            self.mistakes.tell(
                f"bolt {name!r} is {bolt!r:.60}",
                "that is not an instance of Bolt, BatchBolt, StatefulBolt or WindowedBolt",
                "subclass one of them" if not isinstance(bolt, type) else f"call it: {bolt.__name__}()",
            )
            return None
        try:
            outputs = bolt.output_schemas()
            if isinstance(bolt, StatefulTaskBolt):
                check_types(bolt.state_types)
            if declarer.problem is not None:
                raise declarer.problem
            if type(bolt).for_inputs is not Component.for_inputs:
                copy_bolt(bolt)  # which may hold more than it did when it was set
        except ConfigError as error:
            self.mistakes.tell_of(f"bolt {name!r}", error)
            return None
        self._report_wrong_on_error(name, bolt)
        if ERRORS in outputs:
            self.mistakes.tell(f"bolt {name!r} declares a stream {ERRORS!r}", "every bolt has one already", "rename it")
        return {**outputs, ERRORS: ERROR_SCHEMA}

    def _report_wrong_on_error(self, name: str, bolt: Bolt | BatchBolt | TaskBolt) -> None:
        on_error = getattr(bolt, "on_error", "stop")
        if isinstance(bolt, TaskBolt):
            if on_error == "errors":
                self.mistakes.tell(
                    f"bolt {name!r} has on_error='errors'",
                    "an event on which it fails may have changed its state already"
                    if isinstance(bolt, StatefulBolt)
                    else "that is for bolts without windows: a windowed bolt fails on a window, and not on an event",
                    "leave it out, and catch in execute what may be raised",
                )
        elif on_error not in ("stop", "errors"):
            self.mistakes.tell(
                f"bolt {name!r} has on_error={on_error!r:.60}",
                "it says what happens to an event on which the bolt fails",
                "use 'stop', or 'errors' to send it to the stream of that name",
            )

    def _is_readable_else_report(self, name: str, read: Input) -> bool:
        """True if the stream of an input is known; else the mistake is reported. A mistake in the grouping is reported
        too."""
        if self.known.is_broken(read.stream):
            return False
        schema = self.known.schemas.get(read.stream)
        if schema is None:
            self.mistakes.append(self.known.unknown(f"bolt {name!r} reads", read.stream))
            return False
        if isinstance(read.grouping, FieldsGrouping):
            missing = [field for field in read.grouping.fields if field not in schema.names]
            if missing or not read.grouping.fields:
                self.mistakes.tell(
                    f"bolt {name!r} groups {stream_label(read.stream)!r} by "
                    f"{', '.join(map(repr, missing)) or 'no fields'}"
                    + (did_you_mean_column(missing[0], schema.names) if missing else ""),
                    f"the stream has {', '.join(schema.names)}"
                    + ("" if missing else ", and the bolt no key (with_key, by=..., on=...) that would be meant"),
                    "group by fields of the stream",
                )
        return True

    def _plain(self, declarer: BoltDeclarer, outputs: dict[str, pa.Schema]) -> PlainNode:
        """Returns a plain bolt as a node, with the facts that its inputs give about its streams."""
        assert not isinstance(declarer.bolt, TaskBolt)
        name, inputs, known = declarer.name, tuple(declarer.inputs), self.known
        shift = declarer.bolt.time_shift
        known.pass_on(name, outputs, inputs, shift)
        if {each.stream[0] for each in inputs} & known.partitioned:
            known.partitioned.add(name)
        known.set_level(name, known.level_of(inputs))
        return PlainNode(
            name=name,
            bolt=declarer.bolt,
            parallelism=declarer.parallelism,
            inputs=inputs,
            outputs=outputs,
            brings_time=all(known.origins(each.stream) for each in inputs),
            shift=shift,
            brings_clock=known.are_clocked(inputs),
        )


def _readers(bolts: Iterable[PlainNode | WindowedNode]) -> dict[Stream, tuple[tuple[str, int], ...]]:
    """Returns, for each stream, the bolts that read it, with the number of the input."""
    readers: dict[Stream, tuple[tuple[str, int], ...]] = {}
    for bolt in bolts:
        for index, each in enumerate(bolt.inputs):
            readers[each.stream] = (*readers.get(each.stream, ()), (bolt.name, index))
    return readers


def _sinks_reading(sinks: Iterable[SinkNode]) -> dict[Stream, tuple[str, ...]]:
    """Returns, for each stream, the sinks that take it."""
    sinks_reading: dict[Stream, tuple[str, ...]] = {}
    for sink in sinks:
        for stream in sink.streams:
            sinks_reading[stream] = (*sinks_reading.get(stream, ()), sink.name)
    return sinks_reading


# A topology that is being composed, as a notebook shows it: the parts set so far, unchecked.


def declared_html(declared: DeclaredTopology) -> str:
    """Returns the graph of the declared parts as HTML; arrows from parts that have not been declared are not drawn."""
    boxes = [Box(str(name), "spout", (type(spout).__name__,)) for name, spout in declared.spouts]
    boxes += [Box(str(bolt.name), "bolt", (type(bolt.bolt).__name__,)) for bolt in declared.bolts]
    boxes += [Box(str(sink.name), "sink", (type(sink.sink).__name__,)) for sink in declared.sinks]
    arrows = [
        Arrow(str(each.stream[0]), str(bolt.name), _label(each.stream[1], str(each.grouping)))
        for bolt in declared.bolts
        for each in bolt.inputs
    ]
    for sink in declared.sinks:
        arrows += [Arrow(str(component), str(sink.name), _label(stream)) for component, stream in sink.streams]
    title = heading(declared.name, " <span class='phase'>not built yet</span>")
    return framed(title, as_svg(f"topology {declared.name}, not built yet", boxes, arrows))


def _label(stream: str, grouping: str = "") -> str:
    return " ".join(([] if stream == DEFAULT_STREAM else [str(stream)]) + [grouping] * bool(grouping))


# Composing a topology: spouts, bolts, groupings and sinks, by name, as with Storm's TopologyBuilder.


class GraphBuilder:
    """Gathers the parts of a graph; ``build`` checks them all and reports every mistake at once."""

    @checked_value
    def __init__(
        self,
        name: str,
        *,
        message_timeout: Duration | timedelta | str | None = None,
        max_spout_pending: int | None = None,
        on_invalid: Literal["divert", "stop"] = "divert",
    ) -> None:
        """``message_timeout``: the longest time for which a window of any bolt may hold events. ``max_spout_pending``:
        the greatest number of events that it may hold. For both, length plus slide of the window count (ST-22, ST-23).
        By default there is no limit, because windbolt, unlike Storm, does not replay events that take long.

        ``on_invalid``: what happens to input that cannot be read, or has no usable event time. ``"divert"``: it is
        counted, and goes with the reason to the ``errors`` stream of the component. ``"stop"``: the run stops with an
        error, and the batch is not committed.
        """
        if on_invalid not in ("divert", "stop"):
            raise ConfigError(
                f"on_invalid={on_invalid!r}",
                why="unreadable input can be diverted or stop the run",
                do="use 'divert' or 'stop'",
            )
        self._declared = DeclaredTopology(
            name,
            on_invalid,
            None if message_timeout is None else as_duration(message_timeout),
            None if max_spout_pending is None else Count(max_spout_pending).value,
        )

    def __repr__(self) -> str:
        declared = self._declared
        bolts, sinks = ([each.name for each in parts] for parts in (declared.bolts, declared.sinks))
        kinds = {"spouts": [name for name, _ in declared.spouts], "bolts": bolts, "sinks": sinks}
        parts = "; ".join(f"{kind} {', '.join(map(str, names))}" for kind, names in kinds.items() if names)
        return one_line(f"<{type(self).__name__} {declared.name!r}: {parts or 'empty'}>")

    def _repr_html_(self) -> str:
        return declared_html(self._declared)

    @checked
    def set_spout(self, name: str, spout: AnySpout | PartitionedSpout | Spout, *, time: Preset | None = None) -> None:
        """Add a source of events: one of ``windbolt.spouts``, or a ``Spout`` or ``PartitionedSpout`` of
        your own.

        ``time``: the spout's time settings, for example ``presets.streaminsight(10, "5s")``. They apply to every bolt
        that reads the spout and does not call ``with_time`` (SI-17, SI-18). All spouts that one bolt reads must have
        the same settings. Only spouts with StreamInsight's rules may differ in how their watermarks are made, and in
        what happens to late events.
        """
        self._declared.spouts.append((name, spout))
        self._declared.times[name] = time

    @checked
    def set_bolt(
        self, name: str, bolt: Bolt | BatchBolt | StatefulBolt | WindowedBolt, parallelism: int = 1
    ) -> BoltDeclarer:
        """Add a bolt with ``parallelism`` tasks. Call a ``..._grouping`` method of the result for each stream that the
        bolt reads.

        The bolt is copied: later changes to the object have no effect here, so that it can be added again.
        """
        problem = None
        if isinstance(bolt, Component):
            try:
                bolt = copy_bolt(bolt)
            except ConfigError as error:
                problem = error
        declarer = BoltDeclarer(name, bolt, parallelism, problem=problem)
        self._declared.bolts.append(declarer)
        return declarer

    @checked
    def set_sink(self, name: str, sink: Sink) -> SinkDeclarer:
        """Add a sink; call ``from_`` on the result for each stream it takes."""
        declarer = SinkDeclarer(name, sink)
        self._declared.sinks.append(declarer)
        return declarer

    @checked
    def build(self) -> Graph:
        """Returns the graph; raises TopologyError with all its mistakes if there are any."""
        return build_graph(self._declared)
