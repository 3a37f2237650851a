"""The chapter on notebooks: its examples run, in order, and say what comes out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.places import ROOT
from windbolt import Run, RunPhase, RunStatus

CHAPTER = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", CHAPTER, re.M | re.S)


def test_the_examples_run_and_print_what_stands_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(EXAMPLES) == CHAPTER.count("```") // 2 == 6
    everything: dict[str, object] = {}
    for example in EXAMPLES:
        exec(example, everything)
    said = capsys.readouterr().out.splitlines()
    assert re.fullmatch("<Run of 'revenue': (starting|running), [0-2] batch.*>", said[0])
    assert said[1].startswith("running 20")
    assert said[2] == "2 4 3 0"
    assert said[3:] == [
        "2024-01-01 06:00:36+00:00",
        "2024-01-01 06:00:36+00:00",
        "True 4",
        "[3.5, 1.0, 2.0, 4.0]",
    ]
    for line in (said[3], *said[5:]):
        assert f"# {line}" in CHAPTER


def test_the_chapter_names_all_that_there_is() -> None:
    public = [name for name in vars(Run) if not name.startswith("_")]
    inner = {"failure", "end_within", "ask_to_stop", "error_was_told", "name"}
    assert [name for name in public if name not in inner and name not in CHAPTER] == []
    assert [name for name in RunStatus.__dataclass_fields__ if name != "error" and f".{name}" not in CHAPTER] == []
    assert [phase for phase in RunPhase if phase not in CHAPTER] == []


def test_the_way_to_the_chapter_is_shown() -> None:
    for page in ("docs/guide.md", "docs/decisions/README.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert "notebooks.md" in text or "0049-runs-in-the-background.md" in text
