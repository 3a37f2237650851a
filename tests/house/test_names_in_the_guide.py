"""Every public name is on a page of the guide, or in the chapter of its module."""

from __future__ import annotations

import re

from tests import names_page
from tests.helpers.places import ROOT

CHAPTERS = {"windbolt.testing": ["testing.md"], "windbolt.step": ["step.md", "step-reference.md"]}
_INDEX = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
GUIDE = ["guide.md", *re.findall(r"\]\(([\w-]+\.md)\)", _INDEX.split("\n**Reference**\n")[0])]
"""The index, and the pages that it lists before those that only look things up, such as names.md."""


def test_every_name_is_explained() -> None:
    problems = []
    for module, names in names_page.public().items():
        pages = CHAPTERS.get(module, GUIDE)
        said = {word for page in pages for word in re.findall(r"\w+", (ROOT / "docs" / page).read_text("utf-8"))}
        problems += [f"{module}.{name} is not in docs/{', docs/'.join(pages)}" for name in names if name not in said]
    assert not problems, "\n".join(problems)
