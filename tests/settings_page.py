"""Writes docs/settings.md: every setting of a windowed bolt, from its declaration in ``WindowSettings``.

python -m tests.settings_page
"""

from __future__ import annotations

import ast
import inspect
from enum import Enum
from typing import Any

from tests.helpers import pages
from tests.helpers.places import ROOT
from topologies.compose.effects import NEEDS
from windowing.settings import DECLARED, window_settings
from windowing.settings.declaration import Declaration

PAGE = ROOT / "docs" / "settings.md"
COMMAND = "python -m tests.settings_page"

HEAD = f"""# Settings of a windowed bolt

For looking up how a rule of time or windows is set, in Python and in scenario files. Written by `{COMMAND}` from the
declarations in [window_settings.py](../windowing/settings/window_settings.py); what the rules mean is in
[semantics.md](semantics.md), and how to use them in [guide.md](guide.md).

A preset decides the settings that are marked so, all at once; call it first, and what differs from it after it. *Needs*
is what must be there for a setting to change anything: `build()` refuses one that was asked for and would change
nothing. *Resumes*: whether a run may go on with another value on the same checkpoint."""


def page() -> str:
    """The text of docs/settings.md."""
    said = docstrings()
    rows = [
        "| call | value | default | in scenarios | preset | needs | resumes | |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(declared, said.get(declared.name, "")) for declared in DECLARED.values()),
    ]
    needs = [
        "| needs | a setting is refused | because |",
        "|---|---|---|",
        *(f"| {name} | {need.without} | {need.why} |" for name, need in NEEDS.items()),
    ]
    return "\n\n".join([HEAD, "\n".join(rows), "## What settings need", "\n".join(needs)]) + "\n"


def _row(declared: Declaration, said: str) -> str:
    cells = [
        f"`{declared.call}`",
        declared.reads.words.replace("|", "or"),
        _default(declared.default),
        f"`{declared.scenario}`" if declared.scenario else "",
        "yes" if declared.preset else "",
        ", ".join(declared.needs),
        "" if declared.resumes else "no",
        said,
    ]
    return f"| {' | '.join(cells)} |"


def _default(value: Any) -> str:
    if value is None or value == ():
        return "–"
    return str(value.value if isinstance(value, Enum) else value)


def docstrings() -> dict[str, str]:
    """The docstring of each field of WindowSettings, by its name."""
    (settings,) = (
        node
        for node in ast.parse(inspect.getsource(window_settings)).body
        if isinstance(node, ast.ClassDef) and node.name == "WindowSettings"
    )
    found = {}
    for field, after in zip(settings.body, settings.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = " ".join(str(after.value.value).split()).replace("``", "`").replace("|", "or")
    return found


def main() -> None:
    """Write the page."""
    pages.write(PAGE, page(), f"{len(DECLARED)} settings")


if __name__ == "__main__":
    main()
