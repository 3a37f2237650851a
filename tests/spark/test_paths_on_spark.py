"""What paths of input stand for on Spark: the cases of tests/topologies/io/test_patterns.py, and what comes later."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.spark.tools import at_phase, run, run_until
from tests.topologies.io.test_partition_columns import DAYS, EXPECTED, hourly, in_order, put
from tests.topologies.io.test_patterns import CASES, all_cases, files_of_cases, made_project, topology
from topologies.engine.report import BatchReport
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing.errors import ConfigError, DataError

pytestmark = pytest.mark.usefixtures("spark")
LINE = '{{"id": {}, "ts": "2026-01-01T00:00:0{}Z"}}\n'


def test_paths_stand_for_the_same_files_as_in_a_local_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = made_project(tmp_path, monkeypatch)
    run(all_cases(), project / "ck", keep_open=True)
    assert files_of_cases(project / "ck", project) == CASES
    # What Spark's half notes is what a local run notes: it has nothing left to read.
    assert run_local(all_cases(), RunOptions(str(project / "ck"), keep_open=True)).rows == 0
    with pytest.raises(ConfigError, match="nowhere' is not there"):
        run(topology("nowhere/*.jsonl"), project / "refused")


# when each file was last changed, by the run that finds it: of the past, of the future, and equal ones
CHANGED: list[dict[str, int]] = [
    {"a": 0, "b": 7_258_118_400, "c": 1_700_000_000},
    {"d": 1_700_000_000, "e": 0, "f:g": 1_700_000_001, "h": 7_258_118_400},
]


def test_each_file_is_read_once_whenever_it_was_changed(tmp_path: Path) -> None:
    """A file of the year 2200 does not hide those of today."""
    (tmp_path / "in").mkdir()
    seen: list[Any] = []
    number = 0
    for found in CHANGED:
        for name, at in found.items():
            (tmp_path / f"in/{name}.jsonl").write_text(LINE.format(number, number + 1))
            os.utime(tmp_path / f"in/{name}.jsonl", (at, at))
            number += 1
        out = sinks.memory()
        last = CHANGED.index(found) == len(CHANGED) - 1
        summary = run(topology(tmp_path / "in/*.jsonl", out), tmp_path / "ck", keep_open=not last)
        assert summary.rows == len(found)
        seen += out.rows
    assert seen == [{"ids": ",".join(map(str, range(number)))}]
    with open(tmp_path / "in/a.jsonl", "a") as file:
        file.write(LINE.format(9, 9))
    again = run(topology(tmp_path / "in/*.jsonl"), tmp_path / "ck")
    assert (again.rows, again.changed_files, len(again.complaints)) == (0, 1, 1)
    with pytest.raises(DataError, match=r"'a\.jsonl' was changed after it was read"):
        run(topology(tmp_path / "in/*.jsonl", on_change="error"), tmp_path / "ck")


def test_a_name_with_a_colon_that_arrives_does_not_end_a_service(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.jsonl").write_text(LINE.format(1, 1))
    (tmp_path / "late").mkdir()
    (tmp_path / "late/2024-01-01T06:00:00Z.jsonl").write_text(LINE.format(2, 2))
    rows: list[int] = []
    stop = threading.Event()

    def arrive(report: BatchReport) -> None:
        rows.append(report.rows)
        if len(rows) == 1:
            os.rename(tmp_path / "late/2024-01-01T06:00:00Z.jsonl", tmp_path / "in/2024-01-01T06:00:00Z.jsonl")
        else:
            stop.set()

    run(topology(tmp_path / "in/*.jsonl"), tmp_path / "ck", every="100ms", on_report=arrive, stop=stop)
    assert rows == [1, 1]


def test_partition_columns_and_metadata_are_the_same_as_in_a_local_run(tmp_path: Path) -> None:
    """Spark goes on where a local run stopped."""
    for name, row in DAYS.items():
        put(tmp_path, name, row)
    put(tmp_path, "events/dt=2024-01-02/hour=six/1.jsonl", {"id": 1})
    paths = ["dt=2024-01-01/**/*.jsonl", "dt=2024-01-01/hour=6/1.jsonl"]
    out = sinks.memory()
    run_local(
        hourly(tmp_path, out, [f"events/{path}" for path in paths]), RunOptions(str(tmp_path / "ck"), keep_open=True)
    )
    summary = run(hourly(tmp_path, out, ["events"]), tmp_path / "ck")
    assert in_order(out.rows) == EXPECTED
    assert summary.rows == 8
    assert summary.this_run()["events"].accounts["invalid"] == 1
    assert "is in the folder hour=six, which is no int" in summary.complaints[0]

    rows: list[list[dict[str, Any]]] = []
    for runner in (run_local, lambda topology: run(topology, tmp_path / "ck2")):
        builder, found = TopologyBuilder("metadata"), sinks.memory()
        spout = spouts.files(
            tmp_path / "events/**", "id long", format="jsonl", partition_columns="dt date", metadata=True
        )
        builder.set_spout("in", spout)
        builder.set_sink("out", found).from_("in")
        runner(builder.build())
        rows.append(sorted(found.rows, key=lambda row: row["file_path"]))
    assert rows[0] == rows[1]
    assert {row["file_path"] for row in rows[0]} == {f"{tmp_path}/{name}" for name in DAYS} | {
        f"{tmp_path}/events/dt=2024-01-02/hour=six/1.jsonl"
    }


def test_files_that_a_first_output_does_not_need_are_not_opened(tmp_path: Path) -> None:
    """Their folders say that they are older; the run dies in the middle."""
    for name, row in DAYS.items():
        put(tmp_path, name, row)
        if "dt=2024-01-01" in name:
            (tmp_path / name).write_text("[not a row\n")
    out = sinks.memory()
    run_until(hourly(tmp_path, out), tmp_path / "ck", at_phase(1, "commit"), first_output="2024-01-03T00:00:00Z")
    summary = run(hourly(tmp_path, out), tmp_path / "ck")
    assert in_order(out.rows) == EXPECTED[2:]
    assert summary.last is not None
    assert summary.last.bolts["events"].accounts["invalid"] == 0
