"""Keys that differ have windows of their own, also where their hashes are the same."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.helpers.crowding import crowded
from tests.helpers.drawn_bolts import GRIDS, Case, played
from tests.helpers.examples import sampled, share
from tests.helpers.recut import crashing, run_cut
from tests.helpers.scenario_files import scenarios_in
from tests.simulation.world.kinds import JOINS
from tests.simulation.world.kinds import KINDS as KINDS_OF_WINDOWS
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.rescale import move_tasks
from topologies.checkpoints.state_tables import read
from topologies.checkpoints.topology_fit import stored_task_counts
from topologies.graph.bolt_rules import TopologyRules
from topologies.graph.groupings import hash_rows
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import LoadedScenario, Scenario, read_scenario
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import Count, Session, TemporalJoin, TupleWindow, WindowedBolt, seconds
from windowing.errors import ConfigError, TopologyError
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


def test_a_late_event_does_not_join_the_session_of_another_key_that_was_opened_before_the_batch() -> None:
    one, other = of_equal_hash()
    bolt = Sizes().with_window(Session("5ms")).with_timestamp_field("ts").with_key("k")
    builder = TopologyBuilder("sessions")
    builder.set_spout("s", spouts.memory("id string, k string, ts long"))
    builder.set_bolt("b", bolt.with_watermark(every=1).with_lateness(by="window")).global_grouping("s")
    builder.set_sink("out", sinks.memory()).from_("b")
    events = [("a", one, 10), ("b", one, 14), ("c", "third", 17), ("d", other, 11)]  # at 17, what ended at 16 is closed
    steps: list[Any] = [{"event": {"id": name, "k": key, "ts": ts}, "stream": "s"} for name, key, ts in events]
    steps.insert(1, {"tick": "watermark"})
    answer = replay_locally(
        read_scenario({"name": "keys", "topology": "x.py:y", "steps": [*steps, {"close": True}]}), builder.build()
    )
    assert answer.counts["late"] == 1
    assert {(row["key"], row["n"]) for row in answer.outputs["out"]} == {(one, 2), ("third", 1)}


def windows_of(scenario: Scenario) -> list[Any]:
    return list(replay_locally(scenario).windows)


def test_an_end_edge_ends_the_event_of_its_own_key() -> None:
    """The edges of keys that share a hash, in whichever order they come (SI-3, SI-19)."""
    one, other = of_equal_hash()
    bolt: dict[str, Any] = {
        "preset": {"streaminsight": {"every": None, "field": "cti"}}, "snapshot": True, "timestamp_field": "start",
        "end_field": "end", "shape_field": "shape", "edge_key": ["k"],
    }  # fmt: skip
    starts: list[dict[str, Any]] = [{"id": k, "start": 8, "shape": "start_edge", "k": k} for k in (one, other)]
    ends: list[dict[str, Any]] = [
        {"id": f"{k}.", "start": 8, "end": end, "shape": "end_edge", "k": k} for k, end in ((other, 10), (one, 20))
    ]
    for edges in (starts + ends, ends + starts, [*starts[::-1], *ends], [ends[0], *starts, ends[1]]):
        steps: list[Any] = []
        for edge in edges:
            steps += [{"event": dict(edge)}, {"tick": "watermark"}]
        steps.append({"event": {"cti": 30}})
        scenario = read_scenario({"name": "edges", "bolt": bolt, "steps": steps})
        found = [(each["start"], each["end"], sorted(map(str, each["events"] or ()))) for each in windows_of(scenario)]
        assert found == [(8_000, 10_000, sorted([one, other])), (10_000, 20_000, [one])]


# ---- everything that is known of a key


def answered(scenario: Scenario, cut: int | None) -> Any:
    """What a scenario answers, but for the order of windows and rows; ``cut`` is the seed of a cut into batches."""
    answer = replay_locally(scenario) if cut is None else run_cut(scenario, random.Random(cut))
    windows = sorted(json.dumps({**window, "task": 0}, sort_keys=True, default=str) for window in answer.windows)
    outputs = {name: sorted(map(str, rows)) for name, rows in answer.outputs.items()}
    return windows, outputs, sorted(map(str, answer.late)), sorted(map(str, answer.pending)), answer.counts


def has_key(scenario: Scenario) -> bool:
    bolt = scenario.bolt
    return scenario.step is not None or (bolt is not None and bool(bolt.key or bolt.substreams))


KEYED = [loaded for loaded in scenarios_in("**/*.yaml") if has_key(loaded.scenario)]


@pytest.mark.parametrize("loaded", sampled(KEYED[::8], 2, lambda loaded: loaded.scenario.name))
def test_scenarios_answer_the_same_where_all_keys_share_a_hash(loaded: LoadedScenario) -> None:
    scenario = loaded.scenario
    for given, cut in ((scenario, None), (scenario, 1), (crashing(scenario), None)):
        expected = answered(given, cut)
        with crowded(1):
            assert answered(given, cut) == expected


def rescaling(path: str, topology: Topology, tasks: int) -> None:
    halves = PairedCheckpoint(path)
    halves.lock.take()
    if stored_task_counts(halves) and stored_task_counts(halves) != {"b": tasks}:
        move_tasks(halves, {"b": tasks}, topology)
    halves.lock.release()


def tables(path: str) -> list[dict[str, Any]]:
    """What a checkpoint shows of the keys and of the windows, but for tasks and hashes."""
    shown = read(path, "b").tables  # none before the first batch
    rows = [row for name in ("windows", "keys") if name in shown for row in shown[name].to_pylist()]
    return sorted(({**row, "task": 0, "key_hash": 0} for row in rows), key=str)


KINDS_BY_KEY = [
    kind for kind in sorted({*KINDS_OF_WINDOWS, *GRIDS, *JOINS}) if kind not in {"count by time", "time by count"}
]


@pytest.mark.parametrize("kind", sampled(KINDS_BY_KEY[::2], 2))
def test_runs_are_the_same_where_keys_share_a_hash(kind: str, tmp_path: Path) -> None:
    """With other numbers of tasks in between, where they can be changed, and with what is shown of the state."""
    for seed in range(share(2)):
        case = Case(kind, "Shown", seed, tmp_path / str(seed))
        case.by_key = True
        try:
            fixed = TopologyRules.of(case.topology(case.folder / "look", 2, {})).bolts["b"].reasons_not_to_move
        except (ConfigError, TopologyError):
            continue  # such a bolt cannot be built
        rows, seen, accounts = run(case, "apart", [1, 1, 1], None)
        for hashes, tasks in ((1, [1, 1, 1]), (3, [2, 2, 2] if fixed else case.tasks)):
            told, seen_then, accounts_then = run(case, f"together {hashes}", tasks, hashes)
            assert (told, accounts_then) == (rows, accounts), (kind, seed, hashes)
            assert seen_then == seen or hashes == 3, (kind, seed)  # windows without a key are those of tasks


def run(case: Case, name: str, tasks: list[int], hashes: int | None) -> Any:
    """What comes out, what is shown of the state in between, and the accounts."""
    seen: list[Any] = []

    def between(path: str, topology: Topology, tasks: int) -> None:
        seen.append(tables(path))
        rescaling(path, topology, tasks)

    with nullcontext() if hashes is None else crowded(hashes):
        rows, parts = played(case, case.folder / name, tasks, between)
    last = parts[-1].last
    return rows, seen, None if last is None else last.bolts["b"].accounts
