"""A step serves what its rules answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.scraping import free_port, scrape, values
from tests.topologies.step.test_counters import RULES, STEP
from topologies.step.compile_step import step_topology
from topologies.step.config_files import load_step
from windbolt import RunOptions, run_local


def test_a_step_serves_what_its_rules_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("rules.py").write_text(RULES)
    Path("step.conf").write_text(STEP)
    message = {"key": "a", "value": {"trigger": "fireAndPurge", "dsl": "decline", "out": None}}
    Path("in/1.jsonl").write_text(json.dumps(message) + "\n")
    with free_port() as port:
        summary = run_local(step_topology(load_step("step.conf")), RunOptions(serve_metrics=port))
        found = scrape(port)
    assert summary.last is not None
    counters = summary.last.bolts["aggregate"].counters
    assert counters == {"declined": 1}
    answers = values(found, "windbolt_rule_answers_total", "bolt", "answer")
    assert answers == {("aggregate", name): count for name, count in counters.items()}
    assert values(found, "windbolt_bolt_counted_total", "counter") == {}
