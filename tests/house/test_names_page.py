"""docs/names.md holds every public name of windbolt."""

from __future__ import annotations

from tests import names_page


def test_the_page_is_up_to_date() -> None:
    written = names_page.PAGE.read_text(encoding="utf-8")
    assert written == names_page.page(), f"run: {names_page.COMMAND}"


def test_every_name_says_what_it_is() -> None:
    rows = [line for line in names_page.page().splitlines() if line.startswith("| `")]
    problems = [row for row in rows if row.endswith("|  |")]
    assert not problems, "\n".join(problems)
