"""The user's program: ``app.py SHARED NAME [WHAT [MASTER]]``. WHAT happens meanwhile: ``local`` is in this process,
``together`` reads all files in a batch and lays together what was written for tasks (decision 88), ``local-together``
reads them likewise, ``rescaled`` gives a bolt other numbers of tasks, ``executor@commit`` lets the phase wait until the
executor is dead."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pyspark.sql import SparkSession
from shopping.bolts import Revenue, Taxed  # type: ignore[import-not-found]

from manager.storage.segment_files import GatherItem
from topologies.engine import micro_batch
from topologies.engine.micro_batch import Phases
from windbolt import (
    AggregateBolt,
    RunOptions,
    Topology,
    TopologyBuilder,
    aggregates,
    run_local,
    run_on_spark,
    sinks,
    spouts,
)

TASKS = (2, 5, 3)
"""How many tasks the bolt has, run by run, where that changes."""
PLACE = os.environ.get("PLACE", "")
"""Where orders, checkpoint and output are, if not in the folder that all machines see."""


def make(shared: str, name: str, what: str = "", tasks: int = 4, orders: str = "", place: str = "") -> Topology:
    """``shared``: the folder that all machines see; ``place``: where the data is, if not there."""
    builder = TopologyBuilder("shop")
    schema = "user string, amount double, ts timestamp"
    place = place or shared
    orders = orders or f"{place}/orders"
    builder.set_spout(
        "orders", spouts.files(f"{orders}/*.parquet", schema, files_per_batch=3 if "together" in what else 1)
    )
    builder.set_bolt("taxed", Taxed()).shuffle_grouping("orders")
    happens = "" if what.endswith(("local", "together")) else what
    revenue = Revenue(shared, happens).with_window("20s", "10s").with_timestamp_field("ts").with_lag("5s")
    builder.set_bolt("revenue", revenue.with_late_tuple_stream("late"), tasks).fields_grouping("taxed", "user")
    sums = AggregateBolt(by=["user"], n=aggregates.count(), until=aggregates.window_end()).with_window("20s", "10s")
    builder.set_bolt("sums", sums.with_timestamp_field("ts").with_lag("5s"), tasks).fields_grouping("taxed", "user")
    for sink, stream in (("revenue", "default"), ("late", "late"), ("sums", "default")):
        bolt = "revenue" if stream == "late" else sink
        builder.set_sink(f"to-{sink}", sinks.files(f"{place}/{name}/{sink}", "jsonl")).from_(bolt, stream=stream)
    return builder.build()


def die_when_it_happens(shared: str) -> None:
    while not os.path.exists(f"{shared}/happened"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def wait_at(phase: str, shared: str, who: str) -> None:
    """Let a phase of the second batch begin when ``who`` is dead, which somebody else sees to."""
    begin: Callable[[Phases, Any], AbstractContextManager[None]] = Phases.phase

    def begun(self: Phases, name: Any) -> AbstractContextManager[None]:
        if name == phase and self._batch == "batch 1" and not os.path.exists(f"{shared}/happened"):
            open(f"{shared}/happened", "x").close()
            if who == "driver":
                os.kill(os.getpid(), signal.SIGKILL)
            while not os.path.exists(f"{shared}/done"):
                time.sleep(0.01)
        return begin(self, name)

    Phases.phase = begun  # type: ignore[method-assign, assignment]


def rescaled(shared: str, name: str, master: str) -> None:
    """A run for each file of orders, each with another number of tasks; the last one closes."""
    orders = f"{shared}/{name}-orders"
    os.makedirs(orders)
    spark = SparkSession.builder.master(master).getOrCreate()
    names = sorted(os.listdir(f"{shared}/orders"))
    for file, tasks in zip(names, TASKS, strict=True):
        shutil.copy2(f"{shared}/orders/{file}", orders)
        options = RunOptions(f"{shared}/{name}/checkpoint", keep_open=file != names[-1], allow_rescale=True)
        run_on_spark(make(shared, name, "", tasks, orders), options, spark=spark)
    spark.stop()


def lay_together() -> list[int]:
    """Lay together what was written for tasks, however little it is; how many segments each time."""
    laid: list[int] = []

    def counted(*columns: Any) -> GatherItem:
        laid.append(len(columns[0]))
        return GatherItem(*columns)

    micro_batch._LEAST_SAVED = -(10**9)
    micro_batch.GatherItem = counted  # type: ignore[attr-defined, assignment]
    return laid


def main(shared: str, name: str, what: str = "", master: str | None = None) -> None:
    if what == "rescaled":
        assert master is not None
        rescaled(shared, name, master)
        return
    who, _, phase = what.partition("@")
    if phase:
        wait_at(phase, shared, who)
        what = ""
    if what == "driver":
        threading.Thread(target=die_when_it_happens, args=(shared,), daemon=True).start()
    laid = lay_together() if what == "together" else []
    options = RunOptions(f"{PLACE or shared}/{name}/checkpoint")
    topology = make(shared, name, what, place=PLACE)
    local = what.startswith("local")
    summary = run_local(topology, options) if local else run_on_spark(topology, options, master=master)
    print(json.dumps({"rows": summary.rows, "batches": summary.batches, "laid": max(laid, default=0)}))


topology = make(os.environ.get("SHARED", ""), os.environ.get("NAME", ""), os.environ.get("WHAT", ""), place=PLACE)
if __name__ == "__main__":
    main(*sys.argv[1:])
