"""The least and the greatest of values that are no numbers, but have an order: texts, binaries, decimals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.aggregates.accumulators import Accumulator, Folded, State
from windowing.aggregates.groups import Groups
from windowing.aggregates.keys import Keys


@dataclass(frozen=True)
class Ranked(Accumulator):
    """The least or the greatest of the values that are not null; null without any."""

    field: str
    kind: pa.DataType
    greatest: bool

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"most" if self.greatest else "least": self.kind}

    def fold(self, events: Folded, groups: Groups) -> State:
        return [self._extreme(events.plain(self.field), groups)]

    def merge(self, state: State, groups: Groups) -> State:
        return [self._extreme(state[0], groups)]

    def _extreme(self, values: pa.Array, groups: Groups) -> pa.Array:
        keys = Keys.of([values], len(values), ordered=True)
        none, function = (-1, np.maximum) if self.greatest else (keys.size, np.minimum)
        ranks = keys.codes
        if values.null_count:
            ranks = np.where(pc.is_valid(values).to_numpy(zero_copy_only=False), ranks, none)
        found = groups.reduced(function, ranks, none)
        missing = found == none
        (column,) = keys.columns(np.where(missing, 0, found))
        return pc.if_else(pa.array(missing), pa.scalar(None, self.kind), column) if missing.any() else column


def has_order(kind: pa.DataType) -> bool:
    """Whether values of this type can be sorted, and told apart."""
    if pa.types.is_nested(kind):
        return False
    try:
        empty = pa.array([], kind)
        pc.sort_indices(empty)
        pc.dictionary_encode(empty)
    except pa.ArrowNotImplementedError:
        return False
    return True
