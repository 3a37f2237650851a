"""A shop's takings: a window closes when 1,000 are reached, or at midnight in Tokyo, whichever comes first.

The day ends at its last microsecond, so that a sale exactly at midnight belongs to the next day. Tokyo has no summer
time, so a multiple of 24 hours works; in other zones, request the next midnight with ``context.wake_at``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from windbolt import Duration, TopologyBuilder, TupleWindow, WindowedBolt, days, hours, minutes, sinks, spouts
from windbolt.policies import Action, EvictionContext, EvictionPolicy, QueuedEvent, TriggerContext, TriggerPolicy


@dataclass(frozen=True)
class SumOrMidnight(TriggerPolicy):
    """Fires with the event that reaches a sum, and at the end of the day in Tokyo if events remain."""

    limit: float
    reads = "amount"
    state_types: ClassVar[dict[str, type]] = {"sum": float}
    every = days(1)
    offset = Duration(hours(15).micros - 1)  # midnight in Tokyo is 15:00 UTC

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        context.state["sum"] += event["amount"]
        return bool(context.state["sum"] >= self.limit)

    def on_time(self, time: int, context: TriggerContext) -> bool:
        return context.count > context.fired_count

    def reset(self, context: TriggerContext) -> None:
        context.state["sum"] = 0.0


class SinceTheLast(EvictionPolicy):
    """Holds the events since the previous window."""

    reads = ()

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        return Action.PROCESS if event.number >= context.fired_count else Action.EXPIRE


class Takings(WindowedBolt):
    """Sum of the amounts that each shop took."""

    outputs = "shop string, until timestamp, amount double"

    def execute(self, window: TupleWindow) -> Iterator[tuple[Any, ...]]:
        yield window.key, window.end, sum(window.table.column("amount").to_pylist())


bolt = (
    Takings()
    .with_key("shop")
    .with_timestamp_field("ts")
    .with_lag(minutes(5))
    .with_policies(eviction=SinceTheLast(), trigger=SumOrMidnight(1_000))
)
builder = TopologyBuilder("takings")
builder.set_spout("sales", spouts.files("sales/*.jsonl", schema="id string, shop string, amount double, ts timestamp"))
builder.set_bolt("takings", bolt, parallelism=2).fields_grouping("sales", "shop")
builder.set_sink("out", sinks.files("takings/", format="jsonl")).from_("takings")
topology = builder.build()
