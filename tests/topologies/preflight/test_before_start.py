"""What can be told before Spark starts is told then."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from topologies.checkpoints.preflight import refuse_before_start
from topologies.topology import Topology
from windbolt import (
    CheckpointError,
    ConfigError,
    RunOptions,
    StorageError,
    TopologyBuilder,
    WindowedBolt,
    run_local,
    run_on_spark,
    sinks,
    spouts,
)


class Size(WindowedBolt):
    outputs = "n long"

    def execute(self, window):
        return (len(window),)


def topology(length: str = "10s", sink: Any = None) -> Topology:
    builder = TopologyBuilder("early")
    builder.set_spout("events", spouts.memory("ts timestamp", [(datetime(2024, 1, 1, 6, tzinfo=UTC),)]))
    builder.set_bolt("size", Size().with_tumbling_window(length).with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("out", sink or sinks.memory()).from_("size")
    return builder.build()


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*arguments: Any, **options: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("topologies.spark.classic_session.open_session", started)


@pytest.mark.usefixtures("no_spark")
def test_a_changed_topology_is_told_before_spark_starts(tmp_path: Path) -> None:
    options = RunOptions(checkpoint=str(tmp_path / "ck"))
    run_local(topology(), options)
    with pytest.raises(CheckpointError, match="window length was '10s', and is '20s'"):
        run_on_spark(topology("20s"), options)


@pytest.mark.usefixtures("no_spark")
def test_so_is_another_first_output(tmp_path: Path) -> None:
    run_local(topology(), RunOptions(checkpoint=str(tmp_path / "ck")))
    later = RunOptions(checkpoint=str(tmp_path / "ck"), first_output="2024-01-02T00:00:00Z")
    with pytest.raises(CheckpointError, match="cannot have its first output at 2024-01-02T00:00:00Z"):
        run_on_spark(topology(), later)


@pytest.mark.usefixtures("no_spark")
def test_so_is_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    sink = sinks.files(tmp_path / "file" / "out")
    with pytest.raises(StorageError, match=r"the start of the run failed: sink 'out': .*/file/out cannot be made"):
        run_on_spark(topology(sink=sink), RunOptions(checkpoint=str(tmp_path / "ck")))
    assert not (tmp_path / "ck").exists()


def test_what_fits_passes_and_nothing_is_written(tmp_path: Path) -> None:
    options = RunOptions(checkpoint=str(tmp_path / "ck"))
    refuse_before_start(topology(), options)
    assert not (tmp_path / "ck").exists()
    run_local(topology(), options)
    refuse_before_start(topology(), options)


def lines_of(paths: Any) -> Topology:
    builder = TopologyBuilder("lines")
    builder.set_spout("lines", spouts.files(paths, format="text"))
    builder.set_sink("out", sinks.memory()).from_("lines")
    return builder.build()


@pytest.mark.parametrize("read", ["**", "**/*.json", "*/*", "{a,ck/**}/*"])
def test_a_checkpoint_among_the_input_is_refused(read: str, tmp_path: Path) -> None:
    """Each batch would write files that the next one reads."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "0.json").write_text("{}\n")
    (tmp_path / "link").symlink_to(tmp_path)
    options = RunOptions(checkpoint=str(tmp_path / "ck"))
    for start in (run_local, refuse_before_start):
        for folder in (tmp_path, tmp_path / "link"):
            with pytest.raises(ConfigError, match="spout 'lines' would read the checkpoint of the run"):
                start(lines_of(folder / read), options)
    assert not (tmp_path / "ck").exists()


@pytest.mark.parametrize("read", ["*/*.json", "a", "ck/*.json", "[!c]*/**"])
def test_a_checkpoint_beside_the_input_is_not(read: str, tmp_path: Path) -> None:
    for folder in ("a", "ck"):
        (tmp_path / folder).mkdir()
    (tmp_path / "a" / "0.json").write_text("{}\n")
    refuse_before_start(lines_of(tmp_path / read), RunOptions(checkpoint=str(tmp_path / "ck")))
