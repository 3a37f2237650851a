"""Columns that say which file a row is from, and when that was changed: Azure's time of arrival for files."""

from __future__ import annotations

import gzip
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from topologies.io.sinks import MemorySink
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import Bolt, WindowedBolt, presets
from windowing.errors import ConfigError, TopologyError

CHANGED = 1_700_000_000_123_456_000
"""In nanoseconds, as file systems keep it."""
MOMENT = datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC)


class Files(Bolt):
    outputs = "id string, path string, modified timestamp, row long"

    def execute(self, tuple: Any) -> Any:
        return tuple["id"], os.path.basename(tuple["file_path"]), tuple["file_modified"], tuple["file_row"]


def rows_of(spout: Any, bolt: Any) -> list[dict[str, Any]]:
    builder, sink = TopologyBuilder("files"), sinks.memory()
    builder.set_spout("in", spout)
    builder.set_bolt("bolt", bolt).global_grouping("in")
    builder.set_sink("out", sink).from_("bolt")
    run_local(builder.build(), RunOptions(clock=lambda: 1_800_000_000_000_000))
    return sink.rows


def written(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"id": "a1"}\nnot json\n{"id": "a2"}\n')
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(b'{"id": "b1"}\n'))
    for name in ("a.jsonl", "b.jsonl.gz"):
        os.utime(folder / name, ns=(0, CHANGED))
    return folder


def test_rows_say_which_file_they_are_from_and_when_that_was_changed(tmp_path: Path) -> None:
    folder = written(tmp_path / "in")
    found = rows_of(spouts.files(folder, "id string", format="jsonl", metadata=True), Files())
    assert found == [
        {"id": event, "path": path, "modified": MOMENT, "row": row}
        for event, path, row in (("a1", "a.jsonl", 0), ("a2", "a.jsonl", 2), ("b1", "b.jsonl.gz", 0))
    ]


def test_columns_that_files_declare_themselves_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["x"], "v": [1]}), path)
    os.utime(path, ns=(0, CHANGED))
    spout = spouts.files(path, metadata=["modified"])
    assert spout.outputs()["default"].names == ["id", "v", "file_modified"]
    taken = spouts.files(path, "file_path string", metadata=["path"])
    with pytest.raises(ConfigError, match="'file_path' is declared and also requested as metadata"):
        taken.outputs()
    with pytest.raises(ConfigError, match=r"metadata='size'.*file_path, file_modified"):
        spouts.files(path, metadata="size")


class Ids(WindowedBolt):
    outputs = "ids array<string>, ends long"

    def execute(self, window: Any) -> Any:
        return [event["id"] for event in window.get()], window.end_timestamp // 1000


def timed(folder: Path, *, by_arrival: bool = False) -> tuple[TopologyBuilder, MemorySink]:
    """Azure's policies by the time at which files were changed: b comes 11 s after its time, and is moved by 6."""
    folder.mkdir()
    for name, text, changed in (
        ("1.jsonl", '{"id": "a", "ts": 100000}\n', 104),
        ("2.jsonl", '{"id": "b", "ts": 109000}\n', 120),
        ("3.jsonl", '{"id": "c", "ts": 131000}\n', 132),
    ):
        (folder / name).write_text(text)
        os.utime(folder / name, (changed, changed))
    builder, sink = TopologyBuilder("blobs"), sinks.memory()
    builder.set_spout("in", spouts.files(folder, "id string, ts long", format="jsonl", metadata="modified"))
    bolt = Ids().with_time(presets.azure(late="5s", arrival_field="file_modified")).with_tumbling_window("5s")
    builder.set_bolt("bolt", bolt if by_arrival else bolt.with_timestamp_field("ts")).global_grouping("in")
    builder.set_sink("out", sink).from_("bolt")
    return builder, sink


MOVED = [{"ids": ["a"], "ends": 100_000}, {"ids": ["b"], "ends": 115_000}, {"ids": ["c"], "ends": 135_000}]


ARRIVED = [{"ids": ["a"], "ends": 105_000}, {"ids": ["b"], "ends": 120_000}, {"ids": ["c"], "ends": 135_000}]


@pytest.mark.feature("AZ-1", "AZ-8")
def test_files_arrive_when_they_were_changed(tmp_path: Path) -> None:
    builder, sink = timed(tmp_path / "in")
    run_local(builder.build(), RunOptions(clock=lambda: 200_000_000))
    assert sink.rows == MOVED


def test_a_column_that_was_not_asked_for_is_named(tmp_path: Path) -> None:
    builder = TopologyBuilder("blobs")
    builder.set_spout("in", spouts.files(tmp_path / "*.jsonl", "id string, ts long"))
    bolt = Ids().with_time(presets.azure(arrival_field="file_modified")).with_tumbling_window("5s")
    builder.set_bolt("bolt", bolt.with_timestamp_field("ts")).global_grouping("in")
    with pytest.raises(TopologyError, match="names 'file_modified'"):
        builder.build()


@pytest.mark.feature("AZ-1", "AZ-7")
def test_without_a_timestamp_the_time_of_change_is_the_time(tmp_path: Path) -> None:
    builder, sink = timed(tmp_path / "in", by_arrival=True)
    run_local(builder.build(), RunOptions(clock=lambda: 200_000_000))
    assert sink.rows == ARRIVED
