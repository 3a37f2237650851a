"""The rows that a bolt emits in one task and batch, combined by stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from topologies.engine.failures.user_code import bolt_failure
from topologies.graph.nodes.windowed import WindowedNode
from windowing.data.returned_rows import Loose, from_rows
from windowing.errors import SchemaError
from windowing.time.timestamps import show, show_end
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class _Emitted:
    """Rows of one window, or of several."""

    rows: pa.Table | Loose
    times: int | NDArray[np.int64]
    """Of all rows, or of each."""
    window: TupleWindow
    """The window, or the first."""


class Emissions:
    """The rows that the windows of a task emit, in order. Consecutive rows of one stream are combined."""

    def __init__(self, node: WindowedNode) -> None:
        self.node = node
        self._by_stream: list[tuple[str, list[_Emitted]]] = []

    def add(self, emitted: Iterable[tuple[str, pa.Table | Loose]], window: TupleWindow) -> None:
        """Add what a window emitted."""
        for stream, rows in emitted:
            self._add(stream, _Emitted(rows, self.node.output_time(window), window))

    def add_all(self, stream: str, table: pa.Table, index: NDArray[np.int64], windows: Sequence[TupleWindow]) -> None:
        """Add what several windows emitted; ``index``: of which of them each row is."""
        times = np.array([self.node.output_time(window) for window in windows], np.int64)[index]
        self._add(stream, _Emitted(table, times, windows[0]))

    def _add(self, stream: str, emitted: _Emitted) -> None:
        if not self._by_stream or self._by_stream[-1][0] != stream:
            self._by_stream.append((stream, []))
        self._by_stream[-1][1].append(emitted)

    def tables(self, batch: int) -> Iterator[tuple[str, pa.Table, NDArray[np.int64]]]:
        """Yield (stream, rows, times in microseconds) in order of emission."""
        for stream, emitted in self._by_stream:
            yield stream, self._joined(self.node.outputs[stream], emitted, batch), _times(emitted)

    def _joined(self, schema: pa.Schema, emitted: list[_Emitted], batch: int) -> pa.Table:
        """The rows as one table. Consecutive loose rows are converted together, which is much cheaper."""
        tables: list[pa.Table] = []
        for loose, group in groupby(emitted, key=lambda emission: isinstance(emission.rows, list)):
            members = list(group)
            if not loose:
                tables.extend(each.rows for each in members)
                continue
            try:
                tables.append(from_rows([row for each in members for row in each.rows], schema))
            except SchemaError:
                for each in members:  # again, one by one, to find the window that failed
                    with bolt_failure(self.node.name, batch, place(each.window), task=each.window.task):
                        from_rows(each.rows, schema)
                raise
        return pa.concat_tables(tables)


def _times(emitted: Sequence[_Emitted]) -> NDArray[np.int64]:
    """The time of each row."""
    if all(isinstance(each.times, int) for each in emitted):
        times = np.array([each.times for each in emitted], np.int64)
        return np.repeat(times, [len(each.rows) for each in emitted])
    return np.concatenate([np.broadcast_to(each.times, len(each.rows)) for each in emitted])


def places(windows: Sequence[TupleWindow]) -> str:
    """The task and the windows at which a bolt failed that was called for all of them."""
    if len(windows) == 1:
        return place(windows[0])
    task, last = windows[0].task, max(window.end_timestamp for window in windows)
    starts = [window.start_timestamp for window in windows if window.start_timestamp is not None]
    return (
        f"in task {task} on {len(windows)} windows {f'from {show(min(starts))} ' if starts else ''}to {show_end(last)}"
    )


def place(window: TupleWindow) -> str:
    """The task and the window at which a bolt failed, for error messages."""
    count = f"{len(window)} event{'s' if len(window) != 1 else ''}"
    if window.start_timestamp is None:
        return f"in task {window.task} on the window of {count} at {show_end(window.end_timestamp)}"
    span = f"from {show(window.start_timestamp)} to {show_end(window.end_timestamp)}"
    return f"in task {window.task} on the window {span} of {count}"
