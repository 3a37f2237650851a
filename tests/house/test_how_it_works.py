"""What docs/how-it-works.md says of the house can be counted and found there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.helpers.places import ROOT, TESTS
from tests.house.test_layers import ORDER
from tests.house.test_paths_in_docs import found_in_house, named_in
from topologies.compose.builder import TopologyBuilder
from topologies.engine.phases import PHASES
from topologies.io import sinks, spouts
from topologies.local import run_local
from topologies.run.options import RunOptions
from windowing.aggregates import count
from windowing.bolts.ready.aggregate_bolt import AggregateBolt

PAGE = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
TYPE = re.compile(r"\*\*(\w+)\*\*")
"""A type in bold; an s of the plural stands behind it."""
WORKER = re.compile(r"`(\w+)(?:\.(\w+))?`(?: and `(\w+)`)? \(`([\w/]+\.py)`\)")
"""A class or function, maybe a method of it or another class, with the file that defines it."""


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


_WAY = section("One event, from a file to a file").partition("Who does this, by hop")
HOPS, WORKERS = ([line for line in part.splitlines() if re.match(r"\| \d+ \|", line)] for part in (_WAY[0], _WAY[2]))


def test_the_table_of_topologies_has_the_order_of_the_layers() -> None:
    table = section("The house").partition("\nWithin `topologies/`, from the bottom up:\n\n")[2].partition("\n\n")[0]
    rooms = re.findall(r"^\| `([\w/.]+)` \|", table, re.MULTILINE)
    assert [room.rstrip("/").removesuffix(".py").replace("/", ".") for room in rooms] == ORDER["topologies"].split()


@pytest.mark.parametrize("hop", HOPS, ids=lambda hop: hop.split("|")[1].strip())
def test_the_types_of_a_hop_are_defined_in_the_files_that_it_names(hop: str) -> None:
    files = [file for path in named_in(hop) for file in python_files(found_in_house(path))]
    code = "\n".join(file.read_text(encoding="utf-8") for file in files)
    assert [name for name in TYPE.findall(hop) if not re.search(rf"^class {name}\b", code, re.MULTILINE)] == []


@pytest.mark.parametrize("row", WORKERS, ids=lambda row: row.split("|")[1].strip())
def test_those_who_do_the_work_of_a_hop_are_in_their_files(row: str) -> None:
    named = WORKER.findall(row)
    assert named
    for name, method, other, path in named:
        (file,) = python_files(found_in_house(path))
        code = file.read_text(encoding="utf-8")
        assert re.search(rf"^(class|def) {name}\b", code, re.MULTILINE), name
        assert not other or re.search(rf"^class {other}\b", code, re.MULTILINE), other
        assert not method or re.search(rf"^    def {method}\b", code, re.MULTILINE), method


def test_the_types_of_the_way_are_counted_each_once() -> None:
    names = [name for hop in HOPS for name in TYPE.findall(hop)]
    assert len(set(names)) == len(names)
    assert len(HOPS) <= 12
    assert len(names) <= 15
    said = re.search(r"enough: (\d+) hops and (\d+) types", PAGE)
    assert said is not None
    assert list(map(int, said.groups())) == [len(HOPS), len(names)]


def test_hops_are_numbered_in_order() -> None:
    assert [int(hop.split("|")[1]) for hop in HOPS] == list(range(1, len(HOPS) + 1))


def test_each_phase_has_its_files() -> None:
    rows = re.findall(r"^\| (\w+) \| `", section("The micro-batch"), re.MULTILINE)
    assert rows == [phase for phase in PHASES if phase != "committed"]


def test_what_lies_in_a_checkpoint_is_on_the_page(tmp_path: Path) -> None:
    builder = TopologyBuilder("counts")
    builder.set_spout("in", spouts.memory("v long, ts timestamp", [(1, 0)], [(2, 20_000_000)]))
    counts = AggregateBolt(events=count()).with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("counts", counts).global_grouping("in")
    builder.set_sink("out", sinks.files(tmp_path / "out", "jsonl")).from_("counts")
    run_local(builder.build(), RunOptions(str(tmp_path / "ck")))
    shown = set(re.findall(r"^    +([\w.-]+)", section("The checkpoint"), re.MULTILINE))
    there = {path.name for folder in ("ck", "ck/windbolt") for path in (tmp_path / folder).iterdir()}
    assert there - shown == set()


def test_files_that_lie_loose_are_as_many_as_the_table_says() -> None:
    loose = [len(modules(folder)) for folder in (ROOT / "topologies", ROOT / "manager", TESTS)]
    assert numbers_of("files that lie loose") == loose


def test_folders_are_no_larger_than_the_table_says() -> None:
    most = [largest(ROOT / "topologies" / folder) for folder in ("engine", "io/messages", "spark")]
    assert within(most, numbers_of("files of the engine"))
    house = max(largest(ROOT / package) for package in ("windowing", "policies", "manager", "topologies"))
    assert within([house], numbers_of("files in the largest folder"))


def test_the_classes_of_the_way_are_no_longer_than_the_table_says() -> None:
    row = row_of("lines of a class")
    lines = {
        node.name: (node.end_lineno or 0) - node.lineno + 1
        for file in (ROOT / "topologies" / "engine").rglob("*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    (most,), names = numbers_of("lines of a class"), re.findall(r"`(\w+)`", row.split("|")[3])
    assert {name: lines[name] for name in names if lines[name] > most} == {}


def test_a_test_keeps_an_order_within_as_many_folders_as_the_table_says() -> None:
    assert numbers_of("folders within which") == [len(ORDER)]


def row_of(start: str) -> str:
    (row,) = (line for line in section("The house, before and after").splitlines() if line.startswith(f"| {start}"))
    return row


def numbers_of(start: str) -> list[int]:
    """The numbers in the last column of a row."""
    return [int(number) for number in re.findall(r"\d+", row_of(start).split("|")[3])]


def modules(folder: Path) -> list[Path]:
    return [file for file in folder.glob("*.py") if file.name != "__init__.py"]


def largest(folder: Path) -> int:
    """The number of files in the folder, of it and those within it, that has the most."""
    folders = {file.parent for file in folder.rglob("*.py")}
    return max(len(modules(each)) for each in folders if "examples" not in each.parts and "project" not in each.parts)


def within(actual: list[int], most: list[int]) -> bool:
    return len(actual) == len(most) and all(here <= limit for here, limit in zip(actual, most, strict=True))


def python_files(path: Path | None) -> list[Path]:
    if path is None:
        return []
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]
