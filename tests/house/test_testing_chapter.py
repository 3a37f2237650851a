"""The pages on testing: their files are one project whose tests pass, as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import windbolt.testing
from tests.helpers.places import ROOT
from windbolt.testing import BoltRun, TopologyDriver

CHAPTER = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("test-a-topology.md", "testing.md"))
FILES = dict(re.findall(r"^`([\w/]+\.\w+)`:\n\n```\w+\n(.*?)^```$", CHAPTER, re.M | re.S))


def test_every_example_is_a_file_of_the_project() -> None:
    assert len(FILES) == CHAPTER.count("```") // 2 > 7


def test_the_project_of_the_chapter_passes_its_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    installed = any(entry.value == "topologies.testing.pytest_plugin" for entry in entry_points(group="pytest11"))
    load = [] if installed else ["-p", "topologies.testing.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), *load]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    written = sum(len(re.findall(r"^def test_", text, re.M)) for text in FILES.values())
    parametrized = len(windbolt.testing.PHASES) - 1
    scenarios = sum(name.startswith("scenarios/") for name in FILES)
    assert f"{written + parametrized + scenarios} passed" in done.stdout
    assert not (tmp_path / "orders").exists()
    assert not (tmp_path / "revenue").exists()


def test_the_chapter_names_all_that_there_is() -> None:
    public = [name for name in vars(TopologyDriver) if not name.startswith("_") and name != "story"]
    assert [name for name in public if f"`{name}" not in CHAPTER] == []
    assert [
        name for name in windbolt.testing.__all__ if name not in CHAPTER and name not in ("BoltRun", "FiredWindow")
    ] == []
    assert [phase for phase in windbolt.testing.PHASES if f'`"{phase}"`' not in CHAPTER] == []
    assert [name for name in BoltRun.__dataclass_fields__ if f"run.{name}" not in CHAPTER] == []


def test_the_way_to_the_chapter_is_shown() -> None:
    for page in ("docs/guide.md", "docs/scenarios.md"):
        assert "testing.md" in (ROOT / page).read_text(encoding="utf-8")
