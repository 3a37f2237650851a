"""The last three events of each type within an hour, every ten minutes, with an eviction policy alone.

``with_window`` makes windows fire every ten minutes. The state has the numbers of the last events of each type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from windbolt import Duration, TopologyBuilder, TupleWindow, WindowedBolt, hours, minutes, sinks, spouts
from windbolt.policies import Action, EvictionContext, EvictionPolicy, QueuedEvent


@dataclass(frozen=True)
class LastOfEachType(EvictionPolicy):
    """Holds the last events of each type, if they are not too old."""

    most: int
    age: Duration
    reads = "type"
    state_types: ClassVar[dict[str, type]] = {"last": dict}

    @property
    def reach(self) -> Duration:
        return self.age

    def track(self, event: QueuedEvent, context: EvictionContext) -> None:
        numbers = context.state["last"].setdefault(event["type"], [])
        numbers.append(event.number)
        del numbers[: -self.most]

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        young = event.timestamp > context.reference - self.age.micros
        last = event.number in context.state["last"][event["type"]]
        return Action.PROCESS if young and last else Action.EXPIRE


class Latest(WindowedBolt):
    """The ids of the events, in order."""

    outputs = "until timestamp, ids array<string>"

    def execute(self, window: TupleWindow) -> Iterator[tuple[Any, ...]]:
        yield window.end, window.table.column("id").to_pylist()


bolt = (
    Latest()
    .with_window(hours(1), minutes(10))
    .with_timestamp_field("ts")
    .with_lag(minutes(1))
    .with_policies(eviction=LastOfEachType(3, hours(1)))
)
builder = TopologyBuilder("latest")
builder.set_spout("events", spouts.files("events/*.jsonl", schema="id string, type string, ts timestamp"))
builder.set_bolt("latest", bolt).global_grouping("events")
builder.set_sink("out", sinks.files("latest/", format="jsonl")).from_("latest")
topology = builder.build()
