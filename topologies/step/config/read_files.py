"""The files of a step as plain mappings: HOCON, YAML and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from topologies.io.documents.document_files import load
from topologies.io.documents.showing import kind_shown
from topologies.step.config.file_problems import StepConfigError, StepProblem
from topologies.step.config.step_values import Given

Tree = dict[str, Any]

ENDINGS = (".conf", ".hocon", ".yaml", ".yml", ".json")
"""The suffixes of files that are steps."""


def read_tree(path: Path) -> Tree:
    """The content of a file, by its suffix. Every text under a key ``path`` remembers the folder of its file, to which
    it is relative.

    Raises StepConfigError, with line and column, where it cannot be read.
    """
    documents = list(load(path, ENDINGS))
    mistake = next((document.mistake for document in documents if document.mistake), "")
    if not mistake and len(documents) > 1:
        mistake = f"expected one document, found another at line {documents[1].line}"
    if mistake:
        raise _unreadable(path, mistake)
    content = documents[0].content if documents else None
    try:
        _ = json.dumps(content, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        raise _unreadable(path, f"half a character, {error.object[error.start]!r}, is not text") from None
    except RecursionError:
        raise _unreadable(path, "it is nested too deep") from None
    if not isinstance(content, dict):
        raise _unreadable(path, f"expected a mapping with name, type, format and so on, found {kind_shown(content)}")
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


def _unreadable(path: Path, text: str) -> StepConfigError:
    return StepConfigError(path, [StepProblem(str(path), "", text)])
