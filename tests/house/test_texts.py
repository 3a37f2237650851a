"""What users are told at a terminal: feature ids stand in docs and docstrings, where a link explains them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

FEATURE = re.compile(r"\b(?:ST|AT|SI|AZ|UH|C)-\d+")
FILES = [
    path for top in ("windowing", "policies", "manager", "topologies") for path in sorted((ROOT / top).rglob("*.py"))
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_texts_name_no_feature_ids(path: Path) -> None:
    found = [(line, text) for line, text in _texts(ast.parse(path.read_text("utf-8"))) if FEATURE.search(text)]
    assert not found


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every text of a file but its docstrings, and its line."""
    bodies = (node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef))
    docstrings = {id(line.value) for body in bodies for line in body if isinstance(line, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value
