"""Events per second through a bolt that keeps a sum, without windows and with windows of one event; CPU seconds.

    python -m benchmarks.stateful

One process; ten batches of 20,000 events, of 100 and of 10,000 keys. Reading the batch and writing the checkpoint in
memory are included.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from manager.storage.checkpoint import MemoryCheckpoint
from topologies import TopologyBuilder, sinks, spouts
from topologies.engine.batch import BatchPlan, InProcess, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import TableSource
from windowing import StatefulBatchBolt, StatefulBolt, StatefulWindowedBolt, Tuple, TupleWindow, WindowedBolt

BATCHES, ROWS = 10, 20_000
OUTPUTS = "user string, total double"


class Each(StatefulBolt):
    """The sum so far, event by event."""

    outputs: ClassVar[str] = OUTPUTS
    state_types: ClassVar[dict[str, type]] = {"total": float}

    def execute(self, tuple: Tuple) -> Any:
        self.state["total"] += tuple["amount"]
        return tuple["user"], self.state["total"]


class Tables(StatefulBatchBolt):
    """The same with columns."""

    outputs: ClassVar[str] = OUTPUTS
    state_types: ClassVar[dict[str, type]] = {"total": float}

    def execute(self, batch: pa.Table) -> Any:
        totals = self.state["total"] + np.cumsum(batch["amount"].to_numpy())
        self.state["total"] = float(totals[-1])
        return pa.table({"user": batch["user"], "total": totals})


class Windows(StatefulWindowedBolt):
    """The same with windows of one event."""

    outputs: ClassVar[str] = OUTPUTS
    state_types: ClassVar[dict[str, type]] = {"total": float}

    def execute(self, window: TupleWindow) -> Iterator[Any]:
        for event in window.get():
            self.state["total"] += event["amount"]
            yield event["user"], self.state["total"]


class WindowsByKey(StatefulWindowedBolt):
    """The same of each key, in a dict."""

    outputs: ClassVar[str] = OUTPUTS
    state_types: ClassVar[dict[str, type]] = {"totals": dict}

    def execute(self, window: TupleWindow) -> Iterator[Any]:
        totals = self.state["totals"]
        for event in window.get():
            user = event["user"]
            totals[user] = totals.get(user, 0.0) + event["amount"]
            yield user, totals[user]


BOLTS: dict[str, StatefulBolt | WindowedBolt] = {
    "per event, of a task": Each(),
    "per event, of keys": Each().with_key("user"),
    "columns, of a task": Tables(),
    "columns, of keys": Tables().with_key("user"),
    "windows of one event, of a task": Windows().with_tumbling_window(1),
    "windows of one event, a dict of keys": WindowsByKey().with_tumbling_window(1),
}


def measured(bolt: StatefulBolt | WindowedBolt, keys: int) -> float:
    """Events per CPU second."""
    random, builder = np.random.default_rng(1), TopologyBuilder("stateful")
    builder.set_spout("events", spouts.memory("user string, amount double"))
    builder.set_bolt("kept", bolt).fields_grouping("events", "user")
    builder.set_sink("out", sinks.discard()).from_("kept")
    topology = builder.build()
    names = np.array([f"user {number}" for number in range(keys)])
    batches = [
        pa.table({"user": names[random.integers(0, keys, ROWS)], "amount": random.random(ROWS)}) for _ in range(BATCHES)
    ]
    step, schema = MicroBatch(topology, MemoryCheckpoint(), InProcess()), topology.spouts["events"].outputs["default"]
    began = time.process_time()
    for number, table in enumerate(batches):
        step.run(BatchPlan(number, TimeAdvance(number), [TableSource("events", table.cast(schema))]))
    return BATCHES * ROWS / (time.process_time() - began)


def main() -> None:
    """Prints a line for each way."""
    measured(BOLTS["per event, of a task"], 100)  # to warm up
    print(f"{'thousand events/s':40}{'100 keys':>12}{'10,000 keys':>14}")
    for name, bolt in BOLTS.items():
        found = [measured(bolt, keys) / 1_000 for keys in (100, 10_000)]
        print(f"{name:40}{found[0]:12,.0f}{found[1]:14,.0f}")


if __name__ == "__main__":
    main()
