"""How many different values there are, exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.aggregates.accumulators import Accumulator, Folded, State
from windowing.aggregates.declared import Aggregate, Cells
from windowing.aggregates.groups import Groups
from windowing.aggregates.key_numbers import Keys
from windowing.aggregates.lists import listed, owners_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Different(Accumulator):
    """The values that are not null, each once, in no order that one could rely on."""

    field: str
    kind: pa.DataType

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"values": pa.list_(self.kind)}

    def fold(self, events: Folded, groups: Groups) -> State:
        column, owners = events.plain(self.field), groups.numbers
        if column.null_count:
            owners = owners[pc.is_valid(column).to_numpy(zero_copy_only=False)]
            column = column.drop_null()
        return _different(owners, len(groups), column)

    def merge(self, state: State, groups: Groups) -> State:
        (values,) = state
        return _different(owners_of(values, groups), len(groups), values.flatten())


def _different(owners: NDArray[np.int64], count: int, values: pa.Array) -> State:
    keys = Keys.of([values], len(values))
    found = Groups(owners * keys.size + keys.codes, count * keys.size).cells
    (different,) = keys.columns(found % keys.size)
    return [listed(different, np.bincount(found // keys.size, minlength=count))]


@dataclass(frozen=True)
class DistinctCount(Aggregate):
    """How many different values there are among those that are not null."""

    @property
    def result(self) -> pa.DataType:
        return pa.int64()

    def refusal(self) -> tuple[str, str] | None:
        try:
            pc.dictionary_encode(pa.array([], self.kind))
        except pa.ArrowNotImplementedError:
            return "it takes plain values, which can be told apart", "take a part of it as a column, in a bolt before"
        return None

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        assert self.field is not None
        return (Different(self.field, self.kind),)

    @property
    def of_nothing(self) -> int:
        return 0

    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        ((values,),) = states
        return pc.list_value_length(values).cast(pa.int64())
