"""docs/names.md holds every public name of windbolt."""

from __future__ import annotations

import importlib
import inspect
import io
import runpy
from collections.abc import Iterator
from typing import Any

from docutils.core import publish_doctree  # type: ignore[import-untyped]

from tests import names_page
from tests.helpers.places import ROOT


def test_the_page_is_up_to_date() -> None:
    written = names_page.PAGE.read_text(encoding="utf-8")
    assert written == names_page.page(), f"run: {names_page.COMMAND}"


def test_every_name_says_what_it_is() -> None:
    rows = [line for line in names_page.page().splitlines() if line.startswith("| `")]
    problems = [row for row in rows if row.endswith("|  |")]
    assert not problems, "\n".join(problems)


def test_docstrings_are_text_that_the_site_can_show() -> None:
    """The site is built with ``--all`` only; what is wrong in a docstring would fail there."""
    as_on_the_site = runpy.run_path(str(ROOT / "docs/site/conf.py"))["mark_examples"]
    problems = []
    for text, name in {text: name for name, text in _docstrings()}.items():
        lines = text.splitlines()
        as_on_the_site(None, "", name, None, None, lines)
        problems += [f"{name}: {problem}" for problem in _problems("\n".join(lines))]
    assert not problems, "\n".join(problems)


def test_a_docstring_that_the_site_cannot_show_is_found() -> None:
    assert _problems("Args:\n    a: one\n        and two\n    b: three") != []
    assert _problems("Returns ``a``.\n\n- one\n- two") == []


def _docstrings() -> Iterator[tuple[str, str]]:
    """The docstrings of all public names and of the methods of public classes, each with its name."""
    for module, names in names_page.public().items():
        for name in names:
            value: Any = getattr(importlib.import_module(module), name)
            methods = vars(value) if inspect.isclass(value) else {}
            for own, each in {name: value, **{f"{name}.{method}": of for method, of in methods.items()}}.items():
                documented = callable(each) or isinstance(each, property | classmethod)
                if documented and not own.rpartition(".")[2].startswith("_"):
                    yield f"{module}.{own}", inspect.getdoc(each) or ""


def _problems(text: str) -> list[str]:
    warnings = io.StringIO()
    settings = {"report_level": 2, "halt_level": 5, "warning_stream": warnings, "file_insertion_enabled": False}
    publish_doctree(text, settings_overrides=settings)
    return warnings.getvalue().splitlines()
