"""Files of orders and refunds, and the topology over them whose metrics, traces and page tests look at."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import AggregateBolt, TupleWindow, WindowedBolt
from windowing.aggregates import count
from windowing.settings.kinds import Session
from windowing.timestamps import show

SCHEMA = "user string, amount double, ts timestamp"


MINUTE = 60_000_000


NOON = 1_714_564_800_000_000  # 2024-05-01T12:00:00Z


def order(minute: float, user: str = "ada", **also: Any) -> dict[str, Any]:
    """An order, at a number of minutes after noon."""
    return {"user": user, "amount": 1.0, "ts": NOON + round(minute * MINUTE)} | also


def write(folder: Path, number: int, orders: list[dict[str, Any]]) -> None:
    """Write a file of orders; files are read in the order of their numbers."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{number:02d}.jsonl"
    path.write_text("".join(json.dumps({**each, "ts": show(each["ts"])}) + "\n" for each in orders))
    os.utime(path, (1_600_000_000 + number,) * 2)


def write_two_files_each(folder: Path) -> Path:
    """Two files of orders, and two of refunds, below a folder; one order is out of order."""
    write(folder / "orders", 1, [order(0), order(1, "bob"), order(3)])
    write(folder / "orders", 2, [order(0.1, "eve"), order(4), order(6.5, "bob")])
    write(folder / "refunds", 1, [order(0), order(2)])
    write(folder / "refunds", 2, [order(5)])
    return folder


class Revenue(WindowedBolt):
    outputs = "user string, revenue double"

    def execute(self, window: TupleWindow) -> Any:
        if any(user == "crash" for user in window.table.column("user").to_pylist()):
            raise ValueError("the till is broken")
        for user, amounts in window.groups("user", "amount"):
            yield user, amounts.sum()


def shop(folder: Path, name: str = "shop") -> Topology:
    """Orders and refunds in one bolt of Storm's windows, and a second bolt of sums per user."""
    builder = TopologyBuilder(name)
    for source in ("orders", "refunds"):
        (folder / source).mkdir(exist_ok=True)
        builder.set_spout(source, spouts.files(str(folder / source), schema=SCHEMA, format="jsonl", files_per_batch=1))
    revenue = (
        Revenue().with_window("2m", "1m").with_timestamp_field("ts").with_lag("30s").with_late_tuple_stream("late")
    )
    builder.set_bolt("revenue", revenue).global_grouping("orders").global_grouping("refunds")
    counting = AggregateBolt(n=count()).with_window(Session("1m")).with_key("user").with_timestamp_field("ts")
    builder.set_bolt("visits", counting, parallelism=2).fields_grouping("orders")
    builder.set_sink("out", sinks.memory()).from_("revenue")
    builder.set_sink("counts", sinks.memory()).from_("visits")
    return builder.build()
