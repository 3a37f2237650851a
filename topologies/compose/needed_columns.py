"""The columns that a component, a sink or a rule asks for: a run reads, carries and stores no others (decision 44).

What is built knows all columns. A run takes the topology that ``with_needed_columns`` makes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Any

import pyarrow as pa

from policies.protocol import Policy
from topologies.graph.groupings import FieldsGrouping
from topologies.graph.nodes.spout import SpoutNode
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.side_streams import ERRORS
from topologies.graph.streams import Input, Stream
from topologies.io.file_spout import FileSpout
from topologies.io.kafka import KafkaSpout
from topologies.topology import Topology
from windowing.bolts.component import Component
from windowing.bolts.ready.aggregate_bolt import AggregateBolt
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.data.schema import narrowest
from windowing.errors import ConfigError
from windowing.suggestions import did_you_mean_column

ColumnNames = frozenset[str] | None
"""Names of columns; None for all, whatever they are."""


def with_needed_columns(topology: Topology) -> Topology:
    """The topology as a run has it, without the columns that nothing asks for.

    The columns of what a checkpoint keeps are left as they are: only bolts whose events are added up as they come are
    given fewer.
    """
    windowed = {name: _windowed(topology, node) for name, node in topology.windowed.items()}
    narrowed = replace(topology, windowed=windowed)
    return replace(narrowed, spouts={name: _spout(narrowed, node) for name, node in topology.spouts.items()})


def declared_columns(name: str, bolt: WindowedBolt, schema: pa.Schema, inputs: Iterable[Input]) -> pa.Schema:
    """The columns of a bolt's windows: those that it declares (``reads``), and those that its rules name.

    ConfigError where there are no such columns.
    """
    declared = bolt.declared_columns
    if declared is None:
        return schema
    if type(bolt).for_inputs is not Component.for_inputs:
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
    needed = _union([declared, columns_named(bolt.settings), _grouped(inputs)])
    return schema if needed is None else _narrowed(schema, needed)


def enough_columns(topology: Topology, node: WindowedNode, asked: Iterable[str]) -> tuple[str, ...] | None:
    """The columns that the windows of a bolt would have if it declared these; None where it cannot declare any, where
    that would leave none out, or where more than its windows would change: what is late or refused has these columns
    too, and a window may be full by the bytes of all."""
    settings = node.bolt.settings
    whole_rows = any(
        _is_read(topology, (node.name, stream))
        for stream in (settings.late_stream, settings.refused_stream, ERRORS)
        if stream is not None
    )
    capacity = settings.capacity
    full_by_bytes = capacity is not None and capacity.bytes is not None and not capacity.columns
    if whole_rows or full_by_bytes or type(node.bolt).for_inputs is not Component.for_inputs:
        return None
    needed = _union([frozenset(asked), columns_named(settings), _grouped(node.inputs)])
    if needed is None:
        return None
    kept = tuple(_narrowed(node.schema, needed).names)
    return kept if len(kept) < len(node.schema) else None


def columns_named(value: Any) -> ColumnNames:  # noqa: PLR0911 - one for each kind
    """All texts in a value, among which the columns are that it names.

    None where a function, or an object of a user's, may name others.
    """
    match value:
        case str():
            return frozenset((value,))
        case None | bool() | int() | float() | bytes() | Enum() | date() | time() | timedelta() | tzinfo() | Decimal():
            return frozenset()
        case Policy():
            return value.columns_read
        case Mapping():
            return _union(map(columns_named, [*value.keys(), *value.values()]))
        case tuple() | list() | set() | frozenset():
            return _union(map(columns_named, value))
    module = str(type(value).__module__).partition(".")[0]
    if is_dataclass(value) and not isinstance(value, type) and module == "windowing":
        return _union(columns_named(getattr(value, each.name)) for each in fields(value))
    return None


def _union(found: Iterable[ColumnNames]) -> ColumnNames:
    known: set[str] = set()
    for names in found:
        if names is None:
            return None
        known |= names
    return frozenset(known)


def _windowed(topology: Topology, node: WindowedNode) -> WindowedNode:
    settings, bolt = node.bolt.settings, node.bolt
    if node.slicing is None or not isinstance(bolt, AggregateBolt):
        return node
    whole = (settings.late_stream, settings.refused_stream, ERRORS)
    if any(stream is not None and _is_read(topology, (node.name, stream)) for stream in whole):
        return node
    needed = _union([bolt.columns_read, columns_named(settings), _grouped(node.inputs)])
    return node if needed is None else replace(node, schema=_narrowed(node.schema, needed))


def _spout(topology: Topology, node: SpoutNode) -> SpoutNode:
    if isinstance(node.spout, KafkaSpout):
        return node  # its messages are parsed as a whole
    needed = _of_stream(topology, (node.name, DEFAULT_STREAM))
    if needed is None or _is_read(topology, (node.name, ERRORS)):
        return node
    if isinstance(node.spout, FileSpout) and node.spout.merge_by is not None:
        needed |= {node.spout.merge_by}
    return replace(node, needed=frozenset(_narrowed(node.outputs[DEFAULT_STREAM], needed).names))


def _of_stream(topology: Topology, stream: Stream) -> ColumnNames:
    """The columns that the readers of a stream ask for."""
    if topology.takers.get(stream):
        return None
    return _union(_of_reader(topology, name) for name, _ in topology.readers.get(stream, ()))


def _of_reader(topology: Topology, name: str) -> ColumnNames:
    """The columns that a bolt needs of what it reads; all for plain bolts, of which nothing is known."""
    node = topology.windowed.get(name)
    return None if node is None or _is_read(topology, (name, ERRORS)) else frozenset(node.schema.names)


def _grouped(inputs: Iterable[Input]) -> frozenset[str]:
    """The columns that events are grouped by."""
    groupings = [each.grouping for each in inputs]
    return frozenset(field for each in groupings if isinstance(each, FieldsGrouping) for field in each.fields)


def _is_read(topology: Topology, stream: Stream) -> bool:
    return bool(topology.readers.get(stream) or topology.takers.get(stream))


def _narrowed(schema: pa.Schema, needed: frozenset[str]) -> pa.Schema:
    """The columns that are needed, one at least: a table without columns would not know how many rows it has."""
    kept = [field for field in schema if field.name in needed]
    return pa.schema(kept or [narrowest(schema)])
