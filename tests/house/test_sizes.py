"""Files, functions and folders are small enough to be read at once; what is larger is named here, with its reason."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

LINES, BODY, FILES_IN_A_FOLDER = 350, 50, 16
"""Maximum number of lines of a file; of statements' lines in a function, without signature and docstring; of files."""
LARGE_FILES = {
    "windowing/settings/window_settings.py": "each setting once, with its words",
    "windowing/bolts/windowed_bolt.py": "the methods by which users set windows and time, with their documentation",
    "topologies/compose/effects.py": "a table of what each setting needs",
    "topologies/testing/driver.py": "one class whose methods users call, with their documentation",
    "manager/storage/checkpoint.py": "the checkpoint in files, and what it deletes",
}
LARGE_FOLDERS = {"windowing/aggregates": "a file for each aggregate"}
SOURCES = [
    path.relative_to(ROOT)
    for top in ("windowing", "policies", "manager", "topologies", "windbolt")
    for path in sorted((ROOT / top).rglob("*.py"))
]


def test_files_are_small_but_for_those_named() -> None:
    assert {str(path) for path in SOURCES if lines_of(path) > LINES} <= set(LARGE_FILES)


@pytest.mark.parametrize("path", LARGE_FILES)
def test_files_that_are_named_are_large(path: str) -> None:
    assert lines_of(Path(path)) > 0.9 * LINES


def lines_of(path: Path) -> int:
    return len((ROOT / path).read_text("utf-8").splitlines())


def test_folders_have_few_files_but_for_those_named() -> None:
    files = Counter(str(path.parent) for path in SOURCES if path.name != "__init__.py")
    assert {folder for folder, number in files.items() if number > FILES_IN_A_FOLDER} == set(LARGE_FOLDERS)


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_functions_are_short(path: Path) -> None:
    assert [name for name, lines in bodies((ROOT / path).read_text("utf-8")) if lines > BODY] == []


def test_signature_and_docstring_do_not_count() -> None:
    source = 'def f(\n    a,\n    b,\n):\n    """What.\n\n    More.\n    """\n    a = b\n    return a\n'
    assert list(bodies(source)) == [("f", 2)]


def bodies(source: str) -> Iterator[tuple[str, int]]:
    """Each function of a file, with the number of lines of its statements."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[1 if ast.get_docstring(node) is not None and len(node.body) > 1 else 0]
            yield node.name, (node.end_lineno or first.lineno) - first.lineno + 1
