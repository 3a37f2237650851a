"""A visit ends with a click on "log out", or when half an hour passes without a click.

The trigger asks to be called half an hour after each click; a later click moves that time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from windbolt import Duration, TopologyBuilder, TupleWindow, WindowedBolt, minutes, sinks, spouts
from windbolt.policies import Action, EvictionContext, EvictionPolicy, QueuedEvent, TriggerContext, TriggerPolicy


@dataclass(frozen=True)
class MarkerOrPause(TriggerPolicy):
    """Fires with a marker, and when a pause has passed since the last event, if that event is new since the last
    firing."""

    marker: str
    pause: Duration
    reads = "page"

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        context.wake_at = context.time + self.pause.micros
        return bool(event["page"] == self.marker)

    def on_time(self, time: int, context: TriggerContext) -> bool:
        return True

    def on_end(self, context: TriggerContext) -> bool:
        return context.count > context.fired_count

    def reset(self, context: TriggerContext) -> None:
        context.wake_at = None


class SinceTheLast(EvictionPolicy):
    """Holds the events since the previous window."""

    reads = ()

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        return Action.PROCESS if event.number >= context.fired_count else Action.EXPIRE


class Visit(WindowedBolt):
    """The pages of a visit."""

    outputs = "user string, ended timestamp, pages array<string>"

    def execute(self, window: TupleWindow) -> Iterator[tuple[Any, ...]]:
        yield window.key, window.end, window.table.column("page").to_pylist()


bolt = (
    Visit()
    .with_key("user")
    .with_timestamp_field("ts")
    .with_lag(minutes(1))
    .with_policies(eviction=SinceTheLast(), trigger=MarkerOrPause("log out", minutes(30)))
)
builder = TopologyBuilder("visits")
builder.set_spout("clicks", spouts.files("clicks/*.jsonl", schema="id string, user string, page string, ts timestamp"))
builder.set_bolt("visits", bolt, parallelism=2).fields_grouping("clicks", "user")
builder.set_sink("out", sinks.files("visits/", format="jsonl")).from_("visits")
topology = builder.build()
