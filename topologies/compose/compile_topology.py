"""From declarations to a topology: every mistake is found here, and all are reported together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import pyarrow as pa

from topologies.compose.checks.called_methods import missing_method
from topologies.compose.checks.missing_marks import missing_marks
from topologies.compose.compile_sinks import shared_folders, sink_node
from topologies.compose.compile_windowed import windowed_node
from topologies.compose.default_time import with_record_time
from topologies.compose.event_times import event_times
from topologies.compose.idle_chains import idle_chains
from topologies.compose.known_streams import KnownStreams, read_twice
from topologies.compose.mistakes import Mistakes
from topologies.compose.naming import names
from topologies.compose.own_key import grouped_by_own_key
from topologies.compose.source_time import SourceRules, checked_source_time, distinct
from topologies.graph.groupings import FieldsGrouping
from topologies.graph.inner_columns import MERGED
from topologies.graph.nodes.plain import PlainNode
from topologies.graph.nodes.sink import SinkNode
from topologies.graph.nodes.spout import SpoutNode
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.origins import Origin
from topologies.graph.side_streams import ERROR_SCHEMA, ERRORS
from topologies.graph.streams import Input, Stream, stream_label
from topologies.io.defaults import Defaults
from topologies.io.kafka import KafkaSpout
from topologies.io.pulled import PulledSpout
from topologies.topology import Topology
from windowing.bolts.bolt_state import check_types
from windowing.bolts.component import Component
from windowing.bolts.plain_bolts import BatchBolt, Bolt
from windowing.bolts.windowed_bolt import StatefulWindowedBolt, WindowedBolt
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.errors import ConfigError, TopologyError, WindboltError
from windowing.spout import Spout
from windowing.suggestions import did_you_mean_column

if TYPE_CHECKING:
    from topologies.compose.declarers import BoltDeclarer, DeclaredTopology
    from windowing.settings.presets import Preset


def build_topology(declared: DeclaredTopology) -> Topology:
    """The topology of these parts; TopologyError with all mistakes where there are any."""
    return _Compilation(declared).topology()


class _Compilation:
    """Goes through the parts of a topology, each after those it reads; what follows a mistake of theirs is not told."""

    def __init__(self, declared: DeclaredTopology) -> None:
        self.declared = declared
        self.mistakes = Mistakes()
        self.known = KnownStreams()
        self.source_rules = SourceRules()

    def topology(self) -> Topology:
        declared, mistakes = self.declared, self.mistakes
        parts = (declared.bolts, declared.sinks)
        mistakes.extend(
            names([*(name for name, _ in declared.spouts), *(each.name for part in parts for each in part)])
        )
        self.known.source_times = {name: (self._source_time(name),) for name, _ in declared.spouts}
        spouts = [spout for name, source in declared.spouts if (spout := self._spout(name, source))]
        bolts = [bolt for declarer in self._in_order() if (bolt := self._bolt(declarer))]
        if not self.known.broken:
            mistakes.extend(self.source_rules.without_use())
        sinks = [sink for each in declared.sinks if (sink := sink_node(each, self.known, mistakes))]
        mistakes.extend(shared_folders(declared.sinks))
        by_name = {bolt.name: bolt for bolt in bolts if isinstance(bolt, WindowedNode)}
        mistakes.extend(idle_chains(by_name))
        mistakes.extend(missing_marks(by_name, self.known.schemas))
        if not spouts and not mistakes:
            mistakes.tell("there is no spout", do="set_spout(name, spout)")
        if mistakes:
            raise TopologyError(declared.name, mistakes)
        plain = [bolt for bolt in bolts if isinstance(bolt, PlainNode)]
        return Topology(
            name=declared.name,
            spouts={spout.name: spout for spout in spouts},
            plain={bolt.name: bolt for bolt in plain},
            windowed=by_name,
            sinks={sink.name: sink for sink in sinks},
            stop_on_invalid=declared.on_invalid == "stop",
            readers=_readers([*plain, *by_name.values()]),
            takers=_takers(sinks),
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
            self._check_its_own(name, source)
            source = PulledSpout(source)
        spout = with_record_time(source, self.known.source_times[name][0], readers)
        try:
            outputs = {**spout.outputs(), ERRORS: ERROR_SCHEMA}  # type: ignore[attr-defined]
            given = getattr(spout, "defaults", None)  # spouts of scenarios have none
            defaults = Defaults.of(given, outputs[DEFAULT_STREAM]) if given else Defaults()
        except WindboltError as error:
            self.mistakes.tell_of(f"spout {name!r}", error)
            self.known.broken.add(name)
            return None
        except (AttributeError, TypeError):
            its_class = isinstance(source, type) and issubclass(source, Spout)
            self.mistakes.tell(
                f"spout {name!r} is {spout!r:.60}",
                "that is a class" if its_class else "that is not a spout",
                f"give {source.__name__}()" if its_class else "use one of windbolt.spouts, or a Spout of your own",  # type: ignore[attr-defined]
            )
            self.known.broken.add(name)
            return None
        taken = [column for schema in outputs.values() for column in schema.names if column in MERGED]
        if taken:
            self.mistakes.tell(
                f"spout {name!r} reads columns {taken}",
                "windbolt keeps columns of these names beside those of the rows that it merges",
                "rename them, or leave them out of the schema",
            )
        self.known.add(name, outputs)
        self.known.spouts[name] = spout
        if isinstance(spout, KafkaSpout):
            self.known.partitioned.add(name)
        return SpoutNode(name, spout, outputs, defaults=defaults)  # type: ignore[arg-type]

    def _check_its_own(self, name: str, source: Spout) -> None:
        """Two spouts of a topology are two objects: each has its own connection, and its own offset."""
        other = next((each for each, spout in self.declared.spouts if spout is source), name)
        if other != name:
            self.mistakes.tell(
                f"spouts {other!r} and {name!r} are the same {type(source).__name__}",
                "each spout has its own offset",
                f"make a {type(source).__name__} for each; or let all bolts read one spout",
            )

    def _in_order(self) -> list[BoltDeclarer]:
        """The bolts, each after those it reads from; a circle is a mistake, and its bolts are left out."""
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
        """A bolt as a node of the topology; None after a mistake, which is reported."""
        before, name, known = len(self.mistakes), declarer.name, self.known
        declarer = grouped_by_own_key(self._for_inputs(declarer))
        outputs = self._outputs(declarer)
        if not isinstance(declarer.parallelism, int) or declarer.parallelism < 1:
            self.mistakes.tell(
                f"bolt {name!r} has parallelism {declarer.parallelism!r}", do="give a whole number of 1 or more"
            )
        if not declarer.inputs:
            self.mistakes.tell(f"bolt {name!r} reads nothing", do="call a ..._grouping method on what set_bolt returns")
        self.mistakes.extend(read_twice(f"bolt {name!r} reads", [each.stream for each in declarer.inputs]))
        readable = [each for each in declarer.inputs if self._is_readable(name, each)]
        node: PlainNode | WindowedNode | None = None
        if outputs and readable and len(readable) == len(declarer.inputs) and len(self.mistakes) == before:
            if isinstance(declarer.bolt, WindowedBolt):
                node = windowed_node(declarer, outputs, self.declared, known, self.source_rules, self.mistakes)
            else:
                node = self._plain(declarer, outputs)
        if outputs is not None and (missing := missing_method(name, declarer.bolt)):
            self.mistakes.append(missing)
        if node is None:
            known.broken.add(name)
        known.add(name, (outputs or {}) if node is None else node.outputs)  # for its readers are checked as well
        return node

    def _for_inputs(self, declarer: BoltDeclarer) -> BoltDeclarer:
        """The bolt as it is to read its streams, where all of them are known."""
        found = {stream_label(each.stream): self.known.schemas.get(each.stream) for each in declarer.inputs}
        inputs = {label: schema for label, schema in found.items() if schema is not None}
        if not inputs or len(inputs) < len(declarer.inputs) or not isinstance(declarer.bolt, Component):
            return declarer
        try:
            return replace(declarer, bolt=declarer.bolt.for_inputs(inputs))
        except ConfigError as error:
            self.mistakes.tell_of(f"bolt {declarer.name!r}", error)
            self._check_time(declarer)
            return declarer

    def _check_time(self, declarer: BoltDeclarer) -> None:
        """Tell of a timestamp field that is not there, of a bolt that is not looked at further."""
        settings = declarer.bolt.settings if isinstance(declarer.bolt, WindowedBolt) else None
        if settings is not None and settings.timestamp_field is not None:
            streams = [(each, self.known.schemas[each.stream]) for each in declarer.inputs]
            brings = [bool(self.known.origins(each.stream)) for each in declarer.inputs]
            event_times(declarer.name, settings, streams, brings, self.mistakes)

    def _outputs(self, declarer: BoltDeclarer) -> dict[str, pa.Schema] | None:
        """The streams that a bolt declares, and its errors; None after a mistake, which is reported."""
        name, bolt = declarer.name, declarer.bolt
        if not isinstance(bolt, (Bolt, BatchBolt, WindowedBolt)):
            self.mistakes.tell(
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
            self.mistakes.tell_of(f"bolt {name!r}", error)
            return None
        self._check_on_error(name, bolt)
        if ERRORS in outputs:
            self.mistakes.tell(f"bolt {name!r} declares a stream {ERRORS!r}", "every bolt has one already", "rename it")
        return {**outputs, ERRORS: ERROR_SCHEMA}

    def _check_on_error(self, name: str, bolt: Bolt | BatchBolt | WindowedBolt) -> None:
        found = getattr(bolt, "on_error", "stop")
        if isinstance(bolt, WindowedBolt):
            if found == "errors":
                self.mistakes.tell(
                    f"bolt {name!r} has on_error='errors'",
                    "that is for bolts without windows: a windowed bolt fails on a window, and not on an event",
                    "leave it out, and catch in execute what may be raised",
                )
        elif found not in ("stop", "errors"):
            self.mistakes.tell(
                f"bolt {name!r} has on_error={found!r:.60}",
                "it says what happens to an event on which the bolt fails",
                "use 'stop', or 'errors' to send it to the stream of that name",
            )

    def _is_readable(self, name: str, read: Input) -> bool:
        """Whether the stream of an input is known; a mistake in its grouping is reported."""
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
        """A plain bolt: what is known of its streams follows from what it reads."""
        assert not isinstance(declarer.bolt, WindowedBolt)
        name, inputs, known = declarer.name, tuple(declarer.inputs), self.known
        read = {each.stream[0] for each in inputs}
        origins, shift = [known.origins(each.stream) for each in inputs], declarer.bolt.time_shift
        if all(origins):
            shifted = [Origin(origin.bolt, origin.shift + shift) for each in origins for origin in each]
            known.add_origins(name, outputs, shifted)
        clocked = not any(origins) and bool(read & known.clocked)
        if clocked:
            known.clocked.add(name)
        if read & known.partitioned:
            known.partitioned.add(name)
        known.set_level(name, known.level_of(inputs))
        known.source_times[name] = distinct(known.source_times_of(inputs))
        return PlainNode(
            name=name,
            bolt=declarer.bolt,
            parallelism=declarer.parallelism,
            inputs=inputs,
            outputs=outputs,
            carries_time=all(origins),
            shift=shift,
            clocked=clocked,
        )


def _readers(bolts: Iterable[PlainNode | WindowedNode]) -> dict[Stream, tuple[tuple[str, int], ...]]:
    """Per stream: the bolts that read it, and which of their inputs it is."""
    readers: dict[Stream, tuple[tuple[str, int], ...]] = {}
    for bolt in bolts:
        for index, each in enumerate(bolt.inputs):
            readers[each.stream] = (*readers.get(each.stream, ()), (bolt.name, index))
    return readers


def _takers(sinks: Iterable[SinkNode]) -> dict[Stream, tuple[str, ...]]:
    """Per stream: the sinks that take it."""
    takers: dict[Stream, tuple[str, ...]] = {}
    for sink in sinks:
        for stream in sink.streams:
            takers[stream] = (*takers.get(stream, ()), sink.name)
    return takers
