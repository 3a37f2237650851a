"""Decides whether windbolt's Java code can add up the sums of a bolt from rows of a DataFrame or records of a topic, so
that only the sums go to Python (decision 141)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from topologies.graph.declarations import with_needed_columns
from topologies.graph.groupings import AllGrouping
from topologies.io.formats.conform import holds_times
from topologies.io.kafka import KafkaSpout
from topologies.io.spouts import FrameSpout
from windowing.aggregates.accumulators import Accumulator, Extreme, Present, State, Total, WideTotal
from windowing.aggregates.groups import Groups
from windowing.schema import DEFAULT_STREAM, format_schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topologies.graph.graph import Graph, WindowedNode

# The letters for types that Java reads; FrameSums.java has the same.


_LETTERS = {
    pa.bool_(): "Z", pa.int8(): "B", pa.int16(): "S", pa.int32(): "I", pa.int64(): "L", pa.date32(): "A",
    pa.float32(): "F", pa.float64(): "D",
}  # fmt: skip
_LETTERS_FOR_KEYS = {pa.string(): "T", pa.binary(): "X"}
"""Further types of key columns: Java only compares their values."""
_LETTERS_IN_JSON = frozenset("ZBSILADTM")
"""Types that Java reads in JSON: no floats, which have fewer digits than their text, and no binaries."""


def _letter(kind: pa.DataType) -> str | None:
    """Returns the letter for a type of numbers, booleans or times; None if Java does not read the type."""
    return "M" if pa.types.is_timestamp(kind) and kind.unit == "us" else _LETTERS.get(kind)


def _key_letter(kind: pa.DataType) -> str | None:
    return _letter(kind) or _LETTERS_FOR_KEYS.get(kind)


def _micros_per_unit(kind: pa.DataType) -> int | None:
    """Returns the microseconds in one unit of a time type; None if Java does not read the type."""
    if pa.types.is_date32(kind):
        return 86_400_000_000
    if pa.types.is_timestamp(kind):
        return 1 if kind.unit == "us" else None
    return 1_000 if pa.types.is_signed_integer(kind) else None


# Terms: 64-bit numbers that Java keeps for each sum, and their conversion to the state of an accumulator.


class Action(StrEnum):
    """An operation of Java on a value; FrameSums.java has the same letters."""

    NOTHING = "-"
    COUNT = "n"
    ADD = "s"
    ADD_UPPER_HALF = "h"
    ADD_LOWER_HALF = "l"
    """The lower 32 bits."""
    ADD_FLOAT = "d"
    LEAST = "<"
    GREATEST = ">"
    LEAST_FLOAT = "m"
    GREATEST_FLOAT = "M"


@dataclass(frozen=True)
class Term:
    """A number that Java computes for each sum, from the non-null values of a column."""

    field: str
    letter: str
    """The letter of the column's type."""
    action: Action
    start: int = 0
    """The term's value for a sum without values."""


def _terms(accumulator: Accumulator, schema: pa.Schema) -> tuple[Term, ...] | None:
    """Returns the terms of an accumulator; None if Java cannot compute it."""
    if not isinstance(accumulator, Present | Total | WideTotal | Extreme):
        return None
    field = accumulator.field
    letter = _letter(schema.field(field).type)
    if isinstance(accumulator, Present):
        return (Term(field, letter or "-", Action.COUNT),)
    if letter is None:
        return None
    floating = letter in "FD"
    if isinstance(accumulator, WideTotal):
        return Term(field, letter, Action.ADD_UPPER_HALF), Term(field, letter, Action.ADD_LOWER_HALF)
    if isinstance(accumulator, Total):
        return (Term(field, letter, Action.ADD_FLOAT if floating else Action.ADD),)
    empty_state = accumulator.empty(1)[0]
    start = empty_state.astype(np.float64).view(np.int64) if floating else empty_state.astype(np.int64)
    if accumulator.greatest:
        action = Action.GREATEST_FLOAT if floating else Action.GREATEST
    else:
        action = Action.LEAST_FLOAT if floating else Action.LEAST
    return (Term(field, letter, action, int(start[0])),)


