"""Every `windbolt X` in the documents is a command, and every `./run benchmark X` one that the benchmark takes."""

from __future__ import annotations

import re
import shlex

from typer.main import get_command

from benchmarks.__main__ import parsed
from tests.helpers.places import ROOT
from tests.house.test_paths_in_docs import PAGES
from topologies.cli.app import app

COMMANDS = set(get_command(app).commands)  # type: ignore[attr-defined]
NAMED = re.compile(r"(?:`|^ {4}(?:\$ )?)(?:\.venv/bin/)?windbolt ([a-z][\w-]*)", re.MULTILINE)
"""In backticks, or at the beginning of an indented line."""


def test_commands_that_pages_name_are_there() -> None:
    problems = [
        f"{page.relative_to(ROOT)}: windbolt {name}"
        for page in [*PAGES, ROOT / "CHANGELOG.md"]
        for name in sorted(set(NAMED.findall(page.read_text(encoding="utf-8"))) - COMMANDS)
    ]
    assert not problems, "\n".join(problems)


OF_THE_BENCHMARK = re.compile(r"(?:`|^ {4})\./run benchmark([^`#\n]*)", re.MULTILINE)


def test_commands_of_the_benchmark_that_pages_name_are_taken() -> None:
    named = [options for page in PAGES for options in OF_THE_BENCHMARK.findall(page.read_text(encoding="utf-8"))]
    assert any("--only requests" in options for options in named)
    for options in set(named) - {" --help"}:
        parsed(shlex.split(options))  # exits where it knows an option, a section or a workload not


def test_there_is_one_command_for_figures() -> None:
    for page in [*PAGES, ROOT / "CHANGELOG.md"]:
        assert not re.findall(r"python (?:-m )?benchmarks[./]\w+", page.read_text(encoding="utf-8")), page


def test_commands_are_found() -> None:
    text = "`windbolt run x` and\n\n    windbolt check y\n\nwindbolt is here"
    assert NAMED.findall(text) == ["run", "check"]
