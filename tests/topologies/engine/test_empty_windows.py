"""Windows without events fire, of the keys that are known, and nothing else changes."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.recut import run_cut
from tests.helpers.strategies import Json, scenarios
from tests.oracles.empty_oracle import fired, of_answer
from tests.oracles.window_oracle import duration
from topologies.scenarios.run.replay import replay_locally
from topologies.scenarios.schema.scenario_files import read_scenario


@st.composite
def silent_scenarios(draw: st.DrawFn) -> Json:
    """Windows of time, of some keys or of none, that fire without events for some slides."""
    scenario = draw(scenarios(kinds=("time/time",)))
    bolt = scenario["bolt"]
    slide = bolt.get("sliding", bolt["length"])
    unit = slide.lstrip("0123456789")
    until = int(slide.removesuffix(unit)) * draw(st.integers(1, 6)) + draw(st.integers(0, 2))
    keys = draw(st.sampled_from([None, "ab", "abcd"]))
    if keys is not None:
        bolt = {**bolt, "key": "k"}
        for step in scenario["steps"]:
            if "event" in step:
                step["event"]["k"] = draw(st.sampled_from(keys))
    clocks = [step["clock"] for step in scenario["steps"] if "clock" in step]
    steps = [*({"clock": clock} for clock in clocks[:1]), *scenario["steps"]]
    return {**scenario, "bolt": {**bolt, "empty_windows_until": f"{until}{unit}"}, "steps": steps}


def found(scenario: Json) -> Json:
    return replay_locally(read_scenario(scenario)).to_json()


def expected(scenario: Json) -> Any:
    return fired(scenario, duration(scenario["bolt"]["empty_windows_until"]))


def without(scenario: Json) -> Json:
    bolt = {name: value for name, value in scenario["bolt"].items() if name != "empty_windows_until"}
    return {**scenario, "bolt": bolt}


def accounts(scenario: Json, answer: Json) -> Any:
    """What became of the events. Windows without a key are a queue, and know at once which events lie in gaps."""
    counts, pending = {**answer["counts"]}, sorted(answer["pending"])
    if scenario["meta"]["gapped"]:
        counts["unwindowed"], pending = counts["unwindowed"] + counts.pop("pending"), []
    return counts, pending, answer["late"], answer["watermarks"]


@examples(200)
@given(silent_scenarios(), st.sampled_from([1, 2, 7, 1 << 22]))
def test_the_engine_answers_as_the_oracle_and_its_accounts_are_those_without_empty_windows(
    scenario: Json, at_once: int
) -> None:
    with patch("manager.keyed.empty_windows.MOST", at_once):
        answer = found(scenario)
    windows, plain = of_answer(answer["windows"]), found(without(scenario))
    assert sorted(windows) == expected(scenario)
    assert [window[0] for window in windows] == sorted(window[0] for window in windows)
    assert [window for window in windows if window[3]] == of_answer(plain["windows"])
    assert accounts(scenario, answer) == accounts(scenario, plain)


@examples(60)
@given(silent_scenarios())
def test_a_crash_in_every_batch_changes_nothing(scenario: Json) -> None:
    steps = []
    for step in scenario["steps"]:
        steps += [step, {"crash": True}] if "close" not in step else [{"crash": True}, step]
    assert of_answer(found({**scenario, "steps": steps})["windows"]) == of_answer(found(scenario)["windows"])


@examples(100)
@given(silent_scenarios(), st.integers(0, 1 << 30))
def test_it_is_the_same_however_batches_are_cut_and_processes_restarted(scenario: Json, seed: int) -> None:
    calm = {**scenario, "steps": [step for step in scenario["steps"] if "crash" not in step]}
    cut = run_cut(read_scenario(calm), random.Random(seed)).to_json()
    assert of_answer(cut["windows"]) == of_answer(found(calm)["windows"])
