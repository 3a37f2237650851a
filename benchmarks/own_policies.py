"""Events per second through policies of a user's own: event by event, and on arrays; CPU seconds of one process.

    python -m benchmarks.own_policies

Twenty batches of 20,000 events; a trigger that fires every 1,000 events by what it reads, and an eviction that keeps
the last 1,000 by what it reads. The windows do nothing; reading the batch and writing the checkpoint in memory are
included.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from manager.storage.checkpoint import MemoryCheckpoint
from topologies import TopologyBuilder, sinks, spouts
from topologies.engine.batch import BatchPlan, InProcess, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import TableSource
from windbolt.policies import (
    Action,
    EvictionContext,
    EvictionPolicy,
    QueuedEvent,
    QueuedEvents,
    TriggerContext,
    TriggerPolicy,
)
from windowing import Count, TupleWindow, WindowedBolt

BATCHES, ROWS, WINDOW = 20, 20_000, 1_000


class Bars(TriggerPolicy):
    """Fires when so much has been traded."""

    state_types: ClassVar[dict[str, type]] = {"volume": int}
    reads = "volume"

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        state = context.state
        state["volume"] += event["volume"]
        return bool(state["volume"] >= WINDOW)

    def reset(self, context: TriggerContext) -> None:
        context.state["volume"] = 0


class OfTheBar(EvictionPolicy):
    """The events since the last bar that were traded at all."""

    reads = "volume"

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        if event.number < context.fired_count or event["volume"] == 0:
            return Action.EXPIRE
        return Action.PROCESS


class BarsOnArrays(Bars):
    """The same on arrays."""

    def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
        bars = (context.state["volume"] + np.cumsum(events["volume"])) // WINDOW
        fires = np.diff(bars, prepend=0) > 0
        context.state["volume"] = int((context.state["volume"] + events["volume"].sum()) % WINDOW)
        return fires


class OfTheBarOnArrays(OfTheBar):
    """The same on arrays."""

    def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
        gone = (events.numbers < context.fired_count) | (events["volume"] == 0)
        return np.where(gone, Action.EXPIRE, Action.PROCESS)


class Nothing(WindowedBolt):
    """A bolt that does nothing with its windows."""

    outputs: ClassVar[str] = "n long"

    def execute(self, window: TupleWindow) -> None:
        pass


def measured(bolt: WindowedBolt) -> tuple[float, int]:
    """Events per CPU second, and windows."""
    builder = TopologyBuilder("bench")
    builder.set_spout("trades", spouts.memory("volume long, price double, ts long"))
    builder.set_bolt("bars", bolt.with_timestamp_field("ts")).global_grouping("trades")
    builder.set_sink("out", sinks.memory()).from_("bars")
    topology = builder.build()
    schema = topology.spouts["trades"].outputs["default"]
    step = MicroBatch(topology, MemoryCheckpoint(), InProcess())
    rng = np.random.default_rng(1)
    tables = [
        pa.table(
            [
                pa.array(np.ones(ROWS, np.int64)),
                pa.array(rng.random(ROWS)),
                pa.array(np.arange(number * ROWS, (number + 1) * ROWS)),
            ],
            schema=schema,
        )
        for number in range(BATCHES)
    ]
    began = time.process_time()
    for number, table in enumerate(tables):
        step.run(BatchPlan(number, TimeAdvance(0), [TableSource("trades", table)]))
    spent = time.process_time() - began
    return BATCHES * ROWS / spent, step.manifest.bolts["bars"].fired


def main() -> None:
    """Print a line for each kind of policies."""
    kinds = {
        "built in: count 1,000": Nothing().with_window(Count(WINDOW), Count(WINDOW)),
        "a trigger, event by event": Nothing().with_window(Count(WINDOW)).with_policies(trigger=Bars()),
        "trigger and eviction, event by event": Nothing().with_policies(trigger=Bars(), eviction=OfTheBar()),
        "trigger and eviction, on arrays": Nothing().with_policies(trigger=BarsOnArrays(), eviction=OfTheBarOnArrays()),
    }
    for name, bolt in kinds.items():
        measured(bolt)
        speed, windows = measured(bolt)
        print(f"{name:40} {speed:12,.0f} events/s, {windows} windows")


if __name__ == "__main__":
    main()