def _state_from_terms(accumulator: Accumulator, columns: Sequence[NDArray[np.int64]]) -> State:
    """Returns the state of an accumulator, computed from its terms, with an entry for each sum."""
    if isinstance(accumulator, WideTotal):  # of which the lower bits have more than 32 now
        groups = np.arange(len(columns[0]))
        return accumulator.merge(list(columns), Groups(groups, len(groups)))
    (column,) = columns
    if isinstance(accumulator, Total) and accumulator.floating:
        return [column.view(np.float64)]
    if isinstance(accumulator, Extreme):
        kind = np.dtype(accumulator.kind)
        return [(column.view(np.float64) if kind.kind == "f" else column).astype(kind)]
    return [column]


# Bolts whose events Java adds up.


@dataclass(frozen=True)
class FrameSums:
    """The sums of one bolt that Java adds up by slice of time and key, from the rows of one partition of a batch."""

    spout: str
    bolt: str
    time: Term
    micros: int
    """The microseconds in one unit of the time column."""
    keys: tuple[Term, ...]
    kinds: tuple[pa.DataType, ...]
    """The types of the key columns."""
    terms: tuple[Term, ...]
    """The different terms; also one for each other time column, so that Java checks its values."""
    accumulators: tuple[tuple[Accumulator, tuple[int, ...]], ...]
    """The accumulators in the order of the bolt, each with the places of its terms."""
    objects: tuple[tuple[str, str], ...] | None = None
    """The columns of JSON records, each with the letter of its type; None for DataFrames."""

    def states(self, terms: Sequence[NDArray[np.int64]]) -> list[State]:
        """Returns the state of each accumulator, with an entry for each sum."""
        return [
            _state_from_terms(accumulator, [terms[number] for number in term_numbers])
            for accumulator, term_numbers in self.accumulators
        ]


def frame_sums(topology: Graph) -> FrameSums | None:
    """Returns the sums that Java adds up in a run of a topology; None if all rows go to Python."""
    for node in topology.windowed.values():
        if reads_source_rows(topology, node) and why_rows_go_to_python(topology, node) is None:
            return _sums_of_bolt(topology, node)
    return None


def reads_source_rows(topology: Graph, node: WindowedNode) -> bool:
    """True if a bolt reads rows of a DataFrame, or of a topic with a schema, with no bolt between."""
    return any(_is_source_of_rows(topology, each.stream) for each in node.inputs)


def why_rows_go_to_python(topology: Graph, node: WindowedNode) -> str | None:
    """Returns the reason why the rows of a bolt have to go to Python; None if Java adds them up."""
    return next(_reasons_for_rows(topology, node), None)


def _reasons_for_rows(topology: Graph, node: WindowedNode) -> Iterator[str]:
    settings, (name, _) = node.bolt.settings, node.inputs[0].stream
    if node.slicing(traced=False) is None:
        yield "sums by slice of time are not all that it needs"
        return
    if len(node.inputs) > 1 or isinstance(node.inputs[0].grouping, AllGrouping):
        yield "it reads several streams, or each of its tasks reads all events"
        return
    through_spark = [
        each for each, spout in topology.spouts.items() if isinstance(spout.spout, FrameSpout | KafkaSpout)
    ]
    if len(through_spark) > 1:
        yield f"several streams come through Spark: {', '.join(through_spark)}"
    stream = node.inputs[0].stream
    if len(topology.readers.get(stream, ())) > 1 or topology.sinks_reading.get(stream):
        yield f"{name} is read by others too"
    spout = topology.spouts[name].spout
    if isinstance(spout, KafkaSpout):
        yield from _reasons_of_topic(spout)
    if topology.spouts[name].defaults:
        yield f"{name} has defaults for columns"
    if not node.event_time or settings.timestamp_field is None:
        yield "its events have their times from no column"
        return
    if node.admitted_by_tasks or settings.arrival is not None or settings.watermark_field is not None:
        yield "which events are late is not decided by the watermark before the batch alone"
    yield from _reasons_of_types(node, settings.timestamp_field)
    for field in _unsummed_time_columns(topology, node):
        if _letter(field.type) is None:
            yield f"{field.name} ({field.type}) may have times that Python has not, whose rows are bad"


