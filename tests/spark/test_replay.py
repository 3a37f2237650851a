"""Scenarios as real Spark queries answer as they do in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from tests.helpers.examples import every, share
from tests.helpers.places import SCENARIOS
from tests.helpers.scenario_files import scenarios_in
from tests.topologies.examples.test_policies import RULES, scenario_of
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import Scenario
from topologies.scenarios.svg import svg
from topologies.spark.spark_replay import replay_on_spark
from windbolt import TopologyBuilder, replay, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.schema import EmittedRows

LONGEST = 60
"""Steps of the Storm cases chosen: one query runs them all side by side, a micro-batch per tick."""


def scenarios(pattern: str) -> list[Scenario]:
    return [item.scenario for item in scenarios_in(pattern)]


def test_every_worked_scenario_holds_on_spark_crashes_too(spark: SparkSession) -> None:
    chosen = scenarios("worked/*.yaml")
    assert sum(any(hasattr(step, "crash") for step in scenario.steps) for scenario in chosen) >= 2
    answers = replay_on_spark(chosen, spark=spark)
    assert [(answer.name, answer.differences) for answer in answers if not answer.ok] == []


@pytest.mark.extended
def test_the_pictures_of_a_run_on_spark_are_those_of_a_local_one(spark: SparkSession) -> None:
    patterns = ("worked/*.yaml", "atlas/*partitions*.yaml", "atlas/session*.yaml", "azure/illustrated*.yaml")
    chosen = [each for pattern in patterns for each in scenarios(pattern)]
    answers = replay_on_spark(chosen, spark=spark)
    local = {scenario.name: svg(scenario, replay_locally(scenario)) for scenario in chosen}
    drawn = {scenario.name: svg(scenario, answer) for scenario, answer in zip(chosen, answers, strict=True)}
    assert [name for name, picture in drawn.items() if picture != local[name]] == []


def test_the_scenarios_of_the_other_systems_hold_on_spark(spark: SparkSession) -> None:
    folders = ("atlas", "streaminsight", "azure", "beyond")
    chosen = [each for folder in folders for each in scenarios(f"{folder}/*.yaml") if each.bolt is not None]
    assert len(chosen) > 140
    answers = replay_on_spark(chosen[:: every(6, 2)], spark=spark)
    assert [(answer.name, answer.differences) for answer in answers if not answer.ok] == []


def test_scenarios_with_a_topology_of_their_own_hold_on_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SCENARIOS / "beyond")  # where their topologies are
    chosen = [each for each in scenarios("beyond/*.yaml") if each.topology is not None]
    assert len(chosen) > 8
    answers = replay_on_spark(chosen[:: every(4, 2)], spark=spark)
    assert [(answer.name, answer.differences) for answer in answers if not answer.ok] == []


def test_policies_of_ones_own_with_a_key_and_a_state_hold_on_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SCENARIOS / "beyond")
    (answer,) = replay_on_spark(scenarios("beyond/own_policies.yaml"), spark=spark)
    assert answer.ok, answer.differences


def test_the_worked_policies_have_the_same_rows_on_spark(spark: SparkSession) -> None:
    rules = RULES[:: every(3)]
    for rule in rules:
        scenario = scenario_of(rule)
        (answer,) = replay_on_spark([scenario], spark=spark)
        assert answer.ok, (rule, answer.differences)
        assert answer.answer().outputs == replay_locally(scenario).answer().outputs


def test_policies_that_a_scenario_names_hold_on_spark(spark: SparkSession) -> None:
    answers = replay_on_spark(scenarios("beyond/named_policies.yaml"), spark=spark)
    assert [(answer.name, answer.differences) for answer in answers if not answer.ok] == []


def test_the_scenarios_of_aggregation_steps_hold_on_spark(spark: SparkSession) -> None:
    chosen = scenarios("handler/*.yaml")
    assert len(chosen) > 35
    answers = replay_on_spark(chosen, spark=spark)
    assert [(answer.name, answer.differences) for answer in answers if not answer.ok] == []


def test_storm_cases_of_every_kind_hold_on_spark(spark: SparkSession) -> None:
    short = [each for each in scenarios("storm/*.jsonl") if len(each.steps) <= LONGEST]
    kinds = {(scenario.meta["kind"], scenario.meta["mode"]) for scenario in scenarios("storm/*.jsonl")}
    chosen = []
    for kind in sorted(kinds)[:: every(2)]:
        of_kind = [each for each in short if (each.meta["kind"], each.meta["mode"]) == kind]
        assert of_kind, kind
        chosen.extend(of_kind[: share(5, 1)])
    answers = replay_on_spark(chosen, spark=spark)
    assert [(answer.name, answer.differences) for answer in answers if not answer.ok] == []


class Total(WindowedBolt):
    outputs = "user string, total double"

    def execute(self, window: TupleWindow) -> EmittedRows:
        for user, amounts in window.groups("user", "amount"):
            yield user, amounts.sum()


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_topology_of_the_users_own_is_replayed_with_its_outputs(
    spark: SparkSession, engine: Literal["local", "spark"]
) -> None:
    builder = TopologyBuilder("totals")
    builder.set_spout("orders", spouts.memory("id string, user string, amount double, ts timestamp"))
    bolt = Total().with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("total", bolt, parallelism=2).fields_grouping("orders", "user")
    builder.set_sink("out", sinks.files("nowhere")).from_("total")
    orders = [("e1", "ada", 1, 1000), ("e2", "ada", 2, 9000), ("e3", "bob", 5, 9500), ("e4", "ada", 4, 12000)]
    steps = [
        {"event": {"id": name, "user": user, "amount": amount, "ts": ts}, "stream": "orders"}
        for name, user, amount, ts in orders
    ]
    scenario = {
        "name": "totals",
        "topology": "its own",
        "steps": [*steps[:3], {"crash": True}, steps[3], {"tick": "watermark"}, {"close": True}],
        "expect": {
            "outputs": {"out": [{"user": "ada", "total": 3}, {"user": "bob", "total": 5}, {"user": "ada", "total": 4}]},
            "counts": {"received": 4, "windowed": 4},
        },
    }
    answer = replay(scenario, topology=builder.build(), engine=engine)
    assert answer.ok, answer.differences
    assert not Path("nowhere").exists()
