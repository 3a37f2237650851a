"""Partial results that are kept of a bolt's events in place of them, whatever windows they are joined to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from windowing.aggregates.accumulators import Accumulator, State
from windowing.aggregates.groups import Groups
from windowing.bolts.aggregate_bolt import BoundAggregates
from windowing.window import whole

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Joined:
    """Result rows of some windows."""

    rows: pa.Table
    windows: NDArray[np.int64]
    """Per row, the index of its window."""
    traced: State | None = None
    """State of the accumulator for tracing; None where tracing is off."""


class Summing:
    """The partial results that are kept of a bolt's events in place of them."""

    def __init__(
        self, aggregates: BoundAggregates, streams: int, traced: tuple[str, Accumulator] | None = None
    ) -> None:
        """``streams``: the number of inputs. ``traced``: a column and the accumulator that collects it for tracing;
        None where tracing is off."""
        self.aggregates, self.streams = aggregates, streams
        self.accumulators: Sequence[Accumulator] = aggregates.accumulators
        self._read = {
            *aggregates.by,
            *(field for _, accumulator in aggregates.aggregates for field in accumulator.fields),
        }
        self.traced: int | None = None
        """Index of the accumulator for tracing; None where tracing is off."""
        if traced is not None:
            self._read.add(traced[0])
            self.accumulators = tuple(dict.fromkeys((*self.accumulators, traced[1])))
            self.traced = self.accumulators.index(traced[1])

    @cached_property
    def columns(self) -> list[list[str]]:
        """Per accumulator, the column names under which its state is stored."""
        return [
            [f"{self._prefix}{index}.{name}" for name in accumulator.columns]
            for index, accumulator in enumerate(self.accumulators)
        ]

    @property
    def _prefix(self) -> str:
        """The first letters of these names, which no other stored column has."""
        return ""

    def _read_of(self, payload: pa.RecordBatch | pa.Table) -> dict[str, pa.Array]:
        """The columns of events that are read, each in one piece."""
        columns = zip(payload.schema.names, payload.columns, strict=True)
        return {name: whole(column) for name, column in columns if name in self._read}

    def _weights(self, codes: NDArray[np.int8] | None, groups: Groups) -> NDArray[np.int64]:
        """Number of events of each group, by input; ``codes`` is the input of each event."""
        if self.streams == 1:
            return groups.counts[:, None]
        codes = np.zeros(len(groups.codes), np.int8) if codes is None else codes
        return np.column_stack([groups.sums(codes == stream) for stream in range(self.streams)])

    def _loaded_states(self, payload: pa.RecordBatch | pa.Table) -> list[State]:
        """The states that rows were stored with."""
        return [
            accumulator.loaded([whole(payload.column(name)) for name in columns])
            for accumulator, columns in zip(self.accumulators, self.columns, strict=True)
        ]

    def _merged_states(
        self, states: Sequence[State], weights: NDArray[np.int64], groups: Groups
    ) -> tuple[list[State], NDArray[np.int64]]:
        """The states of groups of rows, and the number of events each stands for, by input."""
        merged = [
            accumulator.merge(state, groups) for accumulator, state in zip(self.accumulators, states, strict=True)
        ]
        return merged, np.column_stack([groups.sums(counts) for counts in weights.T])
