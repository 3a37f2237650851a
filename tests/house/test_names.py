"""A name means one thing: no two classes of the house share one."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from tests.helpers.places import ROOT

PACKAGES = ("windbolt", "windowing", "policies", "manager", "topologies")

SHARED = {
    "Count": "the aggregate prints itself by the name of its class, as the `count()` that a user wrote; the number of "
    "events is `windbolt.Count`, which users know",
}
"""Names that two classes share, and why."""


def test_every_class_has_a_name_of_its_own() -> None:
    assert {name: files for name, files in shared(classes_of_the_house()).items() if name not in SHARED} == {}


def test_what_may_share_a_name_does() -> None:
    assert set(SHARED) <= set(shared(classes_of_the_house()))


def test_a_name_that_is_given_twice_is_found() -> None:
    sources = {"one.py": "class Row: ...", "other.py": "Row: TypeAlias = int", "third.py": "class Column: ..."}
    assert shared((name, file) for file, source in sources.items() for name in defined(source)) == {
        "Row": ["one.py", "other.py"]
    }


def classes_of_the_house() -> Iterator[tuple[str, str]]:
    """The names of classes and aliases of types at the top of a file, each with the file."""
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if "examples" not in path.parts and "project" not in path.parts:
            yield from ((name, str(path.relative_to(ROOT))) for name in defined(path.read_text(encoding="utf-8")))


def defined(source: str) -> Iterator[str]:
    """The classes and aliases of types at the top of a file that other files may import."""
    for node in ast.parse(source).body:
        match node:
            case (
                ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias"))
            ) if not name.startswith("_"):
                yield name


def shared(found: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that are given more than once, with where."""
    files = defaultdict(list)
    for name, file in found:
        files[name].append(file)
    return {name: where for name, where in files.items() if len(where) > 1}
