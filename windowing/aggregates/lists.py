"""Lists of values, one for each group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.aggregates.accumulators import Accumulator, Folded, State
from windowing.aggregates.groups import Groups
from windowing.data.order import is_sorted, order_within, stable_order

if TYPE_CHECKING:
    from numpy.typing import NDArray


def listed(values: pa.Array, counts: NDArray[np.int64]) -> pa.Array:
    """Values as lists; ``counts`` is the length of each list."""
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def owners_of(lists: pa.Array, groups: Groups) -> NDArray[np.int64]:
    """Of each value in some lists, one a row: the place of its group."""
    return np.repeat(groups.numbers, pc.list_value_length(lists).to_numpy())


@dataclass(frozen=True)
class Gathered(Accumulator):
    """All values, nulls among them, and their times, in order of (time, arrival)."""

    field: str
    kind: pa.DataType

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"times": pa.list_(pa.int64()), "values": pa.list_(self.kind)}

    def fold(self, events: Folded, groups: Groups) -> State:
        return _gathered(groups.numbers, len(groups), events.times, events.plain(self.field))

    def merge(self, state: State, groups: Groups) -> State:
        times, values = state
        return _gathered(owners_of(times, groups), len(groups), times.flatten().to_numpy(), values.flatten())


def _gathered(owners: NDArray[np.int64], count: int, times: NDArray[np.int64], values: pa.Array) -> State:
    counts = np.bincount(owners, minlength=count)
    if not is_sorted(owners):
        order = stable_order(owners)
        order = order[order_within(owners[order], times[order])]
    elif ((times[1:] >= times[:-1]) | (owners[1:] > owners[:-1])).all():
        return [listed(pa.array(times), counts), listed(values, counts)]
    else:
        order = order_within(owners, times)
    return [listed(pa.array(times[order]), counts), listed(values.take(pa.array(order)), counts)]
