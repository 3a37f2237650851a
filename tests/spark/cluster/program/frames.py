"""A program of the user's with a DataFrame: ``frames.py SHARED MASTER [SETTING=VALUE ...]``.

The rows are first added up where Spark reads them, while an executor dies there; in a second run they go to Python.
Prints which batches were added up, and of both runs the rows and the accounts of each batch.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession, functions

from topologies.engine.report import BatchReport
from topologies.spark import source
from topologies.spark.frame_sums import FrameAdder
from windbolt import AggregateBolt, RunOptions, TopologyBuilder, aggregates, run_on_spark, sinks, spouts

LATER = 1_714_564_875
"""A time, in seconds; of the first two files only the second one has later times."""


def dying(shared: str) -> Callable[..., Any]:
    """A function over columns that returns users as they are; the executor of one of the tasks that call it dies."""

    def parent(pid: int) -> int:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])

    def user(name: str, second: int) -> str:
        if second > LATER:
            with suppress(FileExistsError):
                os.close(os.open(f"{shared}/happened", os.O_CREAT | os.O_EXCL))
                os.kill(parent(os.getppid()), signal.SIGKILL)  # the parent of this process is pyspark's daemon
                time.sleep(600)  # until Spark ends this process
        return name

    return functions.udf(user, "string")


def added_up(frame: DataFrame, checkpoint: str) -> dict[str, Any]:
    """The rows of a run, and the accounts of each batch."""
    builder, out, accounts = TopologyBuilder("frames"), sinks.memory(), list[Any]()
    builder.set_spout("orders", spouts.stream(frame))
    asked = {"n": aggregates.count(), "amount": aggregates.sum("amount"), "most": aggregates.max("amount")}
    bolt = AggregateBolt(by="user", **asked, until=aggregates.window_end()).with_window("20s", "10s")
    bolt = bolt.with_timestamp_field("ts").with_lag("5s")
    builder.set_bolt("sums", bolt, parallelism=3).fields_grouping("orders", "user")
    builder.set_sink("out", out).from_("sums")

    def note(report: BatchReport) -> None:
        accounts.append([report.bolts["sums"].watermark, report.bolts["sums"].accounts, report.spouts])

    run_on_spark(builder.build(), RunOptions(checkpoint, on_report=note), spark=frame.sparkSession)
    return {"rows": sorted(json.dumps(row, default=str) for row in out.rows), "accounts": accounts}


def main(shared: str, master: str, *settings: str) -> None:
    builder = SparkSession.builder.master(master)
    for setting in settings:
        builder = builder.config(*setting.split("=", 1))
    spark = builder.getOrCreate()
    reader = spark.readStream.schema("user string, amount double, ts timestamp").option("maxFilesPerTrigger", 2)
    orders = reader.parquet(f"{shared}/orders").where("ts IS NOT NULL")
    frame = orders.withColumn("user", dying(shared)("user", functions.col("ts").cast("long")))
    found: list[bool] = []
    ingest = FrameAdder.ingest

    def noted(*given: Any) -> Any:
        outputs = ingest(*given)
        found.append(outputs is not None)
        return outputs

    with patch.object(FrameAdder, "ingest", noted):
        sums = added_up(frame, f"{shared}/frames/sums")
    with patch.object(source, "frame_sums", lambda topology: None):
        rows = added_up(frame, f"{shared}/frames/rows")
    spark.stop()
    print(json.dumps({"added_up": found, "sums": sums, "rows": rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
