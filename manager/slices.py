"""Partial aggregates in place of events: one row per slice of time and key, merged into the results of windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.event_queue import SettledEvents
from policies.storm import SliceGrid
from windowing.aggregates.accumulators import Accumulator, DenseAccumulator, EventColumns, State
from windowing.aggregates.declared import RowWindows
from windowing.aggregates.groups import Groups, Keys
from windowing.bolts.aggregate_bolt import BoundAggregates
from windowing.columns import group_numbers
from windowing.events import Events
from windowing.window import in_one_piece

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from windowing.window import TupleWindow


# What all partial aggregates have in common, whatever windows they are merged into.


@dataclass(frozen=True)
class WindowResults:
    """The result rows of some windows."""

    rows: pa.Table
    windows: NDArray[np.int64]
    """The index of the window of each row."""
    traced_states: State | None = None
    """The state, with an entry per row, of the accumulator for tracing; None if tracing is off."""


class PartialSums:
    """Folds a bolt's events into partial aggregates, which are stored in place of the events."""

    def __init__(
        self, aggregates: BoundAggregates, streams: int, traced_column: tuple[str, Accumulator] | None = None
    ) -> None:
        """``streams``: the number of inputs. ``traced_column``: a column and the accumulator that collects it for
        tracing; None if tracing is off."""
        self.aggregates, self.streams = aggregates, streams
        self.accumulators: Sequence[Accumulator] = aggregates.accumulators
        self._columns_needed = {
            *aggregates.by,
            *(field for _, accumulator in aggregates.aggregates for field in accumulator.fields),
        }
        self.trace_index: int | None = None
        """Index of the accumulator for tracing; None if tracing is off."""
        if traced_column is not None:
            self._columns_needed.add(traced_column[0])
            self.accumulators = tuple(dict.fromkeys((*self.accumulators, traced_column[1])))
            self.trace_index = self.accumulators.index(traced_column[1])

    @cached_property
    def columns(self) -> list[list[str]]:
        """For each accumulator, the names of the columns that store its state."""
        return [
            [f"{self._prefix}{index}.{name}" for name in accumulator.columns]
            for index, accumulator in enumerate(self.accumulators)
        ]

    @property
    def _prefix(self) -> str:
        """Prefix of the names in ``columns``; no other stored column has it."""
        return ""

    def _columns_read(self, payload: pa.RecordBatch | pa.Table) -> dict[str, pa.Array]:
        """Returns the columns that the aggregates read, each in one piece."""
        columns = zip(payload.schema.names, payload.columns, strict=True)
        return {name: in_one_piece(column) for name, column in columns if name in self._columns_needed}

    def _event_counts(self, codes: NDArray[np.int8] | None, groups: Groups) -> NDArray[np.int64]:
        """Returns the number of events per group (rows) and input (columns). ``codes``: the input of each event."""
        if self.streams == 1:
            return groups.counts[:, None]
        codes = np.zeros(len(groups.codes), np.int8) if codes is None else codes
        return np.column_stack([groups.sums(codes == stream) for stream in range(self.streams)])

    def _loaded_states(self, payload: pa.RecordBatch | pa.Table) -> list[State]:
        """Returns the states of the accumulators, from the columns of stored rows."""
        return [
            accumulator.from_columns([in_one_piece(payload.column(name)) for name in columns])
            for accumulator, columns in zip(self.accumulators, self.columns, strict=True)
        ]

    def _merged_states(
        self, states: Sequence[State], weights: NDArray[np.int64], groups: Groups
    ) -> tuple[list[State], NDArray[np.int64]]:
        """Merge the rows of each group. Returns the states of the groups, and the number of events per group and
        input."""
        merged = [
            accumulator.merge(state, groups) for accumulator, state in zip(self.accumulators, states, strict=True)
        ]
        return merged, np.column_stack([groups.sums(counts) for counts in weights.T])


# Overlapping windows are merged from slices with two stacks: at most three merges per slice, however many windows hold
# the slice.


