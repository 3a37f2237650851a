"""Every `windbolt X` in the documents is a command."""

from __future__ import annotations

import re

from typer.main import get_command

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


def test_commands_are_found() -> None:
    text = "`windbolt run x` and\n\n    windbolt check y\n\nwindbolt is here"
    assert NAMED.findall(text) == ["run", "check"]
