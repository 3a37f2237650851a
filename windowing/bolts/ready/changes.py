"""Passes on what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from windowing.aggregates.key_numbers import Keys
from windowing.bolts.ready.columns_by_name import read_columns
from windowing.bolts.ready.passing import Passing, limited
from windowing.calls.checked import checked_value
from windowing.data.order import stable_order
from windowing.errors import ConfigError
from windowing.time.durations import Time

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Changes(Passing):
    """Passes on an event if it differs from the last one of its key that has passed; the first of a key passes.

        builder.set_bolt("changed", Changes("user", of="level")).fields_grouping("levels", "user")

    ``by``: the columns of the key; with none, all events have the same. ``of``: the columns that are compared, all
    others unless they are named; a null equals a null, NaN equals NaN, and 0.0 equals -0.0. ``within``: an event that
    has not changed passes nevertheless if it is ``within`` or more after the last one that passed; a key without events
    for that long is forgotten. Without it, the last values of each key are kept forever.

    Events are looked at in order of time, then of arrival, on all inputs, when the watermark has passed them. Their
    columns and times stay what they are. What is held back is counted as ``unchanged`` in the counters of the run, and
    goes to the output stream ``rest`` if one is named. With several tasks, group the inputs by fields among ``by``.

    ConfigError for a ``within`` of zero, for an unknown column, for one that is in both lists, and for a ``rest`` that
    cannot name a stream.
    """

    held_back = "unchanged"

    @checked_value
    def __init__(
        self,
        by: str | Iterable[str] | None = (),
        *,
        of: str | Iterable[str] | None = None,
        within: Time | None = None,
        rest: str | None = None,
    ) -> None:
        super().__init__(by, within, rest)
        self.of = read_columns("Changes", "of", of)
        both = [name for name in self.of if name in self.by]
        if both or (of is not None and not self.of):
            raise ConfigError(
                f"Changes(by={list(self.by)}, of={of!r:.60})",
                why="within a key its columns never change" if both else "without columns nothing ever changes",
                do="name other columns, or leave of= out to compare all of them",
            )

    def compared(self, schema: pa.Schema) -> tuple[str, ...]:
        of = self.of or tuple(name for name in schema.names if name not in self.by)
        if not of:
            raise ConfigError(
                f"Changes(by={list(self.by)}) of a stream that has no other columns",
                why="nothing but the key could change",
                do="leave a column out of by=",
            )
        return (*self.by, *of)

    def passes(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        groups, values = self._groups(keys, len(times)), Keys.of(keys[len(self.by) :], len(times)).codes
        order = stable_order(groups)
        differs = np.zeros(len(times), np.int64)
        differs[1:] = (np.diff(groups[order]) != 0) | (np.diff(values[order]) != 0)
        runs = np.empty(len(times), np.int64)
        runs[order] = np.cumsum(differs)
        return limited(runs, times, 1, None if self.within is None else self.within.micros)

    def remembered(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The last row of each key."""
        last = np.zeros(len(times), np.bool_)
        groups = self._groups(keys, len(times))
        last[len(times) - 1 - np.unique(groups[::-1], return_index=True)[1]] = True
        return last

    def _groups(self, keys: Sequence[pa.Array], rows: int) -> NDArray[np.int64]:
        return Keys.of(keys[: len(self.by)], rows).codes
