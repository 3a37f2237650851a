"""The retained events of a task whose windows are formed by assigners or policies: in memory and in segments."""

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
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


COLUMNS = (
    "streams",
    "keys",
    "ends",
    "closed_until",
    "gaps",
    "edges",
    "evaluation",
    "numbers",
    "covered_until",
    "weights",
)
"""The optional columns of retained events, besides those of the user."""

FLAGS = ("accounted", "in_last_window", "finished")
"""The optional masks of retained events."""
ACCOUNTED, FINISHED, IN_LAST_WINDOW = 1, 2, 4
"""Flags of an event. ACCOUNTED: the event is in an account, because it has been in a window or can be in none.
FINISHED: no window needs the event any more. IN_LAST_WINDOW: the event is in the last fired window of its key; for a
bolt that reads expired events it is retained until the next window of the key has fired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedEvents:
    """Events as arrays of equal length, in any order; times are in microseconds. A column is None if it is not needed.

    A row may stand for a run of events that are in the same windows (``manager.keyed.run_sums``). Then its time is that
    of the first event, its payload has the key and partial aggregates, and it has ``weights`` but no ``streams``. Such
    rows are always in order of arrival, which partial aggregates depend on.
    """

    times: NDArray[np.int64]
    payload: pa.Table
    streams: NDArray[np.int8] | None = None
    """The index of the input stream of each event."""
    keys: NDArray[np.int64] | None = None
    """The hash of the key of each event; for assigners, the code of the key (decision 100)."""
    ends: NDArray[np.int64] | None = None
    """The end of the lifetime of each event."""
    closed_until: NDArray[np.int64] | None = None
    """For each event, the time up to which windows were closed when the event came."""
    gaps: NDArray[np.int64] | None = None
    """The session gap of each event."""
    edges: NDArray[np.int64] | None = None
    """The start with which each event came; it has the same start as its end edge (SI-3)."""
    evaluation: NDArray[np.int64] | None = None
    """The number of the first evaluation after the admission of each event, if windows can fire several times."""
    numbers: NDArray[np.int64] | None = None
    """The number of each event in its task or key, for custom policies; -1 before it has a number. It is stored with
    the flags, because an event gets its number after it has been written."""
    covered_until: NDArray[np.int64] | None = None
    """For rows that stand for several events: for sessions, the end of the time that these cover; for windows of a
    count, the time of the last event."""
    weights: NDArray[np.int64] | None = None
    """The number of events that each row stands for, per input stream: an array of shape (rows, streams)."""
    accounted: NDArray[np.bool_] | None = None
    """A mask of the events that have been in a window, or can be in none."""
    in_last_window: NDArray[np.bool_] | None = None
    """A mask of the events in the last fired window of their key."""
    finished: NDArray[np.bool_] | None = None
    """A mask of the events that no window needs any more."""

    def __len__(self) -> int:
        return len(self.times)

    @property
    def has_live(self) -> bool:
        """True if a window may still need one of the events."""
        return len(self) > 0 and (self.finished is None or not bool(self.finished.all()))

    def take(self, indices: NDArray[np.int64]) -> RetainedEvents:
        """Returns the events at these indices."""
        optional = {name: _rows_at(getattr(self, name), indices) for name in (*COLUMNS, *FLAGS)}
        return RetainedEvents(times=self.times[indices], payload=take_rows(self.payload, indices), **optional)

    def keys_and_times(self, indices: NDArray[np.int64]) -> RetainedEvents:
        """Returns the events at these indices, with their keys and times only."""
        return RetainedEvents(
            times=self.times[indices], payload=self.payload.select([]), keys=_rows_at(self.keys, indices)
        )

    def sorted(self) -> RetainedEvents:
        """Returns the events in the order in which they are stored: by (key, time), then in their present order. Rows
        that stand for several events keep their order."""
        order = None if self.weights is not None else self.order()
        return self if order is None else self.take(order)

    def by_stream(self, streams: int, mask: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Returns the number of events of each of the ``streams`` input streams, of all events or those in a mask."""
        if self.weights is not None:
            total: NDArray[np.int64] = (self.weights if mask is None else self.weights[mask]).sum(axis=0)
            return total
        count = len(self) if mask is None else int(np.count_nonzero(mask))
        codes = self.streams if mask is None or self.streams is None else self.streams[mask]
        return count_by_stream(codes, count, streams)

    def order(self) -> NDArray[np.int64] | None:
        """Returns the permutation that sorts the events by (key, time, position); None if they are sorted."""
        if self.keys is None:
            return None if is_sorted(self.times) else stable_order(self.times)
        has_same_key = self.keys[1:] == self.keys[:-1]
        if bool(((self.keys[1:] > self.keys[:-1]) | (has_same_key & (self.times[1:] >= self.times[:-1]))).all()):
            return None
        by_key = hash_order(self.keys)
        return by_key[order_within(group_numbers(self.keys[by_key]), self.times[by_key])]

    @staticmethod
    def concat(parts: Sequence[RetainedEvents]) -> RetainedEvents:
        """Concatenate the events of the parts."""
        if len(parts) == 1:
            return parts[0]
        optional = {name: _concat_columns([getattr(part, name) for part in parts]) for name in COLUMNS}
        optional |= {name: _concat_masks([getattr(part, name) for part in parts], parts) for name in FLAGS}
        payload = pa.concat_tables([part.payload for part in parts])
        return RetainedEvents(times=np.concatenate([part.times for part in parts]), payload=payload, **optional)

    def flags(self) -> NDArray[np.uint8]:
        """Returns the flags of each event, as stored."""
        flags = np.zeros(len(self), np.uint8)
        for bit, mask in (
            (ACCOUNTED, self.accounted),
            (FINISHED, self.finished),
            (IN_LAST_WINDOW, self.in_last_window),
        ):
            if mask is not None:
                flags |= mask * np.uint8(bit)
        return flags


