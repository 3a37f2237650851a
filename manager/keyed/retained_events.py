"""Retained events of a task whose windows are not runs of a queue: columns and flags, stored, and in order of
(key, time).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.accounts import Accounts
from manager.storage.segments import (
    CLOSED_COLUMN,
    KEY_COLUMN,
    STREAM_COLUMN,
    TIME_COLUMN,
    WEIGHT_COLUMN,
    Flags,
    Ref,
    SegmentStore,
    SegmentWriter,
    weight_columns,
    weights_of,
)
from policies.assigners import LiveEvents
from windowing.columns import group_numbers, hash_order, is_sorted, order_within, stable_order, take_rows
from windowing.events import count_by_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The events held by a task whose windows are not runs of a queue: columns and flags.


COLUMNS = ("streams", "keys", "ends", "closed_until", "gaps", "edges", "evaluation", "numbers", "reaches", "weights")
"""Columns that retained events may have besides their times and the user's columns."""

FLAGS = ("accounted", "last", "gone")

ACCOUNTED, NOT_LIVE, IN_LAST_WINDOW = 1, 2, 4
"""Flags of an event. ACCOUNTED: it has been in a window, or can be in none, so its account is settled. NOT_LIVE: no
window needs it any more. IN_LAST_WINDOW: it is in the last window of its key that fired, and is kept until the next
firing has reported it as expired (only for a bolt that asks for expired events)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedEvents:
    """Events in some order, as arrays of equal length; times in microseconds, None for a column that is not needed.

    A row may stand for a run of events that are in the same windows (``manager.keyed.run_sums``). Its time is then the
    time of the first event, and its payload has the key and the partial results. It has ``weights`` and no ``streams``;
    rows of sessions and of numbers of events also have ``reaches``. Such rows always stay in order of arrival, which
    their aggregates need.
    """

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
    """Number of each event since its task or key began, if policies of a user's own decide; -1 before it has one.
    Stored beside the flags, since the number comes later than the event is written."""
    reaches: NDArray[np.int64] | None = None
    """End of the time that the events of a row cover; in windows of a number of events, the time of the last event."""
    weights: NDArray[np.int64] | None = None
    """Number of events that each row stands for, by input: an array of shape (rows, inputs)."""
    accounted: NDArray[np.bool_] | None = None
    """True for each event that has been in a window."""
    last: NDArray[np.bool_] | None = None
    """True for each event in the last fired window of its key."""
    gone: NDArray[np.bool_] | None = None
    """True for each event that no window needs any more. With ``last`` it is kept until it is reported as expired."""

    def __len__(self) -> int:
        return len(self.times)

    @property
    def has_live(self) -> bool:
        """True if some of the events are live."""
        return len(self) > 0 and (self.gone is None or not bool(self.gone.all()))

    def take(self, indices: NDArray[np.int64]) -> RetainedEvents:
        """Returns the events at these indices."""
        given = {name: _rows_at(getattr(self, name), indices) for name in (*COLUMNS, *FLAGS)}
        return RetainedEvents(times=self.times[indices], payload=take_rows(self.payload, indices), **given)

    def bare(self, indices: NDArray[np.int64]) -> RetainedEvents:
        """Returns the events at these indices with their keys and times only."""
        return RetainedEvents(
            times=self.times[indices], payload=self.payload.select([]), keys=_rows_at(self.keys, indices)
        )

    def sorted(self) -> RetainedEvents:
        """Returns the events sorted by (key, time), as they are stored; the sort is stable. Rows that stand for several
        events stay in order of arrival."""
        order = None if self.weights is not None else self.order()
        return self if order is None else self.take(order)

    def by_stream(self, streams: int, which: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Returns the number of events of each of the ``streams`` inputs: all events, or those that ``which`` marks."""
        if self.weights is not None:
            total: NDArray[np.int64] = (self.weights if which is None else self.weights[which]).sum(axis=0)
            return total
        count = len(self) if which is None else int(np.count_nonzero(which))
        codes = self.streams if which is None or self.streams is None else self.streams[which]
        return count_by_stream(codes, count, streams)

    def order(self) -> NDArray[np.int64] | None:
        """Returns the stable sort order by (key, time); None if the events are in that order."""
        if self.keys is None:
            return None if is_sorted(self.times) else stable_order(self.times)
        same = self.keys[1:] == self.keys[:-1]
        if bool(((self.keys[1:] > self.keys[:-1]) | (same & (self.times[1:] >= self.times[:-1]))).all()):
            return None
        by_key = hash_order(self.keys)
        return by_key[order_within(group_numbers(self.keys[by_key]), self.times[by_key])]

    @staticmethod
    def concat(parts: Sequence[RetainedEvents]) -> RetainedEvents:
        """Returns the events of all parts, one part after another."""
        if len(parts) == 1:
            return parts[0]
        given = {name: _joined([getattr(part, name) for part in parts]) for name in COLUMNS}
        given |= {name: _joined_flags([getattr(part, name) for part in parts], parts) for name in FLAGS}
        payload = pa.concat_tables([part.payload for part in parts])
        return RetainedEvents(times=np.concatenate([part.times for part in parts]), payload=payload, **given)

    def flags(self) -> NDArray[np.uint8]:
        """Returns the flags of each event, as stored."""
        flags = np.zeros(len(self), np.uint8)
        for bit, which in ((ACCOUNTED, self.accounted), (NOT_LIVE, self.gone), (IN_LAST_WINDOW, self.last)):
            if which is not None:
                flags |= which * np.uint8(bit)
        return flags


