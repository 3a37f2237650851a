"""Declarations of aggregates: built-in aggregates, and aggregates from functions of the user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from windowing.aggregates.accumulators import (
    DIGITS,
    Accumulator,
    EventColumns,
    Extreme,
    Moments,
    Present,
    Ranked,
    State,
    Total,
    WideTotal,
    as_decimals,
    as_doubles,
    as_int64,
    can_be_ranked,
    number_type,
)
from windowing.aggregates.groups import Groups
from windowing.columns import own_value
from windowing.conversion import REFUSED, convert_column, convert_values
from windowing.errors import ConfigError, SchemaError, did_you_mean_column
from windowing.reprs import repr_of
from windowing.schema import TIMESTAMP, format_schema, parse_schema, value_type
from windowing.timestamps import to_column

if TYPE_CHECKING:
    from numpy.typing import NDArray


NO_ORDER = "its values have no order", "take a part of it as a column, in a bolt before"
"""The reason why a column cannot be ranked, and the remedy."""


@dataclass(frozen=True)
class RowWindows:
    """The window and the number of events of each row of a result; all arrays have an entry per row."""

    events: NDArray[np.int64]
    """Number of events that the row aggregates."""
    starts: NDArray[np.int64]
    """Start of the window, in microseconds."""
    ends: NDArray[np.int64]
    """End of the window, in microseconds."""
    has_start: NDArray[np.bool_] | None = None
    """False for windows without a start, because their length is a count; None: all have a start."""


@dataclass(frozen=True)
class Aggregate(ABC):
    """One column of an AggregateBolt's result, made by the functions of ``windowing.aggregates``."""

    field: str | None = None
    kind: pa.DataType | None = None
    """The type of the field, known once the topology is built."""

    def __post_init__(self) -> None:
        if self.field is not None and not isinstance(self.field, str):
            raise ConfigError(
                f"{_snake(type(self).__name__)}({self.field!r:.60})",
                why="an aggregate takes the name of a column",
                do="give the name; Python's own sum, min and max are hidden where those of windowing.aggregates "
                "are imported by name: import windowing.aggregates as agg, and write agg.sum",
            )

    def with_types(self, name: str, schema: pa.Schema) -> Self:
        """Returns the aggregate with the type of its field; raises ConfigError if the field is missing, or has a type
        that the aggregate does not take. ``name``: the column of the result, for errors."""
        if self.field is None:
            return self
        aggregate = replace(self, kind=type_in(schema, self.field, f"{name}={self}"))
        why = aggregate.refusal()
        if why is not None:
            raise ConfigError(f"{name}={self} over a column of {aggregate.kind}", why=why[0], do=why[1])
        return aggregate

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that the aggregate reads, known once the topology is built."""
        return () if self.field is None else (self.field,)

    def refusal(self) -> tuple[str, str] | None:
        """Returns why the aggregate does not take a field of this type, and what to do; None if it takes it."""
        return None

    @property
    @abstractmethod
    def result(self) -> pa.DataType:
        """The type of the result column."""

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """The accumulators whose states the aggregate needs."""
        return ()

    @property
    def value_when_empty(self) -> Any:
        """The aggregate's value for a window without events, such as 0 for a count; None: null."""
        return None

    @abstractmethod
    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        """Returns the result column, made from the states of the accumulators."""

    def __str__(self) -> str:
        return f"{_snake(type(self).__name__)}({'' if self.field is None else repr(self.field)})"


class ValueAggregate(Aggregate):
    """An aggregate whose result is one of the values of its column, and has their type."""

    @property
    def result(self) -> pa.DataType:
        assert self.kind is not None
        return self.kind


@dataclass(frozen=True)
class Count(Aggregate):
    """Number of events, or of values that are not null."""

    @property
    def result(self) -> pa.DataType:
        return pa.int64()

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return () if self.field is None else (Present(self.field),)

    @property
    def value_when_empty(self) -> int:
        return 0

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        return pa.array(states[0][0] if states else windows.events)


