"""A run in a process of its own, which is killed at a place: ``dying.py ORDERS FOLDER WHERE BATCH WHOM [TASKS]``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.spark.shop import Revenue, Taxed, shop_in_files
from tests.spark.tools import CONF, Trap
from topologies.run.options import RunOptions
from topologies.spark.classic_session import open_session
from topologies.spark.runner import SparkRun
from topologies.spark.workers.pool import TASKS


def main(orders: str, folder: str, where: str, batch: str, whom: str, tasks: str = "auto") -> None:
    """Run, and be killed on the way. ``tasks``: who runs them."""
    spark, _ = open_session("local[2]", {**CONF, TASKS: tasks})
    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    victims = {
        "driver": ("kill", os.getpid()),
        "group": ("killpg", os.getpid()),
        "java": ("kill", java),
        "worker": ("kill", 0),  # whoever steps on it
    }
    trap = Trap(f"{folder}/trap", *victims.get(whom, ("raise", 0)))
    topology = shop_in_files(
        Path(orders),
        Path(folder),
        taxed=Taxed(trap if where == "taxed" else None),
        revenue=Revenue(trap if where == "revenue" else None),
    )
    attempt = SparkRun(spark, topology, RunOptions(f"{folder}/checkpoint"))

    def hook(phase: str) -> None:
        if phase == where and attempt.micro_batch.manifest.batch == int(batch) - (phase != "committed"):
            trap.step_on()

    with attempt:
        attempt.micro_batch.hook = hook
        attempt.run()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
