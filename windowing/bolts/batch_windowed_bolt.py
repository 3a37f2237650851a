"""A windowed bolt that is called for many windows at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.data.returned_rows import DEFAULT_STREAM, Emit, EmittedRows, tables
from windowing.errors import SchemaError
from windowing.window import TupleWindow
from windowing.window_batch import WindowBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray


class BatchWindowedBolt(WindowedBolt):
    """A windowed bolt whose ``execute_all`` is called with many due windows of a task at a time, as columns.

    For many small windows, such as sessions per key: a call per window costs more than the work on it.

        class Sums(BatchWindowedBolt):
            outputs = "total double"

            def execute_all(self, windows):
                totals = np.bincount(windows.index, windows.table["amount"].to_numpy(), len(windows))
                return pa.table({"total": totals}), np.arange(len(windows))

    Which windows come together depends on the batch, so each must be treated as if it were alone. A call has at most
    65,536 windows, and no further ones once it has about a million events (1,048,576). A key that a trigger forgets
    ends a call, before ``forget``. With ``Panes`` that retract each window comes alone, and with others a window may be
    in a call more than once. If a call fails, its windows come again one by one, and then the run stops with the window
    that failed.
    """

    def execute_all(self, windows: WindowBatch) -> AllRows:
        """Called with windows in the order in which they fire; returns rows, and for each the number of its window.

        The numbers are those of ``windows.index``, ascending; each row gets the time of its window. None: no rows. A
        bolt with several output streams returns a dict, ``{"default": (table, numbers), "late": (table, numbers)}``.
        """
        raise NotImplementedError

    def execute(self, window: TupleWindow) -> EmittedRows:
        """The rows of one window."""
        emitted = numbered_rows(self.execute_all(WindowBatch([window], window.reads)), 1, self.output_schemas())
        if [stream for stream, _, _ in emitted] == [DEFAULT_STREAM]:
            return emitted[0][1]
        return [Emit(rows, stream) for stream, rows, _ in emitted] or None


NumberedRows: TypeAlias = "tuple[pa.Table, NDArray[np.int64]]"
AllRows: TypeAlias = "NumberedRows | Mapping[str, NumberedRows] | None"


def numbered_rows(
    given: object, windows: int, outputs: Mapping[str, pa.Schema]
) -> list[tuple[str, pa.Table, NDArray[np.int64]]]:
    """What ``execute_all`` returned for so many windows: for each stream with rows, these and the window of each.

    SchemaError where it is something else.
    """
    if given is None:
        return []
    streams = given if isinstance(given, Mapping) and set(given) <= set(outputs) else {DEFAULT_STREAM: given}
    found = [(stream, *_numbered(each, stream, windows, outputs)) for stream, each in streams.items()]
    return [(stream, table, index) for stream, table, index in found if table.num_rows]


def _numbered(
    given: object, stream: str, windows: int, outputs: Mapping[str, pa.Schema]
) -> tuple[pa.Table, NDArray[np.int64]]:
    """The rows of one stream, and the number of the window of each."""
    if not isinstance(given, tuple) or len(given) != 2:
        raise SchemaError(
            f"execute_all returned {type(given).__name__}",
            why="it returns rows, and for each the number of its window; or a dict of these by output stream",
            do="return (table, windows.index[...]), or None for no rows",
        )
    rows, numbers = given
    if stream not in outputs:
        raise SchemaError("rows of a bolt without outputs", do='declare them: outputs = "total double"')
    parts = [table for _, table in tables(rows, {DEFAULT_STREAM: outputs[stream]})]
    table = pa.concat_tables(parts) if parts else outputs[stream].empty_table()
    index = np.asarray(numbers)
    whole = index.astype(np.int64) if index.dtype.kind in "iu" or not index.size else None
    if whole is None or whole.shape != (table.num_rows,) or not _ascending(whole, windows):
        raise SchemaError(
            f"execute_all returned {table.num_rows} rows, and {numbers!r:.60} as the numbers of their windows",
            why=f"each row is of one of {windows} windows, and rows come in the order of these",
            do="return a whole number from 0 for each row, in ascending order",
        )
    return table, whole


def _ascending(index: NDArray[np.int64], windows: int) -> bool:
    """Whether these are numbers of windows, in order."""
    inside = not len(index) or (int(index.min()) >= 0 and int(index.max()) < windows)
    return inside and not (np.diff(index) < 0).any()
