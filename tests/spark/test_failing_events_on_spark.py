"""On Spark too, an event on which a bolt or an extractor fails goes to the errors, and epoch seconds are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.spark.tools import run
from topologies.topology import Topology
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing import AggregateBolt, Bolt, aggregates

pytestmark = pytest.mark.usefixtures("spark")

SECONDS = 1_704_088_805


class Parse(Bolt):
    """Texts as numbers."""

    outputs = "number long, ts long"
    on_error = "errors"

    def execute(self, tuple: Any) -> Any:
        """The number."""
        return int(tuple["text"]), tuple["ts"]


def topology(folder: Path) -> tuple[Topology, dict[str, Any]]:
    kept: dict[str, Any] = {name: sinks.memory() for name in ("n", "parse_errors", "n_errors")}
    builder = TopologyBuilder("failing")
    builder.set_spout("s", spouts.files(str(folder / "*.jsonl"), "text string, ts long", files_per_batch=1))
    builder.set_bolt("parse", Parse()).shuffle_grouping("s")
    bolt = AggregateBolt(n=aggregates.count(), total=aggregates.sum("number")).with_tumbling_window("1h")
    timed = bolt.with_timestamp_extractor(lambda event: event["ts"] // (0 if event["number"] == 7 else 1))
    builder.set_bolt("n", timed).global_grouping("parse")
    builder.set_sink("n_out", kept["n"]).from_("n")
    builder.set_sink("bad", kept["parse_errors"]).from_("parse", stream="errors")
    builder.set_sink("bad_n", kept["n_errors"]).from_("n", stream="errors")
    return builder.build(), kept


def test_rows_errors_accounts_and_warnings_are_those_of_a_local_run(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for at, texts in enumerate([["1", "two"], ["3", "7", ""], ["five", "6"]]):
        rows = [{"text": text, "ts": SECONDS + at} for text in texts]
        (tmp_path / "in" / f"{at}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = []
    for start in (run_local, lambda built: run(built, tmp_path / "checkpoint")):
        built, kept = topology(tmp_path / "in")
        summary = start(built)
        assert summary.last is not None
        emitted = {name: sorted(map(str, sink.rows)) for name, sink in kept.items()}
        told = [text for text in summary.complaints if "before 1990" in text]
        found.append((emitted, summary.last.bolts["n"].accounts, told))
    assert found[0] == found[1]
    emitted, accounts, told = found[0]
    assert (len(emitted["parse_errors"]), len(emitted["n_errors"]), len(told)) == (3, 4, 1)
    assert (accounts["received"], accounts["windowed"], accounts["invalid"]) == (7, 3, 4)
