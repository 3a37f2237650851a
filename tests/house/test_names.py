"""A name means one thing: no two classes, aliases of types or type variables of the house share one."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.helpers.places import ROOT

CAPITALIZED = re.compile("[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")
"""How types are named; constants are written in capitals, and what is private begins with an underscore."""

PACKAGES = ("windbolt", "windowing", "policies", "manager", "topologies")

SHARED = {
    "Count": "the aggregate prints itself by the name of its class, as the `count()` that a user wrote; the number of "
    "events is `windbolt.Count`, which users know",
}
"""Names that two classes share, and why."""


def test_every_type_has_a_name_of_its_own() -> None:
    assert {name: files for name, files in shared(types_of_the_house()).items() if name not in SHARED} == {}


def test_what_may_share_a_name_does() -> None:
    assert set(SHARED) <= set(shared(types_of_the_house()))


def test_a_name_that_is_given_twice_is_found() -> None:
    sources = {
        "one.py": "class Row: ...",
        "two.py": "Row: TypeAlias = int",
        "three.py": "Row = dict[str, int]",
        "four.py": 'Row = TypeVar("Row")',
        "five.py": "if TYPE_CHECKING:\n    Row = int | None",
        "six.py": "class Column: ...\n_Row = int\nROW = 1\nrow = 2\ndef f():\n    Row = int",
    }
    found = shared((name, file) for file, source in sources.items() for name in defined(source))
    assert found == {"Row": ["one.py", "two.py", "three.py", "four.py", "five.py"]}


def types_of_the_house() -> Iterator[tuple[str, str]]:
    """The names of types at the top of a file, each with the file."""
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if "examples" not in path.parts and "project" not in path.parts:
            yield from ((name, str(path.relative_to(ROOT))) for name in defined(path.read_text(encoding="utf-8")))


def defined(source: str) -> Iterator[str]:
    """The classes, aliases of types and type variables at the top of a file that other files may import."""
    yield from (name for name in _assigned(ast.parse(source).body) if CAPITALIZED.fullmatch(name))


def _assigned(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=inner):
                yield from _assigned(inner)


def shared(found: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that are given more than once, with where."""
    files = defaultdict(list)
    for name, file in found:
        files[name].append(file)
    return {name: where for name, where in files.items() if len(where) > 1}
