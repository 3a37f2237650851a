"""The tutorial is walked to its end, which is on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.places import ROOT
from tests.helpers.walking import Walk, walk


@pytest.mark.extended
@pytest.mark.spark
def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    assert walk(text, tmp_path) == Walk(files=6, commands=16)
