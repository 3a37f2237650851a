"""Kinds of windows are asked, and not taken apart (decision 83): few files name one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import windowing.settings.kinds as kinds
from windowing.settings.kinds import WindowKind

ROOT = Path(__file__).parents[2]
KINDS = {
    name
    for name in kinds.__all__
    for kind in [getattr(kinds, name)]
    if isinstance(kind, type) and issubclass(kind, WindowKind) and kind is not WindowKind
}

ANY_KIND = {"policies/choose_policies.py", "topologies/scenarios/schema/settings.py"}
"""Where a new kind gets a line: its assigner, and its spelling in scenarios."""
SESSIONS = {
    "topologies/engine/time/session_gaps.py",
    "topologies/compose/checks/named_columns.py",
    "topologies/compose/checks/window_kinds.py",
    "topologies/scenarios/schema/bare_columns.py",
    "topologies/scenarios/picture/boxes.py",
}
"""What only sessions have: gaps of events, and a picture in which they grow."""


def naming(folder: str) -> dict[str, set[str]]:
    """By file below a folder, the kinds of windows that it imports."""
    found = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("windowing.settings.kinds")
            for alias in node.names
        }
        if named & KINDS:
            found[str(path.relative_to(ROOT))] = named & KINDS
    return found


@pytest.mark.parametrize("folder", ["policies", "manager", "topologies"])
def test_few_files_name_a_kind_of_window(folder: str) -> None:
    named = naming(folder)
    assert {path for path, which in named.items() if which != {"Session"}} <= ANY_KIND
    assert {path for path, which in named.items() if which == {"Session"}} <= SESSIONS


def test_the_files_that_may_name_one_do() -> None:
    named = naming("policies") | naming("topologies")
    assert set(named) == ANY_KIND | SESSIONS
