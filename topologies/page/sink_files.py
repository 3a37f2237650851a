"""The files that sinks have published, as their folders on this machine have them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from topologies.engine.commit.sink_folders import batch_of_file
from topologies.io.paths import shown_path

LATEST_FILES = 5
"""Number of files of a sink that are named: the latest."""
_AT_LEAST, _TIMES = 5.0, 200
"""A folder is listed again after this many seconds, and not before this many times as long as the last listing took."""

IN_PART = "+"
"""After the version of a state that has something in it which was looked up before that version: a page that says it
has this one is told again what there is."""


class ShownSink(NamedTuple):
    """A sink as pages show it."""

    name: str
    kind: str
    """In words."""
    folder: str | None
    """Where it writes files; None for other sinks."""


@dataclass
class _Listing:
    at: float
    took: float
    version: object
    seen: dict[str, Any]


@dataclass
class SinkFolders:
    """Lists the folders of sinks, each now and then."""

    sinks: Sequence[ShownSink]
    _listed: dict[str, _Listing] = field(default_factory=dict)

    def now(self, version: object) -> tuple[list[dict[str, Any]], bool]:
        """Each sink as plain JSON, and whether all listings are of this version, which changes where files may have
        come."""
        shown = [
            {"name": sink.name, "kind": sink.kind, "folder": sink.folder, "files": self._files(sink, version)}
            for sink in self.sinks
        ]
        return shown, all(listing.version == version for listing in self._listed.values())

    def _files(self, sink: ShownSink, version: object) -> dict[str, Any] | None:
        """How many there are, and the latest; None where they are not listed."""
        if sink.folder is None or "://" in shown_path(sink.folder):
            return None
        last, now = self._listed.get(sink.name), time.monotonic()
        if last is None or (last.version != version and now - last.at > max(_AT_LEAST, _TIMES * last.took)):
            seen = _listed(shown_path(sink.folder))
            last = self._listed[sink.name] = _Listing(now, time.monotonic() - now, version, seen)
        return last.seen


def _listed(folder: str) -> dict[str, Any]:
    names: list[str] = []
    with suppress(OSError):  # there is no folder before the first file
        names = sorted(name for name in os.listdir(folder) if batch_of_file(name) is not None)
    latest = []
    for name in reversed(names[-LATEST_FILES:]):
        with suppress(OSError):
            latest.append({"name": name, "bytes": os.stat(f"{folder}/{name}").st_size})
    return {"count": len(names), "latest": latest}
