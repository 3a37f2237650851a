"""Windows with the prices near the latest price of each symbol. They fire when a full minute passes with five new
prices, or at once at a flush."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from windbolt import TopologyBuilder, TupleWindow, WindowedBolt, minutes, seconds, sinks, spouts
from windbolt.policies import Action, EvictionContext, EvictionPolicy, QueuedEvent, TriggerContext, TriggerPolicy


@dataclass(frozen=True)
class Near(EvictionPolicy):
    """Holds prices within a fraction of the latest price."""

    share: float
    reads = "price"
    state_types: ClassVar[dict[str, type]] = {"price": float}

    def track(self, event: QueuedEvent, context: EvictionContext) -> None:
        context.state["price"] = event["price"]

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        latest = context.state["price"]
        return Action.PROCESS if abs(event["price"] - latest) <= self.share * latest else Action.EXPIRE


@dataclass(frozen=True)
class MinuteOrFlush(TriggerPolicy):
    """Fires when the watermark passes a full minute and there are enough new events; at once when a flush arrives."""

    least: int
    reads = "kind"
    every = minutes(1)

    def on_time(self, time: int, context: TriggerContext) -> bool:
        return context.count - context.fired_count >= self.least

    def on_arrival(self, event: QueuedEvent) -> bool:
        return bool(event["kind"] == "flush")


class Prices(WindowedBolt):
    """The prices of a window, in order."""

    outputs = "symbol string, until timestamp, prices array<double>"

    def execute(self, window: TupleWindow) -> Iterator[tuple[Any, ...]]:
        yield window.key, window.end, window.table.column("price").to_pylist()


bolt = (
    Prices()
    .with_key("symbol")
    .with_timestamp_field("ts")
    .with_lag(seconds(10))
    .with_policies(eviction=Near(0.1), trigger=MinuteOrFlush(5))
)
builder = TopologyBuilder("prices")
builder.set_spout(
    "trades", spouts.files("trades/*.jsonl", schema="id string, symbol string, kind string, price double, ts timestamp")
)
builder.set_bolt("prices", bolt, parallelism=2).fields_grouping("trades", "symbol")
builder.set_sink("out", sinks.files("prices/", format="jsonl")).from_("prices")
topology = builder.build()
