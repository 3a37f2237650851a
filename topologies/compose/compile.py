"""From declarations to a topology: every mistake is found here, and all are reported together."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import pyarrow as pa

from manager.keyed.held import INNER
from manager.storage.segments import WEIGHT_COLUMN
from policies.choose import choose_assigners, choose_policies, placeholder_lengths
from topologies.compose.checks import faults
from topologies.compose.default_time import settled_time, with_record_time
from topologies.compose.effects import Situation, all_idle, idle_setting
from topologies.compose.needed_columns import declared_columns
from topologies.compose.source_time import asked_at_sources, checked_source_time, distinct, with_source_time
from topologies.graph.groupings import FieldsGrouping
from topologies.graph.model import (
    ERROR_SCHEMA,
    ERRORS,
    LATE_COLUMNS,
    REASON,
    RETRACT,
    Input,
    Origin,
    PlainNode,
    SinkNode,
    SpoutNode,
    Stream,
    Topology,
    WindowedNode,
    stream_label,
)
from topologies.io.kafka import KafkaSink, KafkaSpout
from topologies.io.sinks import FileSink
from windowing.bolts.asking import asks_for_expired
from windowing.bolts.bolt import BatchBolt, Bolt, Component, StatefulWindowedBolt, WindowedBolt
from windowing.bolts.join import Join
from windowing.bolts.state import check_types
from windowing.data.rows import DEFAULT_STREAM
from windowing.errors import ConfigError, TopologyError, WindboltError
from windowing.settings import WindowSettings
from windowing.settings.kinds import CountByStart, Hopping, longest_of
from windowing.settings.panes import PaneMode
from windowing.time.durations import Count, Duration
from windowing.time.timestamps import is_time

if TYPE_CHECKING:
    from topologies.compose.declarers import BoltDeclarer, Declared, SinkDeclarer
    from windowing.settings.presets import Preset

RESERVED = (*INNER, "_seq", "_action", "_end_edge", "_window_kind", "_window_key")
"""Names of columns that windbolt keeps beside the user's own."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-]*")


def build_topology(declared: Declared) -> Topology:
    """The topology of these parts; TopologyError with all mistakes where there are any."""
    return _Building(declared).topology()