if TYPE_CHECKING:
    DenseStates = list[list[NDArray[Any]]]
    """The columns of each accumulator's state, with an entry for every key. The last state is the number of events."""

_MEMORY = 1 << 28
"""Maximum size of the stacks in bytes."""
_PIECE_ROWS = 1 << 19
"""Approximate number of result rows that are yielded at once."""


def dense_is_cheaper(
    accumulators: Sequence[Accumulator], keys: int, rows: NDArray[np.int64], slices: NDArray[np.int64]
) -> bool:
    """True if merging whole slices, with an entry for every key, costs less than merging each window from its rows.

    ``rows`` and ``slices`` are the numbers of rows and slices of each window.
    """
    if not all(isinstance(accumulator, DenseAccumulator) for accumulator in accumulators):
        return False
    columns = 1 + sum(len(accumulator.columns) for accumulator in accumulators)
    if keys * columns * 8 * int(slices.max()) > _MEMORY:
        return False
    dense_cost = len(rows) * (3.0 * keys * columns + 30_000)
    row_cost = float(rows.sum()) * (20 + 6 * columns)
    return dense_cost < row_cost


def merge_overlapping(
    slices: DenseSlices, starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], list[State], NDArray[np.int64]]]:
    """Merge slices into windows. Window i is the slices from ``starts[i]`` to before ``stops[i]``; both arrays ascend.

    Yields arrays with an entry per result row, in order of window and key: window, key, states, number of events.
    """
    stacks = _TwoStackQueue(slices)
    merged: list[tuple[NDArray[np.int64], DenseStates]] = []
    windows: list[int] = []
    waiting_rows = 0
    for window, (begin, end) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        dense_states = stacks.window(begin, end)
        codes = np.flatnonzero(dense_states[-1][0])
        merged.append((codes, [[column[codes] for column in state] for state in dense_states]))
        windows.append(window)
        waiting_rows += len(codes)
        if waiting_rows >= _PIECE_ROWS:
            yield _concat_results(windows, merged)
            merged, windows, waiting_rows = [], [], 0
    if merged:
        yield _concat_results(windows, merged)


class DenseSlices:
    """Slices with an entry for every key, made from rows.

    Row i has the key ``codes[i]``, one of ``keys`` keys. The rows of slice s are those from ``edges[s]`` to ``edges[s +
    1]``.
    """

    def __init__(
        self,
        accumulators: Sequence[Accumulator],
        keys: int,
        codes: NDArray[np.int64],
        edges: NDArray[np.int64],
        states: Sequence[State],
        events: NDArray[np.int64],
    ) -> None:
        self.accumulators = [accumulator for accumulator in accumulators if isinstance(accumulator, DenseAccumulator)]
        self.keys, self.codes, self.edges = keys, codes, edges.tolist()
        self.columns: DenseStates = [*states, [events]]

    def empty(self) -> DenseStates:
        """Returns the states of a slice without events."""
        return [*(accumulator.empty(self.keys) for accumulator in self.accumulators), [np.zeros(self.keys, np.int64)]]

    def states_of(self, number: int) -> DenseStates:
        """Returns the states of a slice."""
        low, high = self.edges[number], self.edges[number + 1]
        if high - low == self.keys:  # every key, and in their order
            return [[column[low:high] for column in state] for state in self.columns]
        dense_states, codes = self.empty(), self.codes[low:high]
        for state, columns in zip(dense_states, self.columns, strict=True):
            for target, column in zip(state, columns, strict=True):
                target[codes] = column[low:high]
        return dense_states

    def merge(self, earlier: DenseStates, later: DenseStates) -> DenseStates:
        """Returns the states of two runs of slices together."""
        states = [
            accumulator.merge_entries(before, after)
            for accumulator, before, after in zip(self.accumulators, earlier[:-1], later[:-1], strict=True)
        ]
        return [*states, [earlier[-1][0] + later[-1][0]]]


