"""Executors that are asked more than once before the first batch, since one of them had all tasks of the first job."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from topologies.spark import spark_tasks
from topologies.spark.cluster import ask_executors
from windbolt import TopologyBuilder, WindowedBolt, sinks, spouts


class Sizes(WindowedBolt):
    outputs = "n long"

    def execute(self, window):
        return (len(window),)


def test_each_job_that_asks_them_has_the_topology(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("numbers", spouts.memory("n long", [{"n": 1}]))
    builder.set_bolt("sizes", Sizes().with_window(1)).global_grouping("numbers")
    builder.set_sink("out", sinks.memory()).from_("sizes")
    topology = builder.build()
    rounds: list[int] = []

    def one_is_missing(_context: object) -> int:
        rounds.append(len(rounds))
        return 2

    monkeypatch.setattr(spark_tasks, "executors_of", one_is_missing)
    executor = spark_tasks.SparkExecutor(spark.sparkContext)
    executor.load(topology)
    try:
        ask_executors(executor, topology, str(tmp_path / "ck"))
    finally:
        executor.close()
    assert len(rounds) > 2
