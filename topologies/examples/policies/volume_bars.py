"""Bars of a market by volume: a bar ends with the trade that completes another 10,000.

Both policies decide on arrays, in NumPy's style. They are independent of where batches end, because the state after two
calls is that of one call with all events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from windbolt import TopologyBuilder, TupleWindow, WindowedBolt, seconds, sinks, spouts
from windbolt.policies import Action, EvictionContext, EvictionPolicy, QueuedEvents, TriggerContext, TriggerPolicy


@dataclass(frozen=True)
class EveryVolume(TriggerPolicy):
    """Fires with the trade that brings the volume of all trades past the next multiple of ``volume``."""

    volume: int
    reads = "size"
    state_types: ClassVar[dict[str, type]] = {"total": int}

    def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
        totals = context.state["total"] + np.cumsum(events["size"])
        before = np.concatenate([[context.state["total"]], totals[:-1]])
        context.state["total"] = int(totals[-1])
        return totals // self.volume > before // self.volume


class SinceTheLast(EvictionPolicy):
    """Holds the events since the previous window."""

    reads = ()

    def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
        return np.where(events.numbers >= context.fired_count, Action.PROCESS, Action.EXPIRE)


class Bar(WindowedBolt):
    """The first, highest, lowest and last price of a bar, and its volume."""

    outputs = "symbol string, open double, high double, low double, close double, volume long"

    def execute(self, window: TupleWindow) -> Iterator[tuple[Any, ...]]:
        prices = window.table.column("price").to_numpy()
        sizes = window.table.column("size").to_numpy()
        yield window.key, prices[0], prices.max(), prices.min(), prices[-1], int(sizes.sum())


bolt = (
    Bar()
    .with_key("symbol")
    .with_timestamp_field("ts")
    .with_lag(seconds(1))
    .with_policies(eviction=SinceTheLast(), trigger=EveryVolume(10_000))
)
builder = TopologyBuilder("bars")
builder.set_spout(
    "trades", spouts.files("trades/*.jsonl", schema="id string, symbol string, price double, size long, ts timestamp")
)
builder.set_bolt("bars", bolt, parallelism=2).fields_grouping("trades", "symbol")
builder.set_sink("out", sinks.files("bars/", format="jsonl")).from_("bars")
topology = builder.build()