class _TwoStackQueue:
    """The slices of a window that moves forward: slices are added at the back and dropped at the front.

    ``back`` is the merge of the slices after the front. ``front[i]`` is the merge of the front's slices from the i-th.
    """

    def __init__(self, slices: DenseSlices) -> None:
        self.slices = slices
        self.front: list[DenseStates] = []
        self.front_start = self.front_end = self.back_end = 0
        self.back: DenseStates | None = None

    def window(self, begin: int, end: int) -> DenseStates:
        """Returns the merge of the slices from ``begin`` up to ``end``."""
        if begin >= self.front_end:
            self._flip(begin, end)
        for number in range(self.back_end, end):
            slice_states = self.slices.states_of(number)
            self.back = slice_states if self.back is None else self.slices.merge(self.back, slice_states)
        self.back_end = end
        front = self.front[begin - self.front_start]
        return front if self.back is None else self.slices.merge(front, self.back)

    def _flip(self, begin: int, end: int) -> None:
        merged = self.slices.states_of(end - 1)
        front = [merged]
        for number in range(end - 2, begin - 1, -1):
            merged = self.slices.merge(self.slices.states_of(number), merged)
            front.append(merged)
        self.front = front[::-1]
        self.front_start, self.front_end, self.back_end, self.back = begin, end, end, None


def _concat_results(
    windows: list[int], merged: list[tuple[NDArray[np.int64], DenseStates]]
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[State], NDArray[np.int64]]:
    codes = np.concatenate([window_codes for window_codes, _ in merged])
    window_of_result = np.repeat(np.array(windows, np.int64), [len(window_codes) for window_codes, _ in merged])
    states = [
        [np.concatenate(columns) for columns in zip(*accumulator_states, strict=True)]
        for accumulator_states in zip(*(dense_states for _, dense_states in merged), strict=True)
    ]
    return window_of_result, codes, states[:-1], states[-1][0]


# Pre-aggregation: arriving events are folded into one row per slice of time and key, and the rows are merged into
# windows.


_ROWS = 1 << 21
"""Number of rows merged at once, where each window is merged separately from its rows."""
_CODE_LIMIT = 1 << 62


@dataclass(frozen=True)
class PartialAggregates:
    """One row per slice and key, in order of slice."""

    keys: Keys
    slices: NDArray[np.int64]
    """Slice number of each row, from 0, ascending."""
    states: list[State]
    weights: NDArray[np.int64]
    """Number of events of each row, by stream."""


