"""Pages of the documentation that are written from the code: whole, or a section between two comments."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.places import ROOT


def write(path: Path, text: str, holds: str) -> None:
    """Write a page and say what it holds; the ``main`` of every page writer."""
    path.write_text(text, encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {holds}")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown; a bar in a cell is escaped by whoever writes the cell."""
    return "\n".join(
        ["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *(f"| {' | '.join(each)} |" for each in rows)]
    )


def with_section(text: str, command: str, section: str) -> str:
    """The text with the section between ``<!-- written by COMMAND -->`` and ``<!-- end -->`` replaced."""
    begins, ends = f"<!-- written by {command} -->\n", "\n<!-- end -->"
    before, found, rest = text.partition(begins)
    _, closed, after = rest.partition(ends)
    if not (found and closed):
        raise ValueError(f"the page has no section between {begins.strip()} and {ends.strip()}")
    return f"{before}{begins}\n{section}\n{ends}{after}"
