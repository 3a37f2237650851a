"""Checkpoints that cannot be: of no name, and on file systems that are not reached."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.helpers.damage import topology, write_input
from tests.helpers.examples import sampled
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.cli.app import app
from windbolt import RunOptions, run_local
from windowing.errors import CheckpointError, ConfigError

UNREACHED = {
    "s3:///ck": "Missing bucket name",
    "s3://bucket/ck?endpoint_override=localhost:1&scheme=http&region=us-east-1": "NETWORK_CONNECTION",
}


@pytest.mark.parametrize("name", ["", "  "])
def test_a_checkpoint_of_no_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a folder's name. .*, such as ck/\."):
        RunOptions(checkpoint=name)
    with pytest.raises(ConfigError, match="is not a folder's name"):
        PairedCheckpoint(name)


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_nothing_is_written_for_a_checkpoint_of_no_name(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["run", "not_looked_for.py:topology", "--engine", engine, "--checkpoint", ""])
    assert result.exit_code == 2, result.output
    assert "the checkpoint '' is not a folder's name" in result.output
    assert not list(tmp_path.iterdir())


def test_the_root_is_not_the_folder_of_the_process() -> None:
    assert PairedCheckpoint("/").root == "/"


@pytest.mark.parametrize("place", sampled(UNREACHED, 2))
def test_a_checkpoint_that_cannot_be_reached_is_refused_in_words(place: str, tmp_path: Path) -> None:
    write_input(tmp_path / "in")
    with pytest.raises(CheckpointError, match="cannot be reached") as refused:
        run_local(topology(tmp_path / "in", tmp_path / "out"), RunOptions(place))
    assert UNREACHED[place] in refused.value.why
    assert "\n" not in refused.value.why
    assert "credentials" in refused.value.do
    assert not (tmp_path / "out").exists()


def test_a_scheme_that_nobody_knows_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    write_input(tmp_path / "in")
    with pytest.raises(ConfigError, match="nosuch://bucket/ck cannot be reached") as refused:
        run_local(topology(tmp_path / "in", tmp_path / "out"), RunOptions("nosuch://bucket/ck"))
    assert refused.value.why == "windbolt does not know nosuch://"
    assert "s3://" in refused.value.do
    assert not (tmp_path / "out").exists()
