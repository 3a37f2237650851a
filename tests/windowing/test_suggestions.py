"""The name that a user may have meant."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.helpers.places import ROOT
from windowing.errors import did_you_mean, did_you_mean_column, nearest


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


@pytest.mark.parametrize(
    ("name", "columns", "said"),
    [
        ("id", ["kind", "purchases_id", "refunds_id"], "; did you mean 'purchases_id' or 'refunds_id'?"),
        ("id", ["kind", "id_purchases"], "; did you mean 'id_purchases'?"),
        ("id", ["kind"], "; did you mean 'kind'?"),
        ("id", ["id", "purchases_id"], ""),
        ("amuont", ["amount", "orders_id"], "; did you mean 'amount'?"),
        ("", ["_a"], ""),
        (7, ["a_7"], ""),
    ],
)
def test_a_column_that_a_join_renamed_is_suggested(name: object, columns: list[str], said: str) -> None:
    assert did_you_mean_column(name, columns) == said


def test_several_are_in_order_of_likeness() -> None:
    assert nearest("order", ["prices", "borders", "orders"], most=3) == ["orders", "borders"]


def test_nobody_else_looks_for_names() -> None:
    files = [
        path for root in ("windowing", "policies", "manager", "topologies") for path in (ROOT / root).rglob("*.py")
    ]
    assert {path.relative_to(ROOT) for path in files if "difflib" in imported(path)} == {
        Path("windowing/errors.py"),
        Path("topologies/testing/policy_runs.py"),  # lays windows side by side, and looks for no name
    }


def imported(path: Path) -> set[str | None]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
