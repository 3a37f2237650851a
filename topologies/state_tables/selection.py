"""Which rows of a checkpoint's state are wanted: by task, key and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What is wanted; None: no such limit."""

    task: int | None = None
    key: str | None = None
    """The text of the key's only column, or of several with commas between them."""
    since: int | None = None
    """The first time wanted, in microseconds."""
    until: int | None = None
    """The first time not wanted any more, in microseconds."""

    def tasks(self, count: int) -> list[int]:
        """The tasks wanted, of so many."""
        return [number for number in range(count) if self.task in (None, number)]

    def events(self, table: pa.Table, keys: Mapping[str, Sequence[str]]) -> pa.Table:
        """The events wanted. ``keys``: by each input, the columns of its key."""
        wanted = self._in_time(table, "time")
        if self.key is not None:
            of_key = np.zeros(table.num_rows, np.bool_)
            inputs = table.column("input")
            for name, columns in keys.items():  # of a sum it may not be known of which input it is
                here = pc.fill_null(pc.equal(inputs, name), fill_value=True).to_numpy()
                of_key |= here & self._of_key(table, columns)
            wanted &= of_key
        return _those(table, wanted)

    def rows(self, table: pa.Table, keys: Sequence[Sequence[str]], time: str | None) -> pa.Table:
        """The rows wanted. ``keys`` are the columns of the key, by each name that it has: a table with none of them is
        whole. ``time`` is the column of times; rows without one stay."""
        wanted = np.ones(table.num_rows, np.bool_) if time is None else self._in_time(table, time)
        there = [columns for columns in keys if columns and set(columns) <= set(table.column_names)]
        if self.key is not None and there:
            wanted &= np.logical_or.reduce([self._of_key(table, columns) for columns in there])
        return _those(table, wanted)

    def _in_time(self, table: pa.Table, time: str) -> NDArray[np.bool_]:
        times, wanted = table.column(time).cast(pa.int64()), np.ones(table.num_rows, np.bool_)
        if self.since is not None:
            wanted &= pc.fill_null(pc.greater_equal(times, self.since), fill_value=True).to_numpy()
        if self.until is not None:
            wanted &= pc.fill_null(pc.less(times, self.until), fill_value=True).to_numpy()
        return wanted

    def _of_key(self, table: pa.Table, columns: Sequence[str]) -> NDArray[np.bool_]:
        if not columns or not set(columns) <= set(table.column_names):
            return np.ones(table.num_rows, np.bool_)
        assert self.key is not None
        return has_key(table, columns, self.key)


def has_key(table: pa.Table, columns: Sequence[str], key: str) -> NDArray[np.bool_]:
    """Which rows have a key in these columns: the text of its only value, or of several with commas between them."""
    texts = [[str(value) for value in table.column(name).to_pylist()] for name in columns]
    return np.array([",".join(values) == key for values in zip(*texts, strict=True)], np.bool_)


def _those(table: pa.Table, wanted: NDArray[np.bool_]) -> pa.Table:
    return table if wanted.all() else table.filter(pa.array(wanted))
