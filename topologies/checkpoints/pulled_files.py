"""Rows of a spout that can be read only once: they are kept in files of the checkpoint, written before a batch uses
them.

Such a spout is a user's, or a streaming DataFrame in a checkpoint that was begun over Spark Connect. A file contains
the rows of a batch, and the offset after them. A spout of partitions can be read again, so its files contain ranges
instead of rows. The last file has the offset at which the spout continues. Files without a batch are the next batches,
whatever happened to the run that wrote them.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import ipc

from manager.remote import has_query
from manager.storage.files import (
    as_storage_error,
    entries,
    make_folder,
    path_exists,
)
from manager.storage.object_store import is_object_store
from manager.storage.sealed_files import create_whole, delete_all, write_whole
from topologies.checkpoints.paired_checkpoint import START_OVER, PairedCheckpoint
from topologies.engine.pulling import PartitionRange, Pulled, ranges_in
from topologies.io.file_spout import FoundFile, WatchedFiles
from topologies.io.formats import file_format
from topologies.io.paths import literal
from topologies.io.pulled import PulledRanges, PulledRows, RangedSpout
from windowing.errors import CheckpointError, ConfigError, DamagedCheckpoint
from windowing.schema import SchemaLike

FOLDER = "spouts"
"""The checkpoint's folder with a folder for each spout that can be read only once."""
QUERY = "query"
"""The folder of a spout with the checkpoint of the Spark query that reads it."""
_NAME = re.compile(r"(\d{12})\.arrow")
_OFFSET = b"windbolt.offset"
_FIRST_CHANGE_MS = 1_000_000_000_000


class Reader(Protocol):
    """Reads the rows of a spout that can be read only once, during a run."""

    @property
    def wants_acknowledgements(self) -> bool:
        """True if ``acknowledge`` must be called."""

    def pull(self) -> Pulled | None:
        """Returns the next rows; None if there are none now. By then, the rows returned before are in a file."""

    def acknowledge(self, offset: Any) -> None:
        """Called when a batch is committed with the rows before this offset."""

    def close(self) -> None:
        """Called when the run has ended."""


def pulled_rows(
    name: str, declared: SchemaLike, defaults: Mapping[str, Any], checkpoint: str, ranged: RangedSpout | None = None
) -> PulledRows:
    """Returns the file spout that stands for a spout that can be read only once, in a run on a checkpoint.
    ``declared``: its columns; ``ranged``: the spout, if only ranges of its partitions are kept."""
    if has_query(checkpoint):
        raise ConfigError(
            f"spout {name!r} keeps what it reads in the checkpoint {checkpoint.partition('?')[0]!r}, which is named "
            "with options",
            why="files are listed and read by names without options",
            do="give the options as variables of the environment, such as AWS_ENDPOINT_URL",
        )
    root = checkpoint.rstrip("/") if "://" in checkpoint else os.path.abspath(checkpoint)
    settings: dict[str, Any] = {
        "declared": declared,
        "format": file_format("arrow"),
        "on_change": "ignore",
        "defaults": defaults,
        "place": f"{root}/{FOLDER}/{name}",
    }
    paths = (literal(f"{root}/{FOLDER}/{name}"),)
    if ranged is not None:
        return PulledRanges(paths, **settings, merge_by=ranged.merge_by, spout=ranged.spout)
    return PulledRows(paths, **settings)


