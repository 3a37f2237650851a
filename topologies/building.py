"""From declarations to a topology: every mistake is found here, and all are reported together."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import pyarrow as pa

from manager.held import INNER
from manager.segments import WEIGHT_COLUMN
from policies.choose import choose_assigners, choose_policies
from topologies.checking import faults
from topologies.groupings import FieldsGrouping
from topologies.kafka import KafkaSink
from topologies.model import (
    ERROR_SCHEMA,
    ERRORS,
    LATE_COLUMNS,
    REASON,
    RETRACT,
    Input,
    Origin,
    PlainPart,
    SinkPart,
    SpoutPart,
    Stream,
    Topology,
    WindowedPart,
    stream_label,
)
from topologies.sinks import FileSink
from windowing.aggregate_bolt import AggregateBolt
from windowing.bolt import BatchBolt, Bolt, Component, StatefulWindowedBolt, WindowedBolt
from windowing.durations import Count, Duration
from windowing.errors import ConfigError, TopologyError, WindboltError
from windowing.panes import PaneMode
from windowing.settings import WindowSettings
from windowing.state import check_types
from windowing.timestamps import is_time

if TYPE_CHECKING:
    from topologies.builder import BoltDeclarer, SinkDeclarer, TopologyBuilder

RESERVED = (*INNER, "_seq", "_action", "_end_edge", "_window_kind", "_window_key")
"""Names of columns that windbolt keeps beside the user's own."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-]*")


def build_topology(builder: TopologyBuilder) -> Topology:
    """The topology that a builder describes; TopologyError with all mistakes where there are any."""
    return _Building(builder).topology()


