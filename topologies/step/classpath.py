"""The class path of a step: its folder, and Python's module folders. Everything it names lies below one of these."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from windowing.errors import ConfigError


def file_below(roots: Iterable[str | os.PathLike[str]], path: str, what: str) -> tuple[str | None, list[str]]:
    """The file of a path below one of ``roots`` or of ``sys.path``, None where there is none, and the files that were
    tried.

    A leading / is the top of the class path. Raises ConfigError for a path, or a link, that leads out of it; ``what``
    names the path in errors.
    """
    inside = path.lstrip("/")
    if os.pardir in inside.replace("\\", "/").split("/") or os.path.isabs(inside) or os.path.splitdrive(inside)[0]:
        raise ConfigError(
            f"{what} leads out of the classpath",
            why="classpath files are below its folders",
            do="write the path without '..'",
        )
    tried: list[str] = []
    for root in dict.fromkeys(os.path.abspath(folder) for folder in [*roots, *sys.path]):
        file = os.path.join(root, inside)
        if os.path.isfile(file):
            if os.path.commonpath([os.path.realpath(root), os.path.realpath(file)]) != os.path.realpath(root):
                raise ConfigError(
                    f"{what} is a link that leads out of the classpath",
                    why=f"{file} is {os.path.realpath(file)}",
                    do="put the file itself there",
                )
            return file, tried
        tried.append(file)
    return None, tried
