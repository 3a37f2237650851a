"""The name that a user may have meant."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.helpers.places import ROOT
from windowing.suggestions import did_you_mean, nearest


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("revenu", ["revenue", "orders"], "; did you mean 'revenue'?"),
        ("Revenue", ["revenue"], "; did you mean 'revenue'?"),
        ("stateful", ["stateFull"], "; did you mean 'stateFull'?"),
        ("x", ["revenue"], ""),
        ("revenue", [], ""),
        (7, ["7"], ""),
        ("revenue", ["revenue"], ""),
    ],
)
def test_the_nearest_name_is_suggested(name: object, known: list[str], said: str) -> None:
    assert did_you_mean(name, known) == said


def test_several_are_in_order_of_likeness() -> None:
    assert nearest("order", ["prices", "borders", "orders"], most=3) == ["orders", "borders"]


def test_nobody_else_looks_for_names() -> None:
    files = [
        path for root in ("windowing", "policies", "manager", "topologies") for path in (ROOT / root).rglob("*.py")
    ]
    assert [path.relative_to(ROOT) for path in files if "difflib" in imported(path)] == [
        Path("windowing/suggestions.py")
    ]


def imported(path: Path) -> set[str | None]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
