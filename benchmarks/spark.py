"""windbolt beside Spark's own windows: the same files, the same Spark application, in turn.

    python benchmarks/spark.py [--quick] [--workloads W1,W2] [--batch-files 2] [--json FILE]

Events: 1,000 keys, 10,000 events per second of event time, out of order by up to 2 s, lag 2 s; Parquet files of 250,000
rows. Spark local[2], 2 shuffle partitions, available now, the output thrown away. Both leave the windows open that the
watermark has not passed. Before anything is timed every window of every arm is compared with NumPy; that run also
warms up. CPU time is that of the whole tree of processes: this one, the JVM and the Python workers. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.events import FILE_ROWS, SEED, Columns, Events
from benchmarks.process_tree import cpu_seconds
from benchmarks.workloads import WORKLOADS, Workload
from topologies import RunOptions, sinks
from topologies.engine.report import BatchReport
from topologies.spark.runner import run_on_spark
from topologies.spark.session import open_session

WINDBOLT, SPARK = "windbolt", "Spark's own"
CONF = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "6g"}
SCHEMA = "event_time timestamp, key int, value double, stream string"


@dataclass
class Timing:
    """What one run took."""

    seconds: float
    cpu: float
    reports: list[BatchReport] = field(default_factory=list)


@dataclass
class Arm:
    """One way to answer a workload, and the runs so far."""

    workload: Workload
    label: str
    events: Events
    folder: Path
    batch_files: int
    timings: list[Timing] = field(default_factory=list)

    def run(self, spark: SparkSession, *, keep: bool = False) -> tuple[Timing, pa.Table | None]:
        """One run over all the files, with a new checkpoint; its rows if they are to be kept."""
        spark._jvm.System.gc()  # what an earlier run has left is no cost of this one
        with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=self.folder.parent) as checkpoint:
            run = self._spark if self.label == SPARK else self._windbolt
            return run(spark, checkpoint, keep)

    def _windbolt(self, spark: SparkSession, checkpoint: str, keep: bool) -> tuple[Timing, pa.Table | None]:
        sink = sinks.memory() if keep else sinks.discard()
        topology = self.workload.topology(str(self.folder), self.batch_files, sink)
        reports: list[BatchReport] = []
        options = RunOptions(checkpoint=checkpoint, flush=False, on_report=reports.append)
        with measured(reports) as timing:
            run_on_spark(topology, options, spark=spark)
        accounts = reports[-1].bolts["bolt"].accounts
        if accounts["received"] != self.events.count or accounts["late"] or accounts["invalid"]:
            raise SystemExit(f"{self}: the accounts are wrong: {accounts}")
        return timing[0], sink.table if keep else None

    def _spark(self, spark: SparkSession, checkpoint: str, keep: bool) -> tuple[Timing, pa.Table | None]:
        files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", self.batch_files)
        found = self.workload.query(files.parquet(str(self.folder)))
        writer = found.writeStream.outputMode("append").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", checkpoint)
        writer = writer.format("memory").queryName("kept") if keep else writer.format("noop")
        with measured([]) as timing:
            writer.start().awaitTermination()
        return timing[0], spark.table("kept").toArrow() if keep else None

    def check(self, spark: SparkSession) -> None:
        """Run once, keep the rows and compare each with NumPy."""
        _, rows = self.run(spark, keep=True)
        trouble = differences(rows, self.workload.answer(self.events))
        if trouble:
            raise SystemExit(f"{self} is wrong, and is not timed: {trouble}")

    @property
    def speeds(self) -> list[float]:
        """Events per second of each run."""
        return [self.events.count / timing.seconds for timing in self.timings]

    @property
    def cpu(self) -> float:
        """CPU-microseconds per event, the median of the runs."""
        return statistics.median(timing.cpu / self.events.count * 1e6 for timing in self.timings)

    def __str__(self) -> str:
        return f"{self.workload.name} {self.label}"


@contextmanager
def measured(reports: list[BatchReport]) -> Iterator[list[Timing]]:
    """The time of the block, in the list, when it has ended."""
    timing: list[Timing] = []
    cpu, started = cpu_seconds(), time.perf_counter()
    yield timing
    timing.append(Timing(time.perf_counter() - started, cpu_seconds() - cpu, reports))


def differences(rows: pa.Table, expected: Columns) -> str | None:
    """How rows differ from what they should be; None if they do not."""
    if rows.num_rows != len(expected["until"]):
        return f"{rows.num_rows:,} rows instead of {len(expected['until']):,}"
    rows = rows.sort_by([(name, "ascending") for name in ("until", "key") if name in expected])
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


def show(arms: list[Arm]) -> None:
    """The figures of a workload's arms."""
    for arm in arms:
        speeds, speed = arm.speeds, statistics.median(arm.speeds)
        note = "" if arm.workload.keyed else "  un-keyed: one task"
        print(
            f"{arm!s:21} {speed / 1e3:9,.0f} {min(speeds) / 1e3:8,.0f} {max(speeds) / 1e3:8,.0f} "
            f"{arm.cpu:8.2f} {speed / statistics.median(arms[-1].speeds):8.2f}{note}",
            flush=True,
        )


