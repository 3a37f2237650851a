"""Where schemas and variables of a step are found: on the class path, which nothing leads out of, or in a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from topologies.step.compile_step import locate_file, read_variables, schema_of
from topologies.step.config import AvroSchemaPlace, PathText, Place
from topologies.step.rules import NamedRule, load_rule
from windowing.errors import ConfigError


def _rule(place: Place) -> object:
    return load_rule(NamedRule("key", "classpath", place.path.text, roots=[place.path.folder], allow_files=False))


def _schema(place: Place) -> object:
    return schema_of(AvroSchemaPlace(source="classpath", path=place.path))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the class path, and files around it; rules add theirs to Python's path, here for a test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "inside" / "deep").mkdir(parents=True)
    for at in ("outside", "inside/deep/own"):
        (tmp_path / f"{at}.json").write_text('{"a": 1}')
        (tmp_path / f"{at}.avsc").write_text('{"type": "record", "name": "A", "fields": []}')
        (tmp_path / f"{at}.py").write_text("def key(event): return 'k'")
    return tmp_path / "inside"


def _place(folder: Path, path: str, source: Any = "classpath") -> Place:
    return Place(source=source, path=PathText.of(path, folder))  # type: ignore[arg-type]


@pytest.mark.parametrize(("ending", "read"), [("json", read_variables), ("avsc", _schema), ("py", _rule)])
def test_rules_schemas_and_variables_lie_below_the_class_path(
    folder: Path, ending: str, read: Callable[[Place], object]
) -> None:
    (folder / f"far.{ending}").symlink_to(folder.parent / f"outside.{ending}")
    (folder / f"near.{ending}").symlink_to(folder / "deep" / f"own.{ending}")
    (folder / "up").symlink_to(folder.parent)
    for path in (f"deep/own.{ending}", f"/deep/own.{ending}", f"near.{ending}"):
        assert read(_place(folder, path))
    for path in (f"far.{ending}", f"up/outside.{ending}"):
        with pytest.raises(ConfigError, match=f"{path}' is a link that leads out of the classpath"):
            read(_place(folder, path))
    for path in (f"../outside.{ending}", f"/deep/../../outside.{ending}", f"deep\\..\\..\\outside.{ending}"):
        with pytest.raises(ConfigError, match="leads out of the classpath"):
            read(_place(folder, path))


def test_the_class_path_goes_on_with_pythons(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder / "deep")])
    assert locate_file(_place(folder.parent, "own.json")) == folder / "deep" / "own.json"
    with pytest.raises(ConfigError, match=r"'none.json' is not on the class path.*nor on Python's module path"):
        locate_file(_place(folder, "none.json"))


def test_a_file_may_be_anywhere(folder: Path) -> None:
    (folder / "far.json").symlink_to(folder.parent / "outside.json")
    for path in ("far.json", "../outside.json", str(folder.parent / "outside.json")):
        assert read_variables(_place(folder, path, "file")) == {"a": 1}
    with pytest.raises(ConfigError, match=r"'none.json' does not exist. it was looked up in"):
        locate_file(_place(folder, "none.json", "file"))
