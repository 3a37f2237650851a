"""How often each value occurs, and the one that occurs most often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.aggregates.accumulators import Accumulator, Folded, State
from windowing.aggregates.declared import NO_ORDER, Aggregate, Cells
from windowing.aggregates.groups import Groups
from windowing.aggregates.key_numbers import Keys
from windowing.aggregates.lists import listed, owners_of
from windowing.aggregates.ranked import can_be_ranked

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Tally(Accumulator):
    """The values that are not null, each once and in order, and how often each occurs."""

    field: str
    kind: pa.DataType

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"values": pa.list_(self.kind), "counts": pa.list_(pa.int64())}

    def fold(self, events: Folded, groups: Groups) -> State:
        values, owners = self._values(events), groups.numbers
        if values.null_count:
            owners = owners[values.is_valid().to_numpy(zero_copy_only=False)]
            values = values.drop_null()
        return _tallied(owners, len(groups), values, None)

    def merge(self, state: State, groups: Groups) -> State:
        values, counts = state
        return _tallied(owners_of(values, groups), len(groups), values.flatten(), counts.flatten().to_numpy())

    def _values(self, events: Folded) -> pa.Array:
        return events.plain(self.field)


def _tallied(owners: NDArray[np.int64], count: int, values: pa.Array, counts: NDArray[np.int64] | None) -> State:
    keys = Keys.of([values], len(values), ordered=True)
    groups = Groups(owners * keys.size + keys.codes, count * keys.size)
    (different,) = keys.columns(groups.cells % keys.size)
    sizes = np.bincount(groups.cells // keys.size, minlength=count)
    occurrences = groups.counts if counts is None else groups.sums(counts)
    return [listed(different, sizes), listed(pa.array(occurrences), sizes)]


@dataclass(frozen=True)
class Mode(Aggregate):
    """The value that occurs most often, of several the least; null where all are."""

    @property
    def result(self) -> pa.DataType:
        assert self.kind is not None
        return self.kind

    def refusal(self) -> tuple[str, str] | None:
        return None if can_be_ranked(self.kind) else NO_ORDER

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        assert self.field is not None
        return (Tally(self.field, self.result),)

    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        ((values, counts),) = states
        sizes = pc.list_value_length(values).to_numpy()
        owners = np.repeat(np.arange(len(sizes)), sizes)
        occurrences = counts.flatten().to_numpy()
        most = Groups(owners, len(sizes)).reduced(np.maximum, occurrences, 0)
        rows = np.flatnonzero(occurrences == np.repeat(most, sizes[sizes > 0]))[::-1]
        found = np.zeros(len(sizes), np.int64)
        found[owners[rows]] = rows  # the first is written last, and stays
        return values.flatten().take(pa.array(found, mask=sizes == 0))
