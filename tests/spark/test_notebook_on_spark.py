"""The notebook of the documentation, on a session of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.notebooks import check_documented, executed, read_notebook


@pytest.mark.extended
def test_the_notebook_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_documented(executed(read_notebook(), tmp_path, monkeypatch))