def is_needed(flags: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Returns a mask of the rows that are still needed: live events, and those that may have to be reported as
    expired."""
    needed: NDArray[np.bool_] = (flags & (FINISHED | IN_LAST_WINDOW)) != FINISHED
    return needed


def live_rows(events: RetainedEvents, flags: NDArray[np.uint8]) -> RetainedEvents:
    """Returns the rows that a window may still need."""
    finished = (flags & FINISHED) != 0
    return events.take(np.flatnonzero(~finished)) if finished.any() else events


def needed_rows(events: RetainedEvents, flags: NDArray[np.uint8]) -> RetainedEvents:
    """Returns the rows that are still needed: live events, and those that may have to be reported as expired."""
    needed = is_needed(flags)
    return events if needed.all() else events.take(np.flatnonzero(needed))


def _rows_at(column: NDArray[Any] | None, indices: NDArray[np.int64]) -> Any:
    return None if column is None else column[indices]


def _concat_columns(parts: Sequence[NDArray[Any] | None]) -> Any:
    """Concatenate the columns of parts; None if a part lacks the column."""
    if any(part is None for part in parts):
        return None
    return np.concatenate([part for part in parts if part is not None])


def _concat_masks(flags: Sequence[NDArray[np.bool_] | None], parts: Sequence[RetainedEvents]) -> Any:
    """Concatenate the masks of parts, False for a part without the mask; None if all parts lack it."""
    if all(flag is None for flag in flags):
        return None
    return np.concatenate(
        [np.zeros(len(part), np.bool_) if flag is None else flag for flag, part in zip(flags, parts, strict=True)]
    )


# Retained events in segments; their flags are stored apart, so that they can be rewritten.


END_COLUMN, GAP_COLUMN, EDGE_COLUMN = "_end", "_gap", "_edge"

STORED_AS = {
    "streams": STREAM_COLUMN,
    "keys": KEY_COLUMN,
    "ends": END_COLUMN,
    "closed_until": CLOSED_COLUMN,
    "gaps": GAP_COLUMN,
    "edges": EDGE_COLUMN,
    "evaluation": "_evaluation",
    "covered_until": "_covered_until",
}
"""The name in segments of each column of retained events."""

INTERNAL_COLUMNS = (TIME_COLUMN, *STORED_AS.values())
"""The columns that windbolt adds to segments."""


def write_retained(writer: SegmentWriter, events: RetainedEvents, streams: int) -> Ref:
    """Write events as a section of a segment, and their flags if any is set; ``streams``: the number of input
    streams."""
    columns: dict[str, Any] = dict(zip(events.payload.column_names, events.payload.columns, strict=True))
    columns[TIME_COLUMN] = pa.array(events.times)
    optional = {stored: getattr(events, name) for name, stored in STORED_AS.items()}
    columns.update({stored: pa.array(array) for stored, array in optional.items() if array is not None})
    if events.weights is not None:
        columns.update(weight_columns(events.weights))
    ref = writer.add(pa.table(columns))
    by_stream = tuple(events.by_stream(streams).tolist())
    ref = replace(ref, earliest_live=int(events.times.min()), latest_live=int(events.times.max()), by_stream=by_stream)
    flags = events.flags()
    if flags.any() or events.numbers is not None:
        ref = write_flags(writer, ref, flags, events, streams)
    return ref


def write_flags(writer: SegmentWriter, ref: Ref, flags: NDArray[np.uint8], events: RetainedEvents, streams: int) -> Ref:
    """Write new flags and numbers for the rows of a section. Returns the reference to the section with these flags.
    ``events``: all rows of the section, in order."""
    live, needed = (flags & FINISHED) == 0, is_needed(flags)
    columns = {"flags": pa.array(flags)}
    if events.numbers is not None:
        columns["numbers"] = pa.array(events.numbers)
    flags_ref = writer.add(pa.table(columns))
    times = events.times[live]
    return replace(
        ref,
        flags=Flags(
            flags_ref.segment, flags_ref.offset, flags_ref.length, flags_ref.checksum, int(np.count_nonzero(needed))
        ),
        earliest_live=int(times.min()) if len(times) else None,
        latest_live=int(times.max()) if len(times) else None,
        by_stream=tuple(events.by_stream(streams, needed).tolist()),
    )


def read_retained(store: SegmentStore, ref: Ref) -> tuple[RetainedEvents, NDArray[np.uint8]]:
    """Returns all rows of a section and their flags, including rows that are no longer needed."""
    table = store.read(ref)
    names = table.column_names
    weights = weights_of(table)
    user_columns = [
        at for at, name in enumerate(names) if name not in INTERNAL_COLUMNS and not name.startswith(WEIGHT_COLUMN)
    ]

    def column(name: str) -> Any:
        return table.column(name).to_numpy() if name in names else None

    flags, numbers = np.zeros(table.num_rows, np.uint8), None
    flags_ref = ref.ref_of_flags()
    if flags_ref is not None:
        flags_table = store.read(flags_ref)
        flags = flags_table.column("flags").to_numpy()
        numbers = flags_table.column("numbers").to_numpy() if "numbers" in flags_table.column_names else None
    optional = {name: column(stored) for name, stored in STORED_AS.items()} | {"numbers": numbers}
    if (flags & IN_LAST_WINDOW).any():
        optional |= {"in_last_window": (flags & IN_LAST_WINDOW) != 0, "finished": (flags & FINISHED) != 0}
    times, payload = column(TIME_COLUMN), table.select(user_columns)
    events = RetainedEvents(
        times=times, payload=payload, **optional, weights=weights, accounted=(flags & ACCOUNTED) != 0
    )
    return events, flags


def read_needed(store: SegmentStore, ref: Ref) -> tuple[RetainedEvents, NDArray[np.uint8]]:
    """Returns the rows of a section that are still needed, with their flags."""
    events, flags = read_retained(store, ref)
    needed = np.flatnonzero(is_needed(flags))
    return events.take(needed), flags[needed]


# Sorted events, as assigners take them.


class SortedEvents:
    """The events of one task in order of (key, time), with their flags and accounts. A *member* is an index in this
    order, a *row index* is an index in the order of the given events."""

    def __init__(
        self,
        events: RetainedEvents,
        streams: Sequence[str],
        keys: Sequence[Sequence[str]] = (),
        *,
        needs_sides: bool = False,
        latest: int = -FOREVER,
    ) -> None:
        """``streams``: the names of the input streams. ``keys``: the key columns of each; empty without a key.
        ``needs_sides``: True if assigners need the input of each event; then each event with a null in its key has a
        different key. ``latest``: see ``LiveEvents``."""
        self.stream_names = tuple(streams)
        self.accounts = Accounts(streams)
        self._events, self._keys = events, tuple(map(tuple, keys))
        self._order = events.order()
        self.hashes: NDArray[np.int64] | None = self._sorted(events.keys)
        """The hash of the key of each event; None without keys."""
        self.evaluation: NDArray[np.int64] | None = self._sorted(events.evaluation)
        """The number of the first evaluation after the admission of each event; None if windows fire once."""
        codes = None if self.hashes is None else group_numbers(self.hashes)
        sides = None
        if needs_sides:
            codes, sides = self._separate_null_keys(codes), self.stream_codes(np.arange(len(events)))
        columns = (events.times, events.ends, events.closed_until, events.gaps, events.covered_until)
        times, ends, closed_until, gaps, covered_until = map(self._sorted, columns)
        accounted = self._sorted(events.accounted)
        weights = None if events.weights is None else self._sorted(events.weights.sum(axis=1))
        self.live = LiveEvents(
            times, codes, ends, closed_until, gaps, sides, accounted, self._order, covered_until, weights, latest
        )
        """The events in the form that assigners take, as they are before this evaluation."""
        self.accounted = (
            np.zeros(len(events), np.bool_) if events.accounted is None else self._sorted(events.accounted).copy()
        )
        """A mask of the events that have been in a window, or can be in none."""

    def __len__(self) -> int:
        return len(self._events)

    @property
    def keyed(self) -> bool:
        """True if events have a key."""
        return any(self._keys)

    @property
    def in_order(self) -> bool:
        """True if the given events are sorted, so that members equal row indices."""
        return self._order is None

    def row_indices(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the row indices of these members."""
        return members if self._order is None else self._order[members]

    def take(self, row_indices: NDArray[np.int64]) -> RetainedEvents:
        """Returns the events at these row indices."""
        return self._events.take(row_indices)

    def in_given_order(self, column: NDArray[Any]) -> NDArray[Any]:
        """Returns a column, which has a value for each event, in the order of the given events."""
        if self._order is None:
            return column
        values = np.empty(len(column), column.dtype)
        values[self._order] = column
        return values

    def account_new(self, members: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Count as windowed those members of firing windows that have been in no window. Returns a mask of them; of
        equal members only the first is in it."""
        new_members = self.unaccounted(members)
        if new_members.any():
            self.mark_accounted(members[new_members])
        return new_members

    def unaccounted(self, members: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns a mask of the members that have been in no window; of equal members only the first."""
        unaccounted: NDArray[np.bool_] = ~self.accounted[members]
        if unaccounted.any():
            is_first = np.zeros(len(members), np.bool_)
            is_first[np.unique(members, return_index=True)[1]] = True
            unaccounted &= is_first
        return unaccounted

    def sizes(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the number of events that each of these members stands for."""
        weights = self._events.weights
        if weights is None:
            return np.ones(len(members), np.int64)
        sizes: NDArray[np.int64] = weights.sum(axis=1)[self.row_indices(members)]
        return sizes

    def mark_accounted(self, members: NDArray[np.int64]) -> None:
        """Count these members as windowed. No member is twice among them, and none has been in a window."""
        mask = np.zeros(len(self.accounted), np.bool_)
        mask[members] = True
        self.count("windowed", mask)
        self.accounted |= mask

    def mark_unwindowed(self, mask: NDArray[np.bool_]) -> None:
        """Count the events in a mask over all events as unwindowed, except those that are in an account."""
        self.count("unwindowed", mask & ~self.accounted)
        self.accounted |= mask

    def count(self, account: str, mask: NDArray[np.bool_]) -> None:
        """Add the events in a mask over all events to an account."""
        counts = self._events.by_stream(len(self.stream_names), self.in_given_order(mask))
        self.accounts.add(account, counts)

    @cached_property
    def payload(self) -> pa.Table:
        """The payload of the given events, each column in one piece."""
        return self._events.payload.combine_chunks()

    def key_hashes(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the hashes of the keys of these members; 0 without keys."""
        return np.zeros(len(members), np.int64) if self.hashes is None else self.hashes[members]

    def keys_of(self, members: NDArray[np.int64]) -> list[Any]:
        """Returns the keys of these members; a tuple each if the key has several columns."""
        if len(set(self._keys)) == 1:
            return self._keys_by(self._keys[0], members)
        keys: list[Any] = [None] * len(members)
        codes = self.stream_codes(members)
        for code in np.unique(codes).tolist():
            on_stream = np.flatnonzero(codes == code)
            values = self._keys_by(self._keys[code], members[on_stream])
            for index, key in zip(on_stream.tolist(), values, strict=True):
                keys[index] = key
        return keys

    def key_rows(self, members: NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
        """Returns the key columns of these members, which have the same names on all streams."""
        return take_rows(self.payload.select(list(columns)), self.row_indices(members))

    def _keys_by(self, names: Sequence[str], members: NDArray[np.int64]) -> list[Any]:
        rows = take_rows(self.payload.select(list(names)), self.row_indices(members))
        columns = [column.to_pylist() for column in rows.columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def stream_codes(self, members: NDArray[np.int64]) -> NDArray[np.int8]:
        """Returns the stream code of each of these members."""
        codes = self._events.streams
        return np.zeros(len(members), np.int8) if codes is None else codes[self.row_indices(members)]

    def streams_of(self, members: NDArray[np.int64]) -> list[str]:
        """Returns the name of the stream of each of these members."""
        return [self.stream_names[code] for code in self.stream_codes(members).tolist()]

    def _separate_null_keys(self, codes: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        """Returns codes of keys in which each event with a null in its key has a different code."""
        null = np.zeros(len(self), np.bool_)
        sides = self.stream_codes(np.arange(len(self)))
        for side, names in enumerate(self._keys):
            on_side = sides == side
            for name in names:
                null |= on_side & self._sorted(self._events.payload.column(name).is_null().to_numpy())
        if codes is None or not null.any():
            return codes
        steps = np.zeros(len(codes), np.int64)
        steps[1:] = (codes[1:] != codes[:-1]) | null[1:] | null[:-1]
        return np.cumsum(steps)

    def _sorted(self, column: NDArray[Any] | None) -> Any:
        return column if column is None or self._order is None else column[self._order]
