"""A temporal join: the pairs of events of two streams that have equal keys and live at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from windowing.bolts.join import Join
from windowing.bolts.join_columns import BOTH, END, LEFT, RIGHT, START, On
from windowing.bolts.operators import Operator
from windowing.data.rows import Rows
from windowing.data.schema import TIMESTAMP
from windowing.errors import ConfigError
from windowing.time.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TemporalJoin(Join, Operator):
    """The pairs of a left and a right event with equal keys whose lifetimes overlap (SI-22, SI-32).

        TemporalJoin("orders", "prices", on="item").with_timestamp_field("ts").with_lifetime("until")

    ``left`` and ``right`` are two input streams by name. ``on``: the key, a column or several that both have; or the
    columns of each, by the name of the stream: ``on={"orders": "item", "prices": "id"}``. A key with a null joins
    nothing. With several tasks, group each stream by fields among its own key columns.

    A row has the keys that have one name on both sides, then the columns of the left stream and those of the right,
    their keys first, and the overlap: ``overlap_start``,
    and ``overlap_end``, which does not belong to it; null where no end was known at the time.
    ``start`` and ``end`` give these two other names. A column that both streams have is named by ``rename``:
    ``"{stream}_{column}"``, or ``"{column}_{stream}"``. ``outputs`` keeps some of the columns only, by their names:
    ``"item string, price double"``.

    A pair is emitted when the watermark, the least of the marks of both inputs, is past the start of its overlap,
    which is also its time; it does not wait for the end. Pairs of one key and moment come in order of (left, right).
    A stream without the column of ``with_lifetime`` consists of points. The state is what may still overlap:
    start edges stay until their end edges come.

    ConfigError for a join without keys, of a stream with itself, or with a ``rename`` that names no column; other
    mistakes are reported when the topology is built.
    """

    def __init__(
        self,
        left: str,
        right: str,
        *,
        on: On,
        outputs: str | pa.Schema | None = None,
        rename: str = "{stream}_{column}",
        start: str = "overlap_start",
        end: str = "overlap_end",
    ) -> None:
        super().__init__(left, right, on, outputs, rename, start, end)
        self.settings = replace(self.settings, key=self.keys.left)

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """The join with its columns; ConfigError where they cannot be."""
        bound = super().for_inputs(inputs)
        if self.settings.lifetime is None:
            raise ConfigError(
                "a join of events without lifetimes",
                why="pairs are events that live at the same time (SI-22)",
                do="call with_lifetime(end_field) with the column that says when events end",
            )
        return bound

    def execute(self, window: TupleWindow) -> Rows:
        if len(window) < 2:
            return None
        left, right = window.places(self.left), window.places(self.right)
        if not len(left) or not len(right) or _has_null(window.table, self.keys.left, int(left[0])):
            return None
        starts, begins = window.timestamps, window.start_timestamp
        lefts, rights = _pairs(left, starts[left] == begins, right, starts[right] == begins)
        table, ends = window.table, np.minimum(window.ends[lefts], window.ends[rights])
        taken = {BOTH: pa.array(lefts), LEFT: pa.array(lefts), RIGHT: pa.array(rights)}
        overlap = {
            START: pa.array(np.full(len(lefts), begins, np.int64), TIMESTAMP),
            END: pa.array(ends, TIMESTAMP, mask=ends == FOREVER),
        }
        arrays = [
            overlap[column.side] if column.side in overlap else table.column(column.source).take(taken[column.side])
            for column in self._columns.values()
        ]
        return pa.table(arrays, names=list(self._columns))


def _pairs(
    left: NDArray[np.int64], fresh_left: NDArray[np.bool_], right: NDArray[np.int64], fresh_right: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs of which at least one begins now, in order: its left event with all, the others with the right ones."""
    new, old, newly = left[fresh_left], left[~fresh_left], right[fresh_right]
    lefts = np.concatenate([np.repeat(new, len(right)), np.repeat(old, len(newly))])
    rights = np.concatenate([np.tile(right, len(new)), np.tile(newly, len(old))])
    order = np.lexsort((rights, lefts))
    return lefts[order], rights[order]


def _has_null(table: pa.Table, keys: tuple[str, ...], row: int) -> bool:
    return any(not table.column(name)[row].is_valid for name in keys)