def show_phases(arms: list[Arm]) -> None:
    """Where windbolt's time goes: milliseconds per micro-batch."""
    rows = {str(arm): phases(arm) for arm in arms if arm.label != SPARK}
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    print(f"\nmilliseconds per micro-batch\n{'':21}" + "".join(f"{name:>9}" for name in names))
    for label, row in rows.items():
        print(f"{label:21}" + "".join(f"{row.get(name, 0.0):9.0f}" for name in names))


def phases(arm: Arm) -> dict[str, float]:
    """Milliseconds per micro-batch by phase, over all runs; ``around``: Spark's own work and what starts a query."""
    spent: dict[str, float] = defaultdict(float)
    reports = [report for timing in arm.timings for report in timing.reports]
    for report in reports:
        for phase, seconds in report.seconds.items():
            spent[phase] += seconds * 1e3 / len(reports)
    total = spent.pop("total")
    whole = sum(timing.seconds for timing in arm.timings) * 1e3 / len(reports)
    return {**spent, "batch": total, "around": whole - total, "whole": whole}


def as_json(arms: list[Arm], options: argparse.Namespace) -> dict[str, Any]:
    """All figures, with what they were taken on."""
    return {
        "events": options.events,
        "batch_events": options.batch_files * FILE_ROWS,
        "seed": SEED,
        "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "load": os.getloadavg()},
        "versions": {
            "python": platform.python_version(), "pyspark": pyspark.__version__,
            "pyarrow": pa.__version__, "numpy": np.__version__,
        },
        "arms": [
            {
                "workload": arm.workload.name,
                "arm": arm.label,
                "keyed": arm.workload.keyed,
                "events": arm.events.count,
                "seconds": [round(timing.seconds, 3) for timing in arm.timings],
                "cpu_seconds": [round(timing.cpu, 2) for timing in arm.timings],
                "events_per_second": round(statistics.median(arm.speeds)),
                "cpu_microseconds_per_event": round(arm.cpu, 3),
                "milliseconds_per_batch": {} if arm.label == SPARK else phases(arm),
            }
            for arm in arms
        ],
    }  # fmt: skip


def parsed() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, help="5,000,000 if not given")
    parser.add_argument("--quick", action="store_true", help="1,000,000 events")
    parser.add_argument("--batch-files", type=int, default=2, help="files of 250,000 events per micro-batch")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workloads", default=",".join(workload.name for workload in WORKLOADS))
    parser.add_argument("--data", type=Path, help="keep the files here, for the next time")
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    options.events = options.events or (1_000_000 if options.quick else 5_000_000)
    known = {workload.name: workload for workload in WORKLOADS}
    names = options.workloads.split(",")
    if not known.keys() >= set(names):
        parser.error(f"--workloads {options.workloads}: there are {', '.join(known)}")
    options.workloads = [known[name] for name in names]
    return options


def main() -> None:
    options = parsed()
    cache = (options.data or Path(tempfile.mkdtemp(prefix="windbolt-benchmark-"))).absolute()
    # The workers import the functions of Spark's own queries.
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    events = Events(options.events)
    folder = events.files(cache)
    spark, _ = open_session("local[2]", CONF)
    done: list[Arm] = []
    try:
        size = options.batch_files * FILE_ROWS
        print(f"{options.events:,} events, {size:,} a micro-batch; {options.runs} runs; load {os.getloadavg()[0]:.1f}")
        print("thousands of events per second (median, least, most), CPU-microseconds per event, speed against Spark's")
        print(f"{'':21} {'events/s':>9} {'min':>8} {'max':>8} {'CPU-us':>8} {'ratio':>8}", flush=True)
        for workload in options.workloads:
            arms = [Arm(workload, label, events, folder, options.batch_files) for label in (WINDBOLT, SPARK)]
            for arm in arms:
                arm.check(spark)
            for _ in range(options.runs):
                for arm in arms:
                    arm.timings.append(arm.run(spark)[0])
            show(arms)
            done += arms
        show_phases(done)
    finally:
        spark.stop()
        if options.data is None:
            shutil.rmtree(cache, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps(as_json(done, options), indent=1) + "\n")


if __name__ == "__main__":
    main()
