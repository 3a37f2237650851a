"""What the windows must hold, computed with NumPy alone.

Rows of an answer are in order of (until, key); ``until`` is the end of the window in microseconds. Windows slide by one
second, begin at whole seconds and hold their start, not their end. An answer has those that end in the second that
``last_end`` says, or earlier.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from benchmarks.events import Columns, Events


def statistics(events: Events, length: int) -> Columns:
    """Count, sum and mean per key of windows of ``length`` seconds."""
    columns, last = events.columns, events.last_end
    found = columns["event_time"] // 1_000
    first = int(found.min())
    due = found < last
    cells = (found[due] - first) * events.keys + columns["key"][due]
    shape = (max(last - first, 0), events.keys)
    counts = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    sums = np.bincount(cells, columns["value"][due], minlength=shape[0] * shape[1]).reshape(shape)
    parts: list[Columns] = []
    for place in range(shape[0]):
        panes = slice(max(place + 1 - length, 0), place + 1)
        held = counts[panes].sum(axis=0)
        key = np.flatnonzero(held)
        held, total = held[key], sums[panes].sum(axis=0)[key]
        until = np.full(len(key), (first + place + 1) * 1_000_000, np.int64)
        parts.append({"until": until, "key": key, "events": held, "total": total, "mean": total / held})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def middles(events: Events) -> Columns:
    """Per key and second, the value in the middle of the sorted ones."""
    due = events.columns["event_time"] // 1_000 < events.last_end
    seconds, key, value = (events.columns[name][due] for name in ("event_time", "key", "value"))
    seconds = seconds // 1_000
    order = np.lexsort((value, key, seconds))
    seconds, key, value = seconds[order], key[order], value[order]
    starts = starts_of_groups(seconds, key)
    sizes = np.diff(np.concatenate([starts, [len(key)]]))
    return {
        "until": (seconds[starts] + 1) * 1_000_000,
        "key": key[starts],
        "events": sizes,
        "middle": value[starts + sizes // 2],
    }


def medians(events: Events, length: int) -> Columns:
    """The median of all values in windows of ``length`` seconds."""
    order = np.argsort(events.columns["event_time"], kind="stable")
    times, values = events.columns["event_time"][order], events.columns["value"][order]
    ends = np.arange(times[0] // 1_000 + 1, events.last_end + 1)
    starts = np.searchsorted(times, (ends - length) * 1_000)
    stops = np.searchsorted(times, ends * 1_000)
    found = [np.median(values[start:stop]) for start, stop in zip(starts, stops, strict=True)]
    return {"until": ends * 1_000_000, "events": stops - starts, "median": np.array(found)}


def starts_of_groups(seconds: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Where runs of equal (second, key) begin."""
    new = np.flatnonzero((np.diff(seconds) != 0) | (np.diff(key) != 0)) + 1
    return np.concatenate([[0], new])


def differences(rows: pa.Table, expected: Columns, order: Sequence[str] = ("until", "key")) -> str | None:
    """How rows differ from what they should be, which is in this order; None if they do not."""
    if rows.num_rows != len(expected["until"]):
        return f"{rows.num_rows:,} rows instead of {len(expected['until']):,}"
    rows = rows.sort_by([(name, "ascending") for name in order if name in expected])
    for name, values in expected.items():
        column = rows.column(name)
        if name == "until":
            column = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        found = column.to_numpy()
        wrong = ~np.isclose(found, values, rtol=1e-9, atol=0) if values.dtype.kind == "f" else found != values
        if wrong.any():
            at = int(np.argmax(wrong))
            return f"{wrong.sum():,} rows differ in {name!r}: {found[at]} instead of {values[at]} in row {at}"
    return None
