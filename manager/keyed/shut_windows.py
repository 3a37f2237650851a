"""Windows that a firing has closed before their end, and the events that come too late for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.held import Held
from manager.keyed.pane_states import PaneStates
from manager.keyed.sorted_events import SortedEvents
from policies.assigners import WindowAssigner
from policies.marks import NONE
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TYPE = np.dtype([("kind", np.int64), ("key", np.int64), ("start", np.int64), ("end", np.int64)])


class ShutWindows:
    """The windows of a task that take no events any more, although time has not closed them (``closes=True``)."""

    def __init__(self, states: PaneStates, assigners: Sequence[WindowAssigner]) -> None:
        shut = states.take(np.flatnonzero(states.shut))
        self._assigners, self._windows = tuple(assigners), _rows(shut.kind, shut.key, shut.start, shut.end)

    def missed(
        self, times: NDArray[np.int64], keys: NDArray[np.int64] | None, closed_until: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Which events have come too late for each window that could hold them: it is among these, or ends up to
        ``closed_until``. At least one is among these. Times are in microseconds, keys hashes."""
        if not len(self._windows) or not len(times):
            return np.zeros(len(times), np.bool_)
        bare = pa.table({"place": pa.nulls(len(times))})
        events = SortedEvents(Held(times=times, payload=bare, keys=keys, closed_until=np.array(closed_until)), ())
        left, shut_out = np.zeros(len(times), np.bool_), np.zeros(len(times), np.bool_)
        for kind, assigner in enumerate(self._assigners):
            for piece in assigner.assign(events.live, NONE, FOREVER):
                of_key = events.key_hashes(piece.members[piece.offsets[:-1]])
                shut = np.isin(_rows(kind, of_key, piece.starts, piece.ends), self._windows)
                by_member = np.repeat(shut, np.diff(piece.offsets))
                shut_out[piece.members[by_member]] = True
                left[piece.members[~by_member]] = True
        return events.as_given(shut_out & ~left)


def _rows(
    kind: int | NDArray[np.int64], key: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.void]:
    rows = np.zeros(len(key), _TYPE)
    rows["kind"], rows["key"], rows["start"], rows["end"] = kind, key, start, end
    return rows
