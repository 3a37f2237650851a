"""Every feature is shown by a scenario or a test, and docs/features.md says by which."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import windowing
from tests import features_page
from tests.helpers.places import ROOT
from windbolt import TopologyBuilder
from windowing import WindowedBolt
from windowing.settings.rules import SOURCE

LISTED = features_page.features()
NUMBERS = {"AT": 23, "SI": 32, "ST": 27, "AZ": 30, "UH": 32}

CODE = re.compile(r"`([^`]+)`")
NAMES: dict[str, Any] = {
    **{name: getattr(windowing, name) for name in windowing.__all__},
    "rule": lambda event, call: "continue",
    "SOURCE": SOURCE,
    "TopologyBuilder": TopologyBuilder,
    "datetime": datetime,
    "UTC": UTC,
    "bolt": WindowedBolt(),
    "policy": None,
}


def test_every_feature_is_listed() -> None:
    numbered = [f"{system}-{number}" for system, last in NUMBERS.items() for number in range(1, last + 1)]
    assert [name for name in LISTED if not LISTED[name].planned] == numbered


def test_every_feature_is_shown() -> None:
    assert [f"{name}: {LISTED[name].title}" for name in features_page.missing(LISTED, features_page.shown())] == []


def test_no_scenario_and_no_test_names_an_unknown_feature() -> None:
    assert features_page.unknown(LISTED, features_page.shown()) == {}


def test_the_page_is_up_to_date() -> None:
    written = features_page.PAGE.read_text(encoding="utf-8")
    assert written == features_page.page(LISTED, features_page.shown()), f"run: {features_page.COMMAND}"


def test_settings_can_be_written_as_they_stand() -> None:
    problems = []
    for name, feature in LISTED.items():
        for code in CODE.findall(feature.setting):
            if code.startswith(("with_", "presets.", "kinds.", "TopologyBuilder", "StatefulWindowedBolt")):
                try:
                    eval(f"bolt.{code}" if code.startswith("with_") else code, dict(NAMES))
                except Exception as error:
                    problems.append(f"{name}: {code}: {type(error).__name__}: {error}")
    assert not problems, "\n".join(problems)


def test_each_rule_is_shown_by_a_scenario_or_a_test() -> None:
    text = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    rules = [(head, row) for head, _, *rows in tables if head.endswith("| shown by |") for row in rows]
    assert len(rules) > 40
    assert [row for _, row in rules if "](../tests/" not in row.split("|")[-2]] == []
    assert [row for head, row in rules if row.count("|") != head.count("|")] == []


# ---- what counts


def a_project(tmp_path: Path, **files: str) -> dict[str, list[features_page.Shown]]:
    for name, text in files.items():
        path = tmp_path / "tests" / ("scenarios" if name.startswith("s_") else ".") / name.replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return features_page.shown(tmp_path)


def test_scenarios_and_tests_show_what_they_name(tmp_path: Path) -> None:
    found = a_project(
        tmp_path,
        s_wide__yaml="name: a\nmeta: {features: [X-1, X-2]}\n---\n- {name: b, meta: {features: [X-3]}}\n",
        s_narrow__jsonl="\n".join(json.dumps({"meta": {"features": ["X-2"]}}) for _ in range(2)),
        test_it__py='class TestIt:\n    @pytest.mark.feature("X-3", "X-4")\n    def test_so(self): ...\n',
    )
    assert {name: [what.link for what in every] for name, every in found.items()} == {
        "X-1": ["[scenarios/s_wide](../tests/scenarios/s_wide.yaml)"],
        "X-2": [
            "[scenarios/s_narrow](../tests/scenarios/s_narrow.jsonl)",
            "[scenarios/s_wide](../tests/scenarios/s_wide.yaml)",
        ],
        "X-3": ["[scenarios/s_wide](../tests/scenarios/s_wide.yaml)", "[test_so](../tests/test_it.py)"],
        "X-4": ["[test_so](../tests/test_it.py)"],
    }


def test_what_does_not_hold_shows_nothing(tmp_path: Path) -> None:
    found = a_project(
        tmp_path,
        test_later__py='@pytest.mark.xfail(reason="later")\n@pytest.mark.feature("X-2")\ndef test_so(): ...\n',
    )
    assert found == {}


def test_a_planned_feature_is_not_missed_and_an_unlisted_one_is_noticed() -> None:
    listed = {
        "ST-1": features_page.Feature("ST-1", "one", "`with_one()`"),
        "ST-2": features_page.Feature("ST-2", "two", "`with_two()`", planned=True),
        "ST-3": features_page.Feature("ST-3", "three", "always"),
    }
    found = {name: [features_page.Shown(1, f"tests/{at}.yaml") for at in range(5)] for name in ("ST-3", "ST-4")}
    assert features_page.missing(listed, found) == ["ST-1"]
    assert features_page.unknown(listed, found) == {"ST-4": [f"tests/{at}.yaml" for at in range(5)]}
    page = features_page.page(listed, found)
    assert "| ST-2 | two | `with_two()` | (planned) |" in page
    assert "[tests/2](../tests/2.yaml) and 2 more |" in page
