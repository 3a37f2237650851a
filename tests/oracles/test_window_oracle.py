"""The oracle against every scenario file, and its own accounts on random scenarios."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given

from tests.helpers.examples import examples, sampled
from tests.helpers.places import SCENARIOS
from tests.helpers.strategies import scenarios
from tests.oracles import time_oracle
from tests.oracles.window_oracle import answer, microseconds

Json = dict[str, Any]


def from_storm() -> Iterator[Json]:
    for path in sorted((SCENARIOS / "storm").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


@functools.cache
def worked() -> tuple[Json, ...]:
    paths = sorted((SCENARIOS / "worked").glob("*.yaml"))
    return tuple(yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths)


def by_name(found: Iterable[Json]) -> list[Any]:
    return [pytest.param(scenario, id=scenario["name"]) for scenario in found]


def comparable(part: str, value: Any) -> Any:
    """What a part of an answer means: times in microseconds, however they are written."""

    def time(value: Any) -> int | None:
        return None if value is None else microseconds(value)

    match part:
        case "windows":
            return [{**each, "start": time(each["start"]), "end": time(each["end"])} for each in value]
        case "watermarks":
            return [time(each) for each in value]
        case "counts":
            return {account: number for account, number in value.items() if number}
        case _:
            return value


def assert_holds(expect: Json, given_answer: Json) -> None:
    for part, value in expect.items():
        assert comparable(part, given_answer[part]) == comparable(part, value), part


@pytest.mark.parametrize("scenario", sampled(from_storm(), 3, lambda each: each["name"]))
def test_storms_cases_are_answered_as_expected(scenario: Json) -> None:
    assert_holds(scenario["expect"], answer(scenario))


@pytest.mark.parametrize("scenario", by_name(worked()))
def test_worked_scenarios_are_answered_as_expected(scenario: Json) -> None:
    assert_holds(scenario["expect"], answer(scenario))


def test_every_scenario_has_a_name_of_its_own() -> None:
    names = [scenario["name"] for scenario in [*from_storm(), *worked()]]
    assert len(names) == len(set(names))
    assert len(list(from_storm())) == 248


@pytest.mark.parametrize("part", ["windows", "late", "watermarks", "pending", "counts"])
def test_a_wrong_expectation_is_noticed(part: str) -> None:
    scenario = next(each for each in worked() if each["name"] == "storm_official_example")
    wrong = copy.deepcopy(scenario["expect"])
    if part == "counts":
        wrong["counts"]["received"] += 1
    else:
        wrong[part] = [*wrong[part], *(wrong[part][:1] or ["e1"])]
    with pytest.raises(AssertionError):
        assert_holds(wrong, answer(scenario))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"surprise": 1}, "does not know"),
        ({"bolt": {"length": 3, "surprise": 1}}, "does not know"),
        ({"bolt": {"length": "3 parsecs"}}, "not a duration"),
        ({"steps": [{"close": True}, {"tick": "watermark"}]}, "after close"),
        ({"steps": [{"clock": 5}, {"clock": 4}]}, "cannot go back"),
        ({"steps": [{"event": {"id": "e1"}, "clock": 1, "stream": "nobody's"}]}, "not one of the streams"),
    ],
)
def test_what_the_oracle_does_not_know_it_refuses(change: Json, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        answer({"name": "wrong", "bolt": {"length": 3}, "steps": [], **change})


@examples(300)
@given(scenarios())
def test_the_accounts_add_up(scenario: Json) -> None:
    given_answer = answer(scenario)  # which checks them after every step
    events = [step["event"]["id"] for step in scenario["steps"] if "event" in step]
    shown = {event for window in given_answer["windows"] for event in window["events"]}
    named = {*given_answer["late"], *given_answer["pending"]}
    counts = given_answer["counts"]
    assert counts["received"] == len(events)
    assert counts["windowed"] == len(shown)
    assert not shown & named
    assert counts["unwindowed"] == len(set(events) - shown - named)


@examples(300)
@given(scenarios())
def test_new_and_expired_lead_from_one_window_to_the_next(scenario: Json) -> None:
    before: list[str] = []
    for window in answer(scenario)["windows"]:
        stayed = [event for event in before if event not in window["expired"]]
        assert sorted([*stayed, *window["new"]]) == sorted(window["events"])
        assert len(set(window["events"])) == len(window["events"]) > 0
        before = window["events"]


@examples(200)
@given(scenarios())
def test_crashes_change_nothing(scenario: Json) -> None:
    calm = {**scenario, "steps": [step for step in scenario["steps"] if "crash" not in step]}
    assert answer(calm) == answer(scenario)


@examples(200)
@given(scenarios(modes=("event",)))
def test_what_was_answered_stays_answered_when_more_comes(scenario: Json) -> None:
    whole = answer(scenario)
    for length in range(len(scenario["steps"])):
        part = answer({**scenario, "steps": scenario["steps"][:length]})
        for key in ("windows", "late", "watermarks"):
            assert whole[key][: len(part[key])] == part[key]


@examples(200)
@given(scenarios(kinds=("time/time",)))
def test_a_closed_bolt_of_time_windows_has_shown_all_it_let_in(scenario: Json) -> None:
    steps = [step for step in scenario["steps"] if "close" not in step]
    given_answer = answer({**scenario, "steps": [*steps, {"close": True}]})
    assert given_answer["pending"] == []
    if scenario["meta"]["gapped"]:
        return
    assert given_answer["counts"]["unwindowed"] == 0


@examples(200)
@given(scenarios(modes=("event",), kinds=("time/time",)))
def test_both_oracles_answer_the_same_where_marks_are_made_at_ticks(scenario: Json) -> None:
    bolt = {**scenario["bolt"], "watermark_every": time_oracle.TICKS}
    mine, other = answer(scenario), time_oracle.answer({**scenario, "bolt": bolt})
    assert [(each["end"], each["events"]) for each in mine["windows"]] == [
        (each["end"], each["events"]) for each in other["windows"]
    ]
    assert mine["late"] == other["late"]
    assert mine["counts"] == {name: other["counts"][name] for name in mine["counts"]}
