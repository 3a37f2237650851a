"""Files that the documents name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "tests" / "README.md", *(ROOT / "docs").rglob("*.md")])
TOPS = ("windbolt", "windowing", "policies", "manager", "topologies", "tests", "benchmarks", "docs")
SHORT = ("engine", "io", "sources", "graph", "compose")
"""Folders of topologies that pages about it name without saying so."""
NAMED = re.compile(rf"`((?:{'|'.join((*TOPS, *SHORT))})/[\w/.-]*)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    named = set(NAMED.findall(page.read_text(encoding="utf-8")))
    assert sorted(path for path in named if not (_there(ROOT / path) or _there(ROOT / "topologies" / path))) == []


def _there(path: Path) -> bool:
    return path.exists() or path.with_suffix(".py").exists() or (path.parent / path.stem).with_suffix(".py").exists()
