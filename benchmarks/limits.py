"""Cost of a micro-batch before any window: ``python -m benchmarks.limits --data DIR``.

Two queries of Spark over the events of the benchmark, 500,000 a batch, with ``foreachBatch``: one does nothing with its
rows, the other has Spark read them and hand them to Python as Arrow, which counts them. No engine in Python that is
called by ``foreachBatch`` can be faster than the first, and none whose input is a DataFrame faster than the second.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.arms.arm import measured
from benchmarks.arms.windbolt import batches_of, read_events
from benchmarks.session import Session
from benchmarks.workloads import Events

BATCH_FILES = 2
"""Of 250,000 rows each."""


def nothing(frame: DataFrame, batch: int) -> None:
    """The rows are not asked for."""


def carried(frame: DataFrame, batch: int) -> None:
    """The rows of W2 go through Python."""

    def count(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [sum(batch.num_rows for batch in rows)]})

    frame.select("event_time", "key", "value").mapInArrow(count, "n long").collect()


def batch_seconds(
    session: Session, folder: Path, each_batch: Callable[[DataFrame, int], None]
) -> tuple[list[float], float]:
    """The seconds of each batch, and the CPU-seconds of the run."""
    spark = session.settle()
    scratch = tempfile.mkdtemp(prefix="limits-")
    try:
        with measured() as taken:
            writer = read_events(spark, str(folder), BATCH_FILES).writeStream.foreachBatch(each_batch)
            query = writer.trigger(availableNow=True).option("checkpointLocation", scratch).start()
            query.awaitTermination()
        return [batch.seconds for batch in batches_of(query)], taken.cpu
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main() -> None:
    """Measure both, in turns, and print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    session = Session()
    data = given.data or Path(tempfile.mkdtemp(prefix="windbolt-benchmark-"))
    try:
        folder = Events(given.events).files(data)
        for run in range(given.runs + 1):
            for each_batch in (nothing, carried):
                seconds, cpu = batch_seconds(session, folder, each_batch)
                if run:  # the first one warms up
                    took = f"{1000 * median(seconds):.0f} ms a batch, {1e6 * cpu / given.events:.2f} CPU-µs an event"
                    print(f"{each_batch.__name__}: {took}", flush=True)
    finally:
        session.stop()
        if given.data is None:
            shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
