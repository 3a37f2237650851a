"""Kinds of windows are asked, and not taken apart (decision 83): few files name one."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from policies.assigners import GridWindows
from policies.choose_policies import choose_assigners
from windowing.settings import WindowSettings, kinds
from windowing.settings.joins import How
from windowing.settings.kinds import (
    Calendar,
    CountByStart,
    Hopping,
    Lull,
    Meeting,
    Onset,
    Session,
    SlidingLog,
    Snapshot,
    WindowKind,
)
from windowing.time.durations import seconds

ROOT = Path(__file__).parents[2]
KINDS = {
    name
    for name in kinds.__all__
    for kind in [getattr(kinds, name)]
    if isinstance(kind, type) and issubclass(kind, WindowKind) and kind is not WindowKind
}

EXAMPLES = (
    Hopping("5m", "1m"), Session("5m"), Session("5m", max_duration="1h"), Snapshot(), SlidingLog("5m"), CountByStart(3),
    Calendar("day", "Europe/Berlin"), Onset(), Lull(seconds(3)),
    *(Meeting(how, 0) for how in get_args(How) if how != "inner"),
)  # fmt: skip

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
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("windowing", "windbolt")
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


@pytest.mark.parametrize("kind", EXAMPLES, ids=repr)
def test_a_kind_and_its_assigner_give_the_same_answers(kind: WindowKind) -> None:
    (assigner,) = choose_assigners(replace(WindowSettings(), kinds=(kind,)), event_time=True)
    assert assigner.merges == kind.merges
    assert isinstance(assigner, GridWindows) == kind.edges_known
    assert (assigner.anchored(7) != assigner) == kind.takes_offset
    assert assigner.ends_by_time


def test_there_is_an_example_of_each_kind() -> None:
    assert {type(kind).__name__ for kind in EXAMPLES} == KINDS


@pytest.mark.parametrize("kind", EXAMPLES, ids=repr)
def test_every_kind_of_window_is_put_in_words(kind: WindowKind) -> None:
    words = kind.in_words()
    assert words
    assert "(" not in words, words
