"""Aggregates that pick events: the first, the last, the event with the greatest or least value, or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.aggregates.accumulators import (
    Accumulator,
    EventColumns,
    Gathered,
    State,
    can_be_ranked,
    groups_of_values,
    number_type,
    order_numbers,
    to_lists,
)
from windowing.aggregates.declared import NO_ORDER, Aggregate, RowWindows, ValueAggregate, type_in
from windowing.aggregates.groups import Groups
from windowing.columns import is_sorted, stable_order
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Picking(Aggregate):
    """An aggregate of events that are picked by the order of a column. The result has one column of the picked events,
    or a struct of several or all columns."""

    columns: tuple[str, ...] | None = None
    """The fields of the struct; None: the column ``field`` is kept, or if that is None too, the whole event."""
    by: str | None = None
    """The column that orders the events."""
    types: tuple[tuple[str, pa.DataType], ...] = ()
    """The columns kept of an event, with their types; known once the topology is built."""
    order: pa.DataType | None = None
    """The type of ``by``, once the topology is built."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.by, str) or (self.by is None and self.by_is_optional)):
            raise ConfigError(
                f"{self}: {self.by_argument}={self.by!r:.60}",
                why="it orders events by one column, given by name",
                do=f'write {self.by_argument}="amount"',
            )
        if self.columns is None:
            return
        if not self.columns or not all(isinstance(name, str) for name in self.columns):
            raise ConfigError(
                f"{self}", why="the fields of the struct are columns, given by name", do="name at least one"
            )
        if len({*self.columns}) < len(self.columns):
            raise ConfigError(f"{self}", why="a field of a struct is known by its name", do="name each column once")

    def with_types(self, name: str, schema: pa.Schema) -> Self:
        """Returns the aggregate with the types of its columns; raises ConfigError if a column is missing, or if the
        values of ``by`` have no order."""
        whose = f"{name}={self}"
        names = self.columns or (schema.names if self.field is None else [self.field])
        types = tuple((column, type_in(schema, column, whose)) for column in names)
        if self.by is None:
            return replace(self, types=types)
        order = type_in(schema, self.by, whose)
        if number_type(order) is None and not can_be_ranked(order):
            raise ConfigError(f"{whose}: {self.by!r} is {order}", why=NO_ORDER[0], do=NO_ORDER[1])
        return replace(self, types=types, order=order)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.kept)

    @property
    def kept(self) -> tuple[tuple[str, pa.DataType], ...]:
        """The columns that accumulators keep: those of the result, and the column ``by``."""
        order = () if self.by is None else ((self.by, self.order),)
        return tuple(dict([*self.types, *order]).items())

    @property
    def picked_type(self) -> pa.DataType:
        """The type of the part of an event that is kept."""
        if self.field is not None:
            return self.types[0][1]
        return pa.struct([pa.field(name, kind) for name, kind in self.types])

    def result_column(self, values: Mapping[str, pa.Array], missing: NDArray[Any] | None = None) -> pa.Array:
        """Returns the result column, made from the columns of the picked events; null if no event was picked."""
        if self.field is not None:
            return values[self.field]
        arrays = [values[name] for name, _ in self.types]
        fields = list(self.picked_type)
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=None if missing is None else pa.array(missing))

    @property
    def arguments(self) -> list[str]:
        """The arguments of the call that made this aggregate."""
        columns = self.field if self.columns is None else list(self.columns)
        in_words = [] if columns is None else [repr(columns)]
        return in_words if self.by is None else [*in_words, f"{self.by_argument}={self.by!r}"]

    @property
    def by_argument(self) -> str:
        """The name that users know the argument ``by`` under."""
        return "by"

    @property
    def by_is_optional(self) -> bool:
        """True if ``by`` may be omitted."""
        return False

    def __str__(self) -> str:
        return f"{self.function}({', '.join(self.arguments)})"

    @property
    def function(self) -> str:
        """The name of the function that makes the aggregate."""
        raise NotImplementedError


def field_arguments(field: str | Sequence[str] | None) -> dict[str, Any]:
    """Returns the arguments ``field`` and ``columns`` for one column or several. Any other value becomes ``field``,
    which then raises ConfigError."""
    if isinstance(field, list | tuple):
        return {"field": None, "columns": tuple(field)}
    return {"field": field, "columns": None}


# The event with the greatest or the least value of a column.


