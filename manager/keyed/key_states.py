"""States of the keys of a task that are stored apart from events: timers, caches of rules, watermarks, last windows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.retained_events import END_COLUMN
from manager.storage.segments import CLOSED_COLUMN, KEY_COLUMN, TIME_COLUMN
from policies.watermarks import NONE, advance_keys
from windowing.columns import hash_order, take_rows
from windowing.daytimes import DayTime
from windowing.reprs import repr_of
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


_TIMER, _EMPTY, _MICROS, _ZONE, CACHE_COLUMN = "_timer", "_empty", "_day_micros", "_day_zone", "_cache"

RECORD_COLUMNS = (_TIMER, _EMPTY, _MICROS, _ZONE, CACHE_COLUMN)
"""The stored columns of records, besides those of the key."""


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """The state of a key with a trigger of keys or custom policies."""

    timer: int = NONE
    """Time in microseconds at which the key is evaluated next, without an event; NONE if there is none."""
    empty: int = 0
    """Number of successive daily firings without events."""
    day: DayTime | None = None
    """The time of day that the rule of a DailyByRule last returned."""
    state_text: str = ""
    """The cache of a rule, while the window is open, or the record of a unit with custom policies, as JSON; "" if there
    is none."""


@dataclass(frozen=True)
class ForgottenKey:
    """A key whose record has been deleted, because no event came for a long time (UH-22)."""

    key: Any


class KeyStates:
    """The records of a task's keys, by the hashes of keys; the table is rewritten only if a record has changed."""

    def __init__(self, table: pa.Table | None, key: Sequence[str]) -> None:
        self._key = list(key)
        self._table = table
        self._hashes = np.zeros(0, np.int64) if table is None else table.column(KEY_COLUMN).to_numpy()
        self._timers = np.zeros(0, np.int64) if table is None else table.column(_TIMER).to_numpy()
        self._changed: dict[int, tuple[KeyRecord, int] | None] = {}

    def __len__(self) -> int:
        """Returns the number of stored records, without changes."""
        return len(self._hashes)

    def clear(self) -> None:
        """Delete the records of all keys."""
        for key in self._hashes.tolist():
            self._changed[key] = None

    @property
    def changed(self) -> bool:
        """True if a record has changed."""
        return bool(self._changed)

    def get(self, key: int) -> KeyRecord | None:
        """Returns the record of a key; None if there is none."""
        if key in self._changed:
            change = self._changed[key]
            return None if change is None else change[0]
        row = self._row(key)
        return None if row is None else self._record(row)

    def state_texts(self, keys: Sequence[int]) -> list[str]:
        """Returns the stored states of these keys as texts; "" for a key without one."""
        if self._table is None:
            stored: dict[int, str] = {}
        else:
            key_codes = np.array(keys, np.int64)
            rows = np.minimum(np.searchsorted(self._hashes, key_codes), len(self._hashes) - 1)
            rows = rows[self._hashes[rows] == key_codes] if len(self._hashes) else rows[:0]
            texts = self._table.column(CACHE_COLUMN).take(pa.array(rows)).to_pylist()
            stored = dict(zip(self._hashes[rows].tolist(), texts, strict=True))
        changed = self._changed
        return [_cache_of(changed[key]) if key in changed else stored.get(key, "") for key in keys]

    def _record(self, row: int) -> KeyRecord:
        timer, empty, micros, zone, cache = (column[row].as_py() for column in self._columns)
        return KeyRecord(timer, empty, None if micros is None else DayTime(micros, zone), cache)

    @cached_property
    def _columns(self) -> list[pa.Array]:
        """The columns of records, each in one piece, where values are read five times as fast."""
        assert self._table is not None
        columns = [self._table.column(name) for name in RECORD_COLUMNS]
        return [column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in columns]

    def put(self, key: int, record: KeyRecord, event: int) -> None:
        """Set the record of a key; ``event``: the index of one of its events, -1 if there is none."""
        before = self._changed.get(key)
        self._changed[key] = (record, before[1] if event < 0 and before is not None else event)

    def drop(self, key: int) -> None:
        """Delete the record of a key."""
        if key in self._changed or self._row(key) is not None:
            self._changed[key] = None

    def due(self, clock: int, *, all_at_end: bool = False) -> list[int]:
        """Returns the hashes of the keys whose stored timers are due at a clock, without changes. ``all_at_end``: if
        the clock is FOREVER, keys without a timer are due too."""
        due = self._timers <= clock
        if all_at_end and clock != FOREVER:
            due &= self._timers > NONE
        hashes: list[int] = self._hashes[due].tolist()
        return hashes

    @property
    def next_timer(self) -> int | None:
        """The earliest timer of all keys in microseconds; None if there is none."""
        unchanged = np.isin(self._hashes, np.fromiter(self._changed, np.int64, len(self._changed)), invert=True)
        timers = self._timers[unchanged].tolist() + [
            change[0].timer for change in self._changed.values() if change is not None
        ]
        return min((timer for timer in timers if timer > NONE), default=None)

    def value(self, key: int, payload: pa.Table | None) -> Any:
        """Returns the value of a key; a tuple if it has several columns. ``payload``: the events that the indices of
        ``put`` refer to."""
        change, row = self._changed.get(key), self._row(key)
        if row is not None and self._table is not None:
            values = [self._table.column(name)[row].as_py() for name in self._key]
        else:
            assert change is not None
            assert payload is not None
            values = [payload.column(name)[change[1]].as_py() for name in self._key]
        return values[0] if len(values) == 1 else tuple(values)

    def table(self, payload: pa.Table | None) -> pa.Table | None:
        """Returns all records as a table in order of hashes, to be stored; None if there are none. ``payload``: the
        events that the indices of ``put`` refer to."""
        if not self._changed:
            return self._table
        changed = np.fromiter(self._changed, np.int64, len(self._changed))
        parts = []
        if self._table is not None:
            unchanged = np.flatnonzero(np.isin(self._hashes, changed, invert=True))
            if len(unchanged):
                parts.append(self._table.take(pa.array(unchanged)))
        records = {key: change for key, change in self._changed.items() if change is not None}
        if records:
            parts.append(self._new_rows(records, payload))
        if not parts:
            return None
        all_states = pa.concat_tables(parts)
        return all_states.take(pa.array(np.argsort(all_states.column(KEY_COLUMN).to_numpy(), kind="stable")))

    def _new_rows(self, changes: dict[int, tuple[KeyRecord, int]], payload: pa.Table | None) -> pa.Table:
        records = [record for record, _ in changes.values()]
        rows = [self._row(key) for key in changes]
        columns: dict[str, Any] = {KEY_COLUMN: pa.array(list(changes), pa.int64())}
        with_row = [index for index, row in enumerate(rows) if row is not None]
        without_row = [index for index, row in enumerate(rows) if row is None]
        order_of_changes = np.argsort(np.array(with_row + without_row, np.int64), kind="stable")
        for name in self._key:
            parts: list[Any] = []
            if with_row and self._table is not None:
                parts += self._table.column(name).take(pa.array([rows[index] for index in with_row])).chunks
            if without_row:
                assert payload is not None
                events = [event for index, (_, event) in enumerate(changes.values()) if rows[index] is None]
                parts += payload.column(name).take(pa.array(events)).chunks
            columns[name] = pa.chunked_array(parts).take(pa.array(order_of_changes))
        days = [record.day for record in records]
        columns |= {
            _TIMER: pa.array([record.timer for record in records], pa.int64()),
            _EMPTY: pa.array([record.empty for record in records], pa.int64()),
            _MICROS: pa.array([None if day is None else day.micros for day in days], pa.int64()),
            _ZONE: pa.array([None if day is None else day.zone for day in days], pa.string()),
            CACHE_COLUMN: pa.array([record.state_text for record in records], pa.string()),
        }
        return pa.table(columns)

    def _row(self, key: int) -> int | None:
        row = int(np.searchsorted(self._hashes, key))
        return row if row < len(self._hashes) and self._hashes[row] == key else None