def _reasons_of_topic(spout: KafkaSpout) -> Iterator[str]:
    """Yields reasons why Java does not read the records of a topic with a schema."""
    rows = spout.rows
    if rows.format != "json" or rows.envelope is not None:
        yield f"records of {spout.display_name} are no plain JSON"
    if len(rows.metadata) or len(rows.key_columns):
        yield "columns are from the keys or the metadata of records"
    if rows.times or rows.timezone not in (None, "UTC"):
        yield "how times are written is declared, or their zone"
    for field in rows.declared:
        zone = field.type.tz if pa.types.is_timestamp(field.type) else None
        if _key_letter(field.type) not in _LETTERS_IN_JSON or zone not in (None, "UTC"):
            yield f"Java does not read {format_schema(pa.schema([field]))} in JSON"


def _reasons_of_types(node: WindowedNode, time: str) -> Iterator[str]:
    """Yields columns that Java does not read, and aggregates that it does not add up."""
    slicing = node.slicing(traced=False)
    assert slicing is not None
    if _micros_per_unit(node.schema.field(time).type) is None:
        yield f"times are {node.schema.field(time).type}"
    for name in slicing.aggregates.by:
        if _key_letter(node.schema.field(name).type) is None:
            yield f"the key {name} is {node.schema.field(name).type}"
    if len(slicing.aggregates.by) > _MOST_KEYS:
        yield f"the key has more than {_MOST_KEYS} columns"
    for accumulator in slicing.accumulators:
        if _terms(accumulator, node.schema) is None:
            field = getattr(accumulator, "field", None)
            what = type(accumulator).__name__ if field is None else f"{field} ({node.schema.field(field).type})"
            yield f"what is kept of {what} is no sum of numbers"


def _unsummed_time_columns(topology: Graph, node: WindowedNode) -> list[pa.Field]:
    """Returns the columns of dates and times, also inside lists and structs, that a run reads and does not add up; a
    value in them that Python cannot represent makes its row bad."""
    slicing = node.slicing(traced=False)
    assert slicing is not None
    summed_columns = {node.bolt.settings.timestamp_field, *slicing.aggregates.by}
    summed_columns |= {getattr(accumulator, "field", None) for accumulator in slicing.accumulators}
    spout = with_needed_columns(topology).spouts[node.inputs[0].stream[0]]
    if isinstance(spout.spout, KafkaSpout):  # JSON objects are read as a whole
        return []
    return [
        field
        for field in spout.schema
        if holds_times(field.type) and (field.name not in summed_columns or _letter(field.type) is None)
    ]


_MOST_KEYS = 60
"""Most key columns: each needs a bit that marks nulls."""


def _is_source_of_rows(topology: Graph, stream: tuple[str, str]) -> bool:
    component, name = stream
    node = topology.spouts.get(component)
    if node is None or name != DEFAULT_STREAM:
        return False
    spout = node.spout
    return isinstance(spout, FrameSpout) or (isinstance(spout, KafkaSpout) and spout.declared is not None)


def _sums_of_bolt(topology: Graph, node: WindowedNode) -> FrameSums:
    slicing, time = node.slicing(traced=False), node.bolt.settings.timestamp_field
    assert slicing is not None
    assert time is not None
    terms_by_accumulator = [(each, _terms(each, node.schema) or ()) for each in slicing.accumulators]
    checked_times = [
        Term(each.name, str(_letter(each.type)), Action.COUNT) for each in _unsummed_time_columns(topology, node)
    ]
    terms = tuple(
        dict.fromkeys([*(term for _, own_terms in terms_by_accumulator for term in own_terms), *checked_times])
    )
    types: dict[str, Any] = {field.name: field.type for field in node.schema}
    name = node.inputs[0].stream[0]
    spout = topology.spouts[name].spout
    declared = spout.rows.declared if isinstance(spout, KafkaSpout) else None
    return FrameSums(
        spout=name,
        bolt=node.name,
        time=Term(time, str(_letter(types[time])), Action.NOTHING),
        micros=_micros_per_unit(types[time]) or 1,
        keys=tuple(Term(name, str(_key_letter(types[name])), Action.NOTHING) for name in slicing.aggregates.by),
        kinds=tuple(types[name] for name in slicing.aggregates.by),
        terms=terms,
        accumulators=tuple((each, tuple(map(terms.index, own_terms))) for each, own_terms in terms_by_accumulator),
        objects=None if declared is None else tuple((each.name, str(_key_letter(each.type))) for each in declared),
    )
