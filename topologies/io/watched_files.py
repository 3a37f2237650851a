"""The files of a spout during a run: those that are new, and those that were changed after they were read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import islice

from topologies.io.file_spout import FileSpout, FoundFile, changed_at, entries_of, in_order
from topologies.io.patterns import Entry
from windowing.errors import DataError

_NEWEST = 1_000
"""How many of the files that were read last are compared at each look after the first."""


class WatchedFiles:
    """Lists the files of a spout for the batches of a run, and finds those that were changed after they were read.

    A checkpoint notes when each file was last changed. The first look of a run compares all files that were read, and
    each further one the last 1,000 of them: files are appended to when they are new. In stores, where listing tells
    the times, all are compared each time.
    """

    def __init__(self, name: str, spout: FileSpout) -> None:
        """``name`` of the spout."""
        self.name, self.spout = name, spout
        self._here = os.getcwd()  # a run goes on in the folder in which it was started
        self._read: dict[str, int] = {}
        self._looked = False
        self._changed: dict[str, None] = {}
        self._told = 0

    def new(self, read: dict[str, int]) -> Iterable[FoundFile]:
        """The files that are not in ``read``, in the order in which they are read.

        ``read``: by path, when each file was last changed that belongs to a batch, in milliseconds, in the order of the
        batches. DataError for one that was changed since, where the spout has ``on_change="error"``.
        """
        self._read = read
        entries = entries_of(self.spout.paths, self._here)
        self._compare(entry for entry in entries if entry.path in read)
        return in_order(self.spout.path, (entry for entry in entries if entry.path not in read))

    def acknowledge(self, paths: Sequence[str]) -> None:
        """A batch is committed, to which these files belong."""

    def close(self) -> None:
        """The run has ended."""

    def look(self) -> None:
        """Compare what has been read last. DataError as for ``new``."""
        self._compare(Entry(path, False, None) for path in self._newest() if "://" not in path)

    def take(self) -> list[str]:
        """The files that were changed, each once."""
        new = list(self._changed)[self._told :]
        self._told += len(new)
        return new

    def _newest(self) -> set[str]:
        return set(islice(reversed(self._read), _NEWEST))

    def _compare(self, entries: Iterable[Entry]) -> None:
        if self.spout.on_change == "ignore":
            return
        wanted = self._newest() if self._looked else self._read
        self._looked = True
        for entry in entries:
            path = entry.path
            if path in self._changed or (entry.info is None and path not in wanted):
                continue
            now = changed_at(entry)
            if now is None or now == self._read[path]:
                continue
            if self.spout.on_change == "error":
                raise DataError(
                    f"spout {self.name!r}: {os.path.basename(path)!r} was changed after it was read",
                    why=f"a file is read once, and what is new in {path} would not be read",
                    do="write new rows to new files; or give the spout on_change='warn', which goes on",
                )
            self._changed[path] = None
