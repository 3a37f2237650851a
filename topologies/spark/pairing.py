"""The two halves of a checkpoint, Spark's and ours: that they belong together, and to this topology."""

from __future__ import annotations

import fcntl
import json
import os
from typing import IO, Any

import pyarrow.fs as pafs

from manager.checkpoint import FileCheckpoint
from manager.manifest import Manifest
from topologies.model import Topology
from topologies.places import locate
from topologies.spark.fingerprint import differences, fingerprint
from topologies.spark.source_log import SourceLog
from windowing.errors import CheckpointError
from windowing.timestamps import show

_NOTE = "topology"
_START = "start"


class Halves:
    """A checkpoint folder: ``spark/`` is Spark's, ``windbolt/`` is ours."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/")
        self._fs, self._root, uri = locate(self.path)
        self.spark = f"{self.path}/spark" if uri else f"{self._root}/spark"
        self._uri = uri
        self._held: IO[str] | None = None
        self.first_output: int | None = None
        """Where the run that made the checkpoint started, in microseconds, if that was at the time of an output."""

    def lock(self) -> None:
        """Keep other runs off this checkpoint until ``release``, or the end of this process; local folders only."""
        if self._uri is not None:
            return
        try:
            self._fs.create_dir(self._root, recursive=True)
            self._held = open(f"{self._root}/.lock", "a+", encoding="utf-8")  # noqa: SIM115 - held for the whole run
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {self.path!r} cannot be made or written to",
                why=str(error),
                do="name a folder that this user may write to",
            ) from error
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._held.seek(0)
            owner = self._held.read().strip() or "another process"
            self._held.close()
            raise CheckpointError(
                f"checkpoint {self.path!r} is in use by {owner}",
                why="two runs on one checkpoint would delete each other's state",
                do="stop the other run, or give this one a checkpoint of its own",
            ) from error
        self._held.truncate(0)
        self._held.write(f"process {os.getpid()}")
        self._held.flush()

    def release(self) -> None:
        """Let other runs have this checkpoint."""
        if self._held is not None:
            self._held.close()

    def open(self, topology: Topology, first_output: int | None = None) -> FileCheckpoint:
        """Our half; CheckpointError, with what to do, where it does not fit the other, the topology or the start.

        ``first_output``: where the run is to start; None: at its input, or where the run before it did.
        """
        fresh = self._missing("windbolt")
        query, committed = self.query(), self._last_commit()
        if fresh and committed is not None:
            raise self._refused("the windbolt half is missing", f"Spark's half has batches up to {committed}")
        ours = FileCheckpoint(f"{self._root}/windbolt", self._uri)
        manifest, note = ours.latest(), ours.read_note(_NOTE)
        if note is None:
            self.first_output = first_output
            ours.write_note(_START, {"first_output": first_output})  # first: where the other is, this is
            ours.write_note(_NOTE, fingerprint(topology))
        else:
            self._check_topology(topology, note)
            self.first_output = (ours.read_note(_START) or {}).get("first_output")
            self._check_start(first_output)
        if manifest is not None and (manifest.batch >= 0 or committed is not None):
            self._check_query(manifest, query, committed)
        elif manifest is None and committed is not None:
            raise self._refused("the windbolt half holds no batch", f"Spark's half has batches up to {committed}")
        return ours

    def source_log(self, spouts: tuple[str, ...]) -> SourceLog:
        """Spark's record of which files belong to which batch."""
        return SourceLog(self._fs, f"{self._root}/spark", spouts)

    def query(self) -> str | None:
        """The id of the query that Spark's half belongs to; None before its first start."""
        text = self._read("spark/metadata")
        return None if text is None else str(json.loads(text)["id"])

    def _check_topology(self, topology: Topology, note: dict[str, Any]) -> None:
        changed = differences(note, fingerprint(topology))
        if changed:
            raise CheckpointError(
                f"checkpoint {self.path!r} belongs to another topology:\n"
                + "\n".join(f"  - {each}" for each in changed),
                why="its events were shared out and kept for the topology as it was",
                do="run the topology as it was, or start with a new checkpoint folder (which reads all input again)",
            )

    def _check_start(self, wanted: int | None) -> None:
        started = self.first_output
        if wanted is None or wanted == started:
            return
        was = "without one" if started is None else f"with the one at {show(started)}"
        go_on = "leave it out to go on as before"
        raise CheckpointError(
            f"checkpoint {self.path!r} cannot have its first output at {show(wanted)}: it was begun {was}",
            why="what was read and emitted so far is what that start called for",
            do=f"{go_on}; or start with a new checkpoint folder (which reads all input again)",
        )

    def _check_query(self, manifest: Manifest, query: str | None, committed: int | None) -> None:
        if query is None:
            raise self._refused("Spark's half is missing", f"the windbolt half has batches up to {manifest.batch}")
        if manifest.query is not None and manifest.query != query:
            raise self._refused(
                "its halves belong to different queries", f"Spark's to {query}, windbolt's to {manifest.query}"
            )
        last = -1 if committed is None else committed
        if manifest.batch not in (last, last + 1):
            raise self._refused(
                "its halves are not of the same time", f"Spark's is at batch {last}, windbolt's at {manifest.batch}"
            )

    def _refused(self, what: str, why: str) -> CheckpointError:
        return CheckpointError(
            f"checkpoint {self.path!r} cannot be used: {what}",
            why=why,
            do="restore both halves, spark/ and windbolt/, from one copy; or start with a new checkpoint folder",
        )

    def _missing(self, name: str) -> bool:
        return bool(self._fs.get_file_info(f"{self._root}/{name}").type == pafs.FileType.NotFound)

    def _last_commit(self) -> int | None:
        folder = f"{self._root}/spark/commits"
        if self._missing("spark/commits"):
            return None
        entries = self._fs.get_file_info(pafs.FileSelector(folder))
        numbers = [int(entry.base_name) for entry in entries if entry.base_name.isdigit()]
        return max(numbers, default=None)

    def _read(self, name: str) -> str | None:
        if self._missing(name):
            return None
        with self._fs.open_input_stream(f"{self._root}/{name}") as source:
            return source.read().decode()  # type: ignore[no-any-return]
