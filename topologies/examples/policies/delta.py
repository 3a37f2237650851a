"""Flink's delta trigger and delta evictor: a car reports its position, and a window fires every 50 meters.

It holds the reports of the last 100 meters. Both policies have a state: the trigger keeps the meters of its last
firing, the eviction policy those of the latest report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from windbolt import TopologyBuilder, TupleWindow, WindowedBolt, seconds, sinks, spouts
from windbolt.policies import Action, EvictionContext, EvictionPolicy, QueuedEvent, TriggerContext, TriggerPolicy


@dataclass(frozen=True)
class DeltaTrigger(TriggerPolicy):
    """Fires with an event that is more than ``threshold`` away from the last event that fired or, before that, from the
    first event."""

    threshold: float
    reads = "meters"
    state_types: ClassVar[dict[str, type]] = {"last": float}

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        far = abs(event["meters"] - context.state["last"]) > self.threshold
        if far or context.count == 1:
            context.state["last"] = event["meters"]
        return far and context.count > 1


@dataclass(frozen=True)
class DeltaEviction(EvictionPolicy):
    """Holds events that are less than ``threshold`` away from the last event of the window; the others expire."""

    threshold: float
    reads = "meters"
    state_types: ClassVar[dict[str, type]] = {"last": float}

    def track(self, event: QueuedEvent, context: EvictionContext) -> None:
        context.state["last"] = event["meters"]

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        near = abs(event["meters"] - context.state["last"]) < self.threshold
        return Action.PROCESS if near else Action.EXPIRE


class TopSpeed(WindowedBolt):
    """The highest speed of a stretch."""

    outputs = "car string, meters double, top_speed double, reports long"

    def execute(self, window: TupleWindow) -> Iterator[tuple[Any, ...]]:
        speeds = window.table.column("speed").to_pylist()
        yield window.key, window.table.column("meters")[-1].as_py(), max(speeds), len(speeds)


bolt = (
    TopSpeed()
    .with_key("car")
    .with_timestamp_field("ts")
    .with_lag(seconds(2))
    .with_policies(eviction=DeltaEviction(100), trigger=DeltaTrigger(50))
)
builder = TopologyBuilder("top-speed")
builder.set_spout(
    "cars", spouts.files("cars/*.jsonl", schema="id string, car string, meters double, speed double, ts timestamp")
)
builder.set_bolt("stretches", bolt, parallelism=2).fields_grouping("cars", "car")
builder.set_sink("speeds", sinks.files("speeds/", format="jsonl")).from_("stretches")
topology = builder.build()
