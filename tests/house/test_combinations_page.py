"""docs/combinations.md says of every pair of settings whether it is held, or why it is refused."""

from __future__ import annotations

import pytest

from tests import combinations_page
from tests.oracles.interpreter.cases import VALUES
from tests.oracles.interpreter.holding import ORDER

WRITTEN = combinations_page.PAGE.read_text(encoding="utf-8") if combinations_page.PAGE.exists() else ""
HELD, _, REFUSED = WRITTEN.partition("## What is refused")


def test_what_is_drawn_of_a_pair_is_as_the_page_says() -> None:
    rows = {row.split("|")[1].strip(): row for row in HELD.splitlines() if row.startswith("| `")}
    for place in range(0, len(ORDER), 40):
        names = ORDER[place]
        if len(names) == 1:
            continue
        found = combinations_page.of_pair(place)
        one, other = combinations_page.pair(*names)
        held = any(each.made is not None for each in found)
        shown = f"`{other}` " in rows[f"`{one}`"].split("|")[3]
        assert shown or not held, f"{names} is held; run: {combinations_page.COMMAND}"
        if not shown:
            reasons = [line for line in REFUSED.splitlines() if f"`{one}` and `{other}`" in line]
            assert len(reasons) == 1, names
            said = combinations_page.said(found[-1].reason)
            assert said.replace("|", "\\|") in reasons[0], f"run: {combinations_page.COMMAND}"


def test_every_pair_stands_on_the_page_once() -> None:
    rows = {row.split("|")[1].strip(" `"): row.split("|")[3] for row in HELD.splitlines() if row.startswith("| `")}
    assert sorted(rows) == sorted(VALUES)
    for names in ORDER:
        if len(names) > 1:
            one, other = combinations_page.pair(*names)
            held = f"`{other}` " in rows[one]
            assert held == (f"`{one}` " in rows[other])
            assert REFUSED.count(f"`{one}` and `{other}`") == (not held), names


@pytest.mark.extended
def test_the_page_is_that_of_its_drawing() -> None:
    assert combinations_page.page(combinations_page.drawn()) == WRITTEN, f"run: {combinations_page.COMMAND}"
