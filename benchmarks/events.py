"""The events of the benchmark: seeded, as tables, or as files that are written once."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 7
LAG_MS = 2_000
FIRST_MS = 1_700_000_000_000
SCHEMA = "event_time timestamp, key int, value double, stream string"
WIDE = "event_time timestamp, id long, key int, value double, stream string, channel string, url string, extra string"
TIMES = ("event_time", "arrival")
"""Time columns, in milliseconds."""

Columns = dict[str, "NDArray[Any]"]
"""Columns by name."""


@dataclass(frozen=True)
class Events:
    """A number of events, out of order by less than ``late_ms``."""

    count: int
    keys: int = 1_000
    per_second: int = 10_000
    """Number of events for each second of event time."""
    file_rows: int = 250_000
    late_ms: int = LAG_MS
    in_turn: bool = False
    """True if keys follow one another, instead of being random."""

    @cached_property
    def columns(self) -> Columns:
        """The columns in order of arrival; ``event_time`` in milliseconds."""
        random = np.random.default_rng(SEED)
        numbers = np.arange(self.count, dtype=np.int64)
        times = FIRST_MS + numbers * 1_000 // self.per_second
        arrival = np.argsort(times + random.integers(0, max(self.late_ms, 1), self.count), kind="stable")
        drawn = random.integers(0, self.keys, self.count, dtype=np.int32)
        return {
            "event_time": times[arrival],
            "key": (numbers % self.keys).astype(np.int32) if self.in_turn else drawn,
            "value": random.random(self.count) * 100,
            "stream": np.where(random.random(self.count) < 0.5, "a", "b"),
        }

    def table(self) -> pa.Table:
        """Returns all events, in order of arrival."""
        columns = {name: pa.array(values) for name, values in self.columns.items()}
        for name in columns.keys() & set(TIMES):
            columns[name] = columns[name].cast(pa.timestamp("ms", "UTC"))
        return pa.table(columns)

    def source(self, cache: Path) -> str:
        """Returns the folder of their files, which are written on first use. Later files have later modification
        times."""
        folder = cache / self.name
        if folder.exists():
            return str(folder)
        draft = cache / f".{folder.name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        table = self.table()
        for number, start in enumerate(range(0, self.count, self.file_rows)):
            for place, rows in self.places(table.slice(start, self.file_rows)).items():
                path = draft / place / f"part-{number:05d}.parquet"
                path.parent.mkdir(exist_ok=True)
                pq.write_table(rows, path)
                os.utime(path, (FIRST_MS // 1_000 + number,) * 2)
        draft.rename(folder)
        self.__dict__.pop("columns", None)  # frees memory; they are computed again on demand
        return str(folder)

    def places(self, rows: pa.Table) -> dict[str, pa.Table]:
        """Returns rows by the subfolder of their files."""
        return {"": rows}

    @property
    def name(self) -> str:
        """The name of their folder, which identifies the events."""
        return "-".join([type(self).__name__, *(f"{each.name}-{getattr(self, each.name)}" for each in fields(self))])

    @property
    def last_end(self) -> int:
        """Window ends up to this time, in seconds, are due when all events are in, because the watermark has passed
        them."""
        return (FIRST_MS + (self.count - 1) * 1_000 // self.per_second - LAG_MS) // 1_000


class InMemory(Events):
    """Events without files."""

    def source(self, cache: Path) -> str:
        """Returns an empty path."""
        return ""


class Bursts(Events):
    """Bursts of 20 events of one key, 10 ms apart, with their arrival times."""

    @cached_property
    def columns(self) -> Columns:
        """The columns in order of arrival."""
        random, bursts = np.random.default_rng(self.keys), self.count // 20
        starts = np.sort(random.uniform(0, self.count * 1_000 / self.per_second, bursts))
        times = FIRST_MS + np.repeat(starts.astype(np.int64), 20) + np.tile(np.arange(20) * 10, bursts)
        arrivals = times + random.integers(0, self.late_ms, len(times))
        keys = np.repeat((np.arange(bursts) * 7919) % self.keys, 20).astype(np.int32)
        order = np.argsort(arrivals, kind="stable")
        value = random.random(len(times))
        return {"event_time": times[order], "arrival": arrivals[order], "key": keys[order], "value": value}


class WideEvents(Events):
    """Events with eight columns, among them an id and texts that few queries use."""

    @cached_property
    def columns(self) -> Columns:
        """The columns in order of arrival."""
        random = np.random.default_rng(SEED + 1)
        channel = np.array(["Google", "Facebook", "Baidu", "Apple"], object)[random.integers(0, 4, self.count)]
        own, extra = _words(random, self.count, 15), _words(random, self.count, 100)
        url = pc.binary_join_element_wise(pa.scalar("https://www.example.com/"), own, pa.scalar("/item?query=1"), "")
        texts = {"channel": channel, "url": url.to_numpy(False), "extra": extra.to_numpy(False)}
        return {**super().columns, "id": np.arange(self.count), **texts}


class PairedEvents(WideEvents):
    """Wide events whose two streams are in separate folders; each stream has half of the rows."""

    def places(self, rows: pa.Table) -> dict[str, pa.Table]:
        """Returns rows by the subfolder of their stream."""
        return {side: rows.filter(pc.equal(rows.column("stream"), side)) for side in ("a", "b")}


def _words(random: np.random.Generator, count: int, letters: int) -> pa.StringArray:
    written = random.integers(ord("a"), ord("z") + 1, (count, letters), dtype=np.uint8)
    offsets = np.arange(count + 1, dtype=np.int32) * letters
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(written))


def differences(rows: pa.Table, expected: Columns, order: Sequence[str] = ("until", "key")) -> str | None:
    """Returns the differences between rows and the right rows, which have this order; None if there are none."""
    wanted = len(next(iter(expected.values())))
    if rows.num_rows != wanted:
        return f"{rows.num_rows:,} rows instead of {wanted:,}"
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


def middle(values: Sequence[float]) -> float:
    """Returns the result of W3's Python function, which no engine could know. Workers import only this module for
    it."""
    return sorted(values)[len(values) // 2]


def orders(chance: Random, begin: float, seconds: float, rows: int, users: int) -> str:
    """Returns lines of JSON: orders of some users in a span of time, in order; times in seconds since the epoch."""
    lines = []
    for number in range(rows):
        at = datetime.fromtimestamp(begin + number * seconds / rows, UTC)
        user, amount = chance.randrange(users), chance.randrange(10_000) / 100
        lines.append(json.dumps({"user": f"user-{user}", "amount": amount, "ts": at.isoformat()}))
    return "\n".join(lines) + "\n"
