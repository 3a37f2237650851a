"""Aggregates that know the columns of their input, and with them the columns of the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    fill: Mapping[str, pa.Scalar] = field(default_factory=dict)
    """The values of aggregates for windows without events, by column, where they are not ``of_nothing``."""

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
        return self._table([*keys, *columns])

    def of_nothing(self, keys: Sequence[pa.Array], cells: Cells) -> pa.Table:
        """The rows of windows without events: their keys, and what each aggregate is of no events."""
        columns = [self._of_nothing(name, aggregate, cells) for name, aggregate in self.aggregates]
        return self._table([*keys, *columns])

    def _of_nothing(self, name: str, aggregate: Aggregate, cells: Cells) -> pa.Array:
        if name in self.fill:
            return pa.repeat(self.fill[name], len(cells.events))
        if not aggregate.accumulators:  # the window alone tells it
            return aggregate.finish((), cells)
        return pa.array([aggregate.of_nothing] * len(cells.events), aggregate.result)

    def _table(self, columns: Sequence[pa.Array]) -> pa.Table:
        """The columns of the result, as their types are declared."""
        return pa.Table.from_arrays(
            [column if column.type == declared.type else column.cast(declared.type)
             for column, declared in zip(columns, self.schema, strict=True)],
            schema=self.schema,
        )  # fmt: skip
