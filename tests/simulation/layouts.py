"""How many tasks the bolts of a checkpoint have, and had: read from its files, past all faults."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import Any, NamedTuple

Tasks = dict[str, int]
"""By bolt."""

_UNREADABLE = (OSError, ValueError, LookupError)
"""What reading a document raises that is not what was written."""


class _Layout(NamedTuple):
    digest: str
    """Of the manifest."""
    tasks: Tasks


class Layouts:
    """What rescaling has made of the state after each batch: of one manifest there may be several, one after the other.

    A power cut may take the last of them back; whoever rescales may have died before or after he replaced one.
    """

    def __init__(self, checkpoint: str) -> None:
        self._half = f"{checkpoint}/windbolt"
        self._paths: dict[str, list[_Layout]] = {}

    def note(self) -> None:
        """Look at the last manifest: called before a process and after each time that it may have moved tasks."""
        key = self._last()
        for later in [each for each in self._paths if each > (key or "")]:
            del self._paths[later]
        if key is None:
            return
        with suppress(*_UNREADABLE):  # a manifest that is damaged is for windbolt to refuse, and for others to judge
            found = self._read(key)
            path = self._paths.setdefault(key, [])
            if found in path:
                del path[path.index(found) + 1 :]
            else:
                path.append(found)

    def forget_after(self, key: str) -> None:
        """Somebody goes back to a batch."""
        for later in [each for each in self._paths if each > key]:
            del self._paths[later]

    def moves(self, key: str) -> list[Tasks]:
        """The numbers of tasks that the state after a batch was given, one after the other."""
        return [layout.tasks for layout in self._paths.get(key, [])[1:]]

    @property
    def now(self) -> Tasks | None:
        """As the checkpoint has them: after its last batch or, before the first, as they were noted; None where neither
        can be read."""
        with suppress(*_UNREADABLE):
            key = self._last()
            if key is not None:
                return self._read(key).tasks
            return {name: bolt["parallelism"] for name, bolt in self._document("topology")[1]["bolts"].items()}
        return None

    def _last(self) -> str | None:
        folder = f"{self._half}/manifests"
        if not os.path.isdir(folder):
            return None
        with os.scandir(folder) as found:
            names = [entry.name for entry in found if not entry.name.startswith(".")]
        return max((name.removesuffix(".json") for name in names), default=None)

    def _read(self, key: str) -> _Layout:
        text, values = self._document(f"manifests/{key}")
        tasks = {name: len(bolt["tasks"]) for name, bolt in values["bolts"].items()}
        return _Layout(hashlib.sha256(text.encode()).hexdigest(), tasks)

    def _document(self, name: str) -> tuple[str, dict[str, dict[str, dict[str, Any]]]]:
        with open(f"{self._half}/{name}.json", encoding="utf-8") as file:
            text = file.read()
        return text, json.loads(text.split("\n", 1)[1])
