"""Spark's half of a checkpoint: what of it there must be, so that Spark continues where it stopped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow.fs as pafs

from manager.storage.file_systems.files import delete, entries, is_there
from topologies.checkpoints.spark_half.spark_files import read_spark_file
from windowing.errors import DamagedCheckpoint

COMPACT = ".compact"
_DRAFT = re.compile(r"\..+\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp(?:\.crc)?")


@dataclass(frozen=True)
class SparkHalf:
    """The folder ``spark/``: ``metadata``, and the logs ``offsets``, ``commits`` and ``sources``."""

    filesystem: pafs.FileSystem
    root: str

    def query(self) -> str | None:
        """The id of the query it belongs to; None before its first start."""
        if not is_there(self.filesystem, f"{self.root}/metadata"):
            return None
        try:
            return str(json.loads(self.read("metadata"))["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable("metadata", error) from error

    def offsets(self) -> list[int]:
        """The batches that Spark has planned."""
        return self._numbers("offsets")

    def commits(self) -> list[int]:
        """The batches that Spark takes for done."""
        return self._numbers("commits")

    def has_heartbeat(self, spouts: int) -> bool | None:
        """Whether a heartbeat comes after so many sources in the log; None where no batch has been planned yet."""
        planned = self.offsets()
        if not planned:
            return None
        return len(self.read(f"offsets/{planned[-1]}").rstrip("\n").split("\n")) - 2 > spouts

    def read(self, name: str) -> str:
        """The text of a file; DamagedCheckpoint where it is not what was written."""
        return read_spark_file(self.filesystem, f"{self.root}/{name}")

    def check(self, batch: int) -> None:
        """Look through what Spark reads when it starts; ``batch`` is the last that was committed in the other half.

        Raises DamagedCheckpoint. Without this Spark would pass over some of the damage: over a log that is gone, for
        one, whose files it then reads again, or never.
        """
        planned, committed = self.offsets(), self.commits()
        last = max([*planned, *committed, batch], default=-1)
        for number in range(max(last - 1, 0), last + 1):
            self.read(f"offsets/{number}")
        if committed:
            self.read(f"commits/{committed[-1]}")
        if last >= 0:
            for source, number in self.logged(last).items():
                self.check_source(source, number)

    def check_batch(self, batch: int) -> None:
        """That all is there that a return to the end of a batch needs; DamagedCheckpoint where it is not."""
        for number in range(max(batch - 1, 0), batch + 1):
            self.read(f"offsets/{number}")
        if batch > 0 and batch not in self.commits():
            self.read(f"commits/{batch - 1}")
        if batch >= 0:
            for source, number in self.logged(batch).items():
                for each in self.missing(source, number):
                    self.restored(source, each)
                for name in self.chain(source, number):
                    self.read(name)

    def logged(self, batch: int) -> dict[int, int]:
        """Per source of files: the last entry of its log that belongs to a batch or an earlier one."""
        name = f"offsets/{batch}"
        try:
            found = [json.loads(line) if line != "-" else None for line in self.read(name).split("\n")[2:]]
        except ValueError as error:
            raise self._unreadable(name, error) from error
        return {
            source: offset["logOffset"]
            for source, offset in enumerate(found)
            if isinstance(offset, dict) and isinstance(offset.get("logOffset"), int)
        }

    def check_source(self, source: int, number: int) -> None:
        """That the log of a source is whole up to its end, and that this is not before an entry."""
        last = max([number, *self.entries(source)], default=-1)
        missing = self.missing(source, last)
        if missing:
            raise DamagedCheckpoint(
                f"Spark's log {self.root}/sources/{source}/{missing[0]} is gone",
                why="it records which files were read; without it Spark would read them again",
            )
        for name in self.chain(source, last):
            self.read(name)

    def entries(self, source: int) -> dict[int, str]:
        """The files of the log of a source, by number; every tenth holds those of all before it as well."""
        names = self.names(f"sources/{source}")
        plain = {int(name): name for name in names if name.isdigit()}
        whole = {int(name.removesuffix(COMPACT)): name for name in names if name.removesuffix(COMPACT).isdigit()}
        return plain | whole

    def chain(self, source: int, last: int) -> list[str]:
        """The files that Spark reads if this is the last entry of a source's log, as far as they are there."""
        return _chain(source, self.entries(source), last)

    def files(self, source: int, entries: dict[int, str] | None = None) -> list[dict[str, Any]]:
        """The entries of the log of a source of files, one for each file; that it is whole is checked elsewhere.

        ``entries``: those of its files that count; None: those that are there now."""
        counted = self.entries(source) if entries is None else entries
        names = _chain(source, counted, max(counted, default=-1))
        lines = [line for name in names for line in self.read(name).split("\n")[1:]]
        return [json.loads(line) for line in lines if line]

    def missing(self, source: int, last: int) -> list[int]:
        """The entries that Spark then misses."""
        entries = self.entries(source)
        return [number for number in _span(entries, last) if number not in entries]

    def restored(self, source: int, number: int) -> str:
        """The text of an entry that Spark has deleted, from a file that holds it too, or DamagedCheckpoint."""
        entries = self.entries(source)
        for later in sorted(entries):
            if later > number and entries[later].endswith(COMPACT):
                lines = self.read(f"sources/{source}/{entries[later]}").split("\n")
                mine = [line for line in lines[1:] if line and json.loads(line)["batchId"] == number]
                return "\n".join([lines[0], *mine])
        raise DamagedCheckpoint(
            f"Spark's log {self.root}/sources/{source}/{number} is gone",
            why="it records which files were read; without it Spark would read them again",
        )

    def after(self, batch: int) -> Iterator[str]:
        """The files of batches after this one, and what of its own commit is damaged."""
        for folder in ("offsets", "commits"):
            names = {*self._paths(folder), *self.summed(folder)}  # of some only the checksum may be left
            yield from sorted(name for name in names if (number := _number(name)) is not None and number > batch)
        try:
            if batch in self.commits():
                self.read(f"commits/{batch}")
        except DamagedCheckpoint:
            yield f"commits/{batch}"
        logged = self.logged(batch) if batch >= 0 else {}
        for source in self._sources_of_files():
            last = logged.get(source, -1)
            names = {*self._paths(f"sources/{source}"), *self.summed(f"sources/{source}")}
            yield from sorted(name for name in names if (number := _number(name)) is not None and number > last)

    def summed(self, folder: str) -> list[str]:
        """The files of a folder of which Spark has kept checksums, also those that are gone."""
        found = [entry.base_name for entry in self._entries(folder)]
        sums = [name for name in found if name.startswith(".") and name.endswith(".crc") and name[1] != "."]
        return sorted("/".join(filter(None, [folder, name[1:-4]])) for name in sums)

    def names(self, folder: str) -> list[str]:
        """What lies in a folder, hidden files left out."""
        found = [entry.base_name for entry in self._entries(folder)]
        return sorted(name for name in found if not name.startswith("."))

    def sweep(self) -> None:
        """Delete the drafts that processes have left that died while they wrote; nobody else runs on the checkpoint."""
        for folder in ("", "offsets", "commits", *(f"sources/{name}" for name in self.names("sources"))):
            for entry in self._entries(folder):
                if _DRAFT.fullmatch(entry.base_name):
                    delete(self.filesystem, entry.path)

    def _entries(self, folder: str) -> list[pafs.FileInfo]:
        return entries(self.filesystem, f"{self.root}/{folder}".rstrip("/"))

    def _sources_of_files(self) -> list[int]:
        """Which sources have a log of files; those of others keep what a source needs as a whole."""
        sources = {int(name) for name in self.names("sources") if name.isdigit()}
        return sorted(source for source in sources if self._is_of_files(source))

    def _is_of_files(self, source: int) -> bool:
        for number in reversed(self.offsets()):
            with suppress(DamagedCheckpoint):
                if source in self.logged(number):
                    return True
        for name in self.entries(source).values():
            with suppress(DamagedCheckpoint):
                return '"batchId":' in self.read(f"sources/{source}/{name}")
        return False

    def _paths(self, folder: str) -> list[str]:
        return [f"{folder}/{name}" for name in self.names(folder)]

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(name) for name in self.names(folder) if name.isdigit())

    def _unreadable(self, name: str, error: Exception) -> DamagedCheckpoint:
        return DamagedCheckpoint(f"Spark's log {self.root}/{name} is damaged", why=f"{type(error).__name__}: {error}")


def _number(name: str) -> int | None:
    """The number of a log's file; None for any other file."""
    base = name.rsplit("/", 1)[-1].removesuffix(COMPACT)
    return int(base) if base.isdigit() else None


def _chain(source: int, entries: dict[int, str], last: int) -> list[str]:
    return [f"sources/{source}/{entries[number]}" for number in _span(entries, last) if number in entries]


def _span(entries: dict[int, str], last: int) -> range:
    """From the last entry that holds all before it, to the last."""
    compact = [number for number, name in entries.items() if name.endswith(COMPACT) and number <= last]
    return range(max(compact, default=0), last + 1)
