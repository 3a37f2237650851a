"""The events of the benchmark, as files, and what their windows must hold, computed with NumPy alone."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 7
KEYS = 1_000
PER_SECOND = 10_000
LAG_MS = 2_000
FILE_ROWS = 250_000
FIRST_MS = 1_700_000_000_000

Columns = dict[str, "NDArray[Any]"]
"""Columns by name. Rows of a result are in order of (until, key); ``until``: the end of the window in microseconds."""


@dataclass(frozen=True)
class Events:
    """So many events, 10,000 per second of event time, in an order of arrival that is off by up to two seconds."""

    count: int

    @cached_property
    def columns(self) -> Columns:
        """The columns in order of arrival; ``event_time`` in milliseconds."""
        random = np.random.default_rng(SEED)
        times = FIRST_MS + np.arange(self.count, dtype=np.int64) * 1_000 // PER_SECOND
        arrival = np.argsort(times + random.integers(0, LAG_MS, self.count), kind="stable")
        return {
            "event_time": times[arrival],
            "key": random.integers(0, KEYS, self.count, dtype=np.int32),
            "value": random.random(self.count) * 100,
            "stream": np.where(random.random(self.count) < 0.5, "a", "b"),
        }

    def files(self, cache: Path) -> Path:
        """The folder of the files; it is written if it is not there yet. Later files have later times of change."""
        folder = cache / f"events-{self.count}"
        if folder.exists():
            return folder
        draft = cache / f".{folder.name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        columns = {name: pa.array(values) for name, values in self.columns.items()}
        columns["event_time"] = columns["event_time"].cast(pa.timestamp("ms", "UTC"))
        table = pa.table(columns)
        for number, start in enumerate(range(0, self.count, FILE_ROWS)):
            path = draft / f"part-{number:05d}.parquet"
            pq.write_table(table.slice(start, FILE_ROWS), path)
            os.utime(path, (1_700_000_000 + number,) * 2)
        draft.rename(folder)
        return folder

    @property
    def last_end(self) -> int:
        """Windows up to this end, in seconds, are due when all events are in: the watermark is past them."""
        return (int(self.columns["event_time"].max()) - LAG_MS) // 1_000

    def statistics(self, length: int) -> Columns:
        """Count, sum and mean per key of windows of ``length`` seconds that slide by one."""
        seconds = self.columns["event_time"] // 1_000
        first, last = int(seconds.min()), int(seconds.max())
        cells = (seconds - first) * KEYS + self.columns["key"]
        size = last - first + 1
        counts = np.bincount(cells, minlength=size * KEYS).reshape(size, KEYS)
        sums = np.bincount(cells, self.columns["value"], minlength=size * KEYS).reshape(size, KEYS)
        ends = np.arange(first + 1, self.last_end + 1)
        held = np.zeros((len(ends), KEYS), np.int64)
        total = np.zeros((len(ends), KEYS))
        for place in range(len(ends)):
            panes = slice(max(place + 1 - length, 0), place + 1)
            held[place], total[place] = counts[panes].sum(axis=0), sums[panes].sum(axis=0)
        at, key = np.nonzero(held)
        held, total = held[at, key], total[at, key]
        return {"until": ends[at] * 1_000_000, "key": key, "events": held, "total": total, "mean": total / held}

    def middles(self) -> Columns:
        """Per key and second, the value in the middle of the sorted ones."""
        due = self.columns["event_time"] // 1_000 < self.last_end
        seconds, key, value = (self.columns[name][due] for name in ("event_time", "key", "value"))
        seconds = seconds // 1_000
        order = np.lexsort((value, key, seconds))
        seconds, key, value = seconds[order], key[order], value[order]
        new = np.flatnonzero((np.diff(seconds) != 0) | (np.diff(key) != 0)) + 1
        starts = np.concatenate([[0], new])
        sizes = np.diff(np.concatenate([starts, [len(key)]]))
        return {
            "until": (seconds[starts] + 1) * 1_000_000,
            "key": key[starts],
            "events": sizes,
            "middle": value[starts + sizes // 2],
        }

    def medians(self, length: int) -> Columns:
        """The median of all values in windows of ``length`` seconds that slide by one."""
        order = np.argsort(self.columns["event_time"], kind="stable")
        times, values = self.columns["event_time"][order], self.columns["value"][order]
        ends = np.arange(times[0] // 1_000 + 1, self.last_end + 1)
        starts = np.searchsorted(times, (ends - length) * 1_000)
        stops = np.searchsorted(times, ends * 1_000)
        medians = [np.median(values[start:stop]) for start, stop in zip(starts, stops, strict=True)]
        return {"until": ends * 1_000_000, "events": stops - starts, "median": np.array(medians)}
