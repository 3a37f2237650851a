"""A scenario's bolt may name policies of the user's own; what cannot be is said with the place in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from topologies.scenarios.scenario_model import LoadedScenario, Problem, load
from windbolt import replay
from windowing.errors import BoltError

POLICIES = """
from dataclasses import dataclass
from windbolt import Duration
from windbolt.policies import Action, EvictionPolicy, TriggerPolicy


@dataclass(frozen=True)
class Above(EvictionPolicy):
    limit: float

    def evict(self, event, context):
        if event["big"]:
            return Action.EXPIRE
        return Action.PROCESS if event["price"] >= self.limit else Action.KEEP


@dataclass(frozen=True)
class Every(TriggerPolicy):
    number: int = 2
    names: tuple = ()
    after: Duration | None = None

    def track(self, event, context):
        return context.count % self.number == 0


def third():
    return Every(3)


pairs = Every()
"""

STEPS = """
steps:
  - {event: {id: e1, ts: 1000, price: 5, big: false}}
  - {event: {id: e2, ts: 2000, price: -1.5, big: false}}
  - {event: {id: e3, ts: 3000, price: 7, big: true}}
  - {tick: watermark}
  - {event: {id: e4, ts: 4000, price: 9, big: false, word: w}}
  - {close: true}
"""


def scenario(folder: Path, eviction: str, trigger: str) -> Path:
    (folder / "rules").mkdir(exist_ok=True)
    (folder / "rules" / "shop_rules.py").write_text(POLICIES)
    path = folder / "shop.yaml"
    bolt = f"bolt: {{eviction: {eviction!r}, trigger: {trigger!r}, timestamp_field: ts}}"
    path.write_text(f"# a comment\nname: shop\n{bolt}\n{STEPS}")
    return path


@pytest.mark.parametrize(
    ("trigger", "windows"),
    {
        "pairs": [["e1"], ["e1", "e4"]],
        "Every(2, ('a', -1), after=minutes(5))": [["e1"], ["e1", "e4"]],
        "Every(number=4)": [["e1", "e4"]],
        "third()": [["e1"]],
    }.items(),
)
def test_a_policy_is_a_variable_or_a_call_in_a_file_beside_the_scenario(
    tmp_path: Path, trigger: str, windows: list[list[str]]
) -> None:
    answer = replay(scenario(tmp_path, "rules/shop_rules.py:Above(0)", f"rules/shop_rules.py:{trigger}"))
    assert [each["events"] for each in answer.windows or []] == windows


@pytest.mark.parametrize(
    ("eviction", "said"),
    {
        "rules/shop_rules.py": "names no policy. write it like my_policies.py:Near(0.1)",
        "rules/shop_rule.py:Above(0)": "bolt.eviction: there is no file",
        "rules/shop_rules.py:Abov(0)": "the file has no 'Abov'; did you mean 'Above'? name one of its policies: Above",
        "rules/shop_rules.py:Above": "that is a class. write rules/shop_rules.py:Above()",
        "rules/shop_rules.py:Above()": "TypeError: Above.__init__() missing 1 required positional argument: 'limit'",
        "rules/shop_rules.py:pairs": "that is Every(number=2, names=(), after=None), which is no EvictionPolicy",
        "rules/shop_rules.py:Above(open('x'))": "the file has no 'open'",
        "rules/shop_rules.py:Above(1 + 1)": "'1 + 1' cannot stand here",
        "rules/shop_rules.py:Above(": "cannot be read: ",
    }.items(),
)
def test_what_names_no_policy_is_said_with_its_place(tmp_path: Path, eviction: str, said: str) -> None:
    path = scenario(tmp_path, eviction, "rules/shop_rules.py:pairs")
    (problem,) = load(path)
    assert isinstance(problem, Problem)
    assert f"{path}:2" in str(problem)
    assert "bolt.eviction: " in str(problem)
    assert said in str(problem)


@pytest.mark.parametrize(
    ("policies", "called", "line"),
    [
        ("x = 1\ny = 1 / 0", "Above(0)", 2),
        ("def made():\n    limit = 1\n    return limit / 0", "made()", 3),
        ("import sys\ndef made():\n    sys.exit(0)", "made()", 3),
        (
            "from policies import TriggerPolicy\nclass Odd(TriggerPolicy):\n    def track(self, e, c): return 1",
            "Odd()",
            3,
        ),
    ],
)
def test_what_fails_in_the_file_of_a_policy_is_said_with_the_line_of_that_file(
    tmp_path: Path, policies: str, called: str, line: int
) -> None:
    path = scenario(tmp_path, "rules/shop_rules.py:Above(0)", f"mine.py:{called}")
    (tmp_path / "mine.py").write_text(policies)
    (found,) = load(path)
    said = str(found)
    if not isinstance(found, Problem):
        with pytest.raises(BoltError) as raised:
            replay(path)
        said = str(raised.value)
    assert f"{tmp_path}/mine.py:{line}" in said


def test_a_field_that_policies_cannot_read_is_said_with_its_step(tmp_path: Path) -> None:
    path = scenario(tmp_path, "rules/shop_rules.py:Above(0)", "rules/shop_rules.py:pairs")
    path.write_text(path.read_text().replace("word: w", "word: [1]"))
    (problem,) = load(path)
    assert isinstance(problem, Problem)
    assert "steps[4].event.word: expected a text, a number, true or false, found [1]" in str(problem)


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    path = scenario(tmp_path, "rules/shop_rules.py:Above(0)", "rules/shop_rules.py:pairs")

    def windows() -> list[Any]:
        (loaded,) = load(path)
        assert isinstance(loaded, LoadedScenario)
        return [each["events"] for each in replay(loaded.scenario).windows or []]

    assert windows() == [["e1"], ["e1", "e4"]]
    rules = tmp_path / "rules" / "shop_rules.py"
    rules.write_text(POLICIES.replace("== 0", "== self.number - 1"))
    assert windows() == [["e1"], ["e1"]]
