"""What a windowed bolt is given: the events of one window, what is new in it and what has left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from windowing.order import is_sorted, stable_order
from windowing.timestamps import FOREVER, to_datetime
from windowing.tuples import Tuple

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

Members = range | np.ndarray
"""Positions in the queue: a range, or an array of positions where a custom policy left some out."""


class EventSource(Protocol):
    """Where a window finds its events: the queue as it was when the window fired."""

    @property
    def stream_names(self) -> Sequence[str]: ...
    def table(self, members: Members) -> pa.Table: ...
    def timestamps(self, members: Members) -> NDArray[np.int64]: ...
    def streams(self, members: Members) -> NDArray[np.int8]: ...


class TupleWindow:
    """The events of one window, in order of (time, arrival); tables are made when they are asked for (ST-21).

    ``table``, ``new`` and ``expired`` are Arrow tables of the bolt's input columns; slices of the queue, without a
    copy. ``new``: in this window and not in the one fired before it on this task; ``expired``: the other way round.
    """

    __slots__ = (
        "_codes",
        "_expired",
        "_members",
        "_new",
        "_source",
        "_table",
        "end_timestamp",
        "start_timestamp",
        "task",
    )

    def __init__(
        self,
        source: EventSource,
        members: Members,
        new: Members,
        expired: Members,
        start_timestamp: int | None,
        end_timestamp: int,
        task: int = 0,
    ) -> None:
        self._source = source
        self._members, self._new, self._expired = members, new, expired
        self.start_timestamp = start_timestamp
        """Microseconds since the epoch; None where the length is a count."""
        self.end_timestamp = end_timestamp
        """Microseconds since the epoch: the aligned end, or the time of the event that a count fired on."""
        self.task = task
        self._table: pa.Table | None = None
        self._codes: NDArray[np.int8] | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"<TupleWindow {self.start} .. {self.end}: {len(self)} events, {len(self._new)} new, task {self.task}>"

    @property
    def start(self) -> datetime | None:
        """The start as a datetime in UTC; None where the length is a count."""
        return None if self.start_timestamp is None else to_datetime(self.start_timestamp)

    @property
    def end(self) -> datetime:
        """The end as a datetime in UTC."""
        return to_datetime(min(self.end_timestamp, FOREVER))

    @property
    def table(self) -> pa.Table:
        """All events of the window."""
        if self._table is None:
            self._table = self._source.table(self._members)
        return self._table

    @property
    def new(self) -> pa.Table:
        """The events that were not in the window fired before this one."""
        return self._source.table(self._new)

    @property
    def expired(self) -> pa.Table:
        """The events of the window fired before this one that are not in this one."""
        return self._source.table(self._expired)

    @property
    def timestamps(self) -> NDArray[np.int64]:
        """Event times in microseconds, one per event of the window."""
        return self._source.timestamps(self._members)

    def column(self, name: str) -> NDArray[Any]:
        """One column of the window as a NumPy array; nulls as NaN or None."""
        return _numpy(self.table.column(name))

    def to_pandas(self) -> pd.DataFrame:
        """All events of the window as a pandas DataFrame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    def stream(self, name: str) -> pa.Table:
        """The events that came on one of the bolt's input streams."""
        names = list(self._source.stream_names)
        if name not in names:
            raise KeyError(f"no input stream {name!r}; this bolt reads {', '.join(names)}")
        if len(names) == 1:
            return self.table
        if self._codes is None:
            self._codes = self._source.streams(self._members)
        return self.table.filter(pa.array(self._codes == names.index(name)))

    def groups(self, by: str, *columns: str, stream: str | None = None) -> Iterator[tuple[Any, ...]]:
        """For each value of ``by``: the value, then the chosen columns of its events as NumPy arrays.

        Values come in the order in which they first appear, null last; the columns keep the order of the window.
        Sorting happens once, for the whole window; the arrays are slices. ``stream``: of one input stream only.
        """
        table = self.table if stream is None else self.stream(stream)
        column = table.column(by).combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)  # its dictionary may be in another order
        values = column.dictionary_encode()
        codes = values.indices.fill_null(len(values.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
        arrays = [_numpy(table.column(name)) for name in columns]
        if not is_sorted(codes):
            order = stable_order(codes)
            codes, arrays = codes[order], [array[order] for array in arrays]
        edges = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]])
        names = [*values.dictionary.to_pylist(), None]
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if stop > start:
                yield (names[codes[start]], *(array[start:stop] for array in arrays))

    def get(self) -> list[Tuple]:
        """All events of the window as objects; slower than the table."""
        return self._tuples(self._members)

    def get_new(self) -> list[Tuple]:
        """The new events as objects."""
        return self._tuples(self._new)

    def get_expired(self) -> list[Tuple]:
        """The expired events as objects."""
        return self._tuples(self._expired)

    def _tuples(self, members: Members) -> list[Tuple]:
        rows = self._source.table(members).to_pylist()
        times = self._source.timestamps(members).tolist()
        names = self._source.stream_names
        streams = [names[code] for code in self._source.streams(members).tolist()]
        return [Tuple(row, time, stream) for row, time, stream in zip(rows, times, streams, strict=True)]


def _numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    array: NDArray[Any] = whole.to_numpy(zero_copy_only=False)
    return array