def is_needed(flags: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Returns which rows are still needed: live ones, and those that have yet to be reported as expired."""
    needed: NDArray[np.bool_] = (flags & (NOT_LIVE | IN_LAST_WINDOW)) != NOT_LIVE
    return needed


def live_rows(held: RetainedEvents, flags: NDArray[np.uint8]) -> RetainedEvents:
    """Returns the live rows: those that a window may still need."""
    gone = (flags & NOT_LIVE) != 0
    return held.take(np.flatnonzero(~gone)) if gone.any() else held


def needed_rows(held: RetainedEvents, flags: NDArray[np.uint8]) -> RetainedEvents:
    """Returns the rows that are still needed: live ones, and those that have yet to be reported as expired."""
    needed = is_needed(flags)
    return held if needed.all() else held.take(np.flatnonzero(needed))


def _rows_at(column: NDArray[Any] | None, indices: NDArray[np.int64]) -> Any:
    return None if column is None else column[indices]


def _joined(parts: Sequence[NDArray[Any] | None]) -> Any:
    """One column of several parts; None if a part lacks it."""
    if any(part is None for part in parts):
        return None
    return np.concatenate([part for part in parts if part is not None])


def _joined_flags(flags: Sequence[NDArray[np.bool_] | None], parts: Sequence[RetainedEvents]) -> Any:
    """One flag of several parts, False for a part that lacks it; None if all lack it."""
    if all(flag is None for flag in flags):
        return None
    return np.concatenate(
        [np.zeros(len(part), np.bool_) if flag is None else flag for flag, part in zip(flags, parts, strict=True)]
    )


# How held events are stored in segments: their columns, and a flag for each that can be rewritten.


END_COLUMN, GAP_COLUMN, EDGE_COLUMN = "_end", "_gap", "_edge"

STORED_AS = {
    "streams": STREAM_COLUMN,
    "keys": KEY_COLUMN,
    "ends": END_COLUMN,
    "closed_until": CLOSED_COLUMN,
    "gaps": GAP_COLUMN,
    "edges": EDGE_COLUMN,
    "evaluation": "_evaluation",
    "reaches": "_reach",
}
"""The column of a segment for each column of held events."""

INNER = (TIME_COLUMN, *STORED_AS.values())
"""Columns that windbolt adds to segments."""


def write_retained(writer: SegmentWriter, held: RetainedEvents, streams: int) -> Ref:
    """Write events as a section of a segment, with their flags where any is set."""
    columns: dict[str, Any] = dict(zip(held.payload.column_names, held.payload.columns, strict=True))
    columns[TIME_COLUMN] = pa.array(held.times)
    given = {stored: getattr(held, name) for name, stored in STORED_AS.items()}
    columns.update({stored: pa.array(array) for stored, array in given.items() if array is not None})
    if held.weights is not None:
        columns.update(weight_columns(held.weights))
    ref = writer.add(pa.table(columns))
    by_stream = tuple(held.by_stream(streams).tolist())
    ref = replace(ref, earliest_live=int(held.times.min()), latest_live=int(held.times.max()), by_stream=by_stream)
    flags = held.flags()
    if flags.any() or held.numbers is not None:
        ref = flag(writer, ref, flags, held, streams)
    return ref


def flag(writer: SegmentWriter, ref: Ref, flags: NDArray[np.uint8], held: RetainedEvents, streams: int) -> Ref:
    """Write new flags, and the numbers, for the rows of a section; returns the reference with them. ``held`` are all
    its rows, in order."""
    live, needed = (flags & NOT_LIVE) == 0, is_needed(flags)
    columns = {"flags": pa.array(flags)}
    if held.numbers is not None:
        columns["numbers"] = pa.array(held.numbers)
    where = writer.add(pa.table(columns))
    times = held.times[live]
    return replace(
        ref,
        flags=Flags(where.segment, where.offset, where.length, where.checksum, int(np.count_nonzero(needed))),
        earliest_live=int(times.min()) if len(times) else None,
        latest_live=int(times.max()) if len(times) else None,
        by_stream=tuple(held.by_stream(streams, needed).tolist()),
    )


def read_retained(store: SegmentStore, ref: Ref) -> tuple[RetainedEvents, NDArray[np.uint8]]:
    """All rows of a section and the flags of each; rows that are no longer needed are included."""
    table = store.read(ref)
    names = table.column_names
    weights = weights_of(table)
    users = [at for at, name in enumerate(names) if name not in INNER and not name.startswith(WEIGHT_COLUMN)]

    def column(name: str) -> Any:
        return table.column(name).to_numpy() if name in names else None

    flags, numbers = np.zeros(table.num_rows, np.uint8), None
    where = ref.to_flags()
    if where is not None:
        beside = store.read(where)
        flags = beside.column("flags").to_numpy()
        numbers = beside.column("numbers").to_numpy() if "numbers" in beside.column_names else None
    given = {name: column(stored) for name, stored in STORED_AS.items()} | {"numbers": numbers}
    if (flags & IN_LAST_WINDOW).any():
        given |= {"last": (flags & IN_LAST_WINDOW) != 0, "gone": (flags & NOT_LIVE) != 0}
    times, payload = column(TIME_COLUMN), table.select(users)
    held = RetainedEvents(times=times, payload=payload, **given, weights=weights, accounted=(flags & ACCOUNTED) != 0)
    return held, flags


def read_needed(store: SegmentStore, ref: Ref) -> tuple[RetainedEvents, NDArray[np.uint8]]:
    """Returns the rows of a section that are still needed, with their flags."""
    held, flags = read_retained(store, ref)
    needed = np.flatnonzero(is_needed(flags))
    return held.take(needed), flags[needed]


# The live events of a task in order of (key, time), as assigners see them; their flags, and their accounts.


class SortedEvents:
    """Events of one task, sorted. A *member* is the index of an event in this order, a *place* its index among the
    given events."""

    def __init__(
        self,
        events: RetainedEvents,
        streams: Sequence[str],
        keys: Sequence[Sequence[str]] = (),
        *,
        needs_sides: bool = False,
    ) -> None:
        """``streams`` names the input streams, ``keys`` the columns of the key of each; empty for no key. ``needs_sides``:
        assigners see the input of each event, and an event whose key has a null has a key of its own."""
        self.stream_names = tuple(streams)
        self.accounts = Accounts(streams)
        self._events, self._keys = events, tuple(map(tuple, keys))
        self._order = events.order()
        self.hashes: NDArray[np.int64] | None = self._sorted(events.keys)
        """Hash of the key of each event; None without keys."""
        self.evaluation: NDArray[np.int64] | None = self._sorted(events.evaluation)
        """Number of the evaluation before which each event was admitted; None if windows fire once."""
        codes = None if self.hashes is None else group_numbers(self.hashes)
        sides = None
        if needs_sides:
            codes, sides = self._codes_apart_by_null(codes), self.stream_codes(np.arange(len(events)))
        columns = (events.times, events.ends, events.closed_until, events.gaps, events.reaches)
        times, ends, closed_until, gaps, reaches = map(self._sorted, columns)
        accounted = self._sorted(events.accounted)
        weights = None if events.weights is None else self._sorted(events.weights.sum(axis=1))
        self.live = LiveEvents(times, codes, ends, closed_until, gaps, sides, accounted, self._order, reaches, weights)
        """The events as assigners see them, before any window of this evaluation."""
        self.accounted = (
            np.zeros(len(events), np.bool_) if events.accounted is None else self._sorted(events.accounted).copy()
        )
        """True for events that have been in a window, or can be in none."""

    def __len__(self) -> int:
        return len(self._events)

    @property
    def keyed(self) -> bool:
        """True if events have a key, which their windows then have too."""
        return any(self._keys)

    @property
    def in_order(self) -> bool:
        """True if the events were given in order, so that members are places."""
        return self._order is None

    def places(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the indices, among the events as given, of these members."""
        return members if self._order is None else self._order[members]

    def taken(self, places: NDArray[np.int64]) -> RetainedEvents:
        """Returns the events at these places."""
        return self._events.take(places)

    def as_given(self, column: NDArray[Any]) -> NDArray[Any]:
        """Returns a column with a value for each event, in the order of the given events."""
        if self._order is None:
            return column
        given = np.empty(len(column), column.dtype)
        given[self._order] = column
        return given

    def fresh(self, members: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns which members of windows that fire now are in a window for the first time, each once; counts them as
        windowed."""
        fresh = self.unaccounted(members)
        if fresh.any():
            self.mark_accounted(members[fresh])
        return fresh

    def unaccounted(self, members: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns a mask of the members that have been in no window, each counted once."""
        unaccounted: NDArray[np.bool_] = ~self.accounted[members]
        if unaccounted.any():
            first = np.zeros(len(members), np.bool_)
            first[np.unique(members, return_index=True)[1]] = True
            unaccounted &= first
        return unaccounted

    def sizes(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the number of events that each of these members stands for."""
        weights = self._events.weights
        if weights is None:
            return np.ones(len(members), np.int64)
        found: NDArray[np.int64] = weights.sum(axis=1)[self.places(members)]
        return found

    def mark_accounted(self, members: NDArray[np.int64]) -> None:
        """Count these members, which have been in no window before, as windowed; each is given once."""
        now = np.zeros(len(self.accounted), np.bool_)
        now[members] = True
        self.count("windowed", now)
        self.accounted |= now

    def leave_out(self, which: NDArray[np.bool_]) -> None:
        """Count these events as unwindowed, unless they are in an account already; ``which`` is a mask over all
        events."""
        self.count("unwindowed", which & ~self.accounted)
        self.accounted |= which

    def count(self, account: str, which: NDArray[np.bool_]) -> None:
        """Add events to an account; ``which`` is a mask over all events."""
        counts = self._events.by_stream(len(self.stream_names), self.as_given(which))
        self.accounts.add(account, counts)

    @cached_property
    def payload(self) -> pa.Table:
        """The payload of the events as given, with contiguous columns; combined once for all windows."""
        return self._events.payload.combine_chunks()

    def key_hashes(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the hash of the key of each of these events; 0 without keys."""
        return np.zeros(len(members), np.int64) if self.hashes is None else self.hashes[members]

    def keys_of(self, members: NDArray[np.int64]) -> list[Any]:
        """Returns the keys of these events: a value if the key is one column, else a tuple of values."""
        if len(set(self._keys)) == 1:
            return self._keys_by(self._keys[0], members)
        keys: list[Any] = [None] * len(members)
        codes = self.stream_codes(members)
        for code in np.unique(codes).tolist():
            of_stream = np.flatnonzero(codes == code)
            values = self._keys_by(self._keys[code], members[of_stream])
            for index, key in zip(of_stream.tolist(), values, strict=True):
                keys[index] = key
        return keys

    def key_rows(self, members: NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
        """Returns the columns of the key of these events, which all streams name alike."""
        return take_rows(self.payload.select(list(columns)), self.places(members))

    def _keys_by(self, names: Sequence[str], members: NDArray[np.int64]) -> list[Any]:
        rows = take_rows(self.payload.select(list(names)), self.places(members))
        columns = [column.to_pylist() for column in rows.columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def stream_codes(self, members: NDArray[np.int64]) -> NDArray[np.int8]:
        """Returns the stream code of each of these events."""
        codes = self._events.streams
        return np.zeros(len(members), np.int8) if codes is None else codes[self.places(members)]

    def streams_of(self, members: NDArray[np.int64]) -> list[str]:
        """Returns the names of the streams of these events."""
        return [self.stream_names[code] for code in self.stream_codes(members).tolist()]

    def _codes_apart_by_null(self, codes: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        """Returns the codes of keys, where each event whose key has a null gets a code of its own: null equals
        nothing."""
        null = np.zeros(len(self), np.bool_)
        sides = self.stream_codes(np.arange(len(self)))
        for side, names in enumerate(self._keys):
            of_side = sides == side
            for name in names:
                null |= of_side & self._sorted(self._events.payload.column(name).is_null().to_numpy())
        if codes is None or not null.any():
            return codes
        steps = np.zeros(len(codes), np.int64)
        steps[1:] = (codes[1:] != codes[:-1]) | null[1:] | null[:-1]
        return np.cumsum(steps)

    def _sorted(self, column: NDArray[Any] | None) -> Any:
        return column if column is None or self._order is None else column[self._order]
