"""The workloads: their events, their right answers, and how many events of each are measured."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The events of the benchmark: seeded, in files that are written once.


SEED = 7
LAG_MS = 2_000
FILE_ROWS = 250_000
FIRST_MS = 1_700_000_000_000
SCHEMA = "event_time timestamp, key int, value double, stream string"

Columns = dict[str, "NDArray[Any]"]
"""Columns by name."""


@dataclass(frozen=True)
class Events:
    """So many events, in an order of arrival that is off by up to two seconds."""

    count: int
    keys: int = 1_000
    per_second: int = 10_000
    """How many there are for each second of event time."""
    file_rows: int = FILE_ROWS

    @cached_property
    def columns(self) -> Columns:
        """The columns in order of arrival; ``event_time`` in milliseconds."""
        random = np.random.default_rng(SEED)
        times = FIRST_MS + np.arange(self.count, dtype=np.int64) * 1_000 // self.per_second
        arrival = np.argsort(times + random.integers(0, LAG_MS, self.count), kind="stable")
        return {
            "event_time": times[arrival],
            "key": random.integers(0, self.keys, self.count, dtype=np.int32),
            "value": random.random(self.count) * 100,
            "stream": np.where(random.random(self.count) < 0.5, "a", "b"),
        }

    def files(self, cache: Path) -> Path:
        """The folder of the files; it is written if it is not there yet. Later files have later times of change."""
        folder = cache / self.name
        if folder.exists():
            return folder
        draft = cache / f".{folder.name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        columns = {name: pa.array(values) for name, values in self.columns.items()}
        columns["event_time"] = columns["event_time"].cast(pa.timestamp("ms", "UTC"))
        table = pa.table(columns)
        for number, start in enumerate(range(0, self.count, self.file_rows)):
            for place, rows in self.places(table.slice(start, self.file_rows)).items():
                path = draft / place / f"part-{number:05d}.parquet"
                path.parent.mkdir(exist_ok=True)
                pq.write_table(rows, path)
                os.utime(path, (FIRST_MS // 1_000 + number,) * 2)
        draft.rename(folder)
        self.forget()
        return folder

    def places(self, rows: pa.Table) -> dict[str, pa.Table]:
        """Rows by the folder, below that of the events, that their file is in."""
        return {"": rows}

    def forget(self) -> None:
        """Give the memory of the columns back; they are computed again when they are asked for."""
        self.__dict__.pop("columns", None)

    @property
    def name(self) -> str:
        """Of their folder; other events have another."""
        return f"events-{self.count}-keys-{self.keys}-per-second-{self.per_second}-file-{self.file_rows}"

    @property
    def watermark(self) -> int:
        """The watermark in milliseconds when all events are in."""
        return FIRST_MS + (self.count - 1) * 1_000 // self.per_second - LAG_MS

    @property
    def last_end(self) -> int:
        """Windows up to this end, in seconds, are due when all events are in: the watermark is past them."""
        return self.watermark // 1_000


# What the windows must hold, computed with NumPy alone.
#
# Rows of an answer are in order of (until, key); ``until`` is the end of the window in microseconds. Windows slide by
# one second, begin at whole seconds and hold their start, not their end. An answer has those that end in the second
# that ``last_end`` says, or earlier.


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


# The questions that every arm is asked.


class Question(Protocol):
    """Question to the arms."""

    @property
    def name(self) -> str:
        """Short, for the table."""

    @property
    def title(self) -> str:
        """In words."""

    @property
    def order(self) -> tuple[str, ...]:
        """Columns that no two rows of the answer share; it is in their order."""

    @property
    def due_only(self) -> bool:
        """True if arms may emit rows of windows after ``last_end``; they are not compared."""

    def answer(self, events: Events) -> Columns:
        """Returns the right rows, found by something else than an arm."""


Kind = Literal["statistics", "middles", "medians"]


@dataclass(frozen=True)
class Workload:
    """Question about the windows of each second."""

    name: str
    title: str
    kind: Kind
    length: int
    """Of the windows, in seconds; they slide by one."""

    due_only: bool = False

    @property
    def order(self) -> tuple[str, ...]:
        """As ``Question`` has it."""
        return ("until", "key") if self.keyed else ("until",)

    @property
    def keyed(self) -> bool:
        """True if there is an answer for each key."""
        return self.kind != "medians"

    def answer(self, events: Events) -> Columns:
        """Returns NumPy's answer."""
        match self.kind:
            case "statistics":
                return statistics(events, self.length)
            case "middles":
                return middles(events)
            case "medians":
                return medians(events, self.length)


