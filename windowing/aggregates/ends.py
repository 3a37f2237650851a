"""The first and the last event of a group, in order of (time, arrival)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from windowing.aggregates.accumulators import Accumulator, Folded, State
from windowing.aggregates.declared import Aggregate, Cells
from windowing.aggregates.groups import Groups
from windowing.data.order import is_sorted

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class First(Aggregate):
    """The value of the first event; null where that is null."""

    @property
    def result(self) -> pa.DataType:
        assert self.kind is not None
        return self.kind

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        assert self.field is not None
        return (End(self.field, self.result, isinstance(self, Last)),)

    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        ((_, values),) = states
        return values


@dataclass(frozen=True)
class Last(First):
    """The value of the last event; null where that is null."""
