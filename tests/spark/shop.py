"""The topology of most tests: orders, their revenue per user, and the best of each time; and its input."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.spark.tools import Trap
from topologies.io.sinks import MemorySink, Sink
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import BatchBolt, Bolt, StatefulWindowedBolt, Tuple, TupleWindow, WindowedBolt, seconds
from windowing.bolts.bolt import StateType
from windowing.schema import EmittedRows

SCHEMA = "user string, amount double, ts timestamp"
_START = datetime(2024, 5, 1, 12, tzinfo=UTC)
_FIRST_CHANGE = 1_600_000_000
ROWS = 60
"""In each file."""


def at(second: float) -> datetime:
    """A time, in seconds after the start of all tests."""
    return _START + timedelta(seconds=second)


def some_orders(number: int) -> pa.Table:
    """The ``number``-th minute's orders: out of order, every 20th late by minutes, every 30th without a time."""
    random = np.random.default_rng(number)
    moments = 60 * number + np.arange(ROWS) + random.integers(-3, 4, ROWS) + np.arange(ROWS) / 1000
    moments[::20] -= 150
    times: list[datetime | None] = [at(float(moment)) for moment in moments]
    times[29::30] = [None] * len(times[29::30])
    users = random.choice(["ann", "bob", "eve", "joe", "sue"], ROWS).tolist()
    amounts = random.integers(1, 100, ROWS).astype(float).tolist()
    return pa.table([users, amounts, pa.array(times, pa.timestamp("us", "UTC"))], names=["user", "amount", "ts"])


def write_orders(folder: Path, numbers: Iterable[int]) -> None:
    """A file of orders per number, each changed a second after the one before."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        path = folder / f"orders {number:02d}.parquet"
        pq.write_table(some_orders(number), path)
        os.utime(path, (_FIRST_CHANGE + number, _FIRST_CHANGE + number))


@dataclass
class Taxed(BatchBolt):
    """Adds a tax; in each task of the ingest."""

    outputs = SCHEMA
    trap: Trap | None = None

    def execute(self, batch: pa.Table) -> EmittedRows:
        if self.trap is not None:
            self.trap.step_on()
        return batch.set_column(1, "amount", pa.array(np.array(batch["amount"]) * 2))


@dataclass
class Revenue(StatefulWindowedBolt):
    """Revenue per user and window, and how many windows there have been on its task."""

    outputs = "user string, revenue double, events long, until timestamp, number long"
    state_types: ClassVar[dict[str, StateType]] = {"windows": int, "seen": "user string"}
    trap: Trap | None = None

    def execute(self, window: TupleWindow) -> EmittedRows:
        if self.trap is not None:
            self.trap.step_on()
        self.state["windows"] += 1
        self.state["seen"] = pa.concat_tables([self.state["seen"], window.new.select(["user"])])
        for user, amounts in window.groups("user", "amount"):
            yield user, float(amounts.sum()), len(amounts), window.end, self.state["windows"]


class Best(WindowedBolt):
    """The best revenue in each time."""

    outputs = "user string, revenue double, among long, until timestamp"

    def execute(self, window: TupleWindow) -> EmittedRows:
        best = max(window.get(), key=lambda row: (row["revenue"], row["user"]))
        return best["user"], best["revenue"], len(window), window.end


class Counted(WindowedBolt):
    """How many events a window holds, and what they come to."""

    outputs = "task long, events long, amount double"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return window.task, len(window), float(np.nansum(window.column("amount")))


class Spans(WindowedBolt):
    """How many events a window holds, and where it ends."""

    outputs = "events long, until timestamp"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return len(window), window.end


class Big(Bolt):
    """Lets large orders through."""

    outputs = SCHEMA

    def execute(self, tuple: Tuple) -> EmittedRows:
        return dict(tuple.values) if tuple["amount"] > 50 else None


class Rounded(BatchBolt):
    """Between two windowed bolts: the rows keep their times."""

    outputs = "user string, revenue double"

    def execute(self, batch: pa.Table) -> EmittedRows:
        return batch.select(["user", "revenue"])


def shop(
    orders: Path,
    out: dict[str, Sink],
    *,
    taxed: Taxed | None = None,
    revenue: Revenue | None = None,
    parallelism: int = 3,
    lag: float = 5,
    length: int = 20,
    files_per_batch: int | None = 1,
    grouping: str = "user",
    best: bool = True,
    schema: str = SCHEMA,
) -> Topology:
    """The topology; ``out`` has sinks for some of revenue, late, best, errors."""
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.files(orders / "*.parquet", schema, files_per_batch=files_per_batch))
    builder.set_bolt("taxed", taxed or Taxed()).shuffle_grouping("orders")
    bolt = (revenue or Revenue()).with_window(seconds(length), seconds(10)).with_timestamp_field("ts")
    bolt = bolt.with_lag(seconds(lag)).with_late_tuple_stream("late")
    builder.set_bolt("revenue", bolt, parallelism).fields_grouping("taxed", grouping)
    if best:
        builder.set_bolt("best", Best().with_tumbling_window("30s")).global_grouping("revenue")
    streams = {"revenue": ("revenue", "default"), "late": ("revenue", "late"), "errors": ("revenue", "errors")}
    for name, sink in out.items():
        component, stream = streams.get(name, (name, "default"))
        builder.set_sink(f"to-{name}", sink).from_(component, stream)
    return builder.build()


def shop_in_memory(orders: Path, **settings: Any) -> tuple[Topology, dict[str, MemorySink]]:
    """The topology with sinks in memory."""
    out = {name: sinks.memory() for name in ("revenue", "late", "errors", "best")}
    if not settings.get("best", True):
        del out["best"]
    return shop(orders, dict(out), **settings), out


def shop_in_files(orders: Path, folder: Path, **settings: Any) -> Topology:
    """The topology with sinks that write files: Parquet and JSON lines."""
    out: dict[str, Sink] = {
        "revenue": sinks.files(folder / "revenue"),
        "late": sinks.files(folder / "late", "jsonl"),
        "best": sinks.files(folder / "best", "jsonl"),
    }
    return shop(orders, out, **settings)
