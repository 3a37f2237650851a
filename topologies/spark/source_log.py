"""Spark's own record of which files belong to which batch.

The DataFrame of a batch leaves out empty files, which Spark nevertheless counts as read, and to ask it for names
costs a job. The log has all of them, in the order in which Spark took them up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow.fs as pafs

from windowing.errors import CheckpointError


@dataclass(frozen=True)
class SourceLog:
    """The offsets and file lists in Spark's half of a checkpoint."""

    filesystem: pafs.FileSystem
    root: str
    spouts: tuple[str, ...]
    """The file spouts, in the order in which they are the sources of the query: the first ones."""

    def files(self, batch: int) -> list[tuple[str, str]]:
        """The (spout, path) of the files that are new in a batch, in order of arrival.

        Those of one spout by time of change, and in the order of Spark's log where that is equal; the spouts one after
        the other, as they were declared, as in a local run. CheckpointError where the log cannot be read.
        """
        if not self.spouts:
            return []
        try:
            now, before = self._offsets(batch), self._offsets(batch - 1)
            found = [
                (at, entry["timestamp"], spout, unquote(entry["path"]))
                for at, spout in enumerate(self.spouts)
                for number in range(before.get(at, -1) + 1, now.get(at, -1) + 1)
                for entry in self._entries(at, number)
            ]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"Spark's record of the files of batch {batch} in {self.root} cannot be read",
                why=f"{type(error).__name__}: {error}",
                do="use a version of Spark that windbolt is tested with, or restore the checkpoint",
            ) from error
        return [(spout, path) for _, _, spout, path in sorted(found, key=lambda each: each[:2])]

    def _offsets(self, batch: int) -> dict[int, int]:
        """Per source, the last entry of its log that belongs to the batch or an earlier one."""
        if batch < 0:
            return {}
        lines = self._lines(f"offsets/{batch}")[1:]  # the first is the version, the next tells of the batch
        return {
            at: json.loads(line)["logOffset"]
            for at, line in enumerate(lines[1:])
            if at < len(self.spouts) and line != "-"
        }

    def _entries(self, source: int, number: int) -> list[dict[str, Any]]:
        """The files of one entry; every tenth file of the log holds those of all before it as well."""
        path = f"sources/{source}/{number}"
        if self.filesystem.get_file_info(f"{self.root}/{path}").type != pafs.FileType.File:
            path += ".compact"
        entries = [json.loads(line) for line in self._lines(path)[1:]]
        return [entry for entry in entries if entry["batchId"] == number]

    def _lines(self, name: str) -> list[str]:
        with self.filesystem.open_input_stream(f"{self.root}/{name}") as source:
            return source.read().decode().split("\n")  # type: ignore[no-any-return]
