"""The events held by a task whose windows are not runs of a queue: columns and flags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.storage.segments.take_rows import take_rows
from windowing.data.order import group_numbers, hash_order, is_sorted, order_within, stable_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLUMNS = ("streams", "keys", "ends", "closed_until", "gaps", "edges", "evaluation", "numbers")
"""What held events may have besides their times and the user's columns."""

FLAGS = ("seen", "last", "gone")

SEEN, GONE, LAST = 1, 2, 4
"""Flags of an event. SEEN: it has been in a window, or is known to be in none. GONE: no window needs it any more. LAST:
it is in the window of its key that fired last, and is kept until the next firing has reported it as expired (only where
a bolt asks for that)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Events in some order, as arrays of equal length; times in microseconds, None for a column that is not needed."""

    times: NDArray[np.int64]
    payload: pa.Table
    streams: NDArray[np.int8] | None = None
    keys: NDArray[np.int64] | None = None
    """Hash of the key of each event, as stored; its code where windows are formed (decision 100)."""
    ends: NDArray[np.int64] | None = None
    """End of the lifetime of each event."""
    closed_until: NDArray[np.int64] | None = None
    """Windows that end up to this time were closed when the event arrived."""
    gaps: NDArray[np.int64] | None = None
    edges: NDArray[np.int64] | None = None
    """The start that an event came with, which its end edge names too, in microseconds (SI-3)."""
    evaluation: NDArray[np.int64] | None = None
    """Number of the evaluation before which each event was admitted, where windows fire more than once."""
    numbers: NDArray[np.int64] | None = None
    """Number of each event since its task or key began, where policies of a user's own decide; -1 before it is known.
    Stored beside the flags, since it becomes known later than the event is written."""
    seen: NDArray[np.bool_] | None = None
    """Whether each event has been in a window."""
    last: NDArray[np.bool_] | None = None
    """Whether each event is in the window of its key that fired last."""
    gone: NDArray[np.bool_] | None = None
    """Whether no window needs each event any more; with ``last`` it is kept until it is reported as expired."""

    def __len__(self) -> int:
        return len(self.times)

    @property
    def has_live(self) -> bool:
        """Whether some of the events are live."""
        return len(self) > 0 and (self.gone is None or not bool(self.gone.all()))

    def take(self, indices: NDArray[np.int64]) -> Held:
        """The events at these indices."""
        given = {name: _at(getattr(self, name), indices) for name in (*COLUMNS, *FLAGS)}
        return Held(times=self.times[indices], payload=take_rows(self.payload, indices), **given)

    def bare(self, indices: NDArray[np.int64]) -> Held:
        """The events at these indices with their keys and times only."""
        return Held(times=self.times[indices], payload=self.payload.select([]), keys=_at(self.keys, indices))

    def sorted(self) -> Held:
        """The events sorted by (key, time); the sort is stable."""
        order = self.order()
        return self if order is None else self.take(order)

    def order(self) -> NDArray[np.int64] | None:
        """The stable sort order by (key, time); None where the events are in that order."""
        if self.keys is None:
            return None if is_sorted(self.times) else stable_order(self.times)
        same = self.keys[1:] == self.keys[:-1]
        if bool(((self.keys[1:] > self.keys[:-1]) | (same & (self.times[1:] >= self.times[:-1]))).all()):
            return None
        by_key = hash_order(self.keys)
        return by_key[order_within(group_numbers(self.keys[by_key]), self.times[by_key])]

    @staticmethod
    def concat(parts: Sequence[Held]) -> Held:
        """The events of all parts, one part after another."""
        if len(parts) == 1:
            return parts[0]
        given = {name: _joined([getattr(part, name) for part in parts]) for name in COLUMNS}
        given |= {name: _joined_flags([getattr(part, name) for part in parts], parts) for name in FLAGS}
        payload = pa.concat_tables([part.payload for part in parts])
        return Held(times=np.concatenate([part.times for part in parts]), payload=payload, **given)

    def flags(self) -> NDArray[np.uint8]:
        """The flags of each event, as stored."""
        flags = np.zeros(len(self), np.uint8)
        for bit, which in ((SEEN, self.seen), (GONE, self.gone), (LAST, self.last)):
            if which is not None:
                flags |= which * np.uint8(bit)
        return flags


def is_needed(flags: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which rows are still needed: live ones, and those that have yet to be reported as expired."""
    needed: NDArray[np.bool_] = (flags & (GONE | LAST)) != GONE
    return needed


def live_rows(held: Held, flags: NDArray[np.uint8]) -> Held:
    """The live rows: those that a window may still need."""
    gone = (flags & GONE) != 0
    return held.take(np.flatnonzero(~gone)) if gone.any() else held


def needed_rows(held: Held, flags: NDArray[np.uint8]) -> Held:
    """The rows that are still needed: live ones, and those that have yet to be reported as expired."""
    needed = is_needed(flags)
    return held if needed.all() else held.take(np.flatnonzero(needed))


def _at(column: NDArray[Any] | None, indices: NDArray[np.int64]) -> Any:
    return None if column is None else column[indices]


def _joined(parts: Sequence[NDArray[Any] | None]) -> Any:
    """One column of several parts; None if a part lacks it."""
    if any(part is None for part in parts):
        return None
    return np.concatenate([part for part in parts if part is not None])


def _joined_flags(flags: Sequence[NDArray[np.bool_] | None], parts: Sequence[Held]) -> Any:
    """One flag of several parts, False for a part that lacks it; None if all lack it."""
    if all(flag is None for flag in flags):
        return None
    return np.concatenate(
        [np.zeros(len(part), np.bool_) if flag is None else flag for flag, part in zip(flags, parts, strict=True)]
    )
