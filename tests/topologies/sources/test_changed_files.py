"""A file that is changed after it was read is not read again, and not passed over in silence."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.scraping import free_port, scrape, value
from topologies.topology import Topology
from windbolt import RunOptions, Summary, TopologyBuilder, run_local, sinks, spouts
from windowing.errors import ConfigError, DataError


def topology(folder: Path, **settings: Any) -> Topology:
    builder = TopologyBuilder("changed")
    builder.set_spout("in", spouts.files(folder / "in/*.jsonl", "x long", **settings))
    builder.set_sink("out", sinks.files(folder / "out", "jsonl")).from_("in")
    return builder.build()


def go_on(folder: Path, **settings: Any) -> Summary:
    return run_local(topology(folder, **settings), RunOptions(str(folder / "ck")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files that a run has read, of which the second is then appended to."""
    (tmp_path / "in").mkdir()
    for number in (1, 2):
        (tmp_path / f"in/{number}.jsonl").write_text('{"x": 1}\n')
        os.utime(tmp_path / f"in/{number}.jsonl", (1_700_000_000 + number,) * 2)
    first = go_on(tmp_path)
    assert (first.rows, first.complaints, first.changed_files) == (2, [], 0)
    append(tmp_path, 2)
    return tmp_path


def append(folder: Path, number: int) -> None:
    with open(folder / f"in/{number}.jsonl", "a") as file:
        file.write('{"x": 2}\n')


def test_it_is_named_and_counted(folder: Path) -> None:
    (folder / "in/3.jsonl").write_text('{"x": 3}\n')
    summary = go_on(folder)
    assert summary.rows == 1
    assert summary.changed_files == json.loads(json.dumps(summary.to_json()))["changed_files"] == 1
    (complaint,) = summary.complaints
    assert complaint.startswith(f"{folder}/in/2.jsonl: changed after it was read, and not read again")


def test_a_run_may_end_there_or_say_nothing(folder: Path) -> None:
    with pytest.raises(DataError, match=r"spout 'in': '2\.jsonl' was changed after it was read"):
        go_on(folder, on_change="error")
    assert go_on(folder, on_change="ignore").complaints == []
    with pytest.raises(ConfigError, match="on_change='never'"):
        topology(folder, on_change="never")


def test_a_file_that_is_gone_or_moved_within_its_time_is_not_changed(folder: Path) -> None:
    (folder / "in/2.jsonl").unlink()
    assert go_on(folder).changed_files == 0


def test_what_changes_during_a_service_is_told_once(folder: Path) -> None:
    told: list[list[str]] = []

    def look(report: Any) -> None:
        told.append([complaint.split(":")[0][-9:] for complaint in report.complaints])
        number = len(told)
        if number == 2:
            append(folder, 1)
        options.stop.set() if number == 4 else (folder / f"in/{number + 2}.jsonl").write_text('{"x": 3}\n')

    (folder / "in/0.jsonl").write_text('{"x": 0}\n')
    with free_port() as port:
        options = RunOptions(str(folder / "ck"), every="1ms", on_report=look, serve_metrics=port)
        summary = run_local(topology(folder), options)
        assert value(scrape(port), "windbolt_files_changed_total", topology="changed", spout="in") == 2
    assert told == [["n/2.jsonl"], [], ["n/1.jsonl"], []]
    assert summary.changed_files == 2


def test_what_is_appended_while_the_run_reads_is_told_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.jsonl").write_text('{"x": 1}\n')
    os.utime(tmp_path / "in/1.jsonl", (1_700_000_000,) * 2)
    options = RunOptions(str(tmp_path / "ck"), on_report=lambda _: append(tmp_path, 1))
    assert run_local(topology(tmp_path), options).changed_files == 1
