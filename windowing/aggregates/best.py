"""The event with the greatest or the least value of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from windowing.aggregates.accumulators import Accumulator, Folded, State
from windowing.aggregates.declared import Cells
from windowing.aggregates.groups import Groups
from windowing.aggregates.picked import Picking
from windowing.aggregates.ranked import ranks
from windowing.data.order import is_sorted

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Best(Accumulator):
    """The event with the greatest or the least value of a column; of several the first, by time and then by arrival.

    Its time, and some of its columns; all of them null where that column is null in all events.
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
    """Of the event with the greatest value of a column; null where that is null in all events."""

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
