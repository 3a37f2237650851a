"""Several windows as one set of columns, for bolts that work on many due windows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa

from windowing.calls.checked import checked_on_failure
from windowing.data.views import read_only
from windowing.window import ColumnReads, TupleWindow, place_of, selected

if TYPE_CHECKING:
    from numpy.typing import NDArray


class WindowBatch:
    """Windows of one task, in the order in which they fire; their events one window after the other.

    An event that is in several of the windows is there several times.
    """

    def __init__(self, windows: Sequence[TupleWindow], reads: ColumnReads | None = None) -> None:
        """``reads``: where a run has it noted which columns are asked for."""
        self._windows, self._reads = windows, reads

    def __repr__(self) -> str:
        return f"<WindowBatch of {len(self)} windows: {self.offsets[-1]} events>"

    def __len__(self) -> int:
        return len(self._windows)

    def __iter__(self) -> Iterator[TupleWindow]:
        return map(self._given, self._windows)

    @overload
    def __getitem__(self, place: int) -> TupleWindow: ...
    @overload
    def __getitem__(self, place: slice) -> list[TupleWindow]: ...
    def __getitem__(self, place: int | slice) -> TupleWindow | list[TupleWindow]:
        if isinstance(place, slice):
            return [self._given(window) for window in self._windows[place]]
        return self._given(self._windows[place])

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where the events of each window begin in ``table``, and at last where those of the last one end: int64."""
        sizes = np.fromiter(map(len, self._windows), np.int64, len(self._windows))
        return read_only(np.concatenate([[0], np.cumsum(sizes)]))

    @cached_property
    def index(self) -> NDArray[np.int64]:
        """For each event of ``table``, which window it is in, from 0."""
        return read_only(np.repeat(np.arange(len(self)), np.diff(self.offsets)))

    @cached_property
    def table(self) -> pa.Table:
        """The events of all windows, window by window."""
        if self._reads is not None:
            self._reads.whole = True
        return _in_one([source.table(members) for source, members in self._runs])

    @checked_on_failure
    def select(self, *columns: str) -> pa.Table:
        """These columns of ``table``, in this order. KeyError where there is no such column; ConfigError for no column,
        or one twice."""
        chosen = _in_one([selected(source.table(members), columns) for source, members in self._runs])
        if self._reads is not None:
            self._reads.names.update(columns)
        return chosen

    @cached_property
    def timestamps(self) -> NDArray[np.int64]:
        """The time of each event of ``table``, in microseconds."""
        return read_only(np.concatenate([source.timestamps(members) for source, members in self._runs]))

    @cached_property
    def window_starts(self) -> NDArray[np.int64]:
        """The start of each window, in microseconds; 0 where its length is a count, and ``start_timestamp`` is None."""
        return read_only(np.array([window.start_timestamp or 0 for window in self._windows], np.int64))

    @cached_property
    def window_ends(self) -> NDArray[np.int64]:
        """The end of each window, in microseconds; the greatest int64 where it has none."""
        return read_only(np.array([window.end_timestamp for window in self._windows], np.int64))

    @cached_property
    def _runs(self) -> list[tuple[Any, Any]]:
        """Where the events are: those of windows that follow each other in one place are read together."""
        runs: list[tuple[Any, Any]] = []
        for window in self._windows:
            source, members = place_of(window)
            if runs and isinstance(members, range) and isinstance(runs[-1][1], range):
                before, reached = runs[-1]
                if before is source and reached.stop == members.start:
                    runs[-1] = (source, range(reached.start, members.stop))
                    continue
            runs.append((source, members))
        return runs

    def _given(self, window: TupleWindow) -> TupleWindow:
        """A window as it is handed out: what is asked of it is noted as of all of them."""
        window.reads = self._reads
        return window


def _in_one(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks() if len(tables) > 1 else tables[0]
