"""Aggregates that know the columns of their input, and with them the columns of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from windowing.aggregates.accumulators import Accumulator, State
from windowing.aggregates.declared import Aggregate, Cells


@dataclass(frozen=True)
class BoundAggregates:
    """The aggregates of an AggregateBolt, bound to the columns of its input: of use to whoever folds events and joins
    the results."""

    by: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    schema: pa.Schema
    """The columns of the result."""

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """What is kept of the events, each once."""
        return tuple(dict.fromkeys(each for _, aggregate in self.aggregates for each in aggregate.accumulators))

    def result(self, keys: Sequence[pa.Array], states: Sequence[State], cells: Cells) -> pa.Table:
        """The rows of the result: their keys, and the states of all accumulators."""
        place = {each: at for at, each in enumerate(self.accumulators)}
        columns = [
            aggregate.finish([states[place[each]] for each in aggregate.accumulators], cells)
            for _, aggregate in self.aggregates
        ]
        found = [*keys, *columns]
        return pa.Table.from_arrays(
            [column if column.type == field.type else column.cast(field.type)
             for column, field in zip(found, self.schema, strict=True)],
            schema=self.schema,
        )  # fmt: skip
