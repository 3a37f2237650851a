"""Pre-aggregation for windows of assigners: events are folded into partial aggregates of runs of events, and windows
are aggregated from these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.retained_events import RetainedEvents, SortedEvents
from manager.slices import PartialSums, WindowResults
from policies.assigners import (
    CountedWindows,
    EventRuns,
    GridsTogether,
    GridWindows,
    LiveEvents,
    SessionWindows,
    WindowMembers,
)
from windowing.aggregates.accumulators import Accumulator, EventColumns, State
from windowing.aggregates.declared import RowWindows
from windowing.aggregates.groups import Groups, Keys
from windowing.bolts.aggregate_bolt import BoundAggregates
from windowing.columns import take_rows
from windowing.timestamps import FOREVER
from windowing.window import TupleWindow, in_one_piece

if TYPE_CHECKING:
    from numpy.typing import NDArray


class RunSums(PartialSums):
    """Folds events into rows of partial aggregates, and aggregates windows from these rows.

    A row stands for a run of events of one key that are in the same windows, whatever other events come
    (``SessionWindows.runs``, ``GridWindows.runs``, ``CountedWindows.runs``). Its time is that of the first event. So
    admission, windows, firings and accounts work with rows as with events, and the state grows with the number of runs,
    not of events.

    Rows are in order of arrival, which decides among events of equal time. Within a run, rows that have been in a
    window come before newer rows.
    """

    def __init__(
        self,
        aggregates: BoundAggregates,
        assigner: SessionWindows | GridWindows | GridsTogether | CountedWindows,
        key: Sequence[str],
        streams: int,
        traced_column: tuple[str, Accumulator] | None = None,
    ) -> None:
        """``key``: the key columns of windows. See ``PartialSums`` for the other arguments."""
        super().__init__(aggregates, streams, traced_column)
        self.assigner = assigner
        self._key_columns = tuple(dict.fromkeys((*key, *aggregates.by)))
        """The columns that rows have in common with events: the key of windows, and the key of results."""
        self._extra_key_columns = tuple(name for name in aggregates.by if name not in key)
        """The columns of the result's key that are not in the windows' key; a run has a row for each of their
        values."""

    @property
    def _prefix(self) -> str:
        prefix = "_sum."
        while any(name.startswith(prefix) for name in self._key_columns):
            prefix = f"_{prefix}"
        return prefix

    @property
    def depends_on_counts(self) -> bool:
        """True if the run of an event depends on the number of events before it."""
        return isinstance(self.assigner, CountedWindows)

    def fold(
        self, events: RetainedEvents, codes: NDArray[np.int64] | None, before: RetainedEvents | None = None
    ) -> RetainedEvents:
        """Fold one or more events, in order of arrival, into rows.

        ``codes``: the codes of their keys; None without a key. ``before``: if windows count events, the live rows of
        earlier events, whose keys have codes of the same kind.
        """
        runs = self._runs_of(events, codes) if before is None else self._runs_after(before, events, codes)
        extra_keys = self._extra_keys(events)
        groups = Groups(runs.numbers * extra_keys.size + extra_keys.codes, len(runs.starts) * extra_keys.size)
        columns = EventColumns(self._columns_read(events.payload), events.times)
        states = [accumulator.fold(columns, groups) for accumulator in self.accumulators]
        return self._rows(events, runs, groups, states, self._event_counts(events.streams, groups))

    def merge(self, rows: RetainedEvents, codes: NDArray[np.int64] | None) -> RetainedEvents:
        """Merge one or more rows, in order of arrival. The rows of a run become up to two rows: of the events that
        have been in a window, and of the other events. ``codes``: as for ``fold``."""
        runs = self._runs_of(rows, codes)
        extra_keys = self._extra_keys(rows)
        fresh = np.ones(len(rows), np.int64) if rows.accounted is None else (~rows.accounted).astype(np.int64)
        groups = Groups(
            (2 * runs.numbers + fresh) * extra_keys.size + extra_keys.codes, 2 * len(runs.starts) * extra_keys.size
        )
        return self._rows(rows, runs, groups, *self._merged_rows(rows, groups))

    def results(self, events: SortedEvents, windows: WindowMembers) -> WindowResults:
        """Returns the result rows of windows; ``events``: the rows that they are aggregated from."""
        row_indices = events.row_indices(windows.members)
        order = np.argsort(row_indices)  # by arrival
        rows = events.take(row_indices[order])
        window_of_row = np.repeat(np.arange(len(windows)), np.diff(windows.offsets))[order]
        keys = Keys.of(
            [in_one_piece(rows.payload.column(name)) for name in self.aggregates.by],
            len(rows),
            ordered=bool(self._extra_key_columns),
        )
        if self._extra_key_columns:
            groups = Groups(window_of_row * keys.size + keys.codes, len(windows) * keys.size)
            window_of_result, codes = groups.present_codes // keys.size, groups.present_codes % keys.size
        else:  # a window has one row
            groups = Groups(window_of_row, len(windows))
            window_of_result, codes = groups.present_codes, keys.codes[_first_rows(groups)]
        states, weights = self._merged_rows(rows, groups)
        has_start = None if self.assigner.ends_by_time else np.zeros(len(groups), np.bool_)
        row_windows = RowWindows(
            weights.sum(axis=1), windows.starts[window_of_result], windows.ends[window_of_result], has_start
        )
        return WindowResults(self.aggregates.result(keys.columns(codes), states, row_windows), window_of_result)

    def traced_states(self, payload: pa.Table) -> State:
        """Returns the state of the tracing accumulator of rows with this payload."""
        assert self.trace_index is not None
        return self._loaded_states(payload)[self.trace_index]

    def _runs_of(self, rows: RetainedEvents, codes: NDArray[np.int64] | None) -> EventRuns:
        """Returns the runs of these rows."""
        keys = None if codes is None else pa.array(codes).dictionary_encode().indices.to_numpy().astype(np.int64)
        weights = None if rows.weights is None else rows.weights.sum(axis=1)
        return self.assigner.runs(
            LiveEvents(
                rows.times, keys, closed_until=rows.closed_until, gaps=rows.gaps, covered_until=rows.covered_until,
                accounted=rows.accounted,
                weights=weights,
            )
        )  # fmt: skip

    def _runs_after(self, before: RetainedEvents, events: RetainedEvents, codes: NDArray[np.int64] | None) -> EventRuns:
        """Returns the runs of events. A run may continue a run of ``before``, the rows of earlier events."""
        assert before.keys is not None
        assert codes is not None
        no_columns, old_count = events.payload.select([]), len(before)
        one_event_each = np.eye(1, self.streams, dtype=np.int64).repeat(len(events), axis=0)
        new_events = RetainedEvents(
            times=events.times, payload=no_columns, covered_until=events.times, weights=one_event_each
        )
        old_rows = replace(before, payload=no_columns)
        numbers = self._runs_of(
            RetainedEvents.concat([old_rows, new_events]), np.concatenate([before.keys, codes])
        ).numbers[old_count:]
        distinct, numbers = np.unique(numbers, return_inverse=True)
        runs = Groups(numbers, len(distinct))
        starts = runs.reduce(np.minimum, events.times, FOREVER)
        return EventRuns(numbers, starts, runs.reduce(np.maximum, events.times, -FOREVER))

    def _extra_keys(self, rows: RetainedEvents) -> Keys:
        """Returns the values of the columns by which a run is divided into several rows."""
        return Keys.of([in_one_piece(rows.payload.column(name)) for name in self._extra_key_columns], len(rows))

    def _merged_rows(self, rows: RetainedEvents, groups: Groups) -> tuple[list[State], NDArray[np.int64]]:
        """Returns the merged states of groups of rows, and the number of events of each group, by input stream."""
        assert rows.weights is not None
        return self._merged_states(self._loaded_states(rows.payload), rows.weights, groups)

    def _rows(
        self,
        source: RetainedEvents,
        runs: EventRuns,
        groups: Groups,
        states: Sequence[State],
        weights: NDArray[np.int64],
    ) -> RetainedEvents:
        """Returns a row for each group of events or rows; a group belongs to one run."""
        first_rows = _first_rows(groups)
        run = runs.numbers[first_rows]
        key_table = take_rows(source.payload.select(list(self._key_columns)), first_rows)
        columns: dict[str, Any] = dict(zip(key_table.column_names, key_table.columns, strict=True))
        for accumulator, state, names in zip(self.accumulators, states, self.columns, strict=True):
            columns |= zip(names, accumulator.to_columns(state), strict=True)
        if not columns:  # a count of all events needs only the weights
            columns["nothing"] = pa.nulls(len(groups))
        closed_until = source.closed_until
        if closed_until is not None:
            closed_until = groups.reduce(np.minimum, np.array(closed_until), FOREVER)
        return RetainedEvents(
            times=runs.starts[run],
            payload=pa.table(columns),
            keys=None if source.keys is None else source.keys[first_rows],
            closed_until=closed_until,
            covered_until=None if runs.covered_until is None else runs.covered_until[run],
            weights=weights,
            accounted=None if source.weights is None or source.accounted is None else source.accounted[first_rows],
        )


def _first_rows(groups: Groups) -> NDArray[np.int64]:
    """Returns the first row of each group."""
    first_rows = np.empty(len(groups), np.int64)
    numbers = groups.numbers
    first_rows[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return first_rows


# Fired windows.


@dataclass(frozen=True)
class FiredSums:
    """Fired windows whose results are computed from partial aggregates, without calling the bolt."""

    sums: RunSums
    events: SortedEvents
    """The rows of the task."""
    windows: WindowMembers
    """The windows and their rows."""
    fresh: NDArray[np.bool_]
    """A mask of the members that have been in no window before."""
    tuple_windows: Sequence[TupleWindow] | None
    """The windows as TupleWindows, which hold rows, not events; None if they are not needed."""

    def __len__(self) -> int:
        return len(self.windows)

    def filter(self, mask: NDArray[np.bool_]) -> FiredSums:
        """Returns the windows for which the mask is true."""
        if mask.all():
            return self
        tuple_windows = None
        if self.tuple_windows is not None:
            tuple_windows = [self.tuple_windows[index] for index in np.flatnonzero(mask).tolist()]
        fresh = self.fresh[np.repeat(mask, np.diff(self.windows.offsets))]
        return replace(self, windows=self.windows.filter(mask), fresh=fresh, tuple_windows=tuple_windows)

    def results(self) -> WindowResults:
        """Returns the result rows of all windows."""
        return self.sums.results(self.events, self.windows)

    def traced_by_window(self) -> Iterator[tuple[State, NDArray[np.bool_]]]:
        """Yields, for each window, the tracing states of its rows in order of arrival, and a mask of the rows that were
        in no window before."""
        offsets = self.windows.offsets.tolist()
        for low, high in pairwise(offsets):
            row_indices = self.events.row_indices(self.windows.members[low:high])
            order = np.argsort(row_indices)
            yield self.sums.traced_states(self.events.take(row_indices[order]).payload), self.fresh[low:high][order]
