"""A window join: the pairs of events of two streams that have equal keys and are in the same window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.bolts.joins.join import Join
from windowing.bolts.joins.join_columns import BOTH, END, LEFT, RIGHT, START, JoinColumn, On
from windowing.bolts.joins.matching import pairs
from windowing.calls.checked import checked_value
from windowing.data.schema import TIMESTAMP
from windowing.settings.joins import How, check_how
from windowing.window import TupleWindow, whole

if TYPE_CHECKING:
    from datetime import datetime

    from numpy.typing import NDArray

_ROWS_AT_ONCE = 1 << 20
"""Rows are made in pieces, so that no column of them is too long for Arrow."""


class WindowJoin(Join):
    """The pairs of a left and a right event of one window with equal keys; windows are set as those of any bolt.

        WindowJoin("persons", "auctions", on={"persons": "id", "auctions": "seller"})
            .with_tumbling_window("10s").with_timestamp_field("ts")

    ``left`` and ``right`` are two input streams by name. ``on``: the key, a column or several that both have; or the
    columns of each, by the name of the stream. A key with a null equals none. With several tasks, group each stream
    by fields among its own key columns.

    ``how``, where an event has no partner in its window:

    - ``inner``: it is in no row.
    - ``left``, ``right``, ``full``: a left one, a right one, either has a row, with nulls for the other side.
    - ``semi``: rows are left events that have a partner, each once, with their own columns only; ``anti``: left events
      that have none. Without a match within the window, that is.

    A row has the keys that have one name on both sides, then the columns of the left stream and those of the right,
    their keys first. A key of one name is one column, which is never null for lack of a partner. Another column that
    both streams have is named by ``rename``: ``"{stream}_{column}"``, or ``"{column}_{stream}"``. ``start`` and
    ``end`` name columns for the start and the end of the window, timestamps; in windows of a count the start is null.
    ``outputs`` keeps some of these columns only, by their names, in these types: ``"id long, price double"``. Columns
    of one name have one type on both sides, as those of any bolt with several inputs. Rows of a window come in
    order of (left, right); those of right events without a partner last.

    Late events are in no row: all events of a side are the rows of an outer join and its late stream together.

    ConfigError for a join without keys, of a stream with itself, for a ``how`` that is none of these, for a
    ``rename`` that names no column, and for a ``start`` or an ``end`` that ``outputs`` leaves out; other mistakes
    are reported when the topology is built.
    """

    @checked_value
    def __init__(
        self,
        left: str,
        right: str,
        *,
        on: On,
        how: How = "inner",
        outputs: str | pa.Schema | None = None,
        rename: str = "{stream}_{column}",
        start: str | None = None,
        end: str | None = None,
    ) -> None:
        super().__init__(left, right, on=on, outputs=outputs, rename=rename, start=start, end=end)
        check_how(how)
        self.how, self.left_only = how, how in ("semi", "anti")

    def execute(self, window: TupleWindow) -> Iterator[pa.Table]:
        left, right = window.places(self.left), window.places(self.right)
        if not len(left) and not len(right):
            return
        table = window.table
        lefts, rights = pairs(_keys(table, self.keys.left, left), _keys(table, self.keys.right, right))
        lefts, rights = _kept(self.how, lefts, rights, len(left), len(right))
        for begin in range(0, len(lefts), _ROWS_AT_ONCE):
            piece = slice(begin, begin + _ROWS_AT_ONCE)
            yield self._rows(window, _places(left, lefts[piece]), _places(right, rights[piece]))

    def _rows(self, window: TupleWindow, left: pa.Array, right: pa.Array) -> pa.Table:
        """Rows of these left and right events, by their places in the window; null where there is no partner."""
        table, taken = window.table, {LEFT: left, RIGHT: right}
        moments = {START: window.start, END: window.end}
        arrays = [self._array(column, table, taken, moments, len(left)) for column in self._columns.values()]
        return pa.table(arrays, names=list(self._columns))

    def _array(
        self,
        column: JoinColumn,
        table: pa.Table,
        taken: Mapping[str, pa.Array],
        moments: Mapping[str, datetime | None],
        rows: int,
    ) -> pa.Array | pa.ChunkedArray:
        if column.side in moments:
            return pa.repeat(pa.scalar(moments[column.side], TIMESTAMP), rows)
        source = table.column(column.source)
        if column.side == BOTH:
            return pc.if_else(taken[LEFT].is_valid(), source.take(taken[LEFT]), source.take(taken[RIGHT]))
        return source.take(taken[column.side])


def _keys(table: pa.Table, names: tuple[str, ...], places: NDArray[np.int64]) -> list[pa.Array]:
    rows = pa.array(places)
    return [whole(table.column(name).take(rows)) for name in names]


def _kept(
    how: How, lefts: NDArray[np.int64], rights: NDArray[np.int64], left: int, right: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of a join from its pairs; -1 where an event has no partner."""
    if how in ("semi", "anti"):
        matched = np.bincount(lefts, minlength=left) > 0
        found = np.flatnonzero(matched if how == "semi" else ~matched)
        return found, np.full(len(found), -1)
    if how in ("left", "full"):
        alone = np.flatnonzero(np.bincount(lefts, minlength=left) == 0)
        lefts, rights = np.concatenate([lefts, alone]), np.concatenate([rights, np.full(len(alone), -1)])
        order = np.argsort(lefts, kind="stable")
        lefts, rights = lefts[order], rights[order]
    if how in ("right", "full"):
        alone = np.flatnonzero(np.bincount(rights[rights >= 0], minlength=right) == 0)
        lefts, rights = np.concatenate([lefts, np.full(len(alone), -1)]), np.concatenate([rights, alone])
    return lefts, rights


def _places(places: NDArray[np.int64], chosen: NDArray[np.int64]) -> pa.Array:
    """Rows of the table for rows of a side; null where there is none."""
    if not len(places):
        return pa.nulls(len(chosen), pa.int64())
    return pa.array(places[chosen], mask=chosen < 0)
