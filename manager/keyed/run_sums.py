"""Pre-aggregation of windows that assigners form: the events of a task are folded into one row per run of events and
group, and windows are joined from such rows.
"""

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
from windowing.window import TupleWindow, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray


# A run of events that the same windows will hold, whatever comes, is a row: an event in place of all of them.


class RunSums(PartialSums):
    """Folds the events of windows that assigners form, and joins the rows into windows.

    A folded row stands for a run of events of one key (``SessionWindows.runs``, ``GridWindows.runs``,
    ``CountedWindows.runs``). Its time is the time of the first event; the row of a session covers time up to the gap
    after its last event. The row is in a window if and only if its events are. So admission, windows, firings and
    accounts work as for events, and the state grows with the runs, not with the events.

    Rows are in order of arrival, which decides among events of equal time. Within a run, rows that have been in a
    window come before newer rows.
    """

    def __init__(
        self,
        aggregates: BoundAggregates,
        assigner: SessionWindows | GridWindows | GridsTogether | CountedWindows,
        key: Sequence[str],
        streams: int,
        traced: tuple[str, Accumulator] | None = None,
    ) -> None:
        """``key``: the columns of the key of windows; the rest as for ``PartialSums``."""
        super().__init__(aggregates, streams, traced)
        self.assigner = assigner
        self._named = tuple(dict.fromkeys((*key, *aggregates.by)))
        """Columns of events that rows have too: those of the key, and of the key of the result."""
        self._split_by = tuple(name for name in aggregates.by if name not in key)
        """Columns by which the events of one run are divided among several rows."""

    @property
    def _prefix(self) -> str:
        prefix = "_sum."
        while any(name.startswith(prefix) for name in self._named):
            prefix = f"_{prefix}"
        return prefix

    @property
    def counts(self) -> bool:
        """True if the run of an event depends on how many came before it."""
        return isinstance(self.assigner, CountedWindows)

    def fold(
        self, events: RetainedEvents, codes: NDArray[np.int64] | None, before: RetainedEvents | None = None
    ) -> RetainedEvents:
        """Fold events, given in order of arrival, that are live at the same time; at least one. ``codes``: the codes of
        their keys; None if they have no key. ``before``: the live rows of earlier events, with keys by the same codes,
        if windows count events."""
        runs = self._runs_of(events, codes) if before is None else self._runs_after(before, events, codes)
        split = self._split(events)
        groups = Groups(runs.numbers * split.size + split.codes, len(runs.starts) * split.size)
        folded = EventColumns(self._read_of(events.payload), events.times)
        states = [accumulator.fold(folded, groups) for accumulator in self.accumulators]
        return self._rows(events, runs, groups, states, self._weights(events.streams, groups))

    def merge(self, rows: RetainedEvents, codes: NDArray[np.int64] | None) -> RetainedEvents:
        """Merge rows, given in order of arrival, that are live at the same time; at least one. Rows of one run become
        one row, if all of them have been in a window, or none. ``codes`` as for ``fold``."""
        runs = self._runs_of(rows, codes)
        split = self._split(rows)
        fresh = np.ones(len(rows), np.int64) if rows.accounted is None else (~rows.accounted).astype(np.int64)
        groups = Groups((2 * runs.numbers + fresh) * split.size + split.codes, 2 * len(runs.starts) * split.size)
        return self._rows(rows, runs, groups, *self._merged_rows(rows, groups))

    def joined(self, events: SortedEvents, piece: WindowMembers) -> WindowResults:
        """Returns the results of windows of these rows."""
        places = events.places(piece.members)
        order = np.argsort(places)  # by arrival
        rows = events.taken(places[order])
        windows = np.repeat(np.arange(len(piece)), np.diff(piece.offsets))[order]
        keys = Keys.of(
            [whole(rows.payload.column(name)) for name in self.aggregates.by], len(rows), ordered=bool(self._split_by)
        )
        if self._split_by:
            groups = Groups(windows * keys.size + keys.codes, len(piece) * keys.size)
            of_window, codes = groups.present_codes // keys.size, groups.present_codes % keys.size
        else:  # a window has one row
            groups = Groups(windows, len(piece))
            of_window, codes = groups.present_codes, keys.codes[_firsts(groups)]
        states, weights = self._merged_rows(rows, groups)
        known = None if self.assigner.ends_by_time else np.zeros(len(groups), np.bool_)
        cells = RowWindows(weights.sum(axis=1), piece.starts[of_window], piece.ends[of_window], known)
        return WindowResults(self.aggregates.result(keys.columns(codes), states, cells), of_window)

    def traced_states(self, payload: pa.Table) -> State:
        """Returns the tracing state of some rows; ``payload`` is their payload."""
        assert self.traced is not None
        return self._loaded_states(payload)[self.traced]

    def _runs_of(self, rows: RetainedEvents, codes: NDArray[np.int64] | None) -> EventRuns:
        """Returns the runs of these rows."""
        keys = None if codes is None else pa.array(codes).dictionary_encode().indices.to_numpy().astype(np.int64)
        weights = None if rows.weights is None else rows.weights.sum(axis=1)
        return self.assigner.runs(
            LiveEvents(
                rows.times, keys, closed_until=rows.closed_until, gaps=rows.gaps, reaches=rows.reaches,
                accounted=rows.accounted,
                weights=weights,
            )
        )  # fmt: skip

    def _runs_after(self, before: RetainedEvents, events: RetainedEvents, codes: NDArray[np.int64] | None) -> EventRuns:
        """Returns the runs of these events. Some of the runs began with the rows before them."""
        assert before.keys is not None
        assert codes is not None
        none, first = events.payload.select([]), len(before)
        single = np.eye(1, self.streams, dtype=np.int64).repeat(len(events), axis=0)
        news = RetainedEvents(times=events.times, payload=none, reaches=events.times, weights=single)
        olds = replace(before, payload=none)
        numbers = self._runs_of(RetainedEvents.concat([olds, news]), np.concatenate([before.keys, codes])).numbers[
            first:
        ]
        found, numbers = np.unique(numbers, return_inverse=True)
        runs = Groups(numbers, len(found))
        starts = runs.reduced(np.minimum, events.times, FOREVER)
        return EventRuns(numbers, starts, runs.reduced(np.maximum, events.times, -FOREVER))

    def _split(self, rows: RetainedEvents) -> Keys:
        """Keys by which the rows of one run are divided."""
        return Keys.of([whole(rows.payload.column(name)) for name in self._split_by], len(rows))

    def _merged_rows(self, rows: RetainedEvents, groups: Groups) -> tuple[list[State], NDArray[np.int64]]:
        """Returns the states of groups of rows, and the number of events of each, by input."""
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
        """Returns a row for each group of events or rows, all of one run."""
        firsts = _firsts(groups)
        run = runs.numbers[firsts]
        named = take_rows(source.payload.select(list(self._named)), firsts)
        columns: dict[str, Any] = dict(zip(named.column_names, named.columns, strict=True))
        for accumulator, state, names in zip(self.accumulators, states, self.columns, strict=True):
            columns |= zip(names, accumulator.stored(state), strict=True)
        if not columns:  # a count of all events needs only the weights
            columns["nothing"] = pa.nulls(len(groups))
        closed_until = source.closed_until
        if closed_until is not None:
            closed_until = groups.reduced(np.minimum, np.array(closed_until), FOREVER)
        return RetainedEvents(
            times=runs.starts[run],
            payload=pa.table(columns),
            keys=None if source.keys is None else source.keys[firsts],
            closed_until=closed_until,
            reaches=None if runs.reaches is None else runs.reaches[run],
            weights=weights,
            accounted=None if source.weights is None or source.accounted is None else source.accounted[firsts],
        )


