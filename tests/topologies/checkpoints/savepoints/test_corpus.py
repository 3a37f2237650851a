"""Checkpoints that were kept: those of this format continue and give the rows of a run without interruption, others are
refused in clear words."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from manager.storage import sealed_files
from manager.storage.sealed_files import FORMAT
from tests.helpers.corpus import BEFORE, CORPUS, FILES, NAMES, PLACE, go_on, opened, rows_in, write_input
from tests.helpers.examples import sampled
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint, check_halves
from windowing.errors import CheckpointError

ENTRIES = sorted(CORPUS.glob("format-*/*.zip"))


def of_this_format(path: Path) -> bool:
    return path.parent.name == f"format-{FORMAT}"


def test_this_format_has_an_entry_of_each_kind() -> None:
    """If not: python -m tests.helpers.corpus."""
    assert {path.stem for path in ENTRIES if of_this_format(path)} == set(NAMES)


@pytest.mark.parametrize("path", sampled(filter(of_this_format, ENTRIES), 4, lambda path: path.stem))
def test_a_run_goes_on(path: Path, tmp_path: Path) -> None:
    wanted = opened(path, tmp_path)
    before = rows_in(tmp_path)
    write_input(path.stem, tmp_path, range(FILES))
    go_on(path.stem, tmp_path, keep_open=False)
    assert rows_in(tmp_path) == wanted
    assert len(before) < len(wanted), "something was left to do"


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_another_format_is_refused(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if of_this_format(path):
        monkeypatch.setattr(sealed_files, "FORMAT", FORMAT + 1)
    with zipfile.ZipFile(path) as entry:
        entry.extractall(tmp_path)
    with pytest.raises(CheckpointError, match="has another format") as refused:
        check_halves(PairedCheckpoint(str(tmp_path / "ck")))
    assert "continue with the version of windbolt that wrote it" in refused.value.do


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_an_entry_names_no_place_but_its_own(path: Path) -> None:
    with zipfile.ZipFile(path) as entry:
        for name in entry.namelist():
            if name.startswith("ck/spark/sources/") and not name.endswith(".crc"):
                text = entry.read(name).decode()
                assert text.count("file://") == text.count(f"file://{PLACE}/")
    assert path.stat().st_size < 60_000, "an entry is small"
    assert BEFORE < FILES
