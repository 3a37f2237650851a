"""Writes the table of formats, engines and options in docs/guide.md, from the declarations of the formats.

python -m tests.formats_table
"""

from __future__ import annotations

import inspect
from typing import Literal, get_args

from tests.helpers import pages
from tests.helpers.places import ROOT
from topologies.io import spouts
from topologies.io.formats import FormatName
from topologies.io.formats.write_table import is_written, options_of

PAGE = ROOT / "docs" / "guide.md"
COMMAND = "python -m tests.formats_table"
FORMATS: tuple[str, ...] = get_args(FormatName)
KAFKA = "Kafka's values"
USES: tuple[Literal["reading"], Literal["writing"]] = ("reading", "writing")
OF_SPOUT = ("timezone", "partition_columns", "metadata", "defaults", "merge_by")
"""Arguments of spouts, whatever their format."""


def cell(option: str, name: str) -> str:
    """Where an option of files may be given for a format: ``r`` where it is read, ``w`` where it is written."""
    if option in OF_SPOUT:
        return "r"
    read, written = (option in options_of(name, use) for use in USES)
    return "r" * read + "w" * written


def options() -> list[str]:
    """All options: those of spouts, and those of formats, which most formats have first."""
    of_formats = dict.fromkeys(option for name in FORMATS for option in options_of(name))
    often = sorted(of_formats, key=lambda option: -sum(bool(cell(option, name)) for name in FORMATS))
    return [*OF_SPOUT, *often]


def section() -> str:
    """The table."""
    taken = inspect.signature(spouts.kafka).parameters
    rows: list[tuple[str, ...]] = [
        ("engines", *("both" for _ in FORMATS), "both"),
        ("written by `sinks.files`", *("yes" if is_written(name) else "–" for name in FORMATS), "–"),
    ]
    for option in options():
        kafka = "r" if option in taken else "–"
        rows.append((f"`{option}=`", *(cell(option, name) or "–" for name in FORMATS), kafka))
    return pages.table(("", *(f"`{name}`" for name in FORMATS), KAFKA), rows)


def page() -> str:
    """The guide, with the table as it is now."""
    return pages.with_section(PAGE.read_text(encoding="utf-8"), COMMAND, section())


def main() -> None:
    """Write the table."""
    pages.write(PAGE, page(), f"{len(options())} options of {len(FORMATS)} formats")


if __name__ == "__main__":
    main()
