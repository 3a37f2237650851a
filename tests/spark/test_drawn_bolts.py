"""Bolts that are drawn answer on Spark as the interpreter of the specification does."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.combinations_page import SEED
from tests.helpers.examples import share
from tests.oracles.interpreter.holding import FIXED, case, compared
from tests.oracles.interpreter.replayed import answer
from topologies.scenarios.scenario_model import read_scenario
from topologies.spark.spark_replay import replay_on_spark


@pytest.mark.extended
def test_drawn_bolts_answer_as_the_interpreter(spark: SparkSession) -> None:
    drawn = [case(FIXED + number, SEED) for number in range(share(60, 10))]
    made = [{**each.made, "name": f"drawn {each.number}"} for each in drawn if each.made is not None]
    answers = replay_on_spark([read_scenario(each) for each in made], spark=spark)
    wrong = {
        each["name"]: [*compared(each, answer(each), found.to_json())]
        for each, found in zip(made, answers, strict=True)
    }
    assert {name: found for name, found in wrong.items() if found} == {}
