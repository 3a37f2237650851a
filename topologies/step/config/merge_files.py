"""Merges several files: later values replace earlier ones, and each value keeps its origin."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from topologies.step.config.file_problems import StepConfigError, StepProblem
from topologies.step.config.read_files import Tree, with_folders

_WRITTEN, _PLAIN = re.compile(r'["{}\[\]$\n]'), re.compile(r"\s*[-+.\w][-+.\w\s]*")
"""Match values of assignments that are HOCON: with signs of its own in them, or numbers and words."""

SET = "--set"
"""The origin of values assigned on the command line."""


class Merged:
    """The trees of several files, merged: mappings merge, everything else is replaced.

    A mapping with another ``type`` replaces too; ``null`` removes what an earlier file gave.
    """

    def __init__(self, first: str) -> None:
        self.first = first
        self.tree: Tree = {}
        self._origins: dict[tuple[str, ...], str] = {}

    def lay(self, tree: Mapping[str, Any], origin: str) -> None:
        """Lay a tree over the present one."""
        self._lay(self.tree, tree, origin, ())

    def origin(self, path: tuple[str | int, ...]) -> str:
        """The file that gives the value at a path, or the mapping around it; the first file where none does."""
        names = tuple(str(part) for part in path)
        for length in range(len(names), 0, -1):
            if names[:length] in self._origins:
                return self._origins[names[:length]]
        return self.first

    def _lay(self, below: Tree, above: Mapping[str, Any], origin: str, at: tuple[str, ...]) -> None:
        for key, value in above.items():
            path = (*at, str(key))
            under = below.get(key)
            if value is None:
                below.pop(key, None)
                self._origins.pop(path, None)
            elif isinstance(value, Mapping):
                if not isinstance(under, dict) or _other_type(str(key), under, value):
                    under = below[key] = {}
                    self._origins[path] = origin
                self._lay(under, value, origin, path)
            else:
                below[key] = value
                self._origins[path] = origin


def _other_type(key: str, under: Tree, value: Mapping[str, Any]) -> bool:
    """Whether a mapping is of another type than what it is laid over; a topic may omit its type."""
    before = under.get("type", "destination" if key in ("destination", "error") else None)
    return before is not None and "type" in value and before != value["type"]


def assigned(key: str, value: str) -> Tree:
    """An assignment such as ``trigger.timeout`` and ``5s`` as a mapping.

    The value is read as HOCON, which includes JSON. One without quotes, brackets, braces and references is itself, so
    that ``localhost:9092`` needs no quotes within those of the shell.
    """
    from topologies.io.documents.hocon import parse_hocon
    from topologies.io.documents.hocon_values import HoconError

    text = value if _WRITTEN.search(value) or _PLAIN.fullmatch(value) else json.dumps(value.strip())
    try:
        tree = parse_hocon(f"{key} = {text}", Path.cwd())
    except HoconError as error:
        problem = StepProblem(SET, key, f"expected a value, found a mistake: {error}")
        raise StepConfigError(SET, [problem]) from None
    assignment: Tree = with_folders(tree, Path.cwd())
    return assignment
