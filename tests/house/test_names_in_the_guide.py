"""Every public name is in the guide, or in the chapter of its module."""

from __future__ import annotations

import re

import pytest

from tests import names_page
from tests.helpers.places import ROOT

CHAPTERS = {"windbolt.testing": "testing.md", "windbolt.step": "step.md"}


@pytest.mark.parametrize("module", names_page.public())
def test_every_name_is_explained(module: str) -> None:
    text = (ROOT / "docs" / CHAPTERS.get(module, "guide.md")).read_text(encoding="utf-8")
    said = set(re.findall(r"\w+", text))
    assert [name for name in names_page.public()[module] if name not in said] == []
