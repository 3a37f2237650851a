"""Files that the documents name are there."""

from __future__ import annotations

import functools
import re
import runpy
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from tests.helpers.places import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "tests" / "README.md", *(ROOT / "docs").rglob("*.md")])
TOPS = ("windbolt", "windowing", "policies", "manager", "topologies", "servers", "tests", "benchmarks", "docs")
SHORT = ("engine", "io", "graph")
"""Folders of topologies that pages about it name without saying so."""
NAMED = re.compile(rf"`((?:{'|'.join((*TOPS, *SHORT))})/[\w/.-]*)`")
OF_THE_HOUSE = [
    page
    for page in PAGES
    if page.parent.name == "decisions"
    or page.name in {"how-it-works.md", "source-map.md", "glossary.md"}
    or page.parent.name == "tests"
]
"""Pages on which each file is one of the house; others name files of users too."""
FILE_OR_FOLDER = re.compile(r"`([\w/.-]+\.py|(?:[\w.-]+/)+[\w.-]*)`")


LINK = re.compile(r"\]\(([^()\s:#]+)(?:#[\w-]+)?\)")
"""A link to a file; code is taken out before."""


def test_files_that_pages_name_are_there() -> None:
    problems = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in PAGES
        for path in sorted(set(NAMED.findall(page.read_text(encoding="utf-8"))))
        if found_in_house(path) is None
    ]
    assert not problems, "\n".join(problems)


def test_files_that_pages_name_by_their_last_part_are_there() -> None:
    problems = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in OF_THE_HOUSE
        for name in missing(page.read_text(encoding="utf-8"), page.parent)
    ]
    assert not problems, "\n".join(problems)


def test_every_page_is_in_a_table_of_pages() -> None:
    """The site has its order of pages from these tables, and is not built with a page that is in none."""
    site = runpy.run_path(str(ROOT / "docs" / "site" / "conf.py"))
    ordered = [table for name in site["TABLES_OF_PAGES"] for table in site["ordered_pages"](name)]
    listed = {ROOT / page.removeprefix("/") for _, pages in ordered for page in pages}
    missing = [str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md") if page not in listed]
    assert not missing, f"in no table of docs/guide.md or docs/decisions/README.md: {missing}"


def test_links_of_pages_lead_to_files() -> None:
    problems = []
    for page in [*PAGES, ROOT / "CHANGELOG.md"]:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
        broken = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
        problems += [f"{page.relative_to(ROOT)}: {link}" for link in broken]
    assert not problems, "\n".join(problems)


def missing(text: str, home: Path) -> Iterator[str]:
    """Names of Python files like ``ledger.py`` that are neither in ``home``, the folder of the page, nor in one named
    before them in the same cell or line; nor, where none is named before them, the only ones of their name in the
    house."""
    for line in text.splitlines():
        for cell in line.split("|"):
            folders = [home]
            for name in named_in(cell):
                place = found_in_house(name)
                beside = [folder / name for folder in folders if (folder / name).is_file()]
                if place is None and name.endswith(".py"):
                    place = beside[-1] if beside else None if len(folders) > 1 else _only(name)
                    if place is None:
                        yield name
                if place is not None:
                    folders.append(place if place.is_dir() else place.parent)


def named_in(text: str) -> list[str]:
    """The files and folders that a text names, in order."""
    return FILE_OR_FOLDER.findall(text)


def found_in_house(path: str) -> Path | None:
    """The file or folder of this path, within the project or within ``topologies/``; None where there is none."""
    for base in (ROOT, ROOT / "topologies"):
        place = base / path
        module = place.parent / f"{place.name}.py"
        if place.exists():
            return place
        if module.exists() or (place.parent / place.stem).with_suffix(".py").exists():
            return module if module.exists() else (place.parent / place.stem).with_suffix(".py")
    return None


def _only(name: str) -> Path | None:
    """Returns the only file of the house whose path ends so."""
    ends = PurePosixPath(name).parts
    files = [file for file in _python_files_by_name().get(ends[-1], []) if file.parts[-len(ends) :] == ends]
    return files[0] if len(files) == 1 else None


@functools.cache
def _python_files_by_name() -> dict[str, list[Path]]:
    found = defaultdict(list)
    for top in TOPS:
        for file in (ROOT / top).rglob("*.py"):
            found[file.name].append(file)
    return found


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("`topologies/engine/ticking.py`, `ledger.py` there", []),
        ("`topologies/engine/ticking.py`, `timing.py` there", ["timing.py"]),
        ("`topologies/engine/ticking.py`: `ledger.py`", []),
        ("| `topologies/engine/ticking.py` | `messages.py` |", ["messages.py"]),
        ("the pool (`pool.py`)", []),
        ("`topologies/engine/ticking.py`, the pool `pool.py`", ["pool.py"]),
        ("`messages/avro.py`", []),
        ("`formats/avro.py`", ["formats/avro.py"]),
    ],
)
def test_a_file_is_looked_for_beside_those_named_before_it(text: str, names: list[str]) -> None:
    assert list(missing(text, ROOT / "docs")) == names