@dataclass(frozen=True)
class Numeric(Aggregate):
    """An aggregate of a column of numbers."""

    def refusal(self) -> tuple[str, str] | None:
        kind = self.kind
        if kind == pa.uint64() or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return "it takes whole numbers of up to 63 bits and floating point", "cast the column in a bolt before"
        return None

    @property
    def _field(self) -> str:
        assert self.field is not None
        return self.field

    @property
    def _floating(self) -> bool:
        return bool(pa.types.is_floating(self.kind))


@dataclass(frozen=True)
class Summable(Numeric):
    """An aggregate of a column of numbers, or of decimals that fit into 64 bits."""

    def refusal(self) -> tuple[str, str] | None:
        if not self._decimal:
            return super().refusal()
        assert self.kind is not None
        if not pa.types.is_decimal128(self.kind) or self.kind.precision > DIGITS:
            return f"it takes decimals of 128 bits and up to {DIGITS} digits", "cast the column in a bolt before"
        return None

    @property
    def _decimal(self) -> bool:
        return bool(pa.types.is_decimal(self.kind))


@dataclass(frozen=True)
class _SumBased(Summable):
    """An aggregate that is computed from a sum."""

    @property
    def _wide(self) -> bool:
        """True if a sum of the values, or of some of them, may need more than 64 bits."""
        return self._decimal or self.kind in (pa.int64(), pa.uint32())

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        total = WideTotal(self._field) if self._wide else Total(self._field, self._floating)
        return total, Present(self._field)


@dataclass(frozen=True)
class Sum(_SumBased):
    """The sum of the values that are not null; null without any."""

    @property
    def result(self) -> pa.DataType:
        assert self.kind is not None
        if self._decimal:
            return pa.decimal128(self.kind.precision + 10, self.kind.scale)
        return pa.float64() if self._floating else pa.int64()

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        total, (present,) = states
        if self._wide and not self._decimal:
            return with_nulls(as_int64(total, self._field), present == 0, self.result)
        if self._wide:
            decimals, is_known = as_decimals(total, self.result), pa.array(present > 0)
            return pa.compute.if_else(is_known, decimals, pa.scalar(None, self.result))
        return with_nulls(total[0], present == 0, self.result)


@dataclass(frozen=True)
class Mean(_SumBased):
    """The mean of the values that are not null; null without any."""

    @property
    def result(self) -> pa.DataType:
        return pa.float64()

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        assert self.kind is not None
        total, (present,) = states
        unit = 10.0**self.kind.scale if self._decimal else 1.0
        means = (as_doubles(total) if self._wide else total[0]) / (np.maximum(present, 1) * unit)
        return with_nulls(means, present == 0, self.result)


