"""Every public name is in the guide, or in the chapter of its module."""

from __future__ import annotations

import re

from tests import names_page
from tests.helpers.places import ROOT

CHAPTERS = {"windbolt.testing": "testing.md", "windbolt.step": "step.md"}


def test_every_name_is_explained() -> None:
    problems = []
    for module, names in names_page.public().items():
        page = CHAPTERS.get(module, "guide.md")
        said = set(re.findall(r"\w+", (ROOT / "docs" / page).read_text(encoding="utf-8")))
        problems += [f"{module}.{name} is not in docs/{page}" for name in names if name not in said]
    assert not problems, "\n".join(problems)
