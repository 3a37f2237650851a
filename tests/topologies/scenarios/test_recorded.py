"""A scenario made of a run's real input."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from topologies.cli.app import app
from topologies.testing.replaying import replay

TOPOLOGY = """
import random
from windbolt import TopologyBuilder, WindowedBolt, sinks, spouts

class Revenue(WindowedBolt):
    outputs = "user string, revenue double, until timestamp"

    def execute(self, window):
        print("called")
        for user, amounts in window.groups("user", "amount"):
            yield user, amounts.sum(){more}, window.end

builder = TopologyBuilder("shop")
builder.set_spout("orders", spouts.files(
    "live/*.jsonl", schema="id string, user string, amount double, ts timestamp", files_per_batch=1))
builder.set_spout("tips", spouts.memory("id string, user string, amount double, ts timestamp"))
bolt = Revenue().with_tumbling_window("10s").with_timestamp_field("ts").with_late_tuple_stream("late")
builder.set_bolt("revenue", bolt).fields_grouping("orders", "user").fields_grouping("tips", "user")
builder.set_sink("out", sinks.files("never", format="jsonl")).from_("revenue")
topology = builder.build()
"""


def _order(name: str, user: str, amount: float, second: int) -> str:
    at = f"2024-01-01T06:00:{second:02}Z"
    return f'{{"id": "{name}", "user": "{user}", "amount": {amount}, "ts": "{at}"}}\n'


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop_recorded.py").write_text(TOPOLOGY.replace("{more}", ""))
    Path("wild_recorded.py").write_text(TOPOLOGY.replace("{more}", " + random.random()"))
    Path("input").mkdir()
    Path("input/1.jsonl").write_text(_order("a", "yes", 2.0, 1) + "no JSON\n" + _order("b", "bob", 1.5, 14))
    Path("input/2.jsonl").write_text(_order("c", "ada", 9.0, 3))
    Path("tips.jsonl").write_text(_order("t", "bob", 0.5, 12))


def _recorded(*words: str) -> Result:
    return CliRunner().invoke(app, ["replay", "--record", *words])


def test_what_was_recorded_is_a_scenario_that_holds() -> None:
    done = _recorded("shop_recorded.py:topology", "orders=input", "tips=tips.jsonl")
    assert done.exit_code == 0, done.output
    assert "1 row that cannot be read is not in it" in done.stderr
    Path("real.yaml").write_text(done.stdout)
    said = yaml.safe_load(done.stdout)
    assert [step.get("event", {}).get("id", "-") for step in said["steps"]] == ["a", "b", "t", "-", "c", "-", "-"]
    assert said["expect"]["late"] == ["c"]
    assert said["expect"]["counts"] == {"received": 4, "windowed": 3, "late": 1}
    assert said["expect"]["outputs"]["out"] == [
        {"user": "yes", "revenue": 2.0, "until": "2024-01-01T06:00:10Z"},
        {"user": "bob", "revenue": 2.0, "until": "2024-01-01T06:00:20Z"},
    ]
    replay("real.yaml").check()
    assert not Path("never").exists()


def test_a_scenario_has_the_defaults_of_its_topology() -> None:
    """The events are recorded as they came, and replayed with the default."""
    topology = Path("shop_recorded.py").read_text().replace("files_per_batch=1", "defaults={'amount': 7.0}")
    Path("defaults_recorded.py").write_text(topology)
    Path("input/1.jsonl").write_text('{"id": "a", "user": "ada", "ts": "2024-01-01T06:00:01Z"}\n')
    done = _recorded("defaults_recorded.py:topology", "orders=input/1.jsonl", "tips=tips.jsonl")
    assert done.exit_code == 0, done.output
    Path("real.yaml").write_text(done.stdout)
    said = yaml.safe_load(done.stdout)
    assert "amount" not in said["steps"][0]["event"]
    assert said["expect"]["outputs"]["out"][0]["revenue"] == 7.0
    replay("real.yaml").check()


def test_a_scenario_has_what_a_spout_says_of_its_files() -> None:
    topology = Path("shop_recorded.py").read_text().replace("files_per_batch=1", "metadata=['path', 'row']")
    raw = 'builder.set_sink("raw", sinks.memory()).from_("orders")\ntopology = builder.build()'
    Path("metadata_recorded.py").write_text(topology.replace("topology = builder.build()", raw))
    done = _recorded("metadata_recorded.py:topology", "orders=input/1.jsonl", "tips=tips.jsonl")
    assert done.exit_code == 0, done.output
    rows = yaml.safe_load(done.stdout)["expect"]["outputs"]["raw"]
    path = str(Path("input/1.jsonl").absolute())
    assert [(row["id"], row["file_path"], row["file_row"]) for row in rows] == [("a", path, 0), ("b", path, 2)]


def test_a_change_of_the_bolt_is_found() -> None:
    Path("real.yaml").write_text(_recorded("shop_recorded.py:topology", "orders=input", "tips=tips.jsonl").stdout)
    text = Path("shop_recorded.py").read_text()
    Path("changed_recorded.py").write_text(text.replace("amounts.sum()", "amounts.sum() + 1"))
    changed = Path("real.yaml").read_text().replace("shop_recorded", "changed_recorded")
    Path("changed.yaml").write_text(changed)
    with pytest.raises(AssertionError, match=r"outputs.out\[0\]"):
        replay("changed.yaml").check()


def test_what_changes_from_run_to_run_is_told() -> None:
    done = _recorded("wild_recorded.py:topology", "orders=input", "tips=tips.jsonl")
    assert done.exit_code == 1
    assert "does not come out the same" in done.stderr
    assert "outputs.out[0]" in done.stderr


def test_without_input_each_spout_reads_its_own() -> None:
    Path("live").mkdir()
    Path("live/1.jsonl").write_text(_order("a", "ada", 2.0, 1))
    done = _recorded("shop_recorded.py:topology")
    assert done.exit_code == 0, done.output
    assert yaml.safe_load(done.stdout)["expect"]["counts"] == {"received": 1, "windowed": 1}


def test_nothing_to_replay() -> None:
    done = CliRunner().invoke(app, ["replay"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "no scenario to replay" in done.stderr


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        (["input"], "without a spout"),
        (["order=input"], "did you mean 'orders'"),
        (["orders=missing", "tips=tips.jsonl"], "no file in"),
        (["orders=input", "orders=tips.jsonl"], "two inputs for spout 'orders'"),
        (["orders=input", "--watch"], "choose one of them"),
    ],
)
def test_inputs_that_cannot_be(inputs: list[str], problem: str) -> None:
    done = _recorded("shop_recorded.py:topology", *inputs)
    assert done.exit_code == 2
    assert problem in done.stderr
    assert done.stdout == ""


def test_a_scenario_is_not_made_of_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topologies.cli.replay.MOST_ROWS", 2)
    done = _recorded("shop_recorded.py:topology", "orders=input", "tips=tips.jsonl")
    assert done.exit_code == 2
    assert "more than 2 rows" in done.stderr


def test_a_scenario_is_recorded_in_this_process_alone() -> None:
    done = _recorded("shop_recorded.py:topology", "--engine", "spark")
    assert done.exit_code == 2
    assert "--record and --engine spark" in done.stderr