class PulledFiles(WatchedFiles):
    """The files of a spout that can be read only once, during a run; the rows of each pull become the next file."""

    def __init__(
        self,
        name: str,
        spout: PulledRows,
        open_reader: Callable[[Any], Reader],
        halves: PairedCheckpoint,
        keep: int,
        check_owner: Callable[[], None],
    ) -> None:
        """``open_reader``: called once with the offset after the rows read before, None at the beginning; and again if
        another run, from which this one has taken the checkpoint over, has read on. ``keep``: number of batches to
        which the run can go back. ``check_owner``: raises CheckpointError if another run has taken the checkpoint
        over."""
        super().__init__(name, spout)
        self._open_reader, self._keep, self._check_owner = open_reader, keep, check_owner
        self._filesystem, self._uri = halves.filesystem, halves.uri
        self._folder = f"{halves.root}/{FOLDER}/{name}"
        self._place = spout.place
        self._open_now: Reader | None = None
        self._reader_after = -1
        """The file with the rows after which the reader continues."""
        self._last_in_batch = -1
        """The last file known to belong to a batch."""
        self._offsets: dict[int, Any] = {}
        """The offsets after those files of this run that still exist."""

    def new(self, read: dict[str, int]) -> Iterator[FoundFile]:
        """Yields the files that are not in ``read``, and then newly pulled files, each on demand."""
        self._last_in_batch = _file_number(next(reversed(read))) if read else -1
        return self._files_after(self._last_in_batch)

    def acknowledge(self, paths: Sequence[str]) -> None:
        """Called when the batch with these files is committed: tells the source, and deletes files that are too old to
        go back to."""
        last_file = max(map(_file_number, paths), default=None)
        if last_file is None:
            return
        self._last_in_batch = max(self._last_in_batch, last_file)
        reader = self._open_now or self._reader_behind(max(self._numbers(), default=-1))
        if reader.wants_acknowledgements:
            reader.acknowledge(self._offset(last_file))
        too_old = [number for number in self._numbers() if number < last_file - self._keep]
        delete_all(self._filesystem, self._uri, map(self._path, too_old), missing_ok=True)
        for number in too_old:
            self._offsets.pop(number, None)

    def partitions(self, paths: Sequence[str]) -> list[str]:
        """Returns the source's partitions at the batch with these files; empty if the source has none."""
        last = max(map(_file_number, paths), default=self._last_in_batch)
        return [*self._offset(last)] if last >= 0 and isinstance(self.spout, PulledRanges) else []

    def ranges(self, path: str) -> list[PartitionRange]:
        """Returns the ranges of a source with partitions that a batch with this file reads."""
        path = self._path(_file_number(path))
        if not path_exists(self._filesystem, path):
            raise self._missing_file(_file_number(path))
        try:
            with as_storage_error(path, "read"), self._filesystem.open_input_file(path) as source:
                return ranges_in(ipc.open_file(source).read_all())
        except (pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
            raise DamagedCheckpoint(f"{path} is damaged", why=str(error)) from error

    def close(self) -> None:
        """Closes the reader."""
        if self._open_now is not None:
            self._open_now.close()

    def _files_after(self, last_file: int) -> Iterator[FoundFile]:
        numbers = self._numbers()
        if last_file >= 0 and last_file not in numbers:
            raise self._missing_file(last_file)
        while True:
            for number in numbers:
                if number > last_file:
                    yield self._file_of(number)
            last_file = max(numbers, default=last_file)
            while (pulled := self._reader_behind(last_file).pull()) is not None and self._write(last_file + 1, pulled):
                last_file = self._reader_after = last_file + 1
                self._offsets[last_file] = pulled.offset
                yield self._file_of(last_file)
            if pulled is None:
                return
            numbers = self._numbers()

    def _reader_behind(self, number: int) -> Reader:
        """Returns the reader for the rows after a file; a new reader if another run, from which this one has taken the
        checkpoint over, has read on meanwhile, so that its rows come first."""
        if self._open_now is not None and self._reader_after != number:
            opened, self._open_now = self._open_now, None
            opened.close()
        if self._open_now is None:
            self._open_now, self._reader_after = (
                self._open_reader(self._offset(number) if number >= 0 else None),
                number,
            )
        return self._open_now

    def _numbers(self) -> list[int]:
        found = (_NAME.fullmatch(entry.base_name) for entry in entries(self._filesystem, self._folder))
        return sorted(int(each[1]) for each in found if each)

    def _path(self, number: int) -> str:
        return f"{self._folder}/{_file_name(number)}"

    def _file_of(self, number: int) -> FoundFile:
        return FoundFile(f"{self._place}/{_file_name(number)}", _FIRST_CHANGE_MS + number, 1)

    def _offset(self, number: int) -> Any:
        path = self._path(number)
        if number in self._offsets:
            return self._offsets[number]
        if not path_exists(self._filesystem, path):
            raise self._missing_file(number)
        try:
            with as_storage_error(path, "read"), self._filesystem.open_input_file(path) as source:
                return json.loads(ipc.open_file(source).schema.metadata[_OFFSET])
        except (pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
            raise DamagedCheckpoint(f"{path} is damaged", why=str(error)) from error

    def _missing_file(self, number: int) -> CheckpointError:
        return CheckpointError(
            f"spout {self.name!r} cannot go on: {self._path(number)} is gone",
            why="it says up to which offset the source was read",
            do=f"restore the folder {FOLDER}/ of the checkpoint; or {START_OVER}",
        )

    def _write(self, number: int, pulled: Pulled) -> bool:
        """Writes a file of pulled rows. Returns False if it exists already, from the run whose checkpoint this run has
        taken over."""
        metadata = {_OFFSET: json.dumps(pulled.offset).encode(), b"id": uuid.uuid4().bytes}
        sink = pa.BufferOutputStream()
        rows = pulled.rows.replace_schema_metadata(metadata)
        with ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        path, data = self._path(number), sink.getvalue().to_pybytes()
        if not is_object_store(self._uri):
            make_folder(self._filesystem, self._folder)
        if self._uri is None:
            write_whole(self._filesystem, self._uri, path, data)
        elif not create_whole(self._uri, path, data):
            self._check_owner()
            return False
        return True


def _file_number(path: str) -> int:
    return int(path.rsplit("/", 1)[1].removesuffix(".arrow"))


def _file_name(number: int) -> str:
    return f"{number:012d}.arrow"
