"""Texts for users at a terminal: feature ids stand in docs and docstrings, where a link explains them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.helpers.places import ROOT

FEATURE = re.compile(r"\b(?:ST|AT|SI|AZ|UH|C)-\d+")


def test_texts_name_no_feature_ids() -> None:
    problems = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for package in ("windowing", "policies", "manager", "topologies")
        for path in sorted((ROOT / package).rglob("*.py"))
        if FEATURE.search(source := path.read_text("utf-8"))
        for line, text in _texts(ast.parse(source))
        if FEATURE.search(text)
    ]
    assert not problems, "\n".join(problems)


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields every text of a file except its docstrings, with its line."""
    bodies = (node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef))
    docstrings = {id(line.value) for body in bodies for line in body if isinstance(line, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value
