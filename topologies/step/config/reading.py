"""The files of a step as plain mappings: HOCON, YAML and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from topologies.io.documents import Yaml, no_constant, unique_pairs
from topologies.step.config.errors import StepConfigError, StepProblem
from topologies.step.config.values import Given, kind_of

Tree = dict[str, Any]

_NAMED = re.compile(r"(alias|anchor|tag|handle) '.*", re.DOTALL)
"""Matches the parts of YAML's errors that quote the file and may contain a value: ``password: *SECRET``."""


def read_tree(path: Path) -> Tree:
    """The content of a file, by its suffix. Every text under a key ``path`` remembers the folder of its file, to which
    it is relative.

    Raises StepConfigError, with line and column, where it cannot be read.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        expected = ", ".join(READERS)
        raise _unreadable(path, f"expected a file that ends in one of {expected}, found {path.suffix or 'no ending'}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise _unreadable(path, "expected a file, found none of this name") from None
    except OSError as error:
        raise _unreadable(path, f"expected a file that can be read, found: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise _unreadable(path, f"expected text in UTF-8, found byte {error.object[error.start]:#04x}") from None
    try:
        content = reader(text, path)
        _ = json.dumps(content, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        raise _unreadable(path, f"half a character, {error.object[error.start]!r}, is no text") from None
    except RecursionError:
        raise _unreadable(path, "it is nested too deep") from None
    if not isinstance(content, dict):
        raise _unreadable(path, f"expected a mapping with name, type, format and so on, found {kind_of(content)}")
    tree: Tree = with_folders(content, path.absolute().parent)
    return tree


def with_folders(value: Any, folder: Path) -> Any:
    """The value, in which each text under a key ``path`` remembers its folder."""
    if isinstance(value, Mapping):
        return {
            str(key): Given.of(item, folder) if key == "path" and isinstance(item, str) else with_folders(item, folder)
            for key, item in value.items()
        }
    return [with_folders(item, folder) for item in value] if isinstance(value, list) else value


def _hocon(text: str, path: Path) -> Any:
    from topologies.step.config.hocon import HoconError, parse_hocon

    try:
        return parse_hocon(text, path.absolute().parent)
    except HoconError as error:
        raise _unreadable(path, f"expected HOCON, found a mistake: {error}") from None


def _yaml(text: str, path: Path) -> Any:
    try:
        return yaml.load(text, Yaml)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        position = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        problem = _NAMED.sub(r"\1", str(error.problem))
        raise _unreadable(path, f"expected YAML, found a mistake{position}: {problem}") from None
    except yaml.YAMLError as error:
        raise _unreadable(path, f"expected YAML, found {' '.join(str(error).split())}") from None
    except ValueError:
        raise _unreadable(path, "expected YAML, found a number that cannot be read") from None


def _json(text: str, path: Path) -> Any:
    try:
        return json.loads(text, object_pairs_hook=unique_pairs, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise _unreadable(path, f"expected JSON, found a mistake at {position}: {error.msg}") from None
    except ValueError as error:
        raise _unreadable(path, f"expected JSON, found {error}{_twice(text)}") from None


def _twice(text: str) -> str:
    """The place of a repeated key, which JSON's reader does not report and YAML's does; empty where it has no
    answer."""
    try:
        yaml.load(text, Yaml)
    except yaml.constructor.ConstructorError as error:
        mark = error.problem_mark
        return "" if mark is None else f", at line {mark.line + 1}, column {mark.column + 1}"
    except (yaml.YAMLError, ValueError, RecursionError):
        pass
    return ""


READERS: dict[str, Callable[[str, Path], Any]] = {
    ".conf": _hocon,
    ".hocon": _hocon,
    ".yaml": _yaml,
    ".yml": _yaml,
    ".json": _json,
}


def _unreadable(path: Path, text: str) -> StepConfigError:
    return StepConfigError(path, [StepProblem(str(path), "", text)])
