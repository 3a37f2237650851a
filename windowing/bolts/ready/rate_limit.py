"""Limits how many events of a key pass within a length of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from windowing.aggregates.key_numbers import Keys
from windowing.bolts.ready.given_limits import read_limit
from windowing.bolts.ready.passing import Passing, limited
from windowing.calls.checked import checked_value
from windowing.errors import ConfigError
from windowing.time.durations import Time

if TYPE_CHECKING:
    from numpy.typing import NDArray


class RateLimit(Passing):
    """Passes on at most ``n`` events of a key in any stretch of time of the length ``per``, by event time.

        RateLimit(5, per="1m", by="user", rest="muted")

    ``by``: the columns of the key; without them all events share one limit. A null is a key like any other. An event
    passes if fewer than ``n`` events of its key that have passed are less than ``per`` before it; so one that comes
    exactly ``per`` after the first of them passes. What does not pass does not count against the limit. Events are
    looked at in order of time, then of arrival, on all inputs, when the watermark has passed them. Their columns and
    times stay what they are.

    Events over the limit are counted as ``over the limit`` in the counters of the run, and go to the output stream
    ``rest`` if one is named. At most ``n`` times are kept for each key, no longer than ``per``. With several tasks,
    group the inputs by fields among ``by``.

    ConfigError for an ``n`` that is not a whole number above 0, for a ``per`` of zero, and for what is not a column or
    not a stream.
    """

    held_back = "over the limit"

    @checked_value
    def __init__(self, n: int, *, per: Time, by: str | Iterable[str] | None = (), rest: str | None = None) -> None:
        super().__init__(by, per, rest, length="per")
        self.n = read_limit("RateLimit", n, "events that may pass")
        if self.within is None:
            raise ConfigError(f"RateLimit({n}, per=None)", why="a rate is a number in a time", do='give per="1m"')

    def compared(self, schema: pa.Schema) -> tuple[str, ...]:
        return self.by

    def passes(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        assert self.within is not None
        return limited(Keys.of(keys, len(times)).codes, times, self.n, self.within.micros)

    def remembered(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.ones(len(times), np.bool_)