_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Best(Accumulator):
    """The event with the greatest or the least value of a column; of several such events the first, in order of (time,
    arrival).

    The state is the time of this event and some of its columns, which are null if the column is null in all events.
    """

    kept: tuple[tuple[str, pa.DataType], ...]
    by: str
    greatest: bool

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"at": pa.int64(), **{f"of {name}": kind for name, kind in self.kept}}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        return self._best(events.times, [events.decoded(name) for name, _ in self.kept], groups)

    def merge(self, state: State, groups: Groups) -> State:
        times, *values = state
        return self._best(times, values, groups)

    def from_columns(self, columns: list[pa.Array]) -> State:
        times, *values = columns
        return [times.to_numpy(), *values]

    def _best(self, times: NDArray[np.int64], values: list[pa.Array], groups: Groups) -> State:
        by_numbers, valid = order_numbers(values[[name for name, _ in self.kept].index(self.by)])
        rows, group_numbers = np.arange(len(times)), groups.numbers
        if valid is not None:
            rows, group_numbers, by_numbers = rows[valid], group_numbers[valid], by_numbers[valid]
        function, no_value = (np.maximum, _FIRST) if self.greatest else (np.minimum, _LAST)
        known_groups = Groups(group_numbers, len(groups))
        best = known_groups.reduce(function, by_numbers, no_value)
        rows = rows[by_numbers == best[known_groups.numbers]]
        if not is_sorted(times):
            best_groups = Groups(groups.numbers[rows], len(groups))
            earliest = best_groups.reduce(np.minimum, times[rows], _LAST)
            rows = rows[times[rows] == earliest[best_groups.numbers]]
        best_rows = np.zeros(len(groups), np.int64)
        missing = np.ones(len(groups), np.bool_)
        best_rows[groups.numbers[rows[::-1]]] = rows[::-1]  # of a group's rows the first is written last, and stays
        missing[groups.numbers[rows]] = False
        indices = pa.array(best_rows, mask=missing if missing.any() else None)
        at = times[best_rows]
        at[missing] = 0
        return [at, *(each.take(indices) for each in values)]


@dataclass(frozen=True)
class MaxBy(Picking):
    """Values of the event with the greatest or the least value of a column; null if that column is null in all
    events."""

    greatest: bool = True

    @property
    def result(self) -> pa.DataType:
        return self.picked_type

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        assert self.by is not None
        return (Best(self.kept, self.by, self.greatest),)

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        ((_, *columns),) = states
        values = dict(zip(self.fields, columns, strict=True))
        missing = None
        if values[self.by or ""].null_count:
            missing = values[self.by or ""].is_null().to_numpy(zero_copy_only=False)
        return self.result_column(values, missing)

    @property
    def function(self) -> str:
        return "max_by" if self.greatest else "min_by"


# The first and the last event of a group, in order of (time, arrival).


@dataclass(frozen=True)
class End(Accumulator):
    """The first or the last event: its time, and its value of a column, which may be null."""

    field: str
    kind: pa.DataType
    last: bool

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"at": pa.int64(), "value": self.kind}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        return self._ends(events.times, events.decoded(self.field), groups)

    def merge(self, state: State, groups: Groups) -> State:
        times, values = state
        return self._ends(times, values, groups)

    def from_columns(self, columns: list[pa.Array]) -> State:
        times, values = columns
        return [times.to_numpy(), values]

    def _ends(self, times: NDArray[np.int64], values: pa.Array, groups: Groups) -> State:
        rows = np.arange(len(times))
        if not is_sorted(times):
            ends = groups.reduce(np.maximum, times, _FIRST) if self.last else groups.reduce(np.minimum, times, _LAST)
            rows = np.flatnonzero(times == ends[groups.numbers])
        if not self.last:
            rows = rows[::-1]
        end_rows = np.empty(len(groups), np.int64)
        end_rows[groups.numbers[rows]] = rows  # of a group's rows the one that is written last stays
        return [times[end_rows], values.take(pa.array(end_rows))]


@dataclass(frozen=True)
class First(ValueAggregate):
    """The value of the first event; null if the value is null."""

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        assert self.field is not None
        return (End(self.field, self.result, isinstance(self, Last)),)

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        ((_, values),) = states
        return values


@dataclass(frozen=True)
class Last(First):
    """The value of the last event; null if the value is null."""


# Lists of events in the order of a column or of time, all of them or the first few.