class _Building:
    def __init__(self, declared: Declared) -> None:
        self.declared = declared
        self.problems: list[ConfigError] = []
        self.schemas: dict[Stream, pa.Schema] = {}
        self.spouts: dict[str, object] = {}
        self.times: dict[str, tuple[Preset | None, ...]] = {}
        """Per spout or plain bolt: the rules of time that the spouts before it declare."""
        self.broken: set[str] = set()
        """Components whose streams are not known, for a mistake that has been reported; what reads them is quiet."""
        self.carries: dict[str, tuple[Origin, ...]] = {}
        """Per component whose default outputs have event times: the windowed bolts whose watermark they carry."""
        self.clocked: set[str] = set()
        """Components whose outputs come with a moment of the clock: of windows that a trigger fired."""
        self.levels: dict[str, int] = {}
        self.at_sources: dict[tuple[str, str], list[ConfigError | None]] = {}
        """Per setting and argument asked for at a source: for each bolt that has it from there, why it is idle."""

    def topology(self) -> Topology:
        self._check_names()
        self.times = {name: (self._source_time(name),) for name, _ in self.declared.spouts}
        self.spouts = {
            name: with_record_time(spout, self.times[name][0], self._readers(name))
            for name, spout in self.declared.spouts
        }
        spouts = {name: self._spout(name, self.spouts[name]) for name, _ in self.declared.spouts}
        plain: dict[str, PlainNode] = {}
        windowed: dict[str, WindowedNode] = {}
        for declarer in self._in_order():
            part = self._bolt(declarer)
            if isinstance(part, WindowedNode):
                windowed[part.name] = part
            elif part is not None:
                plain[part.name] = part
        self._check_at_sources()
        sinks = {sink.name: sink for declared in self.declared.sinks if (sink := self._sink(declared))}
        self._check_folders()
        if not spouts and not self.problems:
            self._problem("there is no spout", do="set_spout(name, spout)")
        if self.problems:
            raise TopologyError(self.declared.name, self.problems)
        readers: dict[Stream, list[tuple[str, int]]] = {}
        bolts: list[PlainNode | WindowedNode] = [*plain.values(), *windowed.values()]
        for bolt in bolts:
            for at, each in enumerate(bolt.inputs):
                readers.setdefault(each.stream, []).append((bolt.name, at))
        takers: dict[Stream, list[str]] = {}
        for taker in sinks.values():
            for stream in taker.streams:
                takers.setdefault(stream, []).append(taker.name)
        return Topology(
            self.declared.name,
            {name: spout for name, spout in spouts.items() if spout},
            plain,
            windowed,
            sinks,
            self.declared.on_invalid == "stop",
            {stream: tuple(bolts) for stream, bolts in readers.items()},
            {stream: tuple(names) for stream, names in takers.items()},
        )

    def _source_time(self, name: str) -> Preset | None:
        try:
            return checked_source_time(name, self.declared.times.get(name))
        except ConfigError as error:
            self.problems.append(error)
            return None

    def _check_at_sources(self) -> None:
        """A rule of a source is a default for all bolts that read it (SI-17): one of them must have use for it."""
        if not self.broken:
            self.problems.extend(found[0] for found in self.at_sources.values() if found[0] and all(found))

    def _readers(self, component: str) -> list[object]:
        """The bolts that read a component's streams."""
        declared = self.declared.bolts
        return [each.bolt for each in declared if any(read.stream[0] == component for read in each.inputs)]

    def _problem(self, what: str, why: str = "", do: str = "") -> None:
        self.problems.append(ConfigError(what, why=why, do=do))

    def _fault(self, owner: str, error: WindboltError) -> None:
        """A mistake that another part has found, as one of ``owner``'s."""
        self._problem(f"{owner}: {error.what}", error.why, error.do)

    def _check_names(self) -> None:
        names = [
            *(name for name, _ in self.declared.spouts),
            *(bolt.name for bolt in self.declared.bolts),
            *(sink.name for sink in self.declared.sinks),
        ]
        for name in sorted({name for name in names if names.count(name) > 1}, key=str):
            self._problem(
                f"{name!r} is set {names.count(name)} times",
                "spouts, bolts and sinks share one set of names",
                "rename one",
            )
        for name in sorted(set(names), key=str):
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                self._problem(
                    f"{name!r} cannot be a name", "it becomes part of file names", "use letters, digits, _ and -"
                )

    def _spout(self, name: str, spout: object) -> SpoutNode | None:
        try:
            outputs = {**spout.outputs(), ERRORS: ERROR_SCHEMA}  # type: ignore[attr-defined]
        except WindboltError as error:
            self._fault(f"spout {name!r}", error)
            self.broken.add(name)
            return None
        except (AttributeError, TypeError):
            self._problem(f"spout {name!r} is {spout!r:.60}", "that is not a spout", "use one of windbolt.spouts")
            self.broken.add(name)
            return None
        self._know(name, outputs)
        self.levels[name] = -1
        return SpoutNode(name, spout, outputs)  # type: ignore[arg-type]

    def _in_order(self) -> list[BoltDeclarer]:
        """The bolts, each after those it reads from; a cycle is a problem, and its bolts are left out."""
        declarers = {declarer.name: declarer for declarer in self.declared.bolts}
        graph = {
            name: {each.stream[0] for each in declarer.inputs if each.stream[0] in declarers}
            for name, declarer in declarers.items()
        }
        while True:
            try:
                return [declarers[name] for name in TopologicalSorter(graph).static_order()]
            except CycleError as error:
                cycle = error.args[1]
                self._problem(
                    f"bolts {' -> '.join(reversed(cycle))} read from each other in a circle",
                    "no watermark could ever advance",
                    "remove one of these streams",
                )
                self.broken.update(cycle)
                graph = {name: sources - set(cycle) for name, sources in graph.items() if name not in cycle}

    def _bolt(self, declarer: BoltDeclarer) -> PlainNode | WindowedNode | None:
        name, before = declarer.name, len(self.problems)
        declarer = self._for_inputs(declarer)
        outputs = self._outputs(declarer)
        if not isinstance(declarer.parallelism, int) or declarer.parallelism < 1:
            self._problem(
                f"bolt {name!r} has parallelism {declarer.parallelism!r}", do="give a whole number of 1 or more"
            )
        if not declarer.inputs:
            self._problem(f"bolt {name!r} reads nothing", do="call a ..._grouping method on what set_bolt returns")
        self._check_twice(f"bolt {name!r} reads", [each.stream for each in declarer.inputs])
        known = [each for each in declarer.inputs if self._check_input(name, each)]
        if outputs is None or len(known) < len(declarer.inputs) or not known or len(self.problems) > before:
            self._give_up(name, outputs)
            return None
        part: PlainNode | WindowedNode | None
        if isinstance(declarer.bolt, WindowedBolt):
            part = self._windowed(declarer, outputs)
        else:
            part = self._plain(declarer, outputs)
        if part is None:
            self._give_up(name, outputs)
        else:
            self._know(name, part.outputs)
        return part

    def _give_up(self, name: str, outputs: Mapping[str, pa.Schema] | None) -> None:
        """Keep what is known of a faulty bolt's streams, so that its readers are checked too."""
        self.broken.add(name)
        self._know(name, outputs or {})

    def _for_inputs(self, declarer: BoltDeclarer) -> BoltDeclarer:
        """The bolt as it is to read its streams, where all of them are known."""
        known = {stream_label(each.stream): self.schemas.get(each.stream) for each in declarer.inputs}
        inputs = {label: schema for label, schema in known.items() if schema is not None}
        if not inputs or len(inputs) < len(declarer.inputs) or not isinstance(declarer.bolt, Component):
            return declarer
        try:
            return replace(declarer, bolt=declarer.bolt.for_inputs(inputs))
        except ConfigError as error:
            self._fault(f"bolt {declarer.name!r}", error)
            return declarer

    def _outputs(self, declarer: BoltDeclarer) -> dict[str, pa.Schema] | None:
        name, bolt = declarer.name, declarer.bolt
        if not isinstance(bolt, (Bolt, BatchBolt, WindowedBolt)):
            self._problem(
                f"bolt {name!r} is {bolt!r:.60}",
                "that is not an instance of Bolt, BatchBolt or WindowedBolt",
                "subclass one of them" if not isinstance(bolt, type) else f"call it: {bolt.__name__}()",
            )
            return None
        try:
            outputs = bolt.output_schemas()
            if isinstance(bolt, StatefulWindowedBolt):
                check_types(bolt.state_types)
        except ConfigError as error:
            self._fault(f"bolt {name!r}", error)
            return None
        if ERRORS in outputs:
            self._problem(f"bolt {name!r} declares a stream {ERRORS!r}", "every bolt has one already", "rename it")
        return {**outputs, ERRORS: ERROR_SCHEMA}

    def _check_input(self, name: str, each: Input) -> bool:
        component = each.stream[0]
        if component in self.broken and each.stream not in self.schemas:
            return False
        schema = self.schemas.get(each.stream)
        if schema is None:
            self._unknown_stream(f"bolt {name!r} reads", each.stream)
            return False
        if isinstance(each.grouping, FieldsGrouping):
            missing = [field for field in each.grouping.fields if field not in schema.names]
            if missing or not each.grouping.fields:
                self._problem(
                    f"bolt {name!r} groups {stream_label(each.stream)!r} by "
                    f"{', '.join(map(repr, missing)) or 'no fields'}",
                    f"the stream has {', '.join(schema.names)}",
                    "group by fields of the stream",
                )
        return True

    def _unknown_stream(self, who: str, stream: Stream) -> None:
        streams = sorted(label for (component, label) in self.schemas if component == stream[0])
        components = sorted({component for component, _ in self.schemas})
        if streams == [ERRORS] and stream[1] == DEFAULT_STREAM:
            self._problem(
                f"{who} what {stream[0]!r} emits, and it emits nothing",
                "it declares no outputs",
                'declare its columns: outputs = "user string, total double"',
            )
        elif streams:
            self._problem(
                f"{who} stream {stream[1]!r} of {stream[0]!r}",
                f"it has the streams {', '.join(streams)}",
                "name one of these, or declare it (a late stream by with_late_tuple_stream)",
            )
        elif stream[0] not in self.broken:
            self._problem(
                f"{who} {stream[0]!r}",
                f"there is no such spout or bolt; there are {', '.join(components) or 'none'}",
                _of_dotted(stream[0], components),
            )

    def _plain(self, declarer: BoltDeclarer, outputs: dict[str, pa.Schema]) -> PlainNode:
        assert not isinstance(declarer.bolt, WindowedBolt)
        inputs = tuple(declarer.inputs)
        carried = [self._carried(each.stream) for each in inputs]
        shift = declarer.bolt.time_shift
        if all(carried):
            found = {Origin(each.bolt, each.shift + shift) for origins in carried for each in origins}
            self.carries[declarer.name] = tuple(sorted(found))
        self.levels[declarer.name] = max(self.levels.get(each.stream[0], -1) for each in inputs)
        clocked = not any(carried) and any(each.stream[0] in self.clocked for each in inputs)
        if clocked:
            self.clocked.add(declarer.name)
        times = [time for each in inputs for time in self.times.get(each.stream[0], (None,))]
        self.times[declarer.name] = distinct(times)
        return PlainNode(
            declarer.name,
            declarer.bolt,
            declarer.parallelism,
            inputs,
            outputs,
            all(carried),
            shift,
            clocked,
        )

    def _carried(self, stream: Stream) -> tuple[Origin, ...]:
        """The windowed bolts whose watermark a stream carries; none for late and error streams."""
        component, name = stream
        declared = {bolt.name: bolt.bolt for bolt in self.declared.bolts}.get(component)
        if name == ERRORS or (isinstance(declared, WindowedBolt) and name == declared.settings.late_stream):
            return ()
        return self.carries.get(component, ())

    def _windowed(self, declarer: BoltDeclarer, outputs: dict[str, pa.Schema]) -> WindowedNode | None:
        name, bolt, inputs = declarer.name, declarer.bolt, tuple(declarer.inputs)
        assert isinstance(bolt, WindowedBolt)
        before = len(self.problems)
        streams = [(each, self.schemas[each.stream]) for each in inputs]
        try:
            brings = [bool(self._carried(each.stream)) for each in inputs]
            settings = with_source_time(name, bolt.settings, streams, brings, self.times)
            settings = settled_time(name, settings, streams, brings, self.spouts)
        except ConfigError as error:
            self.problems.append(error)
            return None
        bolt = bolt.configured(settings)
        schema = self._unified(name, bolt, inputs)
        event_time, carried = self._times(name, bolt, inputs)
        self._check_limits(name, settings)
        if len(inputs) > 127:
            self._problem(
                f"bolt {name!r} reads {len(inputs)} streams",
                "a bolt can read at most 127",
                "merge some in a plain bolt before it",
            )
        declared = [schema for stream, schema in outputs.items() if stream != ERRORS]
        by = bolt.groups_by
        joined = bolt.keys_by_stream if isinstance(bolt, Join) else None
        asks = asks_for_expired(bolt) if settings.expired is None else settings.expired
        partitioned = any(self._partitioned(each.stream[0]) for each in inputs)
        situation = Situation(settings, event_time, len(inputs), partitioned)
        for rule, call in asked_at_sources(bolt.settings, inputs, brings, self.times):
            self.at_sources.setdefault((rule, call), []).append(idle_setting(name, situation, rule, call))
        found = faults(
            name, settings, streams, declared, parallelism=declarer.parallelism, event_time=event_time, by=by,
            asks_for_expired=asks, partitioned=partitioned, joined=joined,
        )  # fmt: skip
        self.problems.extend(found)
        if len(self.problems) > before:
            return None
        try:
            assigners = choose_assigners(settings, event_time=event_time)
            holds = assigners or settings.key_trigger is not None
            eviction, trigger = choose_policies(
                placeholder_lengths(settings) if holds else settings, event_time=event_time
            )
        except ConfigError as error:
            self._fault(f"bolt {name!r}", error)
            return None
        if settings.panes is not None and settings.panes.mode is PaneMode.RETRACTING:
            outputs = {
                stream: declared if stream == ERRORS else declared.append(pa.field(RETRACT, pa.bool_()))
                for stream, declared in outputs.items()
            }
        if settings.late_stream is not None and schema is not None:
            if settings.late_stream in outputs:
                self._problem(f"bolt {name!r} has two streams {settings.late_stream!r}", do="rename the late stream")
            outputs = {**outputs, settings.late_stream: pa.schema([*schema, *LATE_COLUMNS])}
        if settings.refused_stream is not None and schema is not None:
            if settings.refused_stream in outputs:
                self._problem(f"bolt {name!r} has two streams {settings.refused_stream!r}", do="rename the refused one")
            outputs = {**outputs, settings.refused_stream: pa.schema([*schema, (REASON, pa.string())])}
        if len(self.problems) > before or schema is None:
            return None
        if event_time:
            self.carries[name] = (Origin(name),)
        # Where a field or an extractor gives the time, the other bolt's watermark promises nothing about it.
        origins = tuple(self._carried(each.stream) if event_time else () for each in inputs)
        upstream = max(self.levels.get(each.stream[0], -1) for each in inputs)
        self.levels[name] = upstream + 1
        return WindowedNode(
            name, bolt, declarer.parallelism, inputs, outputs, schema, event_time, carried, origins,
            eviction, trigger, upstream + 1, assigners,
            self._clocked(name, settings, inputs),
            bool(assigners) and asks,
            all_idle(situation),
        )  # fmt: skip

    def _clocked(self, name: str, settings: WindowSettings, inputs: tuple[Input, ...]) -> tuple[bool, ...]:
        """Per input of a windowed bolt: whether a trigger needs the moments of the clock that its events come with."""
        found = tuple(settings.key_trigger is not None and each.stream[0] in self.clocked for each in inputs)
        if settings.key_trigger is not None:
            self.clocked.add(name)
        return found

    def _partitioned(self, component: str) -> bool:
        """Whether a spout that a component's rows come from, before any window, has partitions of its own."""
        declared = {bolt.name: bolt for bolt in self.declared.bolts}.get(component)
        if declared is None:
            return isinstance(self.spouts.get(component), KafkaSpout)
        if isinstance(declared.bolt, WindowedBolt):
            return False
        return any(self._partitioned(each.stream[0]) for each in declared.inputs)

    def _unified(self, name: str, bolt: WindowedBolt, inputs: tuple[Input, ...]) -> pa.Schema | None:
        schemas = [self.schemas[each.stream] for each in inputs]
        try:
            schema = pa.unify_schemas(schemas)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            self._problem(
                f"bolt {name!r} reads streams whose columns of one name differ in type",
                str(error).splitlines()[0],
                "rename or cast one of them in a bolt before it",
            )
            return None
        reserved = [column for column in schema.names if column in RESERVED or column.startswith(WEIGHT_COLUMN)]
        if reserved:
            self._problem(f"bolt {name!r} reads columns {reserved}", "these names are windbolt's own", "rename them")
        try:
            return declared_columns(name, bolt, schema, inputs)
        except ConfigError as error:
            self.problems.append(error)
            return None

    def _times(self, name: str, bolt: WindowedBolt, inputs: tuple[Input, ...]) -> tuple[bool, tuple[bool, ...]]:
        """Whether the bolt has event times, and for each input whether its events bring them along."""
        settings = bolt.settings
        carried = tuple(bool(self._carried(each.stream)) for each in inputs)
        if settings.processing_time:
            event_time, carried = False, (False,) * len(inputs)
        elif settings.timestamp_extractor is not None:
            event_time, carried = True, (False,) * len(inputs)
        elif settings.timestamp_field is not None:
            event_time, carried = True, self._field_times(name, settings.timestamp_field, inputs, carried)
        else:
            event_time = any(carried)
            if event_time and not all(carried):
                without = [stream_label(each.stream) for each, has in zip(inputs, carried, strict=True) if not has]
                self._problem(
                    f"bolt {name!r} reads streams with event times, and {', '.join(without)} without",
                    "a window has one kind of time",
                    "call with_timestamp_field, with_timestamp_extractor or with_time(processing=True)",
                )
        return event_time, carried

    def _field_times(
        self, name: str, field: str, inputs: tuple[Input, ...], carried: tuple[bool, ...]
    ) -> tuple[bool, ...]:
        result = []
        for each, brings in zip(inputs, carried, strict=True):
            schema = self.schemas[each.stream]
            if field in schema.names:
                kind = schema.field(field).type
                if not is_time(kind):
                    self._problem(
                        f"bolt {name!r}: timestamp field {field!r} of {stream_label(each.stream)!r} is {kind}",
                        "event times are timestamps, dates, or whole numbers of milliseconds (ST-9)",
                        "name another field, or use with_timestamp_extractor",
                    )
                result.append(False)
                continue
            if not brings:
                self._problem(
                    f"bolt {name!r}: {stream_label(each.stream)!r} has no timestamp field {field!r} (ST-9)",
                    f"it has {', '.join(schema.names)}",
                    "name another field, or use with_timestamp_extractor",
                )
            result.append(brings)
        return tuple(result)

    def _check_limits(self, name: str, settings: WindowSettings) -> None:
        """How long, and how many, events are held at least, against what the topology allows (ST-22, ST-23).

        Length plus slide, as Storm has it; of other kinds the length, where what is declared bounds it.
        """
        parts: list[Duration | Count] = [each for each in (settings.length, settings.slide) if each is not None]
        if settings.kinds:
            aligned = [kind.length.micros + kind.slide.micros for kind in settings.kinds if isinstance(kind, Hopping)]
            others = [longest.micros for kind in settings.kinds if (longest := longest_of(kind)) is not None]
            parts = [Duration(max([0, *aligned, *others]))]
            parts += [kind.count for kind in settings.kinds if isinstance(kind, CountByStart)][:1]
        if settings.key_trigger is not None:
            parts = []  # its rules say when its windows end
        time = sum(part.micros for part in parts if isinstance(part, Duration))
        timeout = self.declared.message_timeout
        if timeout is not None and time > timeout.micros:
            self._problem(
                f"bolt {name!r}: window duration (length + sliding interval) {Duration(time)} is more than the "
                f"message timeout {timeout} (ST-22)",
                "its events are kept that long in the checkpoint, and message_timeout "
                "is the longest that the topology allows",
                "shorten the window, or raise message_timeout, or leave it out",
            )
        count = sum(part.value for part in parts if isinstance(part, Count))
        limit = self.declared.max_spout_pending
        if limit is not None and count > limit:
            self._problem(
                f"bolt {name!r}: window count (length + sliding interval) {count} is more than max_spout_pending "
                f"{limit} (ST-23)",
                "each of its tasks holds as many events before it lets go of them, and the topology allows no more",
                "shorten the window, or raise max_spout_pending, or leave it out",
            )

    def _sink(self, declarer: SinkDeclarer) -> SinkNode | None:
        name = declarer.name
        if not declarer.streams:
            self._problem(f"sink {name!r} takes nothing", do="call from_(component) on what set_sink returns")
        known = []
        for stream in declarer.streams:
            if stream in self.schemas:
                known.append(self.schemas[stream])
            elif stream[0] not in self.broken:
                self._unknown_stream(f"sink {name!r} takes", stream)
        if any(not schema.equals(known[0]) for schema in known[1:]):
            labels = ", ".join(map(stream_label, declarer.streams))
            self._problem(f"sink {name!r} takes {labels}", "their columns differ", "give each a sink of its own")
        try:
            declarer.sink.check()
            if known and isinstance(declarer.sink, KafkaSink):
                declarer.sink.check_columns(known[0])
        except WindboltError as error:
            self._fault(f"sink {name!r}", error)
        except (AttributeError, TypeError):
            self._problem(f"sink {name!r} is {declarer.sink!r:.60}", "that is not a sink", "use one of windbolt.sinks")
        self._check_twice(f"sink {name!r} takes", declarer.streams)
        return SinkNode(name, declarer.sink, tuple(declarer.streams), known[0]) if known else None

    def _check_folders(self) -> None:
        """Files of two sinks would bear the same names."""
        folders: dict[str, list[str]] = {}
        for declarer in self.declared.sinks:
            if isinstance(declarer.sink, FileSink):
                folders.setdefault(os.path.realpath(declarer.sink.path), []).append(declarer.name)
        for folder, names in folders.items():
            if len(names) > 1:
                listed = ", ".join(map(repr, names))
                self._problem(f"sinks {listed} write to {folder!r}", "their files would bear the same names", "use two")

    def _check_twice(self, who: str, streams: list[Stream]) -> None:
        for stream in sorted({stream for stream in streams if streams.count(stream) > 1}):
            self._problem(f"{who} {stream_label(stream)!r} twice", "each event would count twice", "read it once")

    def _know(self, name: str, outputs: Mapping[str, pa.Schema]) -> None:
        self.schemas.update({(name, stream): schema for stream, schema in outputs.items()})


def _of_dotted(name: str, components: list[str]) -> str:
    """What to do about a component that is not there: ``rev.late`` may mean a stream of one that is."""
    component, _, stream = name.partition(".")
    if stream and component in components:
        return f"name a stream of {component!r} by an argument: ..._grouping({component!r}, ..., stream={stream!r})"
    return "set it, or correct the name"
