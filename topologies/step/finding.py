"""Finds what a step names: a file, or one on the class path, which is the folder of the step and Python's module
folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from topologies.io.documents.showing import brief
from topologies.io.documents.strict import exact_float, no_constant, unique_pairs
from topologies.step.classpath import file_below
from topologies.step.config.step_values import Place
from windowing.errors import ConfigError


def find(place: Place) -> Path:
    """The file of a place. On the class path a leading / is its top.

    ``source: file`` may be any file, even where rules may not (``--no-file-rules``), because only schemas and variables
    are found here, no code. Paths and links that lead out of the class path are refused, as for rules. Raises
    ConfigError where the file does not exist.
    """
    if place.source == "file":
        if not place.path.file.is_file():
            raise ConfigError(
                f"{str(place.path)!r} does not exist", why=f"it was looked up in {place.path.file.parent}"
            )
        return place.path.file
    file, _ = file_below([place.path.folder], place.path.text, repr(place.path.text))
    if file is not None:
        return Path(file)
    raise ConfigError(
        f"{str(place.path)!r} is not on the class path",
        why=f"it is neither in {place.path.folder} nor on Python's module path",
        do='put it there, add its folder to PYTHONPATH, or give source: "file"',
    )


def read_text(place: Place) -> str:
    """The text of the file of a place. Raises ConfigError where it cannot be read."""
    file = find(place)
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None


def read_variables(place: Place) -> dict[str, Any]:
    """The variables in a JSON file. Raises ConfigError where it holds something else."""
    text = read_text(place)
    try:
        variables = json.loads(
            text, object_pairs_hook=unique_pairs, parse_constant=no_constant, parse_float=exact_float
        )
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{place.path} is not JSON: {error}") from None
    if not isinstance(variables, dict):
        raise ConfigError(f"{place.path}: expected a JSON object of variables, found {brief(variables)}")
    return variables
