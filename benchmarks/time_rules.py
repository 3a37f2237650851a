"""Cost of the rules of time on Spark: watermarks per event, substreams, sessions, beside Storm's plain windows.

    python benchmarks/time_rules.py [--events 2000000] [--runs 3] [--json FILE]

Events come in bursts of 20, 10 ms apart, each burst from one key, 10,000 events per second of event time, out of order
by up to 2 s; Parquet files of 250,000 rows, two a batch. Spark local[2], two tasks, the output thrown away. In each run
an event must be in a window or still pending. CPU time is that of the whole tree of processes: this one, the JVM and
the Python workers. Linux only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.machine import cpu_seconds
from topologies import RunOptions, TopologyBuilder, sinks, spouts
from topologies.engine.report import BatchReport
from topologies.spark.jvm.session import open_session
from topologies.spark.runner import run_on_spark
from windowing import WindowedBolt, presets
from windowing.settings.kinds import Session

FILE_ROWS, BURST, PER_SECOND, LATE = 250_000, 20, 10_000, "2s"
SCHEMA = "ts timestamp, at timestamp, key int, value double"
CONF = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "6g"}


class Count(WindowedBolt):
    """How many events a window has."""

    outputs = "events long"

    def execute(self, window):
        return (len(window),)


def azure(bolt: WindowedBolt) -> WindowedBolt:
    """Azure's rules, with the disorder of these events."""
    return bolt.with_time(presets.azure(out_of_order=LATE, late="10s", early=None, arrival_field="at"))


@dataclass
class Arm:
    """One bolt over one set of files."""

    name: str
    keys: int
    configure: Callable[[WindowedBolt], WindowedBolt]
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    windows: int = 0

    def run(self, spark: SparkSession, folder: Path, events: int) -> None:
        """Run once and note what it took."""
        builder = TopologyBuilder("time-rules")
        builder.set_spout("events", spouts.files(str(folder / "*.parquet"), schema=SCHEMA, files_per_batch=2))
        bolt = self.configure(Count()).with_timestamp_field("ts")
        builder.set_bolt("bolt", bolt, parallelism=2).fields_grouping("events", "key")
        builder.set_sink("out", sinks.discard()).from_("bolt")
        reports: list[BatchReport] = []
        spark._jvm.System.gc()
        with tempfile.TemporaryDirectory(prefix="checkpoint-") as checkpoint:
            cpu, started = cpu_seconds(), time.perf_counter()
            run_on_spark(
                builder.build(),
                RunOptions(checkpoint=checkpoint, keep_open=True, on_report=reports.append),
                spark=spark,
            )
            self.seconds.append(time.perf_counter() - started)
            self.cpu.append(cpu_seconds() - cpu)
        accounts = reports[-1].bolts["bolt"].accounts
        if accounts["received"] != events or accounts["windowed"] + accounts["pending"] != events:
            raise SystemExit(f"{self.name}: events are missing: {accounts}")
        self.windows = reports[-1].bolts["bolt"].fired

    def figures(self, events: int, plain: Arm) -> dict[str, float | int | str]:
        """Returns its figures."""
        cost, beside = (statistics.median(arm.cpu) / events * 1e6 for arm in (self, plain))
        return {
            "arm": self.name, "keys": self.keys, "windows": self.windows,
            "events_per_second": round(events / statistics.median(self.seconds)),
            "cpu_microseconds_per_event": round(cost, 3), "beside_storm": round(cost / beside, 2),
        }  # fmt: skip


ARMS = [
    ("Storm, tumbling 10 s", lambda bolt: bolt.with_tumbling_window("10s").with_lag(LATE), (1_000,)),
    ("Atlas, tumbling 10 s", lambda bolt: bolt.with_time(presets.atlas(LATE)).with_tumbling_window("10s"), (1_000,)),
    ("Atlas, hopping 10 s / 1 s", lambda bolt: bolt.with_time(presets.atlas(LATE)).with_window("10s", "1s"), (1_000,)),
    ("StreamInsight, every 100", lambda b: b.with_time(presets.streaminsight(100, LATE)).with_tumbling_window("10s"),
     (1_000,)),
    ("Azure, tumbling 10 s", lambda bolt: azure(bolt).with_tumbling_window("10s"), (1_000,)),
    ("Storm, tumbling 10 s per key", lambda b: b.with_tumbling_window("10s").with_lag(LATE).with_key("key"),
     (1_000, 100_000)),
    ("Azure, substreams, tumbling 10 s", lambda b: azure(b).with_tumbling_window("10s").with_key("key")
     .with_watermark(per_key=True),
     (1_000, 100_000)),
    ("Azure, sessions of 200 ms", lambda b: azure(b).with_window(Session("200ms")).with_key("key"), (1_000, 100_000)),
    ("Atlas, sessions of 200 ms",
     lambda b: b.with_time(presets.atlas(LATE)).with_window(Session("200ms")).with_key("key"), (1_000, 100_000)),
]  # fmt: skip


def write_files(folder: Path, events: int, keys: int) -> None:
    """The events, seeded, in order of arrival."""
    chance = np.random.default_rng(keys)
    bursts = events // BURST
    starts = np.sort(chance.uniform(0, events / PER_SECOND, bursts))
    times = np.repeat(starts, BURST) + np.tile(np.arange(BURST) * 0.01, bursts)
    names = np.repeat((np.arange(bursts) * 7919) % keys, BURST)
    arrivals = times + chance.uniform(0, 2, len(times))
    order = np.argsort(arrivals, kind="stable")
    folder.mkdir()
    for number, at in enumerate(range(0, len(order), FILE_ROWS)):
        chosen = order[at : at + FILE_ROWS]
        columns = {
            "ts": pa.array((times[chosen] * 1e6).astype(np.int64)).cast(pa.timestamp("us", "UTC")),
            "at": pa.array((arrivals[chosen] * 1e6).astype(np.int64)).cast(pa.timestamp("us", "UTC")),
            "key": pa.array(names[chosen].astype(np.int32)),
            "value": pa.array(chance.uniform(0, 1, len(chosen))),
        }
        pq.write_table(pa.table(columns), folder / f"{number:06d}.parquet")


def main() -> None:
    """Take the figures, the arms in turn, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    events = options.events // BURST * BURST
    arms = [Arm(name, keys, configure) for name, configure, counts in ARMS for keys in counts]
    spark, _ = open_session("local[2]", CONF)
    try:
        with tempfile.TemporaryDirectory(prefix="time-rules-") as top:
            folders = {keys: Path(top, str(keys)) for keys in {arm.keys for arm in arms}}
            for keys, folder in folders.items():
                write_files(folder, events, keys)
            for turn in range(options.runs + 1):  # the first warms up
                for arm in arms:
                    arm.run(spark, folders[arm.keys], events)
                    if turn == 0:
                        arm.seconds.clear()
                        arm.cpu.clear()
    finally:
        spark.stop()
    rows = [arm.figures(events, arms[0]) for arm in arms]
    print(f"{'':34}{'keys':>9}{'windows':>10}{'events/s':>12}{'CPU-us/event':>14}{'beside Storm':>14}")
    for row in rows:
        print(
            f"{row['arm']:34}{row['keys']:>9,}{row['windows']:>10,}{row['events_per_second']:>12,}"
            f"{row['cpu_microseconds_per_event']:>14.2f}{row['beside_storm']:>14.2f}"
        )
    if options.json:
        options.json.write_text(json.dumps({"events": events, "arms": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