@dataclass(frozen=True)
class Variance(Numeric):
    """The variance of the values that are not null; null if there are not more than ``ddof``."""

    ddof: int = 1
    root: bool = False
    """True for the standard deviation, the root of the variance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ddof(self.ddof)

    @property
    def result(self) -> pa.DataType:
        return pa.float64()

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Moments((self._field,)),)

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        ((counts, *_, squares),) = states
        variances = squares / np.maximum(counts - self.ddof, 1)
        return with_nulls(np.sqrt(variances) if self.root else variances, counts <= self.ddof, self.result)


@dataclass(frozen=True)
class Min(ValueAggregate):
    """The least of the values that are not null; null without any."""

    def refusal(self) -> tuple[str, str] | None:
        if number_type(self.kind) is None and not can_be_ranked(self.kind):
            return NO_ORDER
        return None

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        assert self.field is not None
        kind, greatest = number_type(self.kind), isinstance(self, Max)
        if kind is None:
            return (Ranked(self.field, self.result, greatest),)
        return Extreme(self.field, kind.name, greatest), Present(self.field)

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        if len(states) == 1:
            return states[0][0]
        (extremes,), (present,) = states
        return with_nulls(extremes, present == 0).cast(self.result)


@dataclass(frozen=True)
class Max(Min):
    """The greatest of the values that are not null; null without any."""


@dataclass(frozen=True)
class WindowStart(Aggregate):
    """Start of the window; null for windows without a start."""

    @property
    def result(self) -> pa.DataType:
        return TIMESTAMP

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        column = to_column(windows.starts)
        if windows.has_start is None:
            return column
        return pa.compute.if_else(pa.array(windows.has_start), column, pa.scalar(None, TIMESTAMP))


@dataclass(frozen=True)
class WindowEnd(Aggregate):
    """End of the window."""

    @property
    def result(self) -> pa.DataType:
        return TIMESTAMP

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        return to_column(windows.ends)


def type_in(schema: pa.Schema, field: str, whose: str) -> pa.DataType:
    """Returns the type of the values of a column. Raises ConfigError if there is no such column; ``whose``: the text
    with which the error begins."""
    if field not in schema.names:
        raise ConfigError(
            f"{whose}: there is no column {field!r}{did_you_mean_column(field, schema.names)}",
            why=f"the bolt reads {', '.join(schema.names)}",
            do="name one of these",
        )
    kind = schema.field(field).type
    return value_type(kind)


def check_ddof(ddof: int) -> None:
    """Raise ConfigError unless ``ddof`` is a whole number from 0."""
    if type(ddof) is not int or ddof < 0:
        raise ConfigError(
            f"ddof={ddof!r}",
            why="the sum of squares is divided by the number of values less ddof",
            do="use 1 for a sample, or 0 for the whole population",
        )


def with_nulls(values: NDArray[Any], missing: NDArray[np.bool_], kind: pa.DataType | None = None) -> pa.Array:
    """Returns values as a column of type ``kind``, with nulls where ``missing`` is True."""
    return pa.array(values, kind, mask=missing if missing.any() else None)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


# Aggregates by functions of the user: one makes a state from values, one merges states, one makes the result.


Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Combined(Accumulator):
    """Accumulator whose state is made by functions of the user; null without values.

    A checkpoint stores its ``repr``, which leaves the functions out: their code may change between runs.
    """

    field: str
    folding: Function = dataclass_field(repr=False)
    merging: Function = dataclass_field(repr=False)
    kind: pa.DataType

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"state": self.kind}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        column = events.decoded(self.field)
        rows, edges = groups.runs(column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None)
        values = column.take(pa.array(rows)).to_numpy(zero_copy_only=False)
        runs = (values[low:high] for low, high in pairwise(edges.tolist()))
        states = [own_value(self.folding(run)) if len(run) else None for run in runs]
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
        return own_value(self.merging(states))


@dataclass(frozen=True, kw_only=True)
class Combine(Aggregate):
    """Aggregate that functions of the user compute from the values that are not null; null without such values."""

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
                    f"{self}: {name}={repr_of(function):.60}",
                    why="that is not a function",
                    do="give a function of one argument",
                )
            try:
                hash(function)
            except TypeError:
                raise ConfigError(
                    f"{self}: {name}={repr_of(function):.60}",
                    why="it cannot be hashed, and equal aggregates are computed once",
                    do="give a function, or an object that equals itself alone",
                ) from None

    @property
    def functions(self) -> tuple[Function | None, ...]:
        """The functions ``fold``, ``merge`` and ``finish``."""
        return self.folding, self.merging, self.finishing

    @property
    def result(self) -> pa.DataType:
        return self.result_type

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        assert self.field is not None
        return (Combined(self.field, self.folding, self.merging, self.state_type),)

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        ((column,),) = states
        if self.finishing is None:
            return column if column.type == self.result else _cast(column, self.result, str(self))
        results = [None if state is None else own_value(self.finishing(state)) for state in column.to_pylist()]
        return _column(results, self.result, f"{self}: finish={_name(self.finishing)}", "result")

    def __str__(self) -> str:
        return f"combine({self.field!r})"


def read_type(declared: str | pa.DataType, name: str) -> pa.DataType:
    """Returns the type that an argument ``name`` of ``combine`` declares; raises ConfigError if it is not a type."""
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
        return convert_values(values, kind)
    except REFUSED as error:
        wrong = next(value for value in values if not _fits(value, kind))
        raise SchemaError(
            f"{whose} returned {repr_of(wrong):.100}, but {format_schema(_schema(what, kind))!r} was declared",
            why=str(error),
            do=f"return what was declared, or declare {what}=",
        ) from error


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        convert_values([value], kind)
    except REFUSED:
        return False
    return True


def _cast(column: pa.Array, kind: pa.DataType, whose: str) -> pa.Array:
    try:
        return convert_column(column, kind)
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
