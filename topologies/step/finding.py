"""Where what a step names is: a file, or one on the class path: the folder of the step and Python's of modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from topologies.io.documents import exact_float, no_constant, shown, unique_pairs
from topologies.step.classpath import file_below
from topologies.step.config.values import Place
from windowing.errors import ConfigError


def find(place: Place) -> Path:
    """The file of a place; ConfigError where it is not there. On the class path a first / is its top.

    ``source: file`` may be any file, also where rules may not (``--no-file-rules``): what is found here is a schema or
    variables, and no code. Paths and links that lead out of the class path are refused, as for rules.
    """
    if place.source == "file":
        if not place.path.file.is_file():
            raise ConfigError(f"{str(place.path)!r} is not there", why=f"it was looked for in {place.path.file.parent}")
        return place.path.file
    file, _ = file_below([place.path.folder], place.path.text, repr(place.path.text))
    if file is not None:
        return Path(file)
    raise ConfigError(
        f"{str(place.path)!r} is not on the class path",
        why=f"neither {place.path.folder} nor Python's folders of modules hold it",
        do='put it there, add its folder to PYTHONPATH, or give source: "file"',
    )


def read_text(place: Place) -> str:
    """What the file of a place holds; ConfigError where it cannot be read."""
    file = find(place)
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None


def read_variables(place: Place) -> dict[str, Any]:
    """The variables in a JSON file; ConfigError where it holds something else."""
    text = read_text(place)
    try:
        found = json.loads(text, object_pairs_hook=unique_pairs, parse_constant=no_constant, parse_float=exact_float)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{place.path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{place.path}: expected a JSON object of variables, found {shown(found)}")
    return found
