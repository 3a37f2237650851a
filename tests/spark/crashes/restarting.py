"""A run on Spark that is started again by itself: an executor of a small cluster, or the driver's Java, is killed once.

Run as a process of its own: ``python -m tests.spark.crashes.restarting ORDERS FOLDER executor|java``.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.spark.shop import SCHEMA
from tests.spark.tools import CONF, Trap
from topologies.run.options import ComingRestart, Restart
from topologies.spark.classic_session import open_session
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_on_spark, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.schema import EmittedRows

CLUSTER = {
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "10ms",
    "spark.speculation.multiplier": "1",
}


class Revenue(WindowedBolt):
    """Revenue per user; the trap goes off in the first window."""

    outputs = "user string, revenue double"

    def __init__(self, trap: Trap | None) -> None:
        super().__init__()
        self.trap = trap

    def execute(self, window: TupleWindow) -> EmittedRows:
        if self.trap is not None:
            (self.trap if self.trap.pid else WithExecutor(self.trap.marker)).step_on()
        for user, amounts in window.groups("user", "amount"):
            yield user, float(amounts.sum())


@dataclass(frozen=True)
class WithExecutor(Trap):
    """Kills the executor of the task that steps on it."""

    def step_on(self) -> None:
        """Python's daemon is the parent of this process, and Spark's executor that of the daemon."""
        daemon = os.getppid()
        executor = int(Path(f"/proc/{daemon}/stat").read_text("utf-8").rpartition(") ")[2].split()[1])
        Trap(self.marker, "kill", executor).step_on()


def shop(orders: str, out: str, trap: Trap | None = None) -> Topology:
    """Revenue by windows, from files into files."""
    builder = TopologyBuilder("restarting")
    builder.set_spout("orders", spouts.files(f"{orders}/*.parquet", schema=SCHEMA, files_per_batch=1))
    bolt = Revenue(trap).with_tumbling_window("20s").with_timestamp_field("ts").with_lag("10s")
    builder.set_bolt("revenue", bolt, 2).fields_grouping("orders", "user")
    builder.set_sink("out", sinks.files(out, format="jsonl")).from_("revenue")
    return builder.build()


def main(orders: str, folder: str, whom: str) -> None:
    """Run; says the restarts, one a line."""
    cluster = whom == "executor"
    # A task that fails once ends its job, as after the last of several times.
    conf = {**CONF, **(CLUSTER if cluster else {}), "spark.task.maxFailures": "1"}
    master = "local-cluster[1,1,512]" if cluster else "local[2]"
    pid = 0
    if not cluster:  # the driver's Java is there before the run, so that its id is known
        session, _ = open_session(master, conf)
        pid = session.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        session.stop()

    def tell(coming: ComingRestart) -> None:
        print(f"restart {coming.restarts}: {coming.error}".replace("\n", " "), flush=True)

    restart = Restart(3, "100ms", "1s")
    options = RunOptions(f"{folder}/ck", restart=restart, on_restart=tell)
    summary = run_on_spark(
        shop(orders, f"{folder}/out", Trap(f"{folder}/trap", "kill", pid)), options, master=master, conf=conf
    )
    print(f"rows {summary.rows}, restarts {summary.restarts}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
