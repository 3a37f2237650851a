"""Keys that differ have windows of their own, also where their hashes are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from topologies import TopologyBuilder, sinks, spouts
from topologies.graph.fields_hash import hash_rows
from topologies.scenarios.run.replay import replay_locally
from topologies.scenarios.schema.scenario_files import read_scenario
from windowing import Count, Session, TemporalJoin, TupleWindow, WindowedBolt, seconds
from windowing.settings.panes import Panes
from windowing.settings.triggers import CountTrigger

LIKE_NULL = -7046029254386353131
"""The number whose hash is that of null."""
MULTIPLIER, BITS = 1099511628211, 1 << 64


class Sizes(WindowedBolt):
    outputs = "key string, n long"

    def execute(self, window: TupleWindow) -> Any:
        return str(window.key), len(window)


KINDS: dict[str, Callable[[WindowedBolt], WindowedBolt]] = {
    "tumbling": lambda bolt: bolt.with_tumbling_window("10ms").with_timestamp_field("ts"),
    "hopping": lambda bolt: bolt.with_window("10ms", "10ms").with_timestamp_field("ts"),
    "sessions": lambda bolt: bolt.with_window(Session("5ms")).with_timestamp_field("ts"),
    "counts": lambda bolt: bolt.with_tumbling_window(2).with_timestamp_field("ts"),
    "panes": lambda bolt: (
        bolt.with_tumbling_window("10ms").with_timestamp_field("ts").with_trigger(Panes(early=2))
        .with_lateness(by="window")
    ),
    "a trigger": lambda bolt: bolt.with_trigger(CountTrigger(Count(2), seconds(1))),
}  # fmt: skip


def sizes(bolt: WindowedBolt, column: str, keys: list[Any], *, ticks: bool) -> list[tuple[str, int]]:
    builder = TopologyBuilder("keys")
    builder.set_spout("s", spouts.memory(f"id string, k {column}, ts long"))
    builder.set_bolt("b", bolt.with_key("k")).global_grouping("s")
    builder.set_sink("out", sinks.memory()).from_("b")
    steps: list[Any] = []
    for at, key in enumerate(keys, 1):
        event = {"id": f"e{at}", "ts": at, **({} if key is None else {"k": key})}
        steps += [{"event": event, "stream": "s", "clock": at}, *([{"tick": "watermark"}] if ticks else [])]
    scenario = read_scenario({"name": "keys", "topology": "x.py:y", "steps": [*steps, {"close": True}]})
    return sorted({(row["key"], row["n"]) for row in replay_locally(scenario, builder.build()).outputs["out"]})


@pytest.mark.parametrize("ticks", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_null_is_not_the_number_that_has_its_hash(kind: str, ticks: bool) -> None:
    keys = [None, LIKE_NULL, 5, None, LIKE_NULL, 5]
    assert sizes(KINDS[kind](Sizes()), "long", keys, ticks=ticks) == [(str(LIKE_NULL), 2), ("5", 2), ("None", 2)]


def test_texts_of_equal_hash_are_different_keys() -> None:
    one, other = of_equal_hash()
    assert sizes(KINDS["tumbling"](Sizes()), "string", [one, other, one], ticks=False) == [(one, 2), (other, 1)]


def of_equal_hash() -> tuple[str, str]:
    """Two texts with one hash: 2 ** 11 letters whose differences are the signs of the Thue-Morse sequence.

    The difference of their polynomials is then the product of (1 - multiplier ** (2 ** i)), which has more than 64
    factors of two.
    """
    bits = [bin(at).count("1") % 2 for at in range(2048)]
    one, other = "".join("ab"[bit] for bit in bits), "".join("ba"[bit] for bit in bits)
    hashes = hash_rows(pa.table({"k": [one, other]}), ["k"]).tolist()
    assert hashes[0] == hashes[1]
    return one, other


def test_the_sides_of_a_join_are_compared_with_each_other() -> None:
    one, other = of_equal_hash()
    builder = TopologyBuilder("join")
    builder.set_spout("left", spouts.memory("id string, k string, ts long, until long"))
    builder.set_spout("right", spouts.memory("id string, r string, ts long, until long"))
    join = TemporalJoin("left", "right", on={"left": "k", "right": "r"}, outputs="left_id string, right_id string")
    join = join.with_timestamp_field("ts").with_lifetime("until")
    builder.set_bolt("b", join).fields_grouping("left", "k").fields_grouping("right", "r")
    builder.set_sink("out", sinks.memory()).from_("b")
    steps: list[Any] = [
        {"event": {"id": name, "ts": 1, "until": 5, ("k" if side == "left" else "r"): key}, "stream": side}
        for name, side, key in [("a", "left", one), ("b", "right", other), ("c", "right", one), ("d", "left", other)]
    ]
    scenario = read_scenario({"name": "keys", "topology": "x.py:y", "steps": [*steps, {"close": True}]})
    rows = replay_locally(scenario, builder.build()).outputs["out"]
    assert sorted((row["left_id"], row["right_id"]) for row in rows) == [("a", "c"), ("d", "b")]