def _firsts(groups: Groups) -> NDArray[np.int64]:
    """Returns the first row of each group."""
    firsts = np.empty(len(groups), np.int64)
    numbers = groups.numbers
    firsts[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return firsts


# Windows that fire, as those get them who emit their results.


@dataclass(frozen=True)
class FiredSums:
    """Windows whose results are joined from sums; the bolt is not called for them."""

    sums: RunSums
    events: SortedEvents
    """The rows of the task."""
    piece: WindowMembers
    fresh: NDArray[np.bool_]
    """Per member: whether it has been in no window before."""
    windows: Sequence[TupleWindow] | None
    """The windows one by one, where a pane, or who watches, asks for them. They hold rows, not events."""

    def __len__(self) -> int:
        return len(self.piece)

    def only(self, which: NDArray[np.bool_]) -> FiredSums:
        """Some of the windows."""
        if which.all():
            return self
        windows = None
        if self.windows is not None:
            windows = [self.windows[place] for place in np.flatnonzero(which).tolist()]
        fresh = self.fresh[np.repeat(which, np.diff(self.piece.offsets))]
        return replace(self, piece=self.piece.filter(which), fresh=fresh, windows=windows)

    def joined(self) -> WindowResults:
        """Returns the results of all of them."""
        return self.sums.joined(self.events, self.piece)

    def traced(self) -> Iterator[tuple[State, NDArray[np.bool_]]]:
        """Per window: the tracing state of its rows in order of arrival, and a mask of the rows that were in no window
        before."""
        offsets = self.piece.offsets.tolist()
        for low, high in pairwise(offsets):
            places = self.events.places(self.piece.members[low:high])
            order = np.argsort(places)
            yield self.sums.traced_states(self.events.taken(places[order]).payload), self.fresh[low:high][order]
