"""What the Kafka tests share: a client of the broker, and a topology that reads and writes Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from servers.kafka import Kafka, Record
from tests.spark.shop import at
from topologies.io.sinks import MemorySink
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import BatchBolt, TupleWindow, WindowedBolt
from windowing.schema import EmittedRows

PARTITIONS = 2
PER_BATCH = 40
ORDERS = 120
SCHEMA = "user string, amount double, ts timestamp"


def as_json(user: str, amount: float, second: float) -> str:
    """An order."""
    return json.dumps({"user": user, "amount": amount, "ts": at(second).isoformat()})


def some_orders(kafka: Kafka, topic: str, numbers: Iterable[int] = range(ORDERS)) -> list[tuple[str, float, float]]:
    """Orders, one a second, in turn in the partitions of a topic; what was written."""
    orders = [("abcde"[number * 7 % 5], float(number % 11), float(number)) for number in numbers]
    for partition in range(PARTITIONS):
        kafka.produce(topic, [as_json(*order) for order in orders[partition::PARTITIONS]], partition)
    return orders


class Revenue(WindowedBolt):
    """Revenue per user, as records."""

    outputs = "key string, value string, headers map<string, string>"

    def execute(self, window: TupleWindow) -> EmittedRows:
        assert window.end is not None
        until = window.end.isoformat()
        for user, amounts in window.groups("user", "amount"):
            said = {"user": user, "revenue": float(amounts.sum()), "events": len(amounts), "until": until}
            yield user, json.dumps(said), {"kind": "revenue"}


class Copied(BatchBolt):
    """What came, as records, without a window."""

    outputs = "value string"

    def execute(self, batch: pa.Table) -> EmittedRows:
        return [(f"{row['user']} {row['amount']} {row['ts']}",) for row in batch.to_pylist()]


def shop(kafka: Kafka, orders: str, revenue: str, copies: str) -> Topology:
    """From JSON in a topic by windows, and past them, to two topics."""
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.kafka(kafka.servers, orders, SCHEMA, records_per_batch=PER_BATCH))
    bolt = Revenue().with_tumbling_window("20s").with_timestamp_field("ts").with_lag("10s")
    builder.set_bolt("revenue", bolt, 2).fields_grouping("orders", "user")
    builder.set_bolt("copied", Copied()).shuffle_grouping("orders")
    builder.set_sink("out", sinks.kafka(kafka.servers, revenue)).from_("revenue")
    builder.set_sink("copies", sinks.kafka(kafka.servers, copies)).from_("copied")
    return builder.build()


def expected_revenue(orders: Iterable[tuple[str, float, float]]) -> list[dict[str, Any]]:
    """What the windows come to, window by window."""
    windows: dict[tuple[float, str], list[float]] = {}
    for user, amount, second in orders:
        windows.setdefault((float(np.ceil(second / 20)) * 20, user), []).append(amount)
    return sorted(
        (
            {"user": user, "revenue": sum(amounts), "events": len(amounts), "until": at(end).isoformat()}
            for (end, user), amounts in windows.items()
        ),
        key=in_time,
    )


def in_time(row: Mapping[str, Any]) -> tuple[str, str]:
    """By the end of the window, then by user."""
    return row["until"], row["user"]


def said(records: Iterable[Record]) -> list[dict[str, Any]]:
    """The JSON of records, in order of time."""
    return sorted((json.loads(record.value or b"") for record in records), key=in_time)


def once(records: Iterable[Record]) -> list[Record]:
    """Without repeats; those with one id must be the same."""
    kept: dict[str, Record] = {}
    for record in records:
        before = kept.setdefault(record.id, record)
        assert (before.key, before.value, before.headers) == (record.key, record.value, record.headers)
    return list(kept.values())


def reading(**found: Any) -> tuple[Topology, dict[str, MemorySink]]:
    """Spouts, and what they and their error streams deliver."""
    builder, out = TopologyBuilder("reading"), {}
    for name, spout in found.items():
        builder.set_spout(name, spout)
        for stream in ("default", "errors"):
            label = name if stream == "default" else f"{name}-errors"
            out[label] = sinks.memory()
            builder.set_sink(f"to-{label}", out[label]).from_(name, stream)
    return builder.build(), out
