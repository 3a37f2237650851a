"""A name means one thing: no two types of the house share one, nor two files, nor two functions that other files may
import, except for those that are listed with their reason."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.helpers.places import ROOT

CAPITALIZED = re.compile("[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")
"""How types are named; constants are written in capitals, and what is private begins with an underscore."""

PACKAGES = ("windbolt", "windowing", "policies", "manager", "topologies")

SHARED = {
    "Count": "the aggregate prints itself by the name of its class, as the `count()` that a user wrote; the number of "
    "events is `windbolt.Count`, which users know",
}
"""Names that two classes share, and why."""


SHARED_FUNCTIONS = {
    "files kafka memory": "users write `spouts.files` and `sinks.files`",
    "imports key panes expired": "the check of a setting, or its words, go by the name of the setting",
    "replay why": "the command, and the call that does the same in Python",
    "as_mermaid summary to_json": "of a topology and of a step; of a run in its two places",
    "main": "how a process begins",
    "plain": "to plain JSON values, of one format each",
    "as_given call columns_of flag in_words joined key_of listed load messages_of moment_of one_of readable runs "
    "schema_of source_of text_of time_text typed unreachable": "older than this list; each of two subjects",
}
"""Names that two functions share, and why. New ones take a name of their own."""


SHARED_FILES = {
    "panes presets sinks spouts state triggers": "of the front door `windbolt/`, and what it re-exports",
    "checkpoint replay rescale savepoint state why": "of the command, and of what it calls",
    "messages": "of each format",
}
"""Names that two files share, and why; examples and projects to be copied have names of their users."""


def test_every_file_has_a_name_of_its_own() -> None:
    stems = ((Path(file).stem, file) for _, file in in_house(lambda _: iter([""])))
    known = {name for names in SHARED_FILES for name in names.split()}
    found = shared((stem, file) for stem, file in stems if stem != "__init__")
    assert {stem: files for stem, files in found.items() if stem not in known} == {}
    assert known <= set(found), "each has a name of its own by now: off the list"


def test_every_type_has_a_name_of_its_own() -> None:
    assert {name: files for name, files in shared(types_of_the_house()).items() if name not in SHARED} == {}


def test_what_may_share_a_name_does() -> None:
    assert set(SHARED) <= set(shared(types_of_the_house()))


def test_every_function_has_a_name_of_its_own() -> None:
    known = {name for names in SHARED_FUNCTIONS for name in names.split()}
    found = shared(in_house(functions))
    assert {name: files for name, files in found.items() if name not in known} == {}
    assert known <= set(found), "each has a name of its own by now: off the list"


def test_a_function_that_is_named_as_another_is_found() -> None:
    sources = {
        "one.py": "def read(): ...",
        "two.py": "@checked\ndef read(): ...",
        "three.py": "@overload\ndef read(a): ...\n@typing.overload\ndef read(b): ...",
        "five.py": "class A:\n    def read(self): ...",
        "four.py": "def _read(): ...\ndef other():\n    def read(): ...",
    }
    found = shared((name, file) for file, source in sources.items() for name in functions(source))
    assert found == {"read": ["one.py", "two.py"]}


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
    return in_house(defined)


def functions(source: str) -> Iterator[str]:
    """The functions at the top of a file that other files may import."""
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name=name, decorator_list=decorators) if not name.startswith("_"):
                yield from [] if any("overload" in ast.unparse(decorator) for decorator in decorators) else [name]


def in_house(named: Callable[[str], Iterator[str]]) -> Iterator[tuple[str, str]]:
    """What is named in each file of the house, with the file; ``named`` gives the names of a source."""
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if "examples" not in path.parts and "project" not in path.parts:
            yield from ((name, str(path.relative_to(ROOT))) for name in named(path.read_text(encoding="utf-8")))


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