class SliceSums(PartialSums):
    """Folds a bolt's events by slice and key, and merges the folded rows into windows.

    The queue holds a folded row as an event whose time is the end of the slice. The row is settled when the slice can
    get no more events. A window is a run of folded rows.
    """

    def __init__(
        self,
        aggregates: BoundAggregates,
        slices: SliceGrid,
        streams: int,
        traced_column: tuple[str, Accumulator] | None = None,
    ) -> None:
        super().__init__(aggregates, streams, traced_column)
        self.slices = slices
        self._key_types = [aggregates.schema.field(name).type for name in aggregates.by]

    @property
    def key_columns(self) -> list[str]:
        """The column names under which the key is stored."""
        return [f"key.{name}" for name in self.aggregates.by]

    def fold(self, events: Events) -> Events:
        """Returns one folded row per slice and key of these events, which are in order of arrival."""
        columns = self._columns_read(events.payload)
        keys = Keys.of([columns[name] for name in self.aggregates.by], len(events))
        slices, groups = _by_slice(self.slices.numbers(events.timestamps), keys)
        folded = EventColumns(columns, events.timestamps)
        states = [accumulator.fold(folded, groups) for accumulator in self.accumulators]
        return self._folded_rows(keys, slices, groups, states, self._event_counts(events.streams, groups))

    def compact(self, rows: Events, frontier: int | None) -> Events:
        """Merge the rows after the frontier of the last evaluation (microseconds) by slice and key. The rows before
        the frontier stay, because windows refer to their positions."""
        settled_count = 0 if frontier is None else int(np.searchsorted(rows.timestamps, frontier, side="right"))
        if settled_count == len(rows):
            return rows
        merged = self.merge(rows.slice(settled_count, len(rows)))
        return Events.concat([rows.slice(0, settled_count), merged]) if settled_count else merged

    def merge(self, rows: Events) -> Events:
        """Merge the rows of each slice and key into one row. ``rows`` are in order of slice, then of arrival."""
        sums = self._loaded(rows, ordered=False)
        slices, groups = _by_slice(self.slices.numbers(rows.timestamps), sums.keys)
        return self._folded_rows(sums.keys, slices, groups, *self._merged_states(sums.states, sums.weights, groups))

    def traced_states(self, rows: Events) -> State:
        """Returns the states of the accumulator for tracing, one per row."""
        assert self.trace_index is not None
        return self._loaded(rows, ordered=False).states[self.trace_index]

    def keys_of(self, rows: Events) -> pa.Table:
        """Returns a table of the key of each row."""
        arrays = [rows.payload.column(name) for name in self.key_columns]
        return pa.table(arrays, names=list(self.aggregates.by))

    def results(self, windows: Sequence[TupleWindow]) -> Iterator[WindowResults]:
        """Yield the results of windows, several windows at a time. The windows are in order and read one queue of
        folded rows."""
        source = windows[0].source
        assert isinstance(source, SettledEvents)
        low, high = windows[0].positions.start, windows[-1].positions.stop
        rows = Events.concat(source.pieces(low, high))
        sums = self._merged_by_slice(self._loaded(rows, ordered=True))  # the rows of a window are in order of the key
        starts = np.array([window.positions.start for window in windows]) - low
        stops = np.array([window.positions.stop for window in windows]) - low
        numbers = group_numbers(rows.timestamps)
        edges = np.searchsorted(sums.slices, np.arange(int(numbers[-1]) + 2))
        first_slices, stop_slices = numbers[starts], numbers[stops - 1] + 1  # windows hold whole slices
        disjoint = bool((first_slices[1:] >= stop_slices[:-1]).all())
        sizes = edges[stop_slices] - edges[first_slices]
        if not disjoint and dense_is_cheaper(self.accumulators, sums.keys.size, sizes, stop_slices - first_slices):
            event_counts = sums.weights.sum(axis=1)
            dense = DenseSlices(self.accumulators, sums.keys.size, sums.keys.codes, edges, sums.states, event_counts)
            parts = merge_overlapping(dense, first_slices, stop_slices)
        else:
            parts = self._merge_separately(sums, edges[first_slices], edges[stop_slices])
        bounds = [(window.start_timestamp or 0, window.end_timestamp) for window in windows]
        start_times, end_times = (np.array(times, np.int64) for times in zip(*bounds, strict=True))
        for window_of_result, codes, states, events in parts:
            row_windows = RowWindows(events, start_times[window_of_result], end_times[window_of_result])
            rows_of_windows = self.aggregates.result(sums.keys.columns(codes), states, row_windows)
            yield WindowResults(
                rows_of_windows, window_of_result, None if self.trace_index is None else states[self.trace_index]
            )

    def _merge_separately(
        self, sums: PartialAggregates, starts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], list[State], NDArray[np.int64]]]:
        """Merge each window from all of its rows. Yields as ``merge_overlapping`` does."""
        sizes = stops - starts
        chunks = np.flatnonzero(np.diff(np.cumsum(sizes) // _ROWS)) + 1
        size, events = sums.keys.size, sums.weights.sum(axis=1)
        for low, high in pairwise([0, *chunks.tolist(), len(sizes)]):
            chunk_sizes = sizes[low:high]
            window_of_row = np.repeat(np.arange(high - low), chunk_sizes)
            rows = np.arange(len(window_of_row)) + np.repeat(
                starts[low:high] - (np.cumsum(chunk_sizes) - chunk_sizes), chunk_sizes
            )
            groups = Groups(window_of_row * size + sums.keys.codes[rows], (high - low) * size)
            states = [
                accumulator.merge(accumulator.take(state, rows), groups)
                for accumulator, state in zip(self.accumulators, sums.states, strict=True)
            ]
            yield groups.present_codes // size + low, groups.present_codes % size, states, groups.sums(events[rows])

    def _merged_by_slice(self, sums: PartialAggregates) -> PartialAggregates:
        """Returns one row per slice and key, in order of slice and key."""
        codes = sums.slices * sums.keys.size + sums.keys.codes
        if (codes[1:] > codes[:-1]).all():
            return sums
        groups = Groups(codes, (int(sums.slices[-1]) + 1) * sums.keys.size)
        keys = _RecodedKeys(sums.keys, groups.present_codes % sums.keys.size)
        return PartialAggregates(
            keys, groups.present_codes // sums.keys.size, *self._merged_states(sums.states, sums.weights, groups)
        )

    def _folded_rows(
        self,
        keys: Keys,
        slices: NDArray[np.int64],
        groups: Groups,
        states: Sequence[State],
        weights: NDArray[np.int64],
    ) -> Events:
        return self.rows(self.slices.times(slices), keys.columns(groups.present_codes % keys.size), states, weights)

    def rows(
        self, times: NDArray[np.int64], keys: Sequence[pa.Array], states: Sequence[State], weights: NDArray[np.int64]
    ) -> Events:
        """Returns folded rows with these keys and states. ``times``: the last microsecond of each row's slice.
        ``weights``: the number of events of each row, by stream."""
        arrays = [column.cast(kind) for column, kind in zip(keys, self._key_types, strict=True)]
        names = list(self.key_columns)
        for accumulator, state, columns in zip(self.accumulators, states, self.columns, strict=True):
            arrays.extend(accumulator.to_columns(state))
            names.extend(columns)
        if not arrays:  # a count of all events needs only the weights
            arrays, names = [pa.nulls(len(times))], ["nothing"]
        return Events(times, pa.RecordBatch.from_arrays(arrays, names=names), None, weights)

    def _loaded(self, rows: Events, *, ordered: bool) -> PartialAggregates:
        payload, weights = rows.payload, rows.weights
        assert weights is not None
        keys = Keys.of([payload.column(name) for name in self.key_columns], len(rows), ordered=ordered)
        keys = _UsedKeys(keys) if ordered else keys
        return PartialAggregates(keys, group_numbers(rows.timestamps), self._loaded_states(payload), weights)


class _RecodedKeys(Keys):
    """The keys of other rows; the codes mean the same keys."""

    def __init__(self, keys: Keys, codes: NDArray[np.int64]) -> None:
        self._keys, self.codes, self.size = keys, codes, keys.size

    def columns(self, codes: NDArray[np.int64]) -> list[pa.Array]:
        return self._keys.columns(codes)


class _UsedKeys(Keys):
    """The same keys in the same order, renumbered to leave out codes that no row has."""

    def __init__(self, keys: Keys) -> None:
        is_used = np.zeros(keys.size, np.bool_)
        is_used[keys.codes] = True
        self._keys, self._used_codes = keys, np.flatnonzero(is_used)
        self.codes, self.size = (np.cumsum(is_used) - 1)[keys.codes], len(self._used_codes)

    def columns(self, codes: NDArray[np.int64]) -> list[pa.Array]:
        return self._keys.columns(self._used_codes[codes])


def _by_slice(numbers: NDArray[np.int64], keys: Keys) -> tuple[NDArray[np.int64], Groups]:
    """Group rows by slice and key, in this order. Returns the slice number of each group, and the groups."""
    low = int(numbers.min())
    span = int(numbers.max()) - low + 1
    if span * keys.size < _CODE_LIMIT:
        groups = Groups((numbers - low) * keys.size + keys.codes, span * keys.size)
        return groups.present_codes // keys.size + low, groups
    distinct_numbers, slice_codes = np.unique(numbers, return_inverse=True)
    groups = Groups(slice_codes * keys.size + keys.codes, len(distinct_numbers) * keys.size)
    return distinct_numbers[groups.present_codes // keys.size], groups
