"""Scenarios with partitions on a real broker: their events in topics of 2 and 8 partitions, the answers as expected.

Each is played on the local engine, one of them on Spark too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from servers.kafka import Kafka
from tests.helpers.places import TESTS
from topologies.checkpoints.checkpointed_run import CheckpointedRun
from topologies.engine.report import BatchReport
from topologies.local import LocalRun
from topologies.run.options import RunOptions
from topologies.scenarios.replay import Recording, judge
from topologies.scenarios.scenario_bolt import bare_bolt, schema_of
from topologies.scenarios.scenario_model import Problem, Scenario, load
from topologies.scenarios.scenario_values import ClockStep
from topologies.scenarios.script import ScriptBatch, clock_matters, script
from topologies.spark.runner import SparkRun
from topologies.topology import Topology
from windbolt import TopologyBuilder, spouts
from windowing.settings.rules import SOURCE

SCENARIOS = TESTS / "scenarios"
WAYS = {"two": 2, "eight": 8}
_BASE = 1_700_000_000_000
"""The record timestamp of the first event, in milliseconds."""
OWN = "own"
"""The way in which the source says itself which partitions there are."""


def with_partitions() -> Iterator[Scenario]:
    """Those of one stream, whose events have a column that says their partition, and whose marks follow the events."""
    for path in sorted(SCENARIOS.rglob("*.yaml")):
        for found in load(str(path)):
            assert not isinstance(found, Problem)
            scenario, rules = found.scenario, found.scenario.rules
            named = scenario.bolt is not None and isinstance(rules.watermark_partition, str)
            # Where nothing follows the clock, Spark has no quiet batch whose watermark could be looked at.
            quiet = not clock_matters(rules) and any(isinstance(step, ClockStep) for step in scenario.steps)
            if named and rules.watermark_every is not None and len(scenario.streams) == 1 and not quiet:
                yield scenario


ALL = {scenario.name: scenario for scenario in with_partitions()}


class Played:
    """A scenario on topics, each way beside the others, run by run on one checkpoint."""

    def __init__(self, spark: SparkSession | None, kafka: Kafka, scenario: Scenario, checkpoint: Path) -> None:
        self.spark, self.kafka, self.scenario, self.checkpoint = spark, kafka, scenario, checkpoint
        self.recording, self.sent = Recording(), 0
        field = str(scenario.rules.watermark_partition)
        known = scenario.partitions if isinstance(scenario.partitions, tuple | list) else ()
        named = [str(step.event.get(field)) for step in scenario.event_steps]
        self.field, self.numbers = (
            field,
            {name: at for at, name in enumerate(dict.fromkeys([*map(str, known), *named]))},
        )
        counts = WAYS | ({OWN: len(known)} if len(known) == len(self.numbers) else {})
        self.topics = {way: (kafka.topic(f"scenario-{way}", count), count) for way, count in counts.items()}
        self.topology = self._built()

    def _built(self) -> Topology:
        builder, settings = TopologyBuilder("scenario"), self.scenario.bolt
        assert settings is not None
        for way, (topic, _) in self.topics.items():
            spout = spouts.kafka(self.kafka.servers, topic, schema_of(self.scenario.rules))
            builder.set_spout(f"{way}-events", spout)
            bolt = bare_bolt(settings, None, self.scenario.partitions)
            bolt = bolt.with_watermark(partition=SOURCE) if way == OWN else bolt
            builder.set_bolt(f"{way}-bolt", bolt).global_grouping(f"{way}-events")
        return builder.build()

    def play(self, batch: ScriptBatch) -> None:
        """Write the events of a batch, in their order, and run until they are read."""
        rows = [row for arrival in batch.arrivals for row in arrival.rows]
        for topic, count in self.topics.values():
            records = [
                (self.numbers[str(row.get(self.field))] % count, _BASE + 1_000 * (self.sent + at), json.dumps(row))
                for at, row in enumerate(rows)
            ]
            self.kafka.produce_all(topic, records)
        self.sent += len(rows)

        def note(report: BatchReport) -> None:
            self.recording.note_batch(batch, report)

        clock, close = batch.advance.clock, batch.advance.close
        options = RunOptions(str(self.checkpoint), clock=lambda: clock, keep_open=not close, on_report=note)
        with self._attempt(options) as attempt:
            self.recording.watch(attempt.micro_batch)
            attempt.run()
        self.micro_batch = attempt.micro_batch

    def _attempt(self, options: RunOptions) -> CheckpointedRun:
        """Without a session: on the local engine."""
        return SparkRun(self.spark, self.topology, options) if self.spark else LocalRun(self.topology, options)

    def differences(self) -> dict[str, list[str]]:
        """Per way, where the answer is not what the scenario expects."""
        store, found = self.micro_batch.checkpoint.segments, {}
        for way in self.topics:
            args: tuple[Any, ...] = (self.scenario, self.topology, self.micro_batch.manifest, store, f"{way}-")
            judged = judge(self.scenario, self.recording.answer(*args))
            assert judged.ok is not None
            found[way] = judged.differences
        return found


def in_halves(batches: list[ScriptBatch]) -> list[ScriptBatch]:
    """The events of one batch in two."""
    (batch,) = batches
    rows = [(arrival, row) for arrival in batch.arrivals for row in arrival.rows]
    middle = len(rows) // 2
    halves = [ScriptBatch(advance=batch.advance), ScriptBatch(advance=batch.advance)]
    for at, (arrival, row) in enumerate(rows):
        one = type(arrival)(arrival.component, arrival.stream, arrival.clock, [row], at)
        halves[at >= middle].arrivals.append(one)
    return halves


@pytest.mark.parametrize("name", ALL)
def test_a_scenario_with_partitions_is_answered_on_a_broker(kafka: Kafka, name: str, tmp_path: Path) -> None:
    answered(None, kafka, ALL[name], tmp_path)


def test_spark_answers_one_in_the_same_way(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    answered(spark, kafka, ALL[next(iter(ALL))], tmp_path)


def answered(spark: SparkSession | None, kafka: Kafka, scenario: Scenario, folder: Path) -> None:
    """Play a scenario, in one batch and in two where it does not say itself where its batches end."""
    batches = script(scenario)
    played = Played(spark, kafka, scenario, folder / "whole")
    for batch in batches:
        played.play(batch)
    assert played.differences() == {way: [] for way in played.topics}
    if len(batches) > 1 or clock_matters(scenario.rules):
        return
    played = Played(spark, kafka, scenario, folder / "halves")
    for batch in in_halves(batches):
        played.play(batch)
    assert played.differences() == {way: [] for way in played.topics}


def test_there_are_scenarios_of_both_systems_and_of_sources_that_name_their_partitions() -> None:
    folders = {scenario.name.split("_")[0] for scenario in ALL.values()}
    assert {"atlas", "azure"} <= folders
    assert sum(scenario.partitions is not None for scenario in ALL.values()) >= 4