class _Building:
    def __init__(self, builder: TopologyBuilder) -> None:
        self.builder = builder
        self.problems: list[ConfigError] = []
        self.schemas: dict[Stream, pa.Schema] = {}
        self.broken: set[str] = set()
        """Components whose streams are not known, for a mistake that has been reported; what reads them is quiet."""
        self.carries: dict[str, tuple[Origin, ...]] = {}
        """Per component whose default outputs have event times: the windowed bolts whose watermark they carry."""
        self.levels: dict[str, int] = {}

    def topology(self) -> Topology:
        self._check_names()
        spouts = {name: self._spout(name, spout) for name, spout in self.builder.spouts}
        plain: dict[str, PlainPart] = {}
        windowed: dict[str, WindowedPart] = {}
        for declarer in self._in_order():
            part = self._bolt(declarer)
            if isinstance(part, WindowedPart):
                windowed[part.name] = part
            elif part is not None:
                plain[part.name] = part
        sinks = {sink.name: sink for declared in self.builder.sinks if (sink := self._sink(declared))}
        self._check_folders()
        if not spouts and not self.problems:
            self._problem("there is no spout", do="set_spout(name, spout)")
        if self.problems:
            raise TopologyError(self.builder.name, self.problems)
        readers: dict[Stream, list[tuple[str, int]]] = {}
        bolts: list[PlainPart | WindowedPart] = [*plain.values(), *windowed.values()]
        for bolt in bolts:
            for at, each in enumerate(bolt.inputs):
                readers.setdefault(each.stream, []).append((bolt.name, at))
        takers: dict[Stream, list[str]] = {}
        for taker in sinks.values():
            for stream in taker.streams:
                takers.setdefault(stream, []).append(taker.name)
        return Topology(
            self.builder.name,
            {name: spout for name, spout in spouts.items() if spout},
            plain,
            windowed,
            sinks,
            self.builder.on_invalid == "stop",
            {stream: tuple(bolts) for stream, bolts in readers.items()},
            {stream: tuple(names) for stream, names in takers.items()},
        )

    def _problem(self, what: str, why: str = "", do: str = "") -> None:
        self.problems.append(ConfigError(what, why=why, do=do))

    def _check_names(self) -> None:
        names = [
            *(name for name, _ in self.builder.spouts),
            *(bolt.name for bolt in self.builder.bolts),
            *(sink.name for sink in self.builder.sinks),
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
                    f"{name!r} is not a name", "it becomes part of file names", "use letters, digits, _ and -"
                )

    def _spout(self, name: str, spout: object) -> SpoutPart | None:
        try:
            outputs = {**spout.outputs(), ERRORS: ERROR_SCHEMA}  # type: ignore[attr-defined]
        except WindboltError as error:
            self._problem(f"spout {name!r}: {error}")
            self.broken.add(name)
            return None
        except (AttributeError, TypeError):
            self._problem(f"spout {name!r} is {spout!r:.60}", "that is not a spout", "use one of topologies.spouts")
            self.broken.add(name)
            return None
        self._know(name, outputs)
        self.levels[name] = -1
        return SpoutPart(name, spout, outputs)  # type: ignore[arg-type]

    def _in_order(self) -> list[BoltDeclarer]:
        """The bolts, each after those it reads from; a cycle is a problem, and its bolts are left out."""
        declarers = {declarer.name: declarer for declarer in self.builder.bolts}
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
                    "take one of these streams away",
                )
                self.broken.update(cycle)
                graph = {name: sources - set(cycle) for name, sources in graph.items() if name not in cycle}

    def _bolt(self, declarer: BoltDeclarer) -> PlainPart | WindowedPart | None:
        name, before = declarer.name, len(self.problems)
        declarer = self._for_inputs(declarer)
        outputs = self._outputs(declarer)
        if not isinstance(declarer.parallelism, int) or declarer.parallelism < 1:
            self._problem(f"bolt {name!r} has parallelism {declarer.parallelism!r}", do="give it 1 task or more")
        if not declarer.inputs:
            self._problem(f"bolt {name!r} reads nothing", do="call a ..._grouping method on what set_bolt returns")
        self._check_twice(f"bolt {name!r} reads", [each.stream for each in declarer.inputs])
        known = [each for each in declarer.inputs if self._check_input(name, each)]
        if outputs is None or len(known) < len(declarer.inputs) or not known or len(self.problems) > before:
            self._give_up(name, outputs)
            return None
        part: PlainPart | WindowedPart | None
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
            self._problem(f"bolt {declarer.name!r}: {error}")
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
            self._problem(f"bolt {name!r}: {error}")
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
        if streams:
            self._problem(
                f"{who} stream {stream[1]!r} of {stream[0]!r}",
                f"it has the streams {', '.join(streams)}",
                "name one of these, or declare it (a late stream by with_late_tuple_stream)",
            )
        elif stream[0] not in self.broken:
            self._problem(
                f"{who} {stream[0]!r}",
                f"there is no such spout or bolt; there are {', '.join(components) or 'none'}",
                "set it, or correct the name",
            )

    def _plain(self, declarer: BoltDeclarer, outputs: dict[str, pa.Schema]) -> PlainPart:
        assert not isinstance(declarer.bolt, WindowedBolt)
        inputs = tuple(declarer.inputs)
        carried = [self._carried(each.stream) for each in inputs]
        shift = declarer.bolt.time_shift
        if all(carried):
            found = {Origin(each.bolt, each.shift + shift) for origins in carried for each in origins}
            self.carries[declarer.name] = tuple(sorted(found))
        self.levels[declarer.name] = max(self.levels.get(each.stream[0], -1) for each in inputs)
        return PlainPart(
            declarer.name,
            declarer.bolt,
            declarer.parallelism,
            inputs,
            outputs,
            all(carried),
            shift,
        )

    def _carried(self, stream: Stream) -> tuple[Origin, ...]:
        """The windowed bolts whose watermark a stream carries; none for late and error streams."""
        component, name = stream
        declared = {bolt.name: bolt.bolt for bolt in self.builder.bolts}.get(component)
        if name == ERRORS or (isinstance(declared, WindowedBolt) and name == declared.settings.late_stream):
            return ()
        return self.carries.get(component, ())

    def _windowed(self, declarer: BoltDeclarer, outputs: dict[str, pa.Schema]) -> WindowedPart | None:
        name, bolt, inputs = declarer.name, declarer.bolt, tuple(declarer.inputs)
        assert isinstance(bolt, WindowedBolt)
        before = len(self.problems)
        settings = bolt.settings
        schema = self._unified(name, inputs)
        event_time, carried = self._times(name, bolt, inputs)
        self._check_limits(name, settings.length, settings.slide)
        if len(inputs) > 127:
            self._problem(f"bolt {name!r} reads {len(inputs)} streams", "at most 127 can be told apart", "join some")
        streams = [(each, self.schemas[each.stream]) for each in inputs]
        declared = [schema for stream, schema in outputs.items() if stream != ERRORS]
        by = bolt.by if isinstance(bolt, AggregateBolt) else None
        found = faults(
            name, settings, streams, declared, parallelism=declarer.parallelism, event_time=event_time, by=by
        )
        self.problems.extend(found)
        if len(self.problems) > before:
            return None
        try:
            assigners = choose_assigners(settings, event_time=event_time)
            holds = assigners or settings.key_trigger is not None
            eviction, trigger = choose_policies(_stand_in(settings) if holds else settings, event_time=event_time)
        except ConfigError as error:
            self._problem(f"bolt {name!r}: {error}")
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
        return WindowedPart(
            name, bolt, declarer.parallelism, inputs, outputs, schema, event_time, carried, origins,
            eviction, trigger, upstream + 1, assigners,
        )  # fmt: skip

    def _unified(self, name: str, inputs: tuple[Input, ...]) -> pa.Schema | None:
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
        return schema

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
                    "call with_timestamp_field, with_timestamp_extractor or with_processing_time",
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

    def _check_limits(self, name: str, length: Duration | Count | None, slide: Duration | Count) -> None:
        """Length plus slide against the message timeout and the pending limit, where these are set (ST-22, ST-23)."""
        parts = [part for part in (length, slide) if part is not None]
        time = sum(part.micros for part in parts if isinstance(part, Duration))
        timeout = self.builder.message_timeout
        if timeout is not None and time > timeout.micros:
            self._problem(
                f"bolt {name!r}: window duration (length + sliding interval) {Duration(time)} is more than the "
                f"message timeout {timeout} (ST-22)",
                "tuples would be replayed before the window has let go of them",
                "shorten the window, or raise message_timeout",
            )
        count = sum(part.value for part in parts if isinstance(part, Count))
        limit = self.builder.max_spout_pending
        if limit is not None and count > limit:
            self._problem(
                f"bolt {name!r}: window count (length + sliding interval) {count} is more than max_spout_pending "
                f"{limit} (ST-23)",
                "the spout would stop before the window is full",
                "shorten the window, or raise max_spout_pending",
            )

    def _sink(self, declarer: SinkDeclarer) -> SinkPart | None:
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
            self._problem(f"sink {name!r}: {error}")
        except (AttributeError, TypeError):
            self._problem(f"sink {name!r} is {declarer.sink!r:.60}", "that is not a sink", "use topologies.sinks")
        self._check_twice(f"sink {name!r} takes", declarer.streams)
        return SinkPart(name, declarer.sink, tuple(declarer.streams), known[0]) if known else None

    def _check_folders(self) -> None:
        """Files of two sinks would bear the same names."""
        folders: dict[str, list[str]] = {}
        for declarer in self.builder.sinks:
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


def _stand_in(settings: WindowSettings) -> WindowSettings:
    """Settings that the queue's policies can be made of, for a bolt whose windows are assigned and which uses none."""
    return replace(settings, length=settings.length or Count(1), slide=settings.slide, eviction=None, trigger=None)
