"""Paths of input files that stand in a checkpoint, as they are after the files have been moved."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from topologies.checkpoints.spark_half.file_journal import as_uri
from topologies.io.paths import shown_path

_LOCAL = "file://"


@dataclass(frozen=True)
class Relocation:
    """Folders by where they were and where they are; of several that fit the first counts."""

    moved: tuple[tuple[str, str], ...] = ()

    def path(self, path: str) -> str | None:
        """Where a file is that was at this path or URI; None where it has not been moved."""
        shown = shown_path(path)
        for before, now in self.moved:
            start, target = shown_path(before).rstrip("/"), shown_path(now).rstrip("/")
            if shown == start or shown.startswith(f"{start}/"):
                return target + shown.removeprefix(start)
        return None

    def document(self, values: Any) -> Any:
        """A plan, or what is noted of deadly input, with its paths as they are now."""
        match values:
            case dict():
                return {name: self.document(each) for name, each in values.items()}
            case list():
                return [self.document(each) for each in values]
            case str() if values.startswith(("/", "file:")) or "://" in values:
                found = self.path(values)
                if found is None:
                    return values
                return f"{_LOCAL}{found}" if values.startswith("file:") and "://" not in found else found
        return values

    def log(self, text: str) -> str:
        """A file of the log of a source, with the paths in it as they are now; any other file is left as it is."""
        if not self.moved:
            return text
        version, *lines = text.split("\n")
        return "\n".join([version, *map(self._line, lines)])

    def _line(self, line: str) -> str:
        try:
            entry = json.loads(line)
        except ValueError:
            return line
        if not isinstance(entry, dict) or not entry.keys() >= {"path", "timestamp", "batchId"}:
            return line
        found = self.path(unquote(entry["path"]))
        if found is None:
            return line
        entry["path"] = as_uri(found)
        return json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
