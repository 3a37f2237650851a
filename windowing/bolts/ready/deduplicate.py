"""Drops events that repeat an earlier one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from windowing.aggregates.key_numbers import Keys
from windowing.bolts.ready.passing import Passing, limited
from windowing.calls.checked import checked_value
from windowing.errors import ConfigError
from windowing.time.durations import Time

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Deduplicate(Passing):
    """Passes on the first event of an id, and drops those that repeat it within a time, by event time.

        Deduplicate("id", within="10m").with_timestamp_field("ts")

    ``by``: the columns of the id. An event with a null in one of them has no id, and passes. ``within``: after an event
    has passed, events with the same id are repeats for this long. A repeat does not prolong it; an event exactly
    ``within`` later passes, and the time starts over. The first event is the one with the earliest time, on all inputs;
    among equal times, the first to arrive. So an event is passed on when the watermark has passed it. Its columns and
    its time stay what they are.

    Repeats are counted as ``repeats`` in the counters of the run, and go to the output stream ``rest`` if one is named.
    An id is forgotten once its time is over; at a task without further events, once that of all its ids is. With
    several tasks, group the inputs by fields among ``by``.

    Raises ConfigError without columns, for a ``within`` of zero, and for an invalid name of a column or stream.
    """

    held_back = "repeats"

    @checked_value
    def __init__(self, by: str | Iterable[str], *, within: Time, rest: str | None = None) -> None:
        super().__init__(by, within, rest)
        if not self.by:
            raise ConfigError(
                f"Deduplicate(by={by!r})", why="repeats are events with equal ids", do="name the columns of the id"
            )
        if self.within is None:
            raise ConfigError(
                "Deduplicate(within=None)",
                why="to know repeats of any age, every id would have to be kept forever",
                do='give the time within which repeats come, such as within="1d"',
            )

    def compared(self, schema: pa.Schema) -> tuple[str, ...]:
        return self.by

    def passes(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        assert self.within is not None
        nameless = ~_named(keys, len(times))
        return limited(Keys.of(keys, len(times)).codes, times, 1, self.within.micros) | nameless

    def remembered(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        return _named(keys, len(times))


def _named(keys: Sequence[pa.Array], rows: int) -> NDArray[np.bool_]:
    """Which rows have an id."""
    named = np.ones(rows, np.bool_)
    for key in keys:
        if key.null_count:
            named &= key.is_valid().to_numpy(zero_copy_only=False)
    return named