W1 = Workload("W1", "keyed tumbling 1 s: count, sum, mean", "statistics", 1)
W2 = Workload("W2", "keyed sliding 10 s / 1 s: count, sum, mean", "statistics", 10)
W3 = Workload("W3", "keyed tumbling 1 s: a Python function per key", "middles", 1)
W4 = Workload("W4", "un-keyed sliding 10 s / 1 s: a Python function", "medians", 10)
WORKLOADS = (W1, W2, W3, W4)


def middle(values: Sequence[float]) -> float:
    """The Python function of W3: nothing that an engine could know."""
    return sorted(values)[len(values) // 2]


# How much of everything.


ALL: None = None
"""A micro-batch of all files."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of events, of runs and of batches."""

    runs: int = 3
    events: int = 5_000_000
    side: int = 5_000_000
    """With 100,000 keys, and from a DataFrame."""
    batch: int = 500_000
    check: int = 5_000_000
    """Events of the checked run, at most."""
    check_many_keys: int = 1_000_000
    """The same with 100,000 keys: windows then have as many rows as events."""
    slow: int = 500_000
    """For peers that take minutes for more; events per second count."""
    slow_spark: int = 2_000_000
    """The same for Spark's stateful processor: several batches."""
    drain: int = 50_000_000
    drain_slow: int = 5_000_000
    """For Spark's own W4, whose windows hold each event ten times."""
    drain_side: int = 10_000_000
    """As ``side``, for a backlog; 0: left out."""
    drain_trial: int = 20_000_000
    """The part on which each system's best size of a batch is found."""
    drain_sizes: tuple[int | None, ...] = (500_000, 2_500_000, 5_000_000, 10_000_000, ALL)
    growth: int = 30_000_000
    growth_batch: int = 2_500_000
    growth_rates: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    """Events per second of event time; a window of 10 s holds ten times as many."""
    overlaps: tuple[int, ...] = (1, 10, 100)
    overlap: int = 10_000_000
    latency_files: int = 110
    latency_warm: int = 10
    """Files at the start that are not counted."""
    kafka_seconds: int = 60
    """Of records, whose results are counted."""
    kafka_warm: int = 20
    """Seconds before, whose results are not."""
    step: int = 1_000_000
    """Orders of the aggregation step."""
    step_slow: int = 100_000
    """For Spark's own, which takes minutes for more."""
    step_batch: int = 250_000
    local: int = 5_000_000
    local_batch: int = 2_500_000
    file_rows: int = 250_000
    main_arms_only: bool = False


FULL = Sizes()
QUICK = Sizes(
    runs=1,
    events=1_000_000,
    side=250_000,
    check=250_000,
    check_many_keys=100_000,
    drain=1_000_000,
    drain_slow=500_000,
    drain_side=0,
    drain_sizes=(ALL,),
    growth=1_000_000,
    growth_batch=500_000,
    growth_rates=(1_000, 10_000),
    overlaps=(1, 10),
    overlap=1_000_000,
    latency_files=12,
    latency_warm=4,
    kafka_seconds=15,
    kafka_warm=10,
    step=100_000,
    step_batch=50_000,
    local=1_000_000,
    local_batch=500_000,
    main_arms_only=True,
)
