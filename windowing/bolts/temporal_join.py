"""A temporal join: the pairs of events of two streams that have equal keys and live at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from windowing.bolts.join_columns import (
    END,
    LEFT,
    RIGHT,
    START,
    JoinColumn,
    JoinKeys,
    check_inputs,
    check_rename,
    chosen,
    distinct,
    prefix_of,
    read_keys,
)
from windowing.bolts.operators import Operator
from windowing.data.rows import DEFAULT_STREAM, Rows
from windowing.data.schema import TIMESTAMP, parse_schema
from windowing.errors import ConfigError
from windowing.time.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TemporalJoin(Operator):
    """The pairs of a left and a right event with equal keys whose lifetimes overlap (SI-22, SI-32).

        TemporalJoin("orders", "prices", on="item").with_timestamp_field("ts").with_lifetime("until")

    ``left`` and ``right`` are two input streams by name, ``on`` columns that both have; a key with a null joins
    nothing. With several tasks, group both streams by fields among these.

    A row has the key, the other columns of the left stream, those of the right, and the overlap: ``overlap_start``,
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
        on: str | Sequence[str],
        outputs: str | pa.Schema | None = None,
        rename: str = "{stream}_{column}",
        start: str = "overlap_start",
        end: str = "overlap_end",
    ) -> None:
        if isinstance(on, Mapping):
            raise ConfigError(
                f"TemporalJoin(on={on!r:.60})",
                why="events meet by columns that have one name on both sides",
                do="rename one of them in a plain bolt before; or use WindowJoin, for events of one window",
            )
        keys = read_keys(on, left, right).left
        check_rename(rename)
        self.left, self.right, self.on = left, right, keys
        self._rename, self._start, self._end = rename, start, end
        self._wanted = None if outputs is None else parse_schema(outputs)
        self._columns: dict[str, JoinColumn] = {}
        self.settings = replace(self.settings, key=keys)

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """The join with its columns; ConfigError where they cannot be."""
        check_inputs(inputs, self.left, self.right, JoinKeys(self.on, self.on))
        if self.settings.lifetime is None:
            raise ConfigError(
                "a join of events without lifetimes",
                why="pairs are events that live at the same time (SI-22)",
                do="call with_lifetime(end_field) with the column that says when events end",
            )
        columns = self._named(inputs[self.left], inputs[self.right])
        bound = copy(self)
        bound._columns = columns if self._wanted is None else chosen(columns, self._wanted)
        return bound

    def output_schemas(self) -> dict[str, pa.Schema]:
        if self._wanted is not None:
            return {DEFAULT_STREAM: self._wanted}
        fields = [pa.field(name, column.kind) for name, column in self._columns.items()]
        return {DEFAULT_STREAM: pa.schema(fields)} if fields else {}

    def execute(self, window: TupleWindow) -> Rows:
        if len(window) < 2 or _has_null(window.key):
            return None
        left, right = window.places(self.left), window.places(self.right)
        if not len(left) or not len(right):
            return None
        starts, begins = window.timestamps, window.start_timestamp
        lefts, rights = _pairs(left, starts[left] == begins, right, starts[right] == begins)
        table, ends = window.table, np.minimum(window.ends[lefts], window.ends[rights])
        taken = {LEFT: pa.array(lefts), RIGHT: pa.array(rights)}
        overlap = {
            START: pa.array(np.full(len(lefts), begins, np.int64), TIMESTAMP),
            END: pa.array(ends, TIMESTAMP, mask=ends == FOREVER),
        }
        arrays = [
            overlap[column.side] if column.side in overlap else table.column(column.source).take(taken[column.side])
            for column in self._columns.values()
        ]
        return pa.table(arrays, names=list(self._columns))

    def _named(self, left: pa.Schema, right: pa.Schema) -> dict[str, JoinColumn]:
        """All columns of the join by name; ConfigError where two have one name."""
        own = {*self.on, self.settings.watermark_field}
        named = [(key, JoinColumn(LEFT, key, left.field(key).type)) for key in self.on]
        for side, name, mine, other in ((LEFT, self.left, left, right), (RIGHT, self.right, right, left)):
            for field in mine:
                if field.name in own:
                    continue
                clash = field.name in other.names
                shown = self._rename.format(stream=prefix_of(name), column=field.name) if clash else field.name
                named.append((shown, JoinColumn(side, field.name, field.type)))
        named += [(self._start, JoinColumn(START, "", TIMESTAMP)), (self._end, JoinColumn(END, "", TIMESTAMP))]
        return distinct(named, "choose another rename=, or other names for the overlap by start= and end=")


def _pairs(
    left: NDArray[np.int64], fresh_left: NDArray[np.bool_], right: NDArray[np.int64], fresh_right: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs of which at least one begins now, in order: its left event with all, the others with the right ones."""
    new, old, newly = left[fresh_left], left[~fresh_left], right[fresh_right]
    lefts = np.concatenate([np.repeat(new, len(right)), np.repeat(old, len(newly))])
    rights = np.concatenate([np.tile(right, len(new)), np.tile(newly, len(old))])
    order = np.lexsort((rights, lefts))
    return lefts[order], rights[order]


def _has_null(key: Any) -> bool:
    return key is None or (isinstance(key, tuple) and any(part is None for part in key))
