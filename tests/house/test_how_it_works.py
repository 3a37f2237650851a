"""Types, functions, phases and files that the pages on the source name are where they say."""

from __future__ import annotations

import re
from pathlib import Path

from tests.helpers.places import ROOT
from tests.house.test_paths_in_docs import found_in_house, named_in
from topologies.engine.micro_batch import PHASES
from topologies.io import sinks, spouts
from topologies.local import run_local
from topologies.run.options import RunOptions
from topologies.topology import TopologyBuilder
from windowing.aggregates import count
from windowing.bolts.aggregate_bolt import AggregateBolt

PAGE = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("how-it-works.md", "source-map.md"))
TYPE = re.compile(r"\*\*(\w+)\*\*")
"""A type in bold; an s of the plural stands behind it."""
WORKER = re.compile(r"`(\w+)(?:\.(\w+))?`(?: and `(\w+)`)? \(`([\w/]+\.py)`\)")
"""A class or function, maybe a method of it or another class, with the file that defines it."""


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


_WAY = section("One event, from a file to a file").partition("The classes at each hop")
HOPS, WORKERS = ([line for line in part.splitlines() if re.match(r"\| \d+ \|", line)] for part in (_WAY[0], _WAY[2]))


def test_the_types_of_a_hop_are_defined_in_the_files_that_it_names() -> None:
    assert HOPS
    problems = []
    for hop in HOPS:
        files = [file for path in named_in(hop) for file in python_files(found_in_house(path))]
        code = "\n".join(file.read_text(encoding="utf-8") for file in files)
        missing = [name for name in TYPE.findall(hop) if not re.search(rf"^class {name}\b", code, re.MULTILINE)]
        problems += [f"hop {number_of(hop)}: {name}" for name in missing]
    assert not problems, "\n".join(problems)


def test_those_who_do_the_work_of_a_hop_are_in_their_files() -> None:
    assert WORKERS
    problems = [f"hop {number_of(row)} names no worker" for row in WORKERS if not WORKER.findall(row)]
    for row in WORKERS:
        for name, method, other, path in WORKER.findall(row):
            (file,) = python_files(found_in_house(path))
            code = file.read_text(encoding="utf-8")
            there = {
                name: re.search(rf"^(class|def) {name}\b", code, re.MULTILINE),
                other: not other or re.search(rf"^class {other}\b", code, re.MULTILINE),
                method: not method or re.search(rf"^    def {method}\b", code, re.MULTILINE),
            }
            problems += [f"hop {number_of(row)}: {each} is not in {path}" for each, found in there.items() if not found]
    assert not problems, "\n".join(problems)


def number_of(row: str) -> str:
    return row.split("|")[1].strip()


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


def python_files(path: Path | None) -> list[Path]:
    if path is None:
        return []
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]
