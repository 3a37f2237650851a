"""The table of presets in docs/semantics.md is what the presets set."""

from __future__ import annotations

import pytest

from tests import semantics_page
from tests.helpers import pages
from windowing.settings import DECLARED
from windowing.settings.presets import RULES, Preset
from windowing.settings.rules import Bounds


def test_the_page_is_up_to_date() -> None:
    written = semantics_page.PAGE.read_text(encoding="utf-8")
    assert written == semantics_page.page(), f"run: {semantics_page.COMMAND}"


def test_every_rule_of_a_preset_is_in_the_section() -> None:
    section = semantics_page.section()
    assert [name for name in RULES if f"`{DECLARED[name].call}`" not in section] == []


def test_a_preset_that_changes_changes_the_section(monkeypatch: pytest.MonkeyPatch) -> None:
    before = semantics_page.section()
    monkeypatch.setitem(semantics_page.SYSTEMS, "Storm", Preset("storm", {"bounds": Bounds.START}))
    assert semantics_page.section() != before


def test_a_page_without_the_section_is_refused() -> None:
    with pytest.raises(ValueError, match="no section"):
        pages.with_section("# Semantics\n", semantics_page.COMMAND, "a table")
