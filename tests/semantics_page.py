"""Writes the table of presets in docs/semantics.md: what each preset sets, from the presets themselves.

python -m tests.semantics_page

Which system does what, and why, is written by hand around it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from tests.features_page import Shown, shown
from tests.helpers import pages
from tests.helpers.places import ROOT
from tests.settings_page import docstrings
from windowing.durations import Count, Duration
from windowing.settings import DECLARED, presets
from windowing.settings.rules import Arrival, Partition

PAGE = ROOT / "docs" / "semantics.md"
COMMAND = "python -m tests.semantics_page"
SYSTEMS = {
    "Storm": presets.storm(),
    "Atlas": presets.atlas(),
    "StreamInsight": presets.streaminsight(),
    "Azure": presets.azure(),
}
"""Each preset without arguments."""

FEATURE = re.compile(r"\b(?:AT|SI|ST|AZ)-\d+\b")


def page() -> str:
    """The text of docs/semantics.md with its table of presets as it is today."""
    return pages.with_section(PAGE.read_text(encoding="utf-8"), COMMAND, section())


def section() -> str:
    """What each preset sets without arguments, where one differs from Storm's."""
    rows = {name: tuple(_cell(preset.changes()[name]) for preset in SYSTEMS.values()) for name in presets.RULES}
    differing = {name: cells for name, cells in rows.items() if len(set(cells)) > 1}
    same = ", ".join(f"`{DECLARED[name].call}`" for name in rows if name not in differing)
    every, said = shown(), docstrings()
    head = (
        f"The values that the presets have without arguments, written by `{COMMAND}`. "
        "What each setting means is in\n[settings.md](settings.md)."
    )
    table = pages.table(
        ("setting", *SYSTEMS, "shown by"),
        [
            (f"`{DECLARED[name].call}`", *cells, _links(FEATURE.findall(said[name]), every))
            for name, cells in differing.items()
        ],
    )
    return f"{head}\n\n{table}\n\nNo preset changes these without an argument: {same}."


def _cell(value: Any) -> str:
    match value:
        case None:
            return "none"
        case Duration(0):
            return "0"
        case bool():
            return "yes" if value else "no"
        case Partition():
            return "`SOURCE`"
        case Arrival(early=early, late=late, action=action):
            return f"early {early}, late {late}, {action.value}"
        case Enum():
            return f"`{value.value}`"
        case Count() | Duration():
            return str(value)
    raise TypeError(f"a preset's {value!r} has no words here")


def _links(features: Sequence[str], every: Mapping[str, Sequence[Shown]]) -> str:
    """The first scenario or test of each feature that the setting's docstring names."""
    first = {name: every[name][0].path for name in features if every.get(name)}
    return ", ".join(f"[{name}](../{path})" for name, path in first.items())


def main() -> None:
    """Write the page."""
    pages.write(PAGE, page(), f"the rules of {len(SYSTEMS)} presets")


if __name__ == "__main__":
    main()
