"""The events of the benchmark: seeded, in files that are written once."""

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
