"""docs/map.md names every folder and file of the source, and says what each is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import map_page

FILES = [file for files in map_page.folders().values() for file in files]


def test_the_page_is_up_to_date() -> None:
    assert map_page.PAGE.read_text(encoding="utf-8") == map_page.page(), f"run: {map_page.COMMAND}"


@pytest.mark.parametrize("file", [*FILES, *(folder / "__init__.py" for folder in map_page.folders())], ids=str)
def test_every_file_says_what_it_is(file: Path) -> None:
    assert map_page.first_sentence(file)
