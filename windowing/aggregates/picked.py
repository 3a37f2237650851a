"""Aggregates that pick events or values: first and last, greatest and least, the first few in some order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.aggregates.accumulators import (
    Accumulator,
    Folded,
    Gathered,
    State,
    as_number,
    can_be_ranked,
    listed,
    owners_of,
    ranks,
)
from windowing.aggregates.declared import NO_ORDER, Aggregate, Cells, OneOfThem, type_in
from windowing.aggregates.groups import Groups
from windowing.columns import is_sorted, stable_order
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The part of a picked event that is kept: a value of one of its columns, or several of them as a struct.


@dataclass(frozen=True)
class Picking(Aggregate):
    """An aggregate of events picked by the order of a column: one of their columns, some as a struct, or all of
    them."""

    columns: tuple[str, ...] | None = None
    """The fields of the struct; None: a value of ``field``, or without one the whole event."""
    by: str | None = None
    """The column that orders the events."""
    types: tuple[tuple[str, pa.DataType], ...] = ()
    """Columns kept of an event, with their types; known once the topology is built."""
    order: pa.DataType | None = None
    """The type of ``by``, once the topology is built."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.by, str) or (self.by is None and self.may_go_by_time)):
            raise ConfigError(
                f"{self}: {self.word}={self.by!r:.60}",
                why="it orders events by one column, given by name",
                do=f'write {self.word}="amount"',
            )
        if self.columns is None:
            return
        if not self.columns or not all(isinstance(name, str) for name in self.columns):
            raise ConfigError(
                f"{self}", why="the fields of the struct are columns, given by name", do="name at least one"
            )
        if len({*self.columns}) < len(self.columns):
            raise ConfigError(f"{self}", why="a field of a struct is known by its name", do="name each column once")

    def bound(self, name: str, schema: pa.Schema) -> Self:
        """Returns the aggregate over these columns; raises ConfigError if one is missing, or ``by`` has no order."""
        whose = f"{name}={self}"
        names = self.columns or (schema.names if self.field is None else [self.field])
        types = tuple((column, type_in(schema, column, whose)) for column in names)
        if self.by is None:
            return replace(self, types=types)
        order = type_in(schema, self.by, whose)
        if as_number(order) is None and not can_be_ranked(order):
            raise ConfigError(f"{whose}: {self.by!r} is {order}", why=NO_ORDER[0], do=NO_ORDER[1])
        return replace(self, types=types, order=order)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.kept)

    @property
    def kept(self) -> tuple[tuple[str, pa.DataType], ...]:
        """The columns that are kept, and the column of the order."""
        order = () if self.by is None else ((self.by, self.order),)
        return tuple(dict([*self.types, *order]).items())

    @property
    def picked(self) -> pa.DataType:
        """The type of the part of an event that is kept."""
        if self.field is not None:
            return self.types[0][1]
        return pa.struct([pa.field(name, kind) for name, kind in self.types])

    def taken(self, values: Mapping[str, pa.Array], missing: NDArray[Any] | None = None) -> pa.Array:
        """Returns the result column, made from the columns of the picked events; null if no event was picked."""
        if self.field is not None:
            return values[self.field]
        arrays = [values[name] for name, _ in self.types]
        fields = list(self.picked)
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=None if missing is None else pa.array(missing))

    @property
    def arguments(self) -> list[str]:
        """The arguments of the call that made this aggregate."""
        shown = self.field if self.columns is None else list(self.columns)
        given = [] if shown is None else [repr(shown)]
        return given if self.by is None else [*given, f"{self.word}={self.by!r}"]

    @property
    def word(self) -> str:
        """The name of the argument ``by``."""
        return "by"

    @property
    def may_go_by_time(self) -> bool:
        """True if ``by`` may be omitted."""
        return False

    def __str__(self) -> str:
        return f"{self.function}({', '.join(self.arguments)})"

    @property
    def function(self) -> str:
        """The name of the function that made it."""
        raise NotImplementedError


def one_or_several(field: str | Sequence[str] | None) -> dict[str, Any]:
    """Returns the arguments ``field`` and ``columns``: one column, or several; any other value is refused later, as one
    column."""
    if isinstance(field, list | tuple):
        return {"field": None, "columns": tuple(field)}
    return {"field": field, "columns": None}


# The event with the greatest or the least value of a column.


