"""Writes docs/names.md: every public name of windbolt, with how it is called and the first sentence of its docstring.

python -m tests.names_page
"""

from __future__ import annotations

import importlib
import inspect
import re
from types import ModuleType, UnionType
from typing import Any, Literal, get_args, get_origin

import windbolt
from tests.helpers import pages
from tests.helpers.places import ROOT

PAGE = ROOT / "docs" / "names.md"
COMMAND = "python -m tests.names_page"
MODULES = (
    "",
    "spouts",
    "sinks",
    "kinds",
    "panes",
    "triggers",
    "presets",
    "policies",
    "aggregates",
    "step",
    "testing",
    "state",
)

HEAD = f"""# Public names

For looking up what there is to import, and from where. Written by `{COMMAND}` from the docstrings: `help(name)` has the
whole text. How the parts go together is in [guide.md](guide.md), a bolt's `with_...` methods in
[settings.md](settings.md)."""


def public() -> dict[str, list[str]]:
    """The names of each module, by its full name."""
    return {module: sorted(_module(module).__all__, key=str.lower) for module in map(_full, MODULES)}


def page() -> str:
    """The text of docs/names.md."""
    parts = [HEAD]
    for module, names in public().items():
        owner = _module(module)
        rows = [_row(name, getattr(owner, name)) for name in names if not _is_module(getattr(owner, name))]
        parts += [f"## {module}", _sentence(owner), "\n".join(["| name | |", "|---|---|", *rows])]
    return "\n\n".join(parts) + "\n"


def _full(module: str) -> str:
    return f"windbolt.{module}" if module else "windbolt"


def _module(name: str) -> Any:
    return importlib.import_module(name)


def _is_module(value: object) -> bool:
    return isinstance(value, ModuleType)


def _row(name: str, value: Any) -> str:
    return f"| `{name}{_arguments(value)}` | {_sentence(value)} |"


def _arguments(value: Any) -> str:
    """The names of a function's arguments, those that must be given first; of classes that users subclass none."""
    if not inspect.isfunction(value):
        return ""
    parameters = inspect.signature(value).parameters.values()
    stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    shown = [
        f"{stars.get(each.kind, '')}{each.name}{'' if each.default is inspect.Parameter.empty else '='}"
        for each in parameters
    ]
    return f"({', '.join(shown)})"


def _sentence(value: Any) -> str:
    """The first sentence of a docstring, in Markdown; of what has none, what it stands for."""
    if isinstance(value, UnionType):
        return f"One of {', '.join(f'`{each.__name__}`' for each in value.__args__)}: for annotations."
    if get_origin(value) is Literal:
        return f"One of {', '.join(f'`{each!r}`' for each in get_args(value))}: for annotations."
    if isinstance(value, tuple):
        return f"All of {', '.join(f'`{each!r}`' for each in value)}, in order."
    if isinstance(value, str):
        return f"The text `{value}`."
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    found = re.match(r".*?[.:](?=\s+[A-Z`]|$)", text)
    return (found[0] if found else text).rstrip(":").replace("``", "`").replace("|", "\\|")


def main() -> None:
    """Write the page."""
    pages.write(PAGE, page(), f"{sum(map(len, public().values()))} names of {windbolt.__name__}")


if __name__ == "__main__":
    main()
