"""A temporal join: the pairs of events of two streams that have equal keys and live at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import pyarrow as pa

from windowing.bolts.joins.join import Join
from windowing.bolts.joins.join_columns import BOTH, END, LEFT, RIGHT, START, On
from windowing.bolts.operators import Operator
from windowing.calls.checked import checked_value
from windowing.data.returned_rows import EmittedRows
from windowing.errors import ConfigError
from windowing.settings.joins import How, check_how
from windowing.settings.kinds import Meeting, Onset
from windowing.settings.rules import NO_COLUMN, Lifetime, flag
from windowing.time.timestamps import to_column
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TemporalJoin(Join, Operator):
    """The pairs of a left and a right event with equal keys whose lifetimes overlap, and events that met no partner in
    their whole life (SI-22, SI-32).

        TemporalJoin("orders", "prices", on="item").with_timestamp_field("ts").with_lifetime("until")
        TemporalJoin("orders", "payments", on="order", how="anti").with_timestamp_field("ts").with_lifetime("until")

    ``left`` and ``right`` are two input streams by name. ``on``: the key, a column or several that both have; or the
    columns of each, by the name of the stream: ``on={"orders": "item", "prices": "id"}``. A key with a null joins
    nothing. With several tasks, group each stream by fields among its own key columns.

    ``how``, for an event that no partner overlapped in its life:

    - ``inner``: it is in no row.
    - ``left``, ``right``, ``full``: a left one, a right one, either has a row, with nulls for the other side.
    - ``semi``: rows are left events that met a partner, each once, with their own columns only; ``anti``: left events
      that met none.

    A row has the keys that have one name on both sides, then the columns of the left stream and those of the right,
    their keys first, and the overlap: ``overlap_start`` and ``overlap_end``, which is exclusive, and null where no end
    was known at the time. For an event without a partner these are its own start and end; for a row of a semi join, the
    moment at which its event met its first partner, and its own end. ``start`` and ``end`` give these two other names.
    A column that both streams have is named by ``rename``: ``"{stream}_{column}"``, or ``"{column}_{stream}"``.
    ``outputs`` keeps some of these columns only, by their names: ``"item string, price double"``.

    A pair is emitted when the watermark, the least of the marks of both inputs, is past the start of its overlap,
    which is also its time; it does not wait for the end. A row of a semi join is emitted when its event met its first
    partner, with that time. An event without a partner is emitted once, when the watermark is past its end, which is
    its time. An event without an end is emitted when the streams end, after everything else of its task. Pairs of one
    key and moment come in order of (left, right), before the events of this key and moment without a partner.

    ``versions``: an event of the right stream is the version of its key until the next one begins, as in Flink's
    temporal table join; of those that begin at the same time the last counts. ``with_lifetime`` is then only needed for
    left events that last, and for versions that end before the next one.

    A stream without the column of ``with_lifetime`` consists of points; ``AlterLifetime`` gives events a duration. The
    state is the events that may still overlap others: start edges stay until their end edges come. Where events without
    a partner have rows, one ended event per key may be kept too, to know which waiting events have met a partner.
    ``semi`` and ``anti`` keep left events until they have met one.

    Late events are in no row. An outer join's rows plus its late stream contain every event of its outer side. The end
    of a lifetime is exclusive: an event of the other side at that very moment is no partner; see ``AlterLifetime``.

    ConfigError for a join without keys, of a stream with itself, for a ``how`` that is none of these, with a
    ``rename`` that names no column, or with a ``start`` or an ``end`` that ``outputs`` leaves out; other mistakes
    are reported when the topology is built.
    """

    usual: ClassVar[Mapping[str, str | None]] = {START: "overlap_start", END: "overlap_end"}

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
        start: str = "overlap_start",
        end: str = "overlap_end",
        versions: bool = False,
    ) -> None:
        super().__init__(left, right, on=on, outputs=outputs, rename=rename, start=start, end=end)
        check_how(how)
        self.how, self.left_only = how, how in ("semi", "anti")
        self.versions = flag("versions", versions)
        lifetime = Lifetime(NO_COLUMN) if versions else None
        self.settings = replace(self.settings, key=self.keys.left, kinds=_kinds(how, 0), lifetime=lifetime)

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """The join with its columns; ConfigError where they cannot be."""
        bound = super().for_inputs(inputs)
        if self.settings.lifetime is None:
            raise ConfigError(
                "a join of events without lifetimes",
                why="pairs are events that live at the same time",
                do="call with_lifetime(end_field) with the column that says when events end; for events of a duration "
                "AlterLifetime makes one, in a bolt before; where the next event of a key ends the last, versions=True",
            )
        if self.versions and self.settings.lifetime.shape_field is not None:
            raise ConfigError(
                "a join with versions=True of events with a shape_field",
                why="a version ends as the next one of its key begins, and waits for no end edge",
                do="leave one of the two out",
            )
        bound.settings = replace(bound.settings, kinds=_kinds(self.how, list(inputs).index(self.left)))
        return bound

    def execute(self, window: TupleWindow) -> EmittedRows:
        if self.left_only:
            return self._lefts(window)
        if self.how != "inner" and not _begins(window):
            return self._alone(window)
        if len(window) < 2:
            return None
        left, right = window.places(self.left), window.places(self.right)
        if not len(left) or not len(right) or _has_null(window.table, self.keys.left, int(left[0])):
            return None
        starts, begins = window.timestamps, window.start_timestamp
        lefts, rights = _pairs(left, starts[left] == begins, right, starts[right] == begins)
        ends = np.minimum(window.lifetime_ends[lefts], window.lifetime_ends[rights])
        taken = {BOTH: pa.array(lefts), LEFT: pa.array(lefts), RIGHT: pa.array(rights)}
        return self._rows(window.table, taken, np.full(len(lefts), begins, np.int64), ends)

    def _lefts(self, window: TupleWindow) -> pa.Table:
        """Left events with their own columns: as they meet their first partner, or, having met none, as they end."""
        rows = pa.array(np.arange(len(window)))
        starts = window.timestamps
        if self.how == "semi":
            starts = np.full(len(window), window.start_timestamp, np.int64)
        return self._rows(window.table, {BOTH: rows, LEFT: rows}, starts, window.lifetime_ends)

    def _alone(self, window: TupleWindow) -> pa.Table:
        """Events that met no partner, with nulls for the other side; left ones first."""
        left, right = window.places(self.left), window.places(self.right)
        rows = np.concatenate([left, right])
        is_left = np.arange(len(rows)) < len(left)
        taken = {BOTH: pa.array(rows), LEFT: pa.array(rows, mask=~is_left), RIGHT: pa.array(rows, mask=is_left)}
        return self._rows(window.table, taken, window.timestamps[rows], window.lifetime_ends[rows])

    def _rows(
        self, table: pa.Table, taken: Mapping[str, pa.Array], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> pa.Table:
        """Rows of these events by side, each with a start and an end."""
        overlap = {START: to_column(starts), END: to_column(ends)}
        arrays = [
            overlap[column.side] if column.side in overlap else table.column(column.source).take(taken[column.side])
            for column in self._columns.values()
        ]
        return pa.table(arrays, names=list(self._columns))


def _kinds(how: How, left: int) -> tuple[Onset | Meeting]:
    """The windows of such a join; ``left`` is the place of its left input."""
    return (Onset() if how == "inner" else Meeting(how, left),)


def _begins(window: TupleWindow) -> bool:
    """Whether the life of an event begins with the window; else it is one of events that met no partner."""
    starts = window.timestamps
    return bool(((starts == window.start_timestamp) & (window.lifetime_ends > starts)).any())


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