_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Best(Accumulator):
    """The event with the greatest or the least value of a column; of several the first, by time and then by arrival.

    Keeps its time, and some of its columns; all are null if the column is null in all events.
    """

    kept: tuple[tuple[str, pa.DataType], ...]
    by: str
    greatest: bool

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"at": pa.int64(), **{f"of {name}": kind for name, kind in self.kept}}

    def fold(self, events: Folded, groups: Groups) -> State:
        return self._best(events.times, [events.plain(name) for name, _ in self.kept], groups)

    def merge(self, state: State, groups: Groups) -> State:
        times, *values = state
        return self._best(times, values, groups)

    def loaded(self, columns: list[pa.Array]) -> State:
        times, *values = columns
        return [times.to_numpy(), *values]

    def _best(self, times: NDArray[np.int64], values: list[pa.Array], groups: Groups) -> State:
        places, valid = ranks(values[[name for name, _ in self.kept].index(self.by)])
        rows, owners = np.arange(len(times)), groups.numbers
        if valid is not None:
            rows, owners, places = rows[valid], owners[valid], places[valid]
        function, none = (np.maximum, _FIRST) if self.greatest else (np.minimum, _LAST)
        known = Groups(owners, len(groups))
        best = known.reduced(function, places, none)
        rows = rows[places == best[known.numbers]]
        if not is_sorted(times):
            best_groups = Groups(groups.numbers[rows], len(groups))
            least = best_groups.reduced(np.minimum, times[rows], _LAST)
            rows = rows[times[rows] == least[best_groups.numbers]]
        found = np.zeros(len(groups), np.int64)
        missing = np.ones(len(groups), np.bool_)
        found[groups.numbers[rows[::-1]]] = rows[::-1]  # of a group's rows the first is written last, and stays
        missing[groups.numbers[rows]] = False
        taken = pa.array(found, mask=missing if missing.any() else None)
        at = times[found]
        at[missing] = 0
        return [at, *(each.take(taken) for each in values)]


@dataclass(frozen=True)
class MaxBy(Picking):
    """Values of the event with the greatest value of a column; null if the column is null in all events."""

    greatest: bool = True

    @property
    def result(self) -> pa.DataType:
        return self.picked

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        assert self.by is not None
        return (Best(self.kept, self.by, self.greatest),)

    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        ((_, *columns),) = states
        values = dict(zip(self.fields, columns, strict=True))
        missing = None
        if values[self.by or ""].null_count:
            missing = values[self.by or ""].is_null().to_numpy(zero_copy_only=False)
        return self.taken(values, missing)

    @property
    def function(self) -> str:
        return "max_by" if self.greatest else "min_by"


# The first and the last event of a group, in order of (time, arrival).


@dataclass(frozen=True)
class End(Accumulator):
    """The event at one end: its time, and its value, which may be null."""

    field: str
    kind: pa.DataType
    last: bool

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"at": pa.int64(), "value": self.kind}

    def fold(self, events: Folded, groups: Groups) -> State:
        return self._ends(events.times, events.plain(self.field), groups)

    def merge(self, state: State, groups: Groups) -> State:
        times, values = state
        return self._ends(times, values, groups)

    def loaded(self, columns: list[pa.Array]) -> State:
        times, values = columns
        return [times.to_numpy(), values]

    def _ends(self, times: NDArray[np.int64], values: pa.Array, groups: Groups) -> State:
        rows = np.arange(len(times))
        if not is_sorted(times):
            least = groups.reduced(np.maximum, times, _FIRST) if self.last else groups.reduced(np.minimum, times, _LAST)
            rows = np.flatnonzero(times == least[groups.numbers])
        if not self.last:
            rows = rows[::-1]
        found = np.empty(len(groups), np.int64)
        found[groups.numbers[rows]] = rows  # of a group's rows the one that is written last stays
        return [times[found], values.take(pa.array(found))]


@dataclass(frozen=True)
class First(OneOfThem):
    """The value of the first event; null if the value is null."""

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        assert self.field is not None
        return (End(self.field, self.result, isinstance(self, Last)),)

    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        ((_, values),) = states
        return values


@dataclass(frozen=True)
class Last(First):
    """The value of the last event; null if the value is null."""


# Lists of events in the order of a column or of time, all of them or the first few.