def _cache_of(change: tuple[KeyRecord, int] | None) -> str:
    return "" if change is None else change[0].state_text


# Watermarks per key (AZ-15).


MARK_COLUMN, PREVIOUS_COLUMN = TIME_COLUMN, CLOSED_COLUMN
"""The stored columns of marks, besides those of the key; no column of events can have these names."""


class Substreams:
    """The watermarks of the keys of one task, which are called marks.

    The floor is a time before which no further event of any key can come, by the clock of arrivals; NONE if there is
    none. A key is forgotten when the floor has passed its mark.
    """

    def __init__(self, table: pa.Table | None, delay: int, floor: int) -> None:
        self.delay, self.floor, self._floor_before = delay, floor, floor
        empty = np.zeros(0, np.int64)
        self.keys = empty if table is None else table.column(KEY_COLUMN).to_numpy()
        """The hashes of the keys, ascending."""
        self.marks = empty if table is None else table.column(MARK_COLUMN).to_numpy()
        self.previous = empty if table is None else table.column(PREVIOUS_COLUMN).to_numpy()
        """The time up to which the windows of each key have been evaluated."""
        self._values = None if table is None else table.drop_columns([KEY_COLUMN, MARK_COLUMN, PREVIOUS_COLUMN])

    def advance(
        self, keys: NDArray[np.int64], times: NDArray[np.int64], advancing: NDArray[np.bool_], values: pa.Table
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Advance the marks of keys by events in order of arrival. Returns the mark of each event's key before and
        after the event. ``values``: the key columns of the events."""
        order = hash_order(keys)
        ordered = keys[order]
        first_of_key = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, np.bool_)
        distinct = ordered[first_of_key]
        self._add(distinct, values, order[first_of_key])
        key_rows = np.searchsorted(self.keys, distinct)
        codes = np.cumsum(first_of_key) - 1
        marks_before = self.marks[key_rows]
        after = advance_keys(codes, times[order], advancing[order], marks_before[codes], self.delay)
        before = np.empty_like(after)
        before[1:] = after[:-1]
        before[first_of_key] = marks_before
        last_of_key = (
            np.concatenate([np.flatnonzero(first_of_key)[1:] - 1, [len(after) - 1]]) if len(after) else key_rows
        )
        self.marks[key_rows] = np.maximum(self.marks[key_rows], after[last_of_key])
        before_by_arrival, after_by_arrival = np.empty_like(before), np.empty_like(after)
        before_by_arrival[order], after_by_arrival[order] = before, after
        return before_by_arrival, after_by_arrival

    def limits(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns, for each of these keys, the time up to which it has been evaluated, and its mark."""
        key_rows = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        if not len(self.keys):
            return np.full(len(keys), self._floor_before, np.int64), np.full(len(keys), self.floor, np.int64)
        has_mark = self.keys[key_rows] == keys
        previous = np.maximum(np.where(has_mark, self.previous[key_rows], NONE), self._floor_before)
        marks = np.where(has_mark, self.marks[key_rows], NONE)
        return previous, np.maximum(marks, self.floor)

    def mark_evaluated(self) -> None:
        """Record that the windows of each key have been evaluated up to its mark or the floor."""
        self.previous = np.maximum(self.marks, self.floor)

    def raise_floor(self, floor: int) -> None:
        """Raise the floor to at least this time."""
        self.floor = max(self.floor, floor)

    def table(self) -> pa.Table | None:
        """Returns the marks as a table to store; None if there are none.

        The mark of a key is left out if the next event of the key is sure to advance it, by the floor.
        """
        is_kept = self.marks > max(self.floor, NONE + self.delay + 1) - self.delay - 1
        if not is_kept.any():
            return None
        return self._table(np.flatnonzero(is_kept))

    def complete_table(self) -> pa.Table | None:
        """Returns all marks as a table, also those that need not be stored; None if there are none."""
        return None if self._values is None else self._table(np.arange(len(self.keys)))

    def _table(self, rows: NDArray[np.int64]) -> pa.Table:
        assert self._values is not None
        values = take_rows(self._values, rows)
        marks = {KEY_COLUMN: self.keys[rows], MARK_COLUMN: self.marks[rows], PREVIOUS_COLUMN: self.previous[rows]}
        return pa.table({**marks, **dict(zip(values.column_names, values.columns, strict=True))})

    def _add(self, distinct: NDArray[np.int64], values: pa.Table, firsts: NDArray[np.int64]) -> None:
        """Add the new keys among ``distinct``. ``firsts``: the row of ``values`` for each key of ``distinct``."""
        unknown = ~np.isin(distinct, self.keys)
        new_codes = distinct[unknown]
        if not len(new_codes):
            self.marks = self.marks.copy()
            return
        added = take_rows(values, firsts[unknown])
        if self._values is not None:
            added = pa.concat_tables([self._values, added.cast(self._values.schema)])
        keys = np.concatenate([self.keys, new_codes])
        order = np.argsort(keys, kind="stable")
        self.keys, self._values = keys[order], take_rows(added, order)
        no_marks = np.full(len(new_codes), NONE, np.int64)
        self.marks = np.concatenate([self.marks, no_marks])[order]
        self.previous = np.concatenate([self.previous, no_marks])[order]


# Caches of rules.


_SCALARS = frozenset({str, float, bool, type(None)})
_INT64_LIMIT = 1 << 63
_DEEPEST = 200
"""Greatest number of nested lists and dicts in a cache, so that copying and writing it cannot exceed the depth of
recursion."""


def round_trip_json(cache: object) -> tuple[str, dict[str, Any]]:
    """Convert a cache to JSON and back. Returns the text and the result. Raises TypeError or ValueError for values
    that JSON does not have, and for a cache that is nested too deep."""
    if not isinstance(cache, dict):
        raise TypeError(f"the cache is {repr_of(cache):.60}, and must be a dict")
    try:
        text = json.dumps(cache)
        copied: dict[str, Any] = json.loads(text)
    except RecursionError:
        raise _too_deep() from None
    if text.count("[") + text.count("{") > _DEEPEST:
        level: list[Any] = [copied]
        for _ in range(_DEEPEST):
            inner = [each for value in level for each in (value.values() if isinstance(value, dict) else value)]
            level = [value for value in inner if isinstance(value, dict | list)]
        if level:
            raise _too_deep()
    return text, copied


def _too_deep() -> ValueError:
    return ValueError(f"the cache has more than {_DEEPEST} lists and dicts within one another")


class RuleCache:
    """The cache of one window after the last successful call of its rule, as it would be after a restart."""

    __slots__ = ("_flat", "_text")

    def __init__(self, text: str = "") -> None:
        """``text``: the stored JSON; "" if there is no cache."""
        self._text: str | None = text
        self._flat: dict[str, Any] = {}

    def keep(self, cache: dict[str, Any]) -> dict[str, Any]:
        """Store the cache after a call. Returns the cache for the next call, converted to JSON and back.

        Raises TypeError or ValueError for values that JSON does not have; the stored cache is then unchanged. A flat
        dict of texts and numbers, the usual case, is only copied, because JSON does not change it.
        """
        if type(cache) is dict:
            if not cache:
                self._text, self._flat = "", {}
                return {}
            if is_flat(cache):
                self._text, self._flat = None, cache.copy()
                return cache
        self._text, copied = round_trip_json(cache)
        return copied

    def copy(self) -> dict[str, Any]:
        """Returns a copy of the stored cache."""
        if self._text is None:
            return dict(self._flat)
        return json.loads(self._text) if self._text else {}

    @property
    def text(self) -> str:
        """The cache as JSON; "" if there is none."""
        return json.dumps(self._flat) if self._text is None else self._text


def is_flat(cache: dict[str, Any]) -> bool:
    """True if conversion to JSON and back surely changes nothing: keys are texts, values are texts or numbers."""
    for key, value in cache.items():  # all() would cost twice as much, for every event
        if type(key) is not str:
            return False
        if type(value) not in _SCALARS and not (type(value) is int and -_INT64_LIMIT <= value < _INT64_LIMIT):
            return False
    return True


# Known keys, for windows without events.


class KnownKeys:
    """Keys that have had events lately, in order of hashes. A task without keys has one key, of hash 0 and without
    columns."""

    def __init__(self, table: pa.Table) -> None:
        """``table``: the result of ``table()``, or an empty table with the key columns."""
        self.hashes: NDArray[np.int64] = table.column(KEY_COLUMN).to_numpy()
        # A copy, because it is changed, and the table may be mapped from a file.
        self.ends: NDArray[np.int64] = table.column(END_COLUMN).to_numpy().copy()
        """For each key, the end in microseconds of the last fired window that held an event; NONE if there is
        none."""
        self._values = table.drop_columns([KEY_COLUMN, END_COLUMN])

    @staticmethod
    def empty(columns: pa.Schema) -> KnownKeys:
        """Returns an empty set of keys; ``columns``: the key columns."""
        no_integers = pa.array([], pa.int64())
        arrays = [no_integers, no_integers, *(pa.array([], column.type) for column in columns)]
        return KnownKeys(pa.table(arrays, names=[KEY_COLUMN, END_COLUMN, *columns.names]))

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def columns(self) -> list[str]:
        """The names of the key columns."""
        return list(self._values.column_names)

    def table(self) -> pa.Table:
        """Returns the keys as a table to store."""
        columns = zip(self._values.column_names, self._values.columns, strict=True)
        return pa.table({KEY_COLUMN: self.hashes, END_COLUMN: self.ends, **dict(columns)})

    def indices(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the indices of the known keys with these hashes."""
        return np.searchsorted(self.hashes, hashes)

    def values(self, indices: NDArray[np.int64]) -> list[Any]:
        """Returns the values of the keys at these indices; a tuple each if the key has several columns."""
        if not self.columns:
            return [None] * len(indices)
        columns = [column.to_pylist() for column in take_rows(self._values, indices).columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def indices_of_new(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the indices of the hashes that no known key has, one for each distinct hash."""
        new_hashes, first_indices = np.unique(hashes, return_index=True)
        return first_indices[~np.isin(new_hashes, self.hashes, assume_unique=True)]

    def add(self, hashes: NDArray[np.int64], values: pa.Table, end: int = NONE) -> None:
        """Add keys that are not known yet; ``values``: their key columns.

        ``end``: only empty windows that end after this time (microseconds) fire for these keys. NONE: no empty window
        fires for a key before its first window with events.
        """
        if not len(hashes):
            return
        hashes = np.concatenate([self.hashes, hashes])
        ends = np.concatenate([self.ends, np.full(len(hashes) - len(self.ends), end, np.int64)])
        order = np.argsort(hashes)
        if self.columns:
            self._values = take_rows(pa.concat_tables([self._values, values.cast(self._values.schema)]), order)
        self.hashes, self.ends = hashes[order], ends[order]

    def record_fired(self, indices: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Record the ends of fired windows of these keys that held events."""
        np.maximum.at(self.ends, indices, ends)

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Keep the keys for which the mask is true, and remove the others."""
        if mask.all():
            return
        if self.columns:
            self._values = take_rows(self._values, np.flatnonzero(mask))
        self.hashes, self.ends = self.hashes[mask], self.ends[mask]