@dataclass(frozen=True)
class Leading(Accumulator):
    """The first events in the order of (column, time, arrival), or of (time, arrival) if no column is given.

    The state is their times and some of their columns.
    """

    kept: tuple[tuple[str, pa.DataType], ...]
    by: str | None
    descending: bool
    limit: int | None
    """The greatest number of events that are kept; None: all."""
    nulls: bool
    """True if events with a null in the column ``by`` come last; False if they are skipped."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"times": pa.list_(pa.int64()), **{f"of {name}": pa.list_(kind) for name, kind in self.kept}}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        columns = [events.decoded(name) for name, _ in self.kept]
        return self._leading(groups.numbers, len(groups), events.times, columns)

    def merge(self, state: State, groups: Groups) -> State:
        times, *columns = state
        flat = [column.flatten() for column in columns]
        return self._leading(groups_of_values(times, groups), len(groups), times.flatten().to_numpy(), flat)

    def _leading(
        self, group_numbers: NDArray[np.int64], count: int, times: NDArray[np.int64], columns: list[pa.Array]
    ) -> State:
        rows = self._sorted(times, columns)
        if not is_sorted(group_numbers[rows]):
            rows = rows[stable_order(group_numbers[rows])]
        sizes = np.bincount(group_numbers[rows], minlength=count)
        if self.limit is not None:
            positions = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            rows, sizes = rows[positions < self.limit], np.minimum(sizes, self.limit)
        row_indices = pa.array(rows)
        return [
            to_lists(pa.array(times[rows]), sizes),
            *(to_lists(column.take(row_indices), sizes) for column in columns),
        ]

    def _sorted(self, times: NDArray[np.int64], columns: list[pa.Array]) -> NDArray[np.int64]:
        """Returns the rows in order of the column ``by``, then of time, then of their position."""
        rows = np.arange(len(times)) if is_sorted(times) else stable_order(times)
        if self.by is None:
            return rows
        by_numbers, valid = order_numbers(columns[[name for name, _ in self.kept].index(self.by)])
        if self.descending:
            by_numbers = ~by_numbers
        nulls = rows[:0]
        if valid is not None:
            rows, nulls = rows[valid[rows]], rows[~valid[rows]]
        rows = rows[stable_order(by_numbers[rows])]
        return np.concatenate([rows, nulls]) if self.nulls and len(nulls) else rows


@dataclass(frozen=True)
class _Listed(Picking):
    """An aggregate whose result is a list with a value or struct for each event that is picked."""

    limit: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not ((type(self.limit) is int and self.limit > 0) or (self.limit is None and self.limit_is_optional)):
            raise ConfigError(
                f"{self}", why=f"{self.limit!r:.60} is not a number of values", do="give a whole number of 1 or more"
            )

    @property
    def limit_is_optional(self) -> bool:
        """True if ``limit`` may be omitted."""
        return False

    @property
    def result(self) -> pa.DataType:
        return pa.list_(self.picked_type)

    def _lists(self, states: Sequence[State]) -> pa.Array:
        ((times, *columns),) = states
        values = {name: column.flatten() for name, column in zip(self.fields, columns, strict=True)}
        return to_lists(self.result_column(values), pc.list_value_length(times).to_numpy())


@dataclass(frozen=True)
class Top(_Listed):
    """Values of the events with the greatest or the least values of a column, in order; null if that column is null in
    all events."""

    greatest: bool = True

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Leading(self.kept, self.by, self.greatest, self.limit, nulls=False),)

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        lists = self._lists(states)
        is_empty = pc.equal(pc.list_value_length(lists), 0)
        if not pc.any(is_empty).as_py():
            return lists
        indices = np.arange(len(lists))
        return lists.take(pa.array(indices, mask=is_empty.to_numpy(zero_copy_only=False)))

    @property
    def arguments(self) -> list[str]:
        return [str(self.limit), *super().arguments]

    @property
    def function(self) -> str:
        return "top" if self.greatest else "bottom"


@dataclass(frozen=True)
class Collect(_Listed):
    """The values of all events as a list, nulls included, in order of a column, then of time, then of arrival."""

    descending: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.descending and self.by is None:
            raise ConfigError(f"{self}", why="descending= needs a column to order by", do='add order_by="amount"')

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        if self.by is None and self.limit is None and self.field is not None:
            return (Gathered(self.field, self.picked_type),)
        return (Leading(self.kept, self.by, self.descending, self.limit, nulls=True),)

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        return self._lists(states)

    @property
    def arguments(self) -> list[str]:
        descending = ["descending=True"] if self.descending else []
        return [*super().arguments, *descending, *([] if self.limit is None else [f"limit={self.limit}"])]

    @property
    def by_argument(self) -> str:
        return "order_by"

    @property
    def limit_is_optional(self) -> bool:
        return True

    @property
    def by_is_optional(self) -> bool:
        return True

    @property
    def function(self) -> str:
        return "collect"
