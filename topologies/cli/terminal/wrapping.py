"""Lines of a description, none of which ends within a type such as ``array<struct<name: string>>`` where it fits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

_HELD = "\ue000"
"""Stands for a space at which no line may end, while lines are made; of Unicode's private use."""
_OPEN, _CLOSE = "<([", ">)]"
_TYPES = "string|long|int|short|byte|double|float|boolean|binary|timestamp|date|duration|decimal|array|struct|map"
_BEFORE_TYPE = re.compile(rf"(?<=\S) (?=(?:{_TYPES})(?:[,<(]|$))")
"""The space between a column and its type."""


def wrap_whole(text: Text, console: Console, width: int) -> list[Text]:
    """The lines of a text, none of which ends within a column and its type, or within brackets, where these fit."""
    held = Text(_held(text.plain, width), spans=list(text.spans))
    lines = list(held.wrap(console, width))
    for line in lines:
        line.plain = line.plain.replace(_HELD, " ")
        line.rstrip()
    return lines


def _held(text: str, width: int) -> str:
    """The text with the spaces held at which no line may end; what is wider than a line is not held."""
    return " ".join(piece.replace(" ", _HELD) if len(piece) <= width else piece for piece in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    """The text at its spaces, except for those within brackets and before types."""
    depth = begin = 0
    before_types = {match.start() for match in _BEFORE_TYPE.finditer(text)}
    for place, letter in enumerate(text):
        depth = max(depth + (letter in _OPEN) - (letter in _CLOSE), 0)
        if letter == " " and not depth and place not in before_types:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]
