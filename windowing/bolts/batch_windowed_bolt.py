"""A windowed bolt that is called for many windows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from windowing.bolts.bolt import WindowedBolt
from windowing.data.rows import Rows
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

    Which windows come together depends on the batch, so each must be treated as if it were alone. ``outputs`` is one
    stream. A call has at most 65,536 windows, and no further ones once it has about a million events (1,048,576). A key
    that a trigger forgets ends a call, before ``forget``. With ``Panes`` each window comes alone. If a call fails, its
    windows come again one by one, and then the run stops with the window that failed.
    """

    def execute_all(self, windows: WindowBatch) -> tuple[pa.Table, NDArray[np.int64]] | None:
        """Called with windows in the order in which they fire; returns rows, and for each the number of its window.

        The numbers are those of ``windows.index``, ascending; each row gets the time of its window. None: no rows.
        """
        raise NotImplementedError

    def execute(self, window: TupleWindow) -> Rows:
        """The rows of one window."""
        emitted = self.execute_all(WindowBatch([window]))
        return None if emitted is None else emitted[0]