@dataclass(frozen=True)
class Leading(Accumulator):
    """The first events in the order of a column, and among equal values, or without one, of time, then of arrival.

    Their times, and some of their columns.
    """

    kept: tuple[tuple[str, pa.DataType], ...]
    by: str | None
    descending: bool
    limit: int | None
    """Number of events that are kept; None: all."""
    nulls: bool
    """True if events with a null in the column come last; False: they are skipped."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"times": pa.list_(pa.int64()), **{f"of {name}": pa.list_(kind) for name, kind in self.kept}}

    def fold(self, events: Folded, groups: Groups) -> State:
        columns = [events.plain(name) for name, _ in self.kept]
        return self._leading(groups.numbers, len(groups), events.times, columns)

    def merge(self, state: State, groups: Groups) -> State:
        times, *columns = state
        flat = [column.flatten() for column in columns]
        return self._leading(owners_of(times, groups), len(groups), times.flatten().to_numpy(), flat)

    def _leading(
        self, owners: NDArray[np.int64], count: int, times: NDArray[np.int64], columns: list[pa.Array]
    ) -> State:
        rows = self._sorted(times, columns)
        if not is_sorted(owners[rows]):
            rows = rows[stable_order(owners[rows])]
        sizes = np.bincount(owners[rows], minlength=count)
        if self.limit is not None:
            places = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            rows, sizes = rows[places < self.limit], np.minimum(sizes, self.limit)
        taken = pa.array(rows)
        return [listed(pa.array(times[rows]), sizes), *(listed(column.take(taken), sizes) for column in columns)]

    def _sorted(self, times: NDArray[np.int64], columns: list[pa.Array]) -> NDArray[np.int64]:
        """Returns the rows in order of the column, then of time, then of their position."""
        rows = np.arange(len(times)) if is_sorted(times) else stable_order(times)
        if self.by is None:
            return rows
        places, valid = ranks(columns[[name for name, _ in self.kept].index(self.by)])
        if self.descending:
            places = ~places
        nulls = rows[:0]
        if valid is not None:
            rows, nulls = rows[valid[rows]], rows[~valid[rows]]
        rows = rows[stable_order(places[rows])]
        return np.concatenate([rows, nulls]) if self.nulls and len(nulls) else rows


@dataclass(frozen=True)
class _Listed(Picking):
    """A list of the kept parts of events."""

    limit: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not ((type(self.limit) is int and self.limit > 0) or (self.limit is None and self.may_be_all)):
            raise ConfigError(
                f"{self}", why=f"{self.limit!r:.60} is not a number of values", do="give a whole number of 1 or more"
            )

    @property
    def may_be_all(self) -> bool:
        """True if ``limit`` may be omitted."""
        return False

    @property
    def result(self) -> pa.DataType:
        return pa.list_(self.picked)

    def _lists(self, states: Sequence[State]) -> pa.Array:
        ((times, *columns),) = states
        values = {name: column.flatten() for name, column in zip(self.fields, columns, strict=True)}
        return listed(self.taken(values), pc.list_value_length(times).to_numpy())


@dataclass(frozen=True)
class Top(_Listed):
    """Values of the events with the greatest values of a column, in order; null if the column is null in all events."""

    greatest: bool = True

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Leading(self.kept, self.by, self.greatest, self.limit, nulls=False),)

    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        lists = self._lists(states)
        none = pc.equal(pc.list_value_length(lists), 0)
        if not pc.any(none).as_py():
            return lists
        places = np.arange(len(lists))
        return lists.take(pa.array(places, mask=none.to_numpy(zero_copy_only=False)))

    @property
    def arguments(self) -> list[str]:
        return [str(self.limit), *super().arguments]

    @property
    def function(self) -> str:
        return "top" if self.greatest else "bottom"


@dataclass(frozen=True)
class Collect(_Listed):
    """The values as a list, nulls included, in order of a column, then of time, then of arrival."""

    descending: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.descending and self.by is None:
            raise ConfigError(f"{self}", why="descending= needs a column to order by", do='add order_by="amount"')

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        if self.by is None and self.limit is None and self.field is not None:
            return (Gathered(self.field, self.picked),)
        return (Leading(self.kept, self.by, self.descending, self.limit, nulls=True),)

    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        return self._lists(states)

    @property
    def arguments(self) -> list[str]:
        descending = ["descending=True"] if self.descending else []
        return [*super().arguments, *descending, *([] if self.limit is None else [f"limit={self.limit}"])]

    @property
    def word(self) -> str:
        return "order_by"

    @property
    def may_be_all(self) -> bool:
        return True

    @property
    def may_go_by_time(self) -> bool:
        return True

    @property
    def function(self) -> str:
        return "collect"
