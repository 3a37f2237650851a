"""Prices near the latest one of each symbol, when a full minute passes with five new ones, or at once at a flush."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from windbolt import TopologyBuilder, TupleWindow, WindowedBolt, minutes, seconds, sinks, spouts
from windbolt.policies import Action, EvictionContext, EvictionPolicy, QueuedEvent, TriggerContext, TriggerPolicy


@dataclass(frozen=True)
class Near(EvictionPolicy):
    """What is within a share of the latest price."""

    share: float
    reads = "price"
    state_types: ClassVar[dict[str, type]] = {"price": float}

    def track(self, event: QueuedEvent, context: EvictionContext) -> None:
        """Remember the latest price."""
        context.state["price"] = event["price"]

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        """Let what is too far from it go."""
        latest = context.state["price"]
        return Action.PROCESS if abs(event["price"] - latest) <= self.share * latest else Action.EXPIRE


@dataclass(frozen=True)
class MinuteOrFlush(TriggerPolicy):
    """When the watermark passes a full minute and there are so many new events, or at once when a flush comes."""

    least: int
    every = minutes(1)
    reads = "kind"

    def on_time(self, time: int, context: TriggerContext) -> bool:
        """At each full minute."""
        return context.count - context.fired_count >= self.least

    def on_arrival(self, event: QueuedEvent) -> bool:
        """With each event, as it comes."""
        return bool(event["kind"] == "flush")


class Prices(WindowedBolt):
    """The prices of a window."""

    outputs = "symbol string, until timestamp, prices array<double>"

    def execute(self, window: TupleWindow) -> Any:
        """A row."""
        return window.key, window.end, window.table.column("price").to_pylist()


def topology_with(tasks: int) -> Any:
    """The topology, with so many tasks."""
    builder = TopologyBuilder("prices")
    builder.set_spout("trades", spouts.memory("id string, symbol string, kind string, price double, ts timestamp"))
    bolt = Prices().with_key("symbol").with_timestamp_field("ts").with_lag(seconds(10))
    bolt = bolt.with_policies(eviction=Near(0.1), trigger=MinuteOrFlush(5))
    builder.set_bolt("prices", bolt, tasks).fields_grouping("trades", "symbol")
    builder.set_sink("rows", sinks.memory()).from_("prices")
    return builder.build()


topology = topology_with(2)
