"""Bolts that are drawn answer on Spark as the interpreter of the specification does, where no rule stops their run."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.combinations_page import SEED
from tests.helpers.examples import share
from tests.oracles.interpreter.holding import FIXED, as_topology, case, compared
from tests.oracles.interpreter.topology import play, source_of
from topologies.scenarios.scenario_model import read_scenario
from topologies.spark.spark_replay import replay_on_spark


@pytest.mark.extended
def test_drawn_bolts_answer_as_the_interpreter(spark: SparkSession) -> None:
    drawn = [case(FIXED + number, SEED) for number in range(share(60, 10))]
    made = [{**each.made, "name": f"drawn {each.number}"} for each in drawn if each.made is not None]
    played = {each["name"]: (each, play(as_topology(each))) for each in made if source_of(each) is None}
    ended = {name: (each, mine) for name, (each, mine) in played.items() if mine.stopped is None}
    answers = replay_on_spark([read_scenario(each) for each, _ in ended.values()], spark=spark)
    wrong = {
        name: [*compared(mine, found.to_json())]
        for (name, (_, mine)), found in zip(ended.items(), answers, strict=True)
    }
    assert {name: found for name, found in wrong.items() if found} == {}
