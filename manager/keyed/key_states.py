"""The records of a task's keys, apart from their events: timers, empty intervals, rule caches; stored in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from manager.keyed.held_segments import KEY_COLUMN
from policies.marks import NONE
from windowing.time.daytimes import DayTime
from windowing.time.timestamps import FOREVER

_TIMER, _EMPTY, _MICROS, _ZONE, CACHE_COLUMN = "_timer", "_empty", "_day_micros", "_day_zone", "_cache"

RECORD_COLUMNS = (_TIMER, _EMPTY, _MICROS, _ZONE, CACHE_COLUMN)
"""Columns that are stored beside those of the key."""


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """The record of a key."""

    timer: int = NONE
    """Time of its next daily firing in microseconds; NONE where there is none."""
    empty: int = 0
    """Number of consecutive daily firings without events."""
    day: DayTime | None = None
    """The time of day that its events last asked for."""
    cache: str = ""
    """Cache of a rule for as long as the window is open, as JSON; "" where there is none."""


@dataclass(frozen=True)
class Forgotten:
    """A key that was silent for so long that its record is deleted (UH-22)."""

    key: Any


class KeyStates:
    """The records of a task's keys. Few become objects, and the table is rewritten only where some changed."""

    def __init__(self, table: pa.Table | None, key: Sequence[str]) -> None:
        self._key = list(key)
        self._table = table
        self._hashes = np.zeros(0, np.int64) if table is None else table.column(KEY_COLUMN).to_numpy()
        self._timers = np.zeros(0, np.int64) if table is None else table.column(_TIMER).to_numpy()
        self._changed: dict[int, tuple[KeyRecord, int] | None] = {}

    def __len__(self) -> int:
        """Number of keys that had a record at first."""
        return len(self._hashes)

    def clear(self) -> None:
        """Delete the records of all keys."""
        for key in self._hashes.tolist():
            self._changed[key] = None

    @property
    def changed(self) -> bool:
        """Whether any record changed."""
        return bool(self._changed)

    def get(self, key: int) -> KeyRecord | None:
        """The record of a key, by its hash; None where there is none."""
        if key in self._changed:
            change = self._changed[key]
            return None if change is None else change[0]
        row = self._row(key)
        return None if row is None else self._record(row)

    def caches_of(self, keys: Sequence[int]) -> list[str]:
        """The caches of these keys as JSON, "" of each that has none."""
        if self._table is None:
            stored: dict[int, str] = {}
        else:
            wanted = np.array(keys, np.int64)
            rows = np.minimum(np.searchsorted(self._hashes, wanted), len(self._hashes) - 1)
            rows = rows[self._hashes[rows] == wanted] if len(self._hashes) else rows[:0]
            texts = self._table.column(CACHE_COLUMN).take(pa.array(rows)).to_pylist()
            stored = dict(zip(self._hashes[rows].tolist(), texts, strict=True))
        changed = self._changed
        return [_cache_of(changed[key]) if key in changed else stored.get(key, "") for key in keys]

    def _record(self, row: int) -> KeyRecord:
        timer, empty, micros, zone, cache = (column[row].as_py() for column in self._columns)
        return KeyRecord(timer, empty, None if micros is None else DayTime(micros, zone), cache)

    @cached_property
    def _columns(self) -> list[pa.Array]:
        """The columns of a record, each in one piece, of which a value is found in a fifth of the time."""
        assert self._table is not None
        columns = [self._table.column(name) for name in RECORD_COLUMNS]
        return [column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in columns]

    def put(self, key: int, record: KeyRecord, event: int) -> None:
        """Set the record of a key. ``event`` is the index of one of its events, -1 where it has none."""
        before = self._changed.get(key)
        self._changed[key] = (record, before[1] if event < 0 and before is not None else event)

    def drop(self, key: int) -> None:
        """Delete the record of a key."""
        if key in self._changed or self._row(key) is not None:
            self._changed[key] = None

    def due(self, clock: int, *, all_at_end: bool = False) -> list[int]:
        """The hashes of the keys, among those with a record at first, whose timers are due. ``all_at_end``: of keys
        without a timer too, if the clock is FOREVER; else they count as due."""
        due = self._timers <= clock
        if all_at_end and clock != FOREVER:
            due &= self._timers > NONE
        hashes: list[int] = self._hashes[due].tolist()
        return hashes

    @property
    def next_timer(self) -> int | None:
        """The earliest timer in microseconds; None where there is none."""
        unchanged = np.isin(self._hashes, np.fromiter(self._changed, np.int64, len(self._changed)), invert=True)
        timers = self._timers[unchanged].tolist() + [
            change[0].timer for change in self._changed.values() if change is not None
        ]
        return min((timer for timer in timers if timer > NONE), default=None)

    def value(self, key: int, payload: pa.Table | None) -> Any:
        """The value of a key; a tuple where it has several columns. ``payload`` are the events that the indices of
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
        """All records as a table sorted by hash; None where there are none. ``payload`` are the events that the indices
        of ``put`` refer to."""
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
        joined = pa.concat_tables(parts)
        return joined.take(pa.array(np.argsort(joined.column(KEY_COLUMN).to_numpy(), kind="stable")))

    def _new_rows(self, changes: dict[int, tuple[KeyRecord, int]], payload: pa.Table | None) -> pa.Table:
        records = [record for record, _ in changes.values()]
        rows = [self._row(key) for key in changes]
        columns: dict[str, Any] = {KEY_COLUMN: pa.array(list(changes), pa.int64())}
        known = [index for index, row in enumerate(rows) if row is not None]
        new = [index for index, row in enumerate(rows) if row is None]
        back = np.argsort(np.array(known + new, np.int64), kind="stable")
        for name in self._key:
            parts: list[Any] = []
            if known and self._table is not None:
                parts += self._table.column(name).take(pa.array([rows[index] for index in known])).chunks
            if new:
                assert payload is not None
                events = [event for index, (_, event) in enumerate(changes.values()) if rows[index] is None]
                parts += payload.column(name).take(pa.array(events)).chunks
            columns[name] = pa.chunked_array(parts).take(pa.array(back))
        days = [record.day for record in records]
        columns |= {
            _TIMER: pa.array([record.timer for record in records], pa.int64()),
            _EMPTY: pa.array([record.empty for record in records], pa.int64()),
            _MICROS: pa.array([None if day is None else day.micros for day in days], pa.int64()),
            _ZONE: pa.array([None if day is None else day.zone for day in days], pa.string()),
            CACHE_COLUMN: pa.array([record.cache for record in records], pa.string()),
        }
        return pa.table(columns)

    def _row(self, key: int) -> int | None:
        row = int(np.searchsorted(self._hashes, key))
        return row if row < len(self._hashes) and self._hashes[row] == key else None


def _cache_of(change: tuple[KeyRecord, int] | None) -> str:
    return "" if change is None else change[0].cache
