"""Input that cannot be reached when it is read: the run stops, nothing is committed, and the next run reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.shop import shop_in_memory
from tests.spark.tools import memory_rows, run
from topologies.run.options import RunOptions
from topologies.spark.runner import SparkRun
from topologies.spark.workers.pool import TASKS
from windbolt import run_local
from windowing.errors import MissingError, UnreachableError


@pytest.fixture(params=["pool", "spark"])
def tasks(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Who runs the tasks."""
    spark.conf.set(TASKS, request.param)
    yield request.param
    spark.conf.unset(TASKS)


@pytest.mark.extended
def test_a_batch_whose_input_cannot_be_reached_is_not_committed(
    spark: SparkSession, tasks: str, orders: Path, tmp_path: Path
) -> None:
    there, expected = shop_in_memory(orders)
    run_local(there)
    topology, found = shop_in_memory(orders)
    away = tmp_path / "away"

    def attempt(batch: int) -> None:
        """A run in whose batch all of the input is away."""
        attempt = SparkRun(spark, topology, RunOptions(str(tmp_path / "checkpoint")))

        def hook(phase: str) -> None:
            if phase == "ingest" and attempt.micro_batch.manifest.batch == batch - 1:
                orders.rename(away)
                if batch == 1:
                    orders.write_text("a file, where the folder was")

        with attempt:
            attempt.micro_batch.hook = hook
            attempt.run()

    # Spark tries each task again, and each try has pauses: once is enough there.
    for batch, kind in ((0, MissingError), (1, UnreachableError))[: 2 if tasks == "pool" else 1]:
        with pytest.raises(kind, match="orders 0"):
            attempt(batch)
        orders.unlink(missing_ok=True)
        away.rename(orders)
    last = run(topology, tmp_path / "checkpoint").last
    assert last is not None
    assert all(counts["unreadable_files"] == 0 for counts in last.spouts.values())
    assert memory_rows(found) == memory_rows(expected)
