"""Joins with versions over several runs: they end and go on, have other numbers of tasks, and keep what they stored."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.examples import share
from topologies.checkpoints.repair import repair
from topologies.checkpoints.state_tables import read
from topologies.io.sinks import MemorySink
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import TemporalJoin
from windowing.errors import CheckpointError, DataError

Row = tuple[int, int | None]
"""The id of an order, and its price."""


def versions(folder: Path, how: Any = "inner", tasks: int = 1, **given: Any) -> tuple[Topology, MemorySink]:
    """Orders with the price of their item at their time; all columns of prices are there twice."""
    builder, sink = TopologyBuilder("versions"), sinks.memory()
    for name, columns in (("orders", "id long, item string"), ("prices", "name string, other string, price long")):
        (folder / name).mkdir(parents=True, exist_ok=True)
        source = spouts.files(folder / name, f"{columns}, ts timestamp, until timestamp", format="jsonl")
        builder.set_spout(name, source)
    right = given.pop("right", "name")
    on = {"orders": "item", "prices": right}
    given = {"versions": True, "outputs": "id long, price long", **given}
    join = TemporalJoin("orders", "prices", on=on, how=how, **given)
    join = join.with_timestamp_field("ts").with_lifetime("until").with_lag("1s")
    declared = builder.set_bolt("join", join, tasks)
    if tasks == 1:
        declared.global_grouping("orders").global_grouping("prices")
    else:
        declared.fields_grouping("orders", "item").fields_grouping("prices", right)
    builder.set_sink("out", sink).from_("join")
    return builder.build(), sink


def times(second: int) -> str:
    return f"2024-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


def write(folder: Path, name: str, number: int, rows: list[dict[str, Any]]) -> None:
    (folder / name / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


class Shop:
    """Orders and prices in order of time; later parts are later."""

    def __init__(self, seed: int, folder: Path) -> None:
        chance = random.Random(seed)
        self.parts: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = []
        self.folder = folder
        for part in range(3):
            prices, orders = [], []
            for number in range(12):
                second = 60 * part + chance.randrange(60)
                item = chance.choice("abcdefg")
                until = times(second + 500) if chance.random() < 0.2 else None
                price = {"name": item, "other": "a", "price": 100 * part + number, "ts": times(second), "until": until}
                prices.append(price)
                second, item = 60 * part + chance.randrange(60), chance.choice("abcdefg")
                order = {"id": 100 * part + number, "item": item, "ts": times(second)}
                orders.append({**order, "until": times(second + 1)})  # it is over at once
            self.parts.append((orders, prices))

    def deliver(self, part: int) -> None:
        orders, prices = self.parts[part]
        write(self.folder, "orders", part, orders)
        write(self.folder, "prices", part, prices)

    def joined(self, how: str) -> list[Row]:
        """An order overlaps each version that holds in its second; the last to arrive of those of one time counts."""
        prices = [each for _, part in self.parts for each in part]
        found: list[Row] = []
        for order in (each for part, _ in self.parts for each in part):
            of_item = [(each["ts"], place, each) for place, each in enumerate(prices) if each["name"] == order["item"]]
            held = [each for ts, _, each in sorted(of_item, key=lambda each: each[:2]) if ts <= order["ts"]]
            if held and (held[-1]["until"] is None or held[-1]["until"] > order["ts"]):
                found.append((order["id"], held[-1]["price"]))
            elif how == "left":
                found.append((order["id"], None))
        return sorted(found, key=str)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_join_goes_on_with_the_versions_that_it_has(how: str, tmp_path: Path) -> None:
    for seed in range(share(4)):
        for tasks in ([1, 1, 1], [2, 5, 3]):
            folder = tmp_path / f"{seed} {tasks}"
            shop, rows = Shop(seed, folder), list[Row]()
            checkpoint = str(folder / "ck")
            for part, number in enumerate(tasks):
                topology, sink = versions(folder, how, number)
                shop.deliver(part)
                run_local(topology, RunOptions(checkpoint, keep_open=part < 2, allow_rescale=True))
                rows += [(row["id"], row["price"]) for row in sink.rows]
            assert sorted(rows, key=str) == shop.joined(how), (seed, tasks)


@pytest.mark.parametrize(
    ("change", "said"), [({"versions": False}, "versions was 'prices'"), ({"right": "other"}, "prices: other")]
)
def test_what_makes_stored_versions_mean_something_else_is_refused(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    shop, checkpoint = Shop(1, tmp_path), str(tmp_path / "ck")
    topology, _ = versions(tmp_path)
    shop.deliver(0)
    run_local(topology, RunOptions(checkpoint, keep_open=True))
    with pytest.raises(CheckpointError) as caught:
        run_local(versions(tmp_path, **change)[0], RunOptions(checkpoint))
    assert said in str(caught.value)
    run_local(topology, RunOptions(checkpoint))


def test_a_version_is_not_taken_out_since_it_has_ended_the_one_before(tmp_path: Path) -> None:
    """Its value can be corrected, and an order can be taken out."""
    topology, sink = versions(tmp_path)
    prices = [{"name": "a", "other": "a", "price": price, "ts": times(second)} for second, price in ((0, 1), (50, 2))]
    orders = [{"id": number, "item": "a", "ts": times(55), "until": times(56)} for number in (1, 2)]
    write(tmp_path, "prices", 0, prices)
    write(tmp_path, "orders", 0, orders)
    before, after = str(tmp_path / "ck"), str(tmp_path / "repaired")
    run_local(topology, RunOptions(before, keep_open=True))
    found = read(before, "join")["events"].to_pylist()
    (wrong,) = (row for row in found if row["price"] == 2)
    with pytest.raises(DataError, match="it is a version of a join, and has ended the one before"):
        repair(before, after, {}, without={"join": [wrong]})
    repair(before, after, {"join": [{**wrong, "price": 3}]}, without={"join": [r for r in found if r["id"] == 2]})
    topology, sink = versions(tmp_path)
    run_local(topology, RunOptions(after))
    assert [(row["id"], row["price"]) for row in sink.rows] == [(1, 3)]
