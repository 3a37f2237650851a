"""Memory over a long run, and of large state, on Spark: ``python -m benchmarks.steady batches dead-keys``.

- ``batches``: 5,000 batches of 200 events of 1,000 keys; windows of 10 s for each key.
- ``dead-keys``: 2,000,000 keys with an event each, 50,000 a batch, whose windows are soon over.
- ``live-keys``: 1,000,000 keys whose sessions never end; then 20 batches of 50,000 events of these.
- ``one-window``: 5,000,000 events in one window, 250,000 a batch, of a bolt that sorts all of them.

Twenty times in a run the memory of the driver, the JVM and the Python workers is looked at: the resident set of each
without mapped files, and what lives in the JVM's heap after a collection of garbage. A line for each look; then, for
``batches`` and ``dead-keys``, how much more it was at the end than after a quarter. Every event is counted. Linux only.
``--part 0.1`` plays a tenth of the events.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import descendants, status_of, workers
from benchmarks.session import Session
from topologies.engine.report import BatchReport
from topologies.spark.runner import run_on_spark
from windbolt import RunOptions, TopologyBuilder, TupleWindow, WindowedBolt, sinks, spouts
from windbolt import Session as Sessions

LOOKS = 20
FIRST = 1_700_000_000_000_000
"""The time of the first event, in microseconds."""
SECOND = 1_000_000


class Counted(WindowedBolt):
    """How many events a window holds, and the median of them all."""

    outputs = "n long, middle double"

    def execute(self, window: TupleWindow) -> tuple[int, float]:
        return len(window), float(np.median(window.column("value")))


@dataclass(frozen=True)
class Play:
    """One kind of run."""

    name: str
    batches: int
    rows: int
    """Of a batch."""
    keys: Callable[[int, int], np.ndarray]
    """Those of a batch, by its number and the number of its rows."""
    seconds: float
    """Event time of a batch."""
    configure: Callable[[WindowedBolt], WindowedBolt]
    flat: bool = True
    """True if memory is to be the same at the end as after a quarter."""

    def parted(self, part: float) -> Play:
        """A part of it."""
        values = {**vars(self), "batches": max(4, round(self.batches * part))}
        return Play(**values)


def _anew(batch: int, rows: int) -> np.ndarray:
    return np.arange(rows) + batch * rows


def _again(keys: int) -> Callable[[int, int], np.ndarray]:
    return lambda batch, rows: (np.arange(rows) + batch * rows) % keys


PLAYS = (
    Play("batches", 5_000, 200, _again(1_000), 2, lambda bolt: bolt.with_key("key").with_tumbling_window("10s")),
    Play("dead-keys", 40, 50_000, _anew, 2, lambda bolt: bolt.with_key("key").with_tumbling_window("1s")),
    Play("live-keys", 40, 50_000, _again(1_000_000), 2, lambda bolt: bolt.with_key("key").with_window(
        Sessions("1h")), flat=False),
    Play("one-window", 20, 250_000, _again(1_000), 2, lambda bolt: bolt.with_tumbling_window("1h"), flat=False),
)  # fmt: skip


def main() -> int:
    """Play what the arguments name; 1 where an event is missing."""
    known = {play.name: play for play in PLAYS}
    parser = argparse.ArgumentParser(prog="benchmarks.steady", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("plays", nargs="*", choices=[*known, []], default=[*known])
    parser.add_argument("--part", type=float, default=1.0, help="of the batches")
    options = parser.parse_args()
    session = Session()
    try:
        found = [played(known[name].parted(options.part), session) for name in options.plays]
    finally:
        session.stop()
    print(json.dumps(found))
    return 0


def played(play: Play, session: Session) -> dict[str, Any]:
    """Play it; returns the looks, in MiB by process and number of the batch."""
    looks: list[dict[str, float]] = []
    every = max(1, play.batches // LOOKS)
    received = [0]

    def note(report: BatchReport) -> None:
        received[0] = report.bolts["bolt"].accounts["received"]
        if report.batch % every == every - 1 or report.closing:
            looks.append({"batch": report.batch, **memory(session)})
            print(f"{play.name}: {json.dumps(looks[-1])}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        for batch, table in enumerate(_batches(play)):
            pq.write_table(table, f"{folder}/{batch:06d}.parquet")
        began = time.monotonic()
        builder = TopologyBuilder(play.name)
        schema = "key long, value double, ts timestamp"
        builder.set_spout("in", spouts.files(f"{folder}/*.parquet", schema, files_per_batch=1))
        bolt = play.configure(Counted().with_timestamp_field("ts").with_lag("1s"))
        builder.set_bolt("bolt", bolt, parallelism=2 if "key" in bolt.settings.key else 1).fields_grouping("in", "key")
        builder.set_sink("out", sinks.discard()).from_("bolt")
        run_on_spark(builder.build(), RunOptions(f"{folder}/ck", on_report=note), spark=session.spark)
        took = time.monotonic() - began
    events = play.batches * play.rows
    if received[0] != events:
        raise RuntimeError(f"{play.name}: {received[0]:,} events were received, of {events:,}")
    quarter, last = looks[len(looks) // 4], looks[-2 if len(looks) > 1 else -1]  # the very last one fires all
    more = {name: round(last[name] - quarter[name], 1) for name in quarter if name != "batch"}
    most = {name: max(look[name] for look in looks) for name in quarter if name != "batch"}
    print(f"{play.name}: {events:,} events in {took:.0f} s; most {most} MiB" + (f"; grown {more}" if play.flat else ""))
    return {"play": play.name, "events": events, "seconds": round(took), "most": most, "grown": more, "looks": looks}


def memory(session: Session) -> dict[str, float]:
    """MiB of the driver, of the JVM, of its heap after a collection, and of all Python workers together."""
    jvm: Any = session.spark._jvm
    jvm.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    java = [pid for pid in descendants(os.getpid()) if _is_java(pid)]
    return {
        "driver": _mib(status_of(os.getpid())["RssAnon"]),
        "heap": _mib(runtime.totalMemory() - runtime.freeMemory()),
        "jvm": _mib(sum(status_of(pid).get("RssAnon", 0) for pid in java)),
        "workers": _mib(sum(status_of(pid).get("RssAnon", 0) for pid in workers())),
    }


def _batches(play: Play) -> Iterator[pa.Table]:
    for batch in range(play.batches):
        start = FIRST + int(batch * play.seconds * SECOND)
        times = start + (np.arange(play.rows) * play.seconds * SECOND / play.rows).astype(np.int64)
        yield pa.table(
            {
                "key": play.keys(batch, play.rows),
                "value": np.random.default_rng(batch).random(play.rows),
                "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            }
        )


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name == "java"
    except OSError:
        return False


def _mib(size: int) -> float:
    return round(size / 2**20, 1)


if __name__ == "__main__":
    sys.exit(main())
