"""How files become micro-batches, and splits of them: by bytes, by number, and together where they are very many."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from topologies.engine.source_splits import FileGroup, file_splits
from topologies.io.sinks import MemorySink
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import Bolt
from windowing.errors import ConfigError

SCHEMA = "line string"
LINE = b'{"line": "0123456"}\n'


class Same(Bolt):
    outputs = "line string"

    def execute(self, tuple_: Any) -> Any:
        yield (tuple_["line"],)


def lines(folder: Path, counts: list[int]) -> Path:
    """A file for each count, of so many lines of 20 bytes."""
    folder.mkdir()
    for number, count in enumerate(counts):
        path = folder / f"{number:05d}.jsonl"
        path.write_bytes(LINE * count)
        os.utime(path, (1_000_000_000 + number,) * 2)
    return folder


def passing(folder: Path, **limits: Any) -> tuple[Topology, MemorySink]:
    builder, sink = TopologyBuilder("passing"), sinks.memory()
    builder.set_spout("lines", spouts.files(folder / "*.jsonl", SCHEMA, **limits))
    builder.set_bolt("same", Same()).shuffle_grouping("lines")
    builder.set_sink("out", sink).from_("same")
    return builder.build(), sink


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, [16]),
        ({"bytes_per_batch": 100}, [5, 7, 4]),
        ({"bytes_per_batch": 1}, [1, 4, 7, 1, 2, 1]),
        ({"files_per_batch": 4}, [13, 3]),
    ],
)
def test_a_batch_takes_so_many_bytes_or_files_and_one_file_at_least(
    limits: dict[str, int], expected: list[int], tmp_path: Path
) -> None:
    topology, sink = passing(lines(tmp_path / "in", [1, 4, 7, 1, 2, 1]), **limits)
    rows: list[int] = []
    run_local(topology, RunOptions(on_report=lambda report: rows.append(report.rows)))
    assert rows[: len(expected)] == expected
    assert sum(rows) == len(sink.rows) == 16


def test_very_many_files_share_pieces_in_order(tmp_path: Path) -> None:
    topology, sink = passing(lines(tmp_path / "in", [1] * 2100))
    found = [("lines", path) for path in topology.spouts["lines"].spout.files()]  # type: ignore[union-attr]
    splits = file_splits(topology, found, 2)
    assert len(splits) == 700
    assert all(isinstance(split, FileGroup) for split in splits)
    paths = [each.split.path for split in splits if isinstance(split, FileGroup) for each in split.files]
    assert paths == [path for _, path in found]
    assert run_local(topology).batches == 2  # with the closing
    assert len(sink.rows) == 2100


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="only one of them"):
        spouts.files("in/*.csv", files_per_batch=1, bytes_per_batch=1)
    with pytest.raises(ConfigError, match="bytes_per_batch=0"):
        spouts.files("in/*.csv", bytes_per_batch=0)
