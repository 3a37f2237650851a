"""Declarations of a topology before it is checked: its parts, the known facts about its streams, and the columns that
are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from policies.protocol import Policy
from topologies.graph.graph import ERRORS, Graph, Input, Origin, SpoutNode, Stream, WindowedNode, stream_label
from topologies.graph.groupings import AllGrouping, FieldsGrouping, GlobalGrouping, ShuffleGrouping
from topologies.io.file_spout import FileSpout
from topologies.io.kafka import KafkaSpout
from topologies.io.pulled import RangedSpout
from topologies.io.spout_columns import FILE_METADATA
from topologies.io.topics.declared import CHANGES, METADATA
from windowing.bolts.aggregate_bolt import AggregateBolt
from windowing.bolts.bolt import Component, TaskBolt
from windowing.calls import checked
from windowing.errors import ConfigError, WindboltError, did_you_mean_column
from windowing.reprs import fields_repr
from windowing.schema import DEFAULT_STREAM, narrowest

if TYPE_CHECKING:
    from topologies.io.sinks import Sink
    from topologies.io.spouts import AnySpout
    from windowing.bolts.bolt import BatchBolt, Bolt
    from windowing.durations import Duration
    from windowing.settings.presets import Preset
    from windowing.spout import PartitionedSpout, Spout


# The mistakes in a topology, in the order in which they are found; all are reported together.


class Mistakes(list[ConfigError]):
    """List of the mistakes in a topology."""

    def tell(self, what: str, why: str = "", do: str = "") -> None:
        """Adds a mistake: what is wrong, why, and what to do."""
        self.append(ConfigError(what, why=why, do=do))

    def tell_of(self, owner: str, error: WindboltError) -> None:
        """Adds an error that another part has found, as a mistake of ``owner``."""
        self.tell(f"{owner}: {error.what}", error.why, error.do)


# Advice for a setting that names a missing column.


_SPOUT_OF_COLUMN = {
    **dict.fromkeys([*METADATA, *CHANGES.names], "kafka"),
    **dict.fromkeys(FILE_METADATA.names, "files"),
}


def how_to_have(field: str, otherwise: str) -> str:
    """Returns advice how to get a column that spouts add with ``metadata=``; ``otherwise`` for other columns."""
    if field not in _SPOUT_OF_COLUMN:
        return otherwise
    return (
        f"let the spout add it, spouts.{_SPOUT_OF_COLUMN[field]}(..., metadata=True), and bolts in between pass it on"
    )


# The parts of a topology before the checks, and the streams that each part reads.


@dataclass
class BoltDeclarer:
    """Declares the input streams of a bolt that has been set."""

    name: str
    bolt: Bolt | BatchBolt | TaskBolt
    parallelism: int
    inputs: list[Input] = field(default_factory=list)
    problem: ConfigError | None = field(default=None, repr=False)
    """Error for a bolt that cannot be copied, which ``build`` reports."""

    def __repr__(self) -> str:
        return fields_repr(self)

    @checked
    def fields_grouping(self, component: str, *fields: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Read a stream; events with equal fields go to the same task.

        Without fields, the key of the bolt is used: of ``with_key``, of ``by=...``, or of a join.
        """
        return self._read(Input((component, stream), FieldsGrouping(fields)))

    @checked
    def shuffle_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Read a stream; the tasks get events in turn, by the place of an event in its source."""
        return self._read(Input((component, stream), ShuffleGrouping()))

    @checked
    def global_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Read a stream; all events go to the first task."""
        return self._read(Input((component, stream), GlobalGrouping()))

    @checked
    def all_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Read a stream; every task gets a copy of every event."""
        return self._read(Input((component, stream), AllGrouping()))

    def _read(self, new: Input) -> BoltDeclarer:
        self.inputs.append(new)
        return self


@dataclass
class SinkDeclarer:
    """Declares the input streams of a sink that has been set."""

    name: str
    sink: Sink
    streams: list[Stream] = field(default_factory=list)

    def __repr__(self) -> str:
        return fields_repr(self)

    @checked
    def from_(self, component: str, stream: str = DEFAULT_STREAM) -> SinkDeclarer:
        """Take a stream. All streams of a sink must have the same columns."""
        self.streams.append((component, stream))
        return self


@dataclass
class DeclaredTopology:
    """All parts of a topology, in the order in which they were set."""

    name: str
    on_invalid: str = "divert"
    message_timeout: Duration | None = None
    max_spout_pending: int | None = None
    spouts: list[tuple[str, AnySpout | PartitionedSpout | Spout]] = field(default_factory=list)
    times: dict[str, Preset | None] = field(default_factory=dict)
    """The time settings of each spout."""
    bolts: list[BoltDeclarer] = field(default_factory=list)
    sinks: list[SinkDeclarer] = field(default_factory=list)


def distinct_presets(presets: Sequence[Preset | None]) -> tuple[Preset | None, ...]:
    """Returns each preset once, in their order; presets hold mappings, so they cannot be in a set."""
    return tuple(preset for at, preset in enumerate(presets) if preset not in presets[:at])


# Facts about the streams of a topology, gathered while it is compiled, from the spouts on.


class KnownStreams:
    """The streams of all components that have been compiled so far."""

    def __init__(self) -> None:
        self.schemas: dict[Stream, pa.Schema] = {}
        self.spouts: dict[str, object] = {}
        """The spouts by name, as they are read."""
        self.source_times: dict[str, tuple[Preset | None, ...]] = {}
        """For each spout or plain bolt, the time settings of the spouts before it."""
        self.broken: set[str] = set()
        """Components whose streams are unknown because of a reported mistake. Mistakes of their readers are not
        reported."""
        self.clocked_components: set[str] = set()
        """Components whose outputs come with a clock time, because a trigger has fired their windows."""
        self.partitioned: set[str] = set()
        """Components whose rows come from a source with partitions, with no window between."""
        self._origins: dict[Stream, tuple[Origin, ...]] = {}
        self._levels: dict[str, int] = {}

    def add(self, component: str, outputs: Mapping[str, pa.Schema]) -> None:
        """Adds a component, with the columns of its output streams."""
        self.schemas.update({(component, stream): schema for stream, schema in outputs.items()})

    def add_origins(self, component: str, streams: Iterable[str], origins: Iterable[Origin]) -> None:
        """Records the windowed bolts whose watermark the output streams of a component carry."""
        distinct_origins = tuple(sorted(set(origins)))
        self._origins.update({(component, stream): distinct_origins for stream in streams if stream != ERRORS})

    def origins(self, stream: Stream) -> tuple[Origin, ...]:
        """Returns the windowed bolts whose watermark and event times a stream carries; none for late and error
        streams."""
        return self._origins.get(stream, ())

    def pass_on(self, component: str, outputs: Iterable[str], inputs: Sequence[Input], shift: int = 0) -> None:
        """Records a component without windows: its output carries the watermarks and times of its inputs, moved by
        ``shift`` microseconds."""
        origins_by_input = [self.origins(each.stream) for each in inputs]
        if all(origins_by_input):
            self.add_origins(
                component,
                outputs,
                [
                    Origin(each.bolt, each.shift + shift)
                    for origins_of_input in origins_by_input
                    for each in origins_of_input
                ],
            )
        if self.are_clocked(inputs):
            self.clocked_components.add(component)
        self.source_times[component] = distinct_presets(self.source_times_of(inputs))

    def are_clocked(self, inputs: Sequence[Input]) -> bool:
        """True if some of these inputs have clock times, and none has event times."""
        has_clock = any(each.stream[0] in self.clocked_components for each in inputs)
        return has_clock and not any(self.origins(each.stream) for each in inputs)

    def source_times_of(self, inputs: Iterable[Input]) -> list[Preset | None]:
        """Returns the time rules of the spouts before these inputs, with no window between."""
        return [time for each in inputs for time in self.source_times.get(each.stream[0], (None,))]

    def set_level(self, component: str, level: int) -> None:
        """Records the level of a component: the number of windowed bolts on the longest path that ends with it, minus
        one."""
        self._levels[component] = level

    def level_of(self, inputs: Iterable[Input]) -> int:
        """Returns the level of the components that these inputs read; -1 if no window comes before them."""
        return max(self._levels.get(each.stream[0], -1) for each in inputs)

    def is_broken(self, stream: Stream) -> bool:
        """True if a stream is unknown because of a mistake that has been reported."""
        return stream[0] in self.broken and stream not in self.schemas

    def unknown(self, who: str, stream: Stream) -> ConfigError:
        """Returns an error for a reader of a stream that does not exist; ``who``: ``bolt 'total' reads``."""
        component, name = stream
        streams = sorted(name_of_stream for (owner, name_of_stream) in self.schemas if owner == component)
        components = sorted({owner for owner, _ in self.schemas})
        if streams == [ERRORS] and name == DEFAULT_STREAM:
            return ConfigError(
                f"{who} what {component!r} emits, and it emits nothing",
                why="it declares no outputs",
                do='declare its columns: outputs = "user string, total double"',
            )
        if streams:
            return ConfigError(
                f"{who} stream {name!r} of {component!r}",
                why=f"it has the streams {', '.join(streams)}",
                do="name one of these, or declare it (a late stream by with_late_tuple_stream)",
            )
        return ConfigError(
            f"{who} {component!r}",
            why=f"there is no such spout or bolt; there are {', '.join(components) or 'none'}",
            do=_advice_for_component(component, components),
        )


def _advice_for_component(name: str, components: list[str]) -> str:
    """Returns advice for an unknown component: ``rev.late`` may mean stream ``late`` of component ``rev``."""
    component, _, stream = name.partition(".")
    if stream and component in components:
        return f"name a stream of {component!r} by an argument: ..._grouping({component!r}, ..., stream={stream!r})"
    return "set it, or correct the name"


def repeated_stream_errors(who: str, streams: Sequence[Stream]) -> Iterator[ConfigError]:
    """Yields errors for streams that one bolt or sink reads more than once; ``who``: ``bolt 'total' reads``."""
    for stream in sorted({stream for stream in streams if streams.count(stream) > 1}):
        yield ConfigError(
            f"{who} {stream_label(stream)!r} twice", why="each event would count twice", do="read it once"
        )


# The columns that readers need: a run reads, carries and stores no others (decision 44). A built topology has all
# columns; ``with_needed_columns`` returns the topology of a run.


ColumnNames = frozenset[str] | None
"""Names of columns; None means all columns."""


def with_needed_columns(topology: Graph) -> Graph:
    """Returns the graph for a run, without the columns that no reader needs.

    A bolt whose windows hold events keeps all its columns, because events are stored with them; only bolts that keep
    sums in place of events get fewer. ``topology`` may be a ``Topology``; the result is a ``Graph``, so that workers
    need not import that class.
    """
    windowed = {name: _narrow_windowed(topology, node) for name, node in topology.windowed.items()}
    graph_fields = {each.name: getattr(topology, each.name) for each in fields(Graph)}
    narrowed = Graph(**{**graph_fields, "windowed": windowed})
    return replace(narrowed, spouts={name: _narrow_spout(narrowed, node) for name, node in topology.spouts.items()})


def declared_columns(name: str, bolt: TaskBolt, schema: pa.Schema, inputs: Iterable[Input]) -> pa.Schema:
    """Returns the columns of a bolt's windows: those that it declares, by ``reads`` or as a join by ``outputs``, and
    those that its rules name.

    Raises ConfigError if there are no such columns.
    """
    declared = bolt.declared_columns
    if declared is None:
        return schema
    if bolt.reads is not None and type(bolt).for_inputs is not Component.for_inputs:
        raise ConfigError(
            f"bolt {name!r}: {type(bolt).__name__} has reads",
            why="what it reads and emits follows from its input",
            do="leave reads out, or drop columns in a bolt before it",
        )
    missing = sorted(declared - frozenset(schema.names))
    if missing:
        raise ConfigError(
            f"bolt {name!r} reads {', '.join(map(repr, missing))}, and there is no such column"
            + did_you_mean_column(missing[0], schema.names),
            why=f"its input has {', '.join(schema.names)}",
            do="correct its attribute reads",
        )
    needed = _union_of_names([declared, columns_named(bolt.settings), _grouping_columns(inputs)])
    return schema if needed is None else _narrow(schema, needed)


def enough_columns(topology: Graph, node: WindowedNode, asked_columns: Iterable[str]) -> tuple[str, ...] | None:
    """Returns the columns that the windows of a bolt would have if it declared the columns ``asked_columns``.

    None if the bolt cannot declare columns, if all columns would stay, or if more than its windows would change: late
    and refused events would lose the columns too, and windows that are full by the bytes of all columns would hold more
    events.
    """
    settings = node.bolt.settings
    whole_rows_are_read = any(
        _is_read(topology, (node.name, stream))
        for stream in (settings.late_stream, settings.refused_stream, ERRORS)
        if stream is not None
    )
    full_by_bytes = settings.capacity is not None and settings.capacity.needs_all_columns
    if whole_rows_are_read or full_by_bytes or type(node.bolt).for_inputs is not Component.for_inputs:
        return None
    needed = _union_of_names([frozenset(asked_columns), columns_named(settings), _grouping_columns(node.inputs)])
    if needed is None:
        return None
    needed_names = tuple(_narrow(node.schema, needed).names)
    return needed_names if len(needed_names) < len(node.schema) else None


def columns_named(value: Any) -> ColumnNames:  # noqa: PLR0911 - one for each kind
    """Returns all texts in a value, such as settings; all names of columns that it contains are among them.

    None if the value contains a function or an object of the user, which may name further columns.
    """
    match value:
        case str():
            return frozenset((value,))
        case None | bool() | int() | float() | bytes() | Enum() | date() | time() | timedelta() | tzinfo() | Decimal():
            return frozenset()
        case Policy():
            with suppress(ConfigError):  # told where policies are checked
                return value.columns_read
            return None
        case Mapping():
            return _union_of_names(map(columns_named, [*value.keys(), *value.values()]))
        case tuple() | list() | set() | frozenset():
            return _union_of_names(map(columns_named, value))
    module = str(type(value).__module__).partition(".")[0]
    if is_dataclass(value) and not isinstance(value, type) and module == "windowing":
        return _union_of_names(columns_named(getattr(value, each.name)) for each in fields(value))
    return None


def _union_of_names(name_sets: Iterable[ColumnNames]) -> ColumnNames:
    union: set[str] = set()
    for names in name_sets:
        if names is None:
            return None
        union |= names
    return frozenset(union)


def _narrow_windowed(topology: Graph, node: WindowedNode) -> WindowedNode:
    settings, bolt = node.bolt.settings, node.bolt
    if node.partial_sums is None or not isinstance(bolt, AggregateBolt):
        return node
    streams_of_whole_rows = (settings.late_stream, settings.refused_stream, ERRORS)
    if any(stream is not None and _is_read(topology, (node.name, stream)) for stream in streams_of_whole_rows):
        return node
    needed = _union_of_names([bolt.columns_read, columns_named(settings), _grouping_columns(node.inputs)])
    return node if needed is None else replace(node, schema=_narrow(node.schema, needed))


def _narrow_spout(topology: Graph, node: SpoutNode) -> SpoutNode:
    if isinstance(node.spout, KafkaSpout):
        return node  # its messages are parsed as a whole
    needed = _columns_of_readers(topology, (node.name, DEFAULT_STREAM))
    if needed is None or _is_read(topology, (node.name, ERRORS)):
        return node
    if isinstance(node.spout, FileSpout | RangedSpout) and node.spout.merge_by is not None:
        needed |= {node.spout.merge_by}
    return replace(node, needed=frozenset(_narrow(node.outputs[DEFAULT_STREAM], needed).names))


def _columns_of_readers(topology: Graph, stream: Stream) -> ColumnNames:
    """Returns the columns that the readers of a stream need."""
    if topology.sinks_reading.get(stream):
        return None
    return _union_of_names(_columns_of_reader(topology, name) for name, _ in topology.readers.get(stream, ()))


def _columns_of_reader(topology: Graph, name: str) -> ColumnNames:
    """Returns the columns that a bolt needs from its inputs; all for plain bolts, whose needs are unknown."""
    node = topology.windowed.get(name)
    return None if node is None or _is_read(topology, (name, ERRORS)) else frozenset(node.schema.names)


def _grouping_columns(inputs: Iterable[Input]) -> frozenset[str]:
    """Returns the columns that events are grouped by."""
    groupings = [each.grouping for each in inputs]
    return frozenset(field for each in groupings if isinstance(each, FieldsGrouping) for field in each.fields)


def _is_read(topology: Graph, stream: Stream) -> bool:
    return bool(topology.readers.get(stream) or topology.sinks_reading.get(stream))


def _narrow(schema: pa.Schema, needed: frozenset[str]) -> pa.Schema:
    """Returns the columns that are needed, at least one, because a table without columns has no number of rows."""
    needed_fields = [field for field in schema if field.name in needed]
    return pa.schema(needed_fields or [narrowest(schema)])
