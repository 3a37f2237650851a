"""Where Java or Spark does not start, an error says so in words, and what to look at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOPOLOGY = """
from windbolt import TopologyBuilder, WindowedBolt, sinks, spouts


class Sizes(WindowedBolt):
    outputs = "n long"

    def execute(self, window):
        return (len(window),)


builder = TopologyBuilder("t")
builder.set_spout("orders", spouts.files("orders/*.jsonl", schema="id string, ts timestamp"))
bolt = Sizes().with_tumbling_window("5s").with_timestamp_field("ts")
builder.set_bolt("sizes", bolt).global_grouping("orders")
builder.set_sink("out", sinks.files("out/", format="jsonl")).from_("sizes")
topology = builder.build()
"""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--conf", "spark.driver.memory=much"], ["Invalid maximum heap size", "error: Java did not start"]),
        (["--master", "local[x]"], ["error: Spark does not start, with master 'local[x]'", "Could not parse Master"]),
    ],
    ids=["Java", "Spark"],
)
def test_what_does_not_start_is_told_in_words(tmp_path: Path, options: list[str], words: list[str]) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "1.jsonl").write_text('{"id": "a", "ts": "2024-01-01T06:00:00Z"}\n', encoding="utf-8")
    (tmp_path / "t.py").write_text(TOPOLOGY, encoding="utf-8")
    told = subprocess.run(
        [sys.executable, "-m", "windbolt", "run", "t.py:topology", "--checkpoint", "ck", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 2
    assert "Traceback" not in told.stderr
    assert "incubator" not in told.stderr
    for part in words:
        assert part in told.stderr
