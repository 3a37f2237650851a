"""Whether sinks can write is found out without a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from topologies.checkpoints.preflight import inspect_sinks, make_sink_folders
from topologies.topology import Topology
from windbolt import StorageError, TopologyBuilder, sinks, spouts


def topology(sink: Any) -> Topology:
    builder = TopologyBuilder("writes")
    builder.set_spout("events", spouts.memory("n long"))
    builder.set_sink("out", sink).from_("events")
    return builder.build()


def test_a_folder_that_is_there_and_one_that_can_be_made(tmp_path: Path) -> None:
    there = inspect_sinks(topology(sinks.files(tmp_path)))["out"]
    assert there.facts == (("folder", "is there, and can be written to"),)
    to_be = inspect_sinks(topology(sinks.files(tmp_path / "a" / "b")))["out"]
    assert to_be.facts == (("folder", "is not there yet, and can be made"),)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["file/out", "file/in/out"])
def test_one_that_cannot_be_made(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    (problem,) = inspect_sinks(topology(sinks.files(tmp_path / place)))["out"].problems
    assert str(problem).startswith(f"sink 'out': {tmp_path / place} cannot be made")
    with pytest.raises(StorageError, match="cannot be made"):
        make_sink_folders(topology(sinks.files(tmp_path / place)))


def test_one_that_cannot_be_written_to() -> None:
    (problem,) = inspect_sinks(topology(sinks.files("/proc/out")))["out"].problems
    assert "sink 'out': /proc cannot be written to" in str(problem)
    with pytest.raises(StorageError, match="sink 'out': /proc cannot be written to"):
        make_sink_folders(topology(sinks.files("/proc")))


def test_folders_are_made_for_a_run(tmp_path: Path) -> None:
    make_sink_folders(topology(sinks.files(tmp_path / "a" / "b")))
    assert (tmp_path / "a" / "b").is_dir()
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize("sink", [sinks.console(), sinks.memory(), sinks.files("s3a://bucket/out"), sinks.discard()])
def test_other_sinks_have_no_local_folder(sink: Any) -> None:
    assert inspect_sinks(topology(sink))["out"].facts == ()
    make_sink_folders(topology(sink))
