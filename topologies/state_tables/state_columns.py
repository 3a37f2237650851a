"""Columns of the tables of a checkpoint's state: windbolt's own first, then the user's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from policies.marks import NONE
from windowing.time.timestamps import EARLIEST, LATEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIME = pa.timestamp("us", tz="UTC")


def time_column(times: NDArray[np.int64] | Iterable[int | None]) -> pa.Array:
    """Times in microseconds as a column; null for none, for the end of the streams, and for times out of range."""
    if not isinstance(times, np.ndarray):
        times = np.array([NONE if time is None else time for time in times], np.int64)
    outside = (times < EARLIEST) | (times > LATEST)
    return pa.array(times, pa.int64(), mask=outside).cast(TIME)


def beside(own: Mapping[str, Any], users: pa.Table, prefix: str = "event.") -> pa.Table:
    """A table of windbolt's columns and the user's. One of these that has the name of one of those gets a prefix."""
    columns = dict(own)
    for name, column in zip(users.column_names, users.columns, strict=True):
        columns[f"{prefix}{name}" if name in own else name] = column
    return pa.table(columns)


def beside_none(own: pa.Schema, users: pa.Schema, prefix: str = "event.") -> pa.Table:
    """The same without rows."""
    empty = own.empty_table()
    return beside(dict(zip(empty.column_names, empty.columns, strict=True)), users.empty_table(), prefix)


def joined(parts: Sequence[pa.Table], empty: pa.Table) -> pa.Table:
    """Tables one behind the other; a column that some lack is null there. ``empty`` says which columns there are in any
    case."""
    return pa.concat_tables([empty, *parts], promote_options="default").combine_chunks()
