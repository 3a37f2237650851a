"""The label of a row of a timeline in as many lines as its column needs: bounds of a window part between the two."""

from __future__ import annotations

import textwrap

_INDENT = "    "


def label_lines(label: str, width: int) -> list[str]:
    """The label in lines of at most ``width`` characters; the further ones are indented."""
    if len(label) <= width:
        return [label]
    parted = textwrap.wrap(
        label.replace("..", " .."), width, subsequent_indent=_INDENT, break_on_hyphens=False, drop_whitespace=True
    )
    return [line if line.startswith(_INDENT) else line.replace(" ..", "..") for line in parted]
