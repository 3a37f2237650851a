"""Complaints about input: one for each kind, and how many more there were."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from topologies.cli.app import app

TOPOLOGY = """
from windbolt import AggregateBolt, TopologyBuilder, aggregates, sinks, spouts

builder = TopologyBuilder("shop")
builder.set_spout("orders", spouts.files("in/*.csv", schema="id string, v long", files_per_batch=1))
builder.set_bolt("number", AggregateBolt(n=aggregates.count()).with_tumbling_window(2)).global_grouping("orders")
builder.set_sink("out", sinks.discard()).from_("number")
topology = builder.build()
"""


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["lines", "json"])
def test_the_same_mistake_in_many_files_is_told_once_with_the_number_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("many_files.py").write_text(TOPOLOGY)
    Path("in").mkdir()
    for number in range(9):
        Path(f"in/{number}.csv").write_text("name,v\na,1\n" if number < 7 else "id,v\na,x\n")
    done = CliRunner().invoke(app, ["run", "many_files.py:topology", "--engine", "local", *options])
    assert done.exit_code == 0, done.output
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 4
    assert "in/0.csv" in warnings[0]
    assert "has no column 'id'" in warnings[0]
    assert "in/7.csv" in warnings[1]
    assert "'v': 'x' cannot be read" in warnings[1]
    assert warnings[2].startswith("warning: orders: 6 more of these: has no column 'id'")
    assert warnings[3].startswith("warning: orders: 1 more of these: ")
