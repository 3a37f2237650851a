"""Path patterns as Spark (Hadoop) reads them, and what they match on this machine."""

from __future__ import annotations

import glob
import os
import re
from contextlib import suppress

from topologies.io.formats.access import reached

_MAGIC = re.compile(r"[*?\[{]")
_ALTERNATIVES = re.compile(r"\{[^}]*\}")


def is_pattern(path: str) -> bool:
    """Whether an absolute path is a pattern; a path that exists stands for itself."""
    return _MAGIC.search(path) is not None and not os.path.exists(path)


def leading_folder(pattern: str) -> str:
    """The deepest folder that contains all matches of a pattern."""
    folder = pattern
    while _MAGIC.search(folder):
        folder = os.path.dirname(folder)
    return folder


def candidates(path: str) -> list[str]:
    """The content of a folder, or the matches of a pattern and the content of folders among them.

    Hidden files, folders and special files are included. Alternatives, ``{a,b}``, match anything: Python does not
    support them, and local runs refuse them. Raises UnreachableError for a folder that cannot be listed.
    """
    if not is_pattern(path):
        return _inside(path) if os.path.isdir(path) else [path] if _exists(path) else []
    pattern = _ALTERNATIVES.sub("*", path).replace("[^", "[!")
    # Hadoop's stars match folders whose names begin with a dot, too.
    _listable(pattern)
    matched = glob.glob(pattern, include_hidden=True)
    return [candidate for name in matched for candidate in (_inside(name) if os.path.isdir(name) else [name])]


def _listable(pattern: str) -> None:
    """Raise UnreachableError for a folder among those of a pattern that cannot be listed: glob takes it for empty."""
    parts = pattern.split(os.sep)
    for at, part in enumerate(parts):
        if _MAGIC.search(part):
            above = os.sep.join(parts[:at]) or os.sep
            for folder in glob.glob(above, include_hidden=True) if _MAGIC.search(above) else [above]:
                if _exists(folder) and os.path.isdir(folder):
                    with reached(folder), suppress(FileNotFoundError):  # deleted since it was matched
                        os.scandir(folder).close()  # opened, and not read: glob will


def _exists(path: str) -> bool:
    """Whether there is something at a path, a dangling link too. UnreachableError where that cannot be seen."""
    with reached(path):
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True


def _inside(folder: str) -> list[str]:
    with reached(folder):
        try:
            return [os.path.join(folder, name) for name in os.listdir(folder)]
        except FileNotFoundError:  # deleted since it was matched
            return []
