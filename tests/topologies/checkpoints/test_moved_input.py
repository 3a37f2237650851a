"""A project's folder that is moved takes its input along: relative paths do not make a run read files again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.damage import SCHEMA, Ids
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.savepoint import take_savepoint
from topologies.topology import Topology
from windbolt import RunOptions, Summary, TopologyBuilder, run_local, sinks, spouts
from windowing.errors import CheckpointError


def topology(path: Any) -> Topology:
    builder = TopologyBuilder("moved")
    builder.set_spout("in", spouts.files(path, SCHEMA, format="jsonl", files_per_batch=1))
    builder.set_bolt("ids", Ids().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("in")
    builder.set_sink("out", sinks.memory()).from_("ids")
    return builder.build()


def go_on(path: Any, checkpoint: str = "ck", **options: Any) -> Summary:
    return run_local(topology(path), RunOptions(checkpoint, keep_open=True, **options))


def write(folder: Path, *numbers: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (folder / f"{number}.jsonl").write_text(f'{{"id": {number}, "ts": "2026-01-01T00:00:01Z"}}\n')


PATHS = ["in/*.jsonl", "in", "*/[0-9]*.jsonl", "in/../in", "../run/in/*", "{in,more}/*"]


@pytest.mark.parametrize("path", PATHS)
def test_a_renamed_folder_is_the_same_input(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve files: each tenth entry of the log holds those before it."""
    write(tmp_path / "shop {a}/run/in", *range(12))
    monkeypatch.chdir(tmp_path / "shop {a}/run")
    assert go_on(path).rows == 12
    (tmp_path / "shop {a}").rename(tmp_path / "shop b")
    monkeypatch.chdir(tmp_path / "shop b/run")
    write(tmp_path / "shop b/run/in", 12)
    moved = go_on(path)
    assert moved.rows == 1
    assert moved.changed_files == 0
    (complaint,) = moved.complaints
    assert complaint.startswith("spout 'in': runs were started in ")
    again = go_on(path)
    assert (again.rows, again.complaints) == (0, [])


def test_a_batch_that_was_begun_is_read_where_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "old/in", 1, 2)
    monkeypatch.chdir(tmp_path / "old")

    class Stopped(Exception):
        pass

    def stop(_: Any) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        go_on("in", on_report=stop)
    for name in ("1", ".1.crc"):  # the batch is planned and not committed
        (tmp_path / f"old/ck/spark/commits/{name}").unlink(missing_ok=True)
    (tmp_path / "old").rename(tmp_path / "new")
    monkeypatch.chdir(tmp_path / "new")
    go_on("in")
    assert go_on("in").rows == 0


def copied(old: Path, new: Path) -> None:
    shutil.copytree(old, new)  # the copies have the times of the files


def copied_without_times(old: Path, new: Path) -> None:
    shutil.copytree(old, new, copy_function=shutil.copyfile)
    shutil.rmtree(old)


@pytest.mark.parametrize("how", [copied, copied_without_times])
def test_what_may_be_other_files_is_refused(
    how: Callable[[Path, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "old/in", 1, 2)
    os.utime(tmp_path / "old/in/1.jsonl", (1_700_000_000, 1_700_000_000))
    monkeypatch.chdir(tmp_path / "old")
    assert go_on("in").rows == 2
    monkeypatch.chdir(tmp_path)
    how(tmp_path / "old", tmp_path / "new")
    monkeypatch.chdir(tmp_path / "new")
    with pytest.raises(CheckpointError, match=r"spout 'in' would read files again .* '.*/old'") as raised:
        go_on("in")
    assert f"--moved {tmp_path}/old={tmp_path}/new" in raised.value.do
    take_savepoint(PairedCheckpoint("ck"), "taken", moved=[(f"{tmp_path}/old", f"{tmp_path}/new")])
    assert go_on("in", "taken").rows == 0


def test_another_folder_with_other_names_is_other_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "one/in", 1)
    write(tmp_path / "two/in", 2)
    checkpoint = str(tmp_path / "ck")
    for folder, rows in (("one", 1), ("two", 1), ("one", 0)):
        monkeypatch.chdir(tmp_path / folder)
        summary = go_on("in/*", checkpoint)
        assert (summary.rows, summary.complaints) == (rows, [])


def test_absolute_paths_say_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "old/in", 1)
    checkpoint = str(tmp_path / "ck")
    assert go_on(tmp_path / "old/in", checkpoint).rows == 1
    (tmp_path / "old").rename(tmp_path / "new")
    assert go_on(tmp_path / "new/in", checkpoint).rows == 1
    monkeypatch.chdir(tmp_path / "new")
    assert go_on("in", checkpoint).rows == 0
