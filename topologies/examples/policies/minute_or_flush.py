"""Readings of a machine: a window fires when a full minute passes with five new readings, or at once at a flush.

A flush does not wait for the lag: it fires with the events that have arrived, so its window depends on arrival.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from windbolt import TopologyBuilder, TupleWindow, WindowedBolt, minutes, seconds, sinks, spouts
from windbolt.policies import Action, EvictionContext, EvictionPolicy, QueuedEvent, TriggerContext, TriggerPolicy


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


class SinceTheLast(EvictionPolicy):
    """Holds the events since the previous window."""

    reads = ()

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        return Action.PROCESS if event.number >= context.fired_count else Action.EXPIRE


class Readings(WindowedBolt):
    """The readings of a window, in order."""

    outputs = "until timestamp, ids array<string>"

    def execute(self, window: TupleWindow) -> Iterator[tuple[Any, ...]]:
        yield window.end, window.table.column("id").to_pylist()


bolt = (
    Readings()
    .with_timestamp_field("ts")
    .with_lag(seconds(10))
    .with_policies(eviction=SinceTheLast(), trigger=MinuteOrFlush(5))
)
builder = TopologyBuilder("readings")
builder.set_spout("machine", spouts.files("machine/*.jsonl", schema="id string, kind string, ts timestamp"))
builder.set_bolt("readings", bolt).global_grouping("machine")
builder.set_sink("out", sinks.files("readings/", format="jsonl")).from_("readings")
topology = builder.build()
