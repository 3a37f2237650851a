"""Floors: one process over the whole files at once, with no stream, no state and no late events."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.answers import starts_of_groups
from benchmarks.arms.arm import Job, Taken, measured, not_installed
from benchmarks.arms.windbolt import columns_of
from benchmarks.events import Events
from benchmarks.workloads import middle


@dataclass
class DuckFloor:
    """W1 and W2 in SQL; W2 by panes of a second, each summed up once."""

    threads: int
    ours: bool = False
    batched: bool = False
    most: int | None = None

    @property
    def name(self) -> str:
        """As the table shows it."""
        return f"DuckDB, {self.threads} thread{'s' if self.threads > 1 else ''}"

    def missing(self) -> str | None:
        """What is not installed."""
        return not_installed("duckdb")

    def run(self, job: Job) -> Taken:
        """One query."""
        duckdb: Any = import_module("duckdb")
        with measured() as taken:
            connection = duckdb.connect(config={"threads": self.threads})
            found = connection.execute(
                f"""
                with panes as (
                    select epoch_ms(event_time) // 1000 as second, key, count(value) as n, sum(value) as total
                    from read_parquet('{job.folder}/*.parquet') group by all
                ), placed as (
                    select second + place + 1 as until, key, n, total
                    from panes, range({job.workload.length}) as places(place)
                )
                select make_timestamp(until * 1000000) as until, key,
                    sum(n)::bigint as events, sum(total) as total, sum(total) / sum(n) as mean
                from placed where until <= {job.events.last_end} group by all
                """
            ).to_arrow_table()
            keep(found, job)
        connection.close()
        return taken


@dataclass
class NumpyFloor:
    """W3 and W4 with arrays: sorted once, and the Python function called for each window."""

    name: str = "NumPy"
    ours: bool = False
    batched: bool = False
    most: int | None = None

    def missing(self) -> str | None:
        """It is always there."""
        return None

    def run(self, job: Job) -> Taken:
        """Over all files."""
        names = [column.split()[0] for column in columns_of(job.workload).split(", ")]
        with measured() as taken:
            table = pq.read_table(job.folder, columns=names)
            times = table.column("event_time").cast(pa.int64()).to_numpy()
            values = table.column("value").to_numpy()
            if job.workload.kind == "middles":
                found = _middles(times // 1000, table.column("key").to_numpy(), values, job.events)
            else:
                found = _medians(times, values, job.events, job.workload.length)
            keep(found, job)
        return taken


def _middles(seconds: np.ndarray, keys: np.ndarray, values: np.ndarray, events: Events) -> pa.Table:
    due = seconds < events.last_end
    seconds, keys, values = seconds[due], keys[due], values[due]
    order = np.argsort((seconds - seconds.min()) * events.keys + keys, kind="stable")
    seconds, keys, values = seconds[order], keys[order], values[order]
    starts = starts_of_groups(seconds, keys)
    bounds = [*starts.tolist(), len(values)]
    plain = values.tolist()
    found = [middle(plain[start:stop]) for start, stop in pairwise(bounds)]
    ends = pa.array((seconds[starts] + 1) * 1_000_000).cast(pa.timestamp("us", "UTC"))
    return pa.table({"until": ends, "key": keys[starts], "events": np.diff(bounds), "middle": found})


def _medians(times: np.ndarray, values: np.ndarray, events: Events, length: int) -> pa.Table:
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    ends = np.arange(times[0] // 1_000 + 1, events.last_end + 1)
    starts = np.searchsorted(times, (ends - length) * 1_000).tolist()
    stops = np.searchsorted(times, ends * 1_000).tolist()
    found = [float(np.median(values[start:stop])) for start, stop in zip(starts, stops, strict=True)]
    until = pa.array(ends * 1_000_000).cast(pa.timestamp("us", "UTC"))
    return pa.table({"until": until, "events": np.subtract(stops, starts), "median": found})


def keep(rows: pa.Table, job: Job) -> None:
    """Write the rows, if they are to be kept."""
    if job.keep is not None:
        Path(job.keep).mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, job.keep / "rows.parquet")
