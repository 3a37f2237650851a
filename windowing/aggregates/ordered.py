"""Lists of events in the order of a column or of time, all of them or the first few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.aggregates.accumulators import Accumulator, Folded, State
from windowing.aggregates.declared import Cells
from windowing.aggregates.groups import Groups
from windowing.aggregates.lists import Gathered, listed, owners_of
from windowing.aggregates.picked import Picking
from windowing.aggregates.ranked import ranks
from windowing.data.order import is_sorted, stable_order
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Leading(Accumulator):
    """The first events in the order of a column, and among equal values, or without one, of time, then of arrival.

    Their times, and some of their columns.
    """

    kept: tuple[tuple[str, pa.DataType], ...]
    by: str | None
    descending: bool
    limit: int | None
    """How many; None: all of them."""
    nulls: bool
    """Whether those in which the column is null come last; else they are passed over."""

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
        """The rows in order of the column, then of time, then as they are."""
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
    """A list of what is taken of events."""

    limit: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not ((type(self.limit) is int and self.limit > 0) or (self.limit is None and self.may_be_all)):
            raise ConfigError(
                f"{self}", why=f"{self.limit!r:.60} is not a number of values", do="give a whole number of 1 or more"
            )

    @property
    def may_be_all(self) -> bool:
        """Whether ``limit`` may be left out."""
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
    """Of the events with the greatest values of a column, in order; null where that is null in all events."""

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
