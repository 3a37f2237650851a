"""The names of spouts, bolts and sinks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from windowing.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-]*")


def names(given: Sequence[object]) -> Iterator[ConfigError]:
    """Names that are given twice, or cannot be names."""
    for name in sorted({name for name in given if given.count(name) > 1}, key=str):
        yield ConfigError(
            f"{name!r} is set {given.count(name)} times",
            why="spouts, bolts and sinks share one set of names",
            do="rename one",
        )
    for name in sorted(set(given), key=str):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield ConfigError(
                f"{name!r} cannot be a name", why="it becomes part of file names", do="use letters, digits, _ and -"
            )
