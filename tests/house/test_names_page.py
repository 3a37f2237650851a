"""docs/names.md holds every public name of windbolt."""

from __future__ import annotations

import pytest

from tests import names_page


def test_the_page_is_up_to_date() -> None:
    written = names_page.PAGE.read_text(encoding="utf-8")
    assert written == names_page.page(), f"run: {names_page.COMMAND}"


@pytest.mark.parametrize("module", names_page.public())
def test_every_name_says_what_it_is(module: str) -> None:
    rows = {line.split("`")[1].split("(")[0]: line for line in names_page.page().splitlines() if line.startswith("| `")}
    assert [name for name in names_page.public()[module] if name in rows and rows[name].endswith("|  |")] == []
