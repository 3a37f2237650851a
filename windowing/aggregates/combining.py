"""Aggregates that users write: functions that make a state of values, join states, and make a result of a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from windowing.aggregates.accumulators import Accumulator, Folded, State
from windowing.aggregates.declared import Aggregate, Cells
from windowing.aggregates.groups import Groups
from windowing.data.conversion import REFUSED, converted, of_values
from windowing.data.schema import format_schema, parse_schema
from windowing.errors import ConfigError, SchemaError

Function = Callable[[Any], Any]


@dataclass(frozen=True, repr=False)
class Combined(Accumulator):
    """A state that users' functions make; null where there are no values."""

    field: str
    folding: Function
    merging: Function
    kind: pa.DataType

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"state": self.kind}

    def fold(self, events: Folded, groups: Groups) -> State:
        column = events.plain(self.field)
        rows, edges = groups.runs(column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None)
        values = column.take(pa.array(rows)).to_numpy(zero_copy_only=False)
        states = [self.folding(values[low:high]) if low < high else None for low, high in pairwise(edges.tolist())]
        return [_column(states, self.kind, f"combine({self.field!r}): fold={_name(self.folding)}")]

    def merge(self, state: State, groups: Groups) -> State:
        (column,) = state
        rows, edges = groups.runs(column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None)
        states = column.take(pa.array(rows)).to_pylist()
        merged = [self._merged(states[low:high]) for low, high in pairwise(edges.tolist())]
        return [_column(merged, self.kind, f"combine({self.field!r}): merge={_name(self.merging)}")]

    def _merged(self, states: list[Any]) -> Any:
        if len(states) < 2:
            return states[0] if states else None
        return self.merging(states)

    def __repr__(self) -> str:
        """The same in every process: a checkpoint holds it, to be compared; its code may change, as that of bolts."""
        declared = format_schema(_schema("state", self.kind)).removeprefix("state ")
        return f"combine({self.field!r}, state={declared!r})"


@dataclass(frozen=True, kw_only=True)
class Combine(Aggregate):
    """What users' functions make of the values that are not null; null without any."""

    folding: Function
    merging: Function
    finishing: Function | None
    state_type: pa.DataType
    result_type: pa.DataType

    def __post_init__(self) -> None:
        super().__post_init__()
        functions = dict(zip(("fold", "merge", "finish"), self.functions, strict=True))
        for name, function in functions.items():
            if not callable(function) and not (name == "finish" and function is None):
                raise ConfigError(
                    f"{self}: {name}={function!r:.60}",
                    why="that is not a function",
                    do="give a function of one argument",
                )
            try:
                hash(function)
            except TypeError:
                raise ConfigError(
                    f"{self}: {name}={function!r:.60}",
                    why="it cannot be hashed, and equal aggregates are computed once",
                    do="give a function, or an object that equals itself alone",
                ) from None

    @property
    def functions(self) -> tuple[Function | None, ...]:
        """The functions of the user's."""
        return self.folding, self.merging, self.finishing

    @property
    def result(self) -> pa.DataType:
        return self.result_type

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        assert self.field is not None
        return (Combined(self.field, self.folding, self.merging, self.state_type),)

    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        ((column,),) = states
        if self.finishing is None:
            return column if column.type == self.result else _cast(column, self.result, str(self))
        found = [None if state is None else self.finishing(state) for state in column.to_pylist()]
        return _column(found, self.result, f"{self}: finish={_name(self.finishing)}", "result")

    def __str__(self) -> str:
        return f"combine({self.field!r})"


def type_of(declared: str | pa.DataType, name: str) -> pa.DataType:
    """A declared type; ConfigError where it is none."""
    if isinstance(declared, pa.DataType):
        return declared
    if not isinstance(declared, str):
        raise ConfigError(
            f"combine({name}={declared!r:.60})", why="that is not a type", do="write a text like 'double'"
        )
    fields = parse_schema(f"{name} {declared}")
    if len(fields) > 1:
        raise ConfigError(
            f"combine({name}={declared!r})",
            why="these are several types",
            do="combine them into one: struct<a: double, n: long>",
        )
    return fields.field(0).type


def _column(values: list[Any], kind: pa.DataType, whose: str, what: str = "state") -> pa.Array:
    try:
        return of_values(values, kind)
    except REFUSED as error:
        wrong = next(value for value in values if not _fits(value, kind))
        raise SchemaError(
            f"{whose} returned {wrong!r:.100}, but {format_schema(_schema(what, kind))!r} was declared",
            why=str(error),
            do=f"return what was declared, or declare {what}=",
        ) from error


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        of_values([value], kind)
    except REFUSED:
        return False
    return True


def _cast(column: pa.Array, kind: pa.DataType, whose: str) -> pa.Array:
    try:
        return converted(column, kind)
    except REFUSED as error:
        raise SchemaError(
            f"{whose} has the state {column.type}, but its result is declared as {kind}",
            why=str(error),
            do="give finish=, a function that turns a state into the result",
        ) from error


def _schema(name: str, kind: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind)])


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
