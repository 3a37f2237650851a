"""Sealed files of a checkpoint, with format and checksum, and the log of claims and commits, which determines the
owner."""

from __future__ import annotations

import json
import os
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from manager.storage import files, hdfs, object_store
from manager.storage.files import as_storage_error, sync_file, sync_folder, sync_names
from manager.storage.hdfs import is_hdfs
from manager.storage.object_store import is_object_store
from windowing.errors import CheckpointError, DamagedCheckpoint, TakenOver
from windowing.timestamps import show

# Small text files of a checkpoint, sealed: the first line has the format and a checksum of all that follows.


FORMAT = 14
"""The format of a checkpoint. Raise it with every change of the content of the files; other formats are refused."""

_HEADER = re.compile(rb'\{"windbolt": (\d{1,9}), "crc32": "[0-9a-f]{8}"\}')


def seal(body: str) -> bytes:
    """Returns the content of a sealed file with this text."""
    encoded = body.encode()
    return _header(FORMAT, encoded) + b"\n" + encoded


def unseal(data: bytes, path: str) -> str:
    """Returns the text of a sealed file.

    Raises DamagedCheckpoint if the checksum differs, CheckpointError for an undamaged file of another format.
    """
    header, _, body = data.partition(b"\n")
    known = _HEADER.fullmatch(header)
    if known is None:
        if _is_unsealed(data):
            raise _other_format(path, "an older one, without checksums")
        raise DamagedCheckpoint(f"{path} is damaged", why=f"{_looks(data)} instead of text with a checksum")
    version = int(known[1])
    if header != _header(version, body):
        raise DamagedCheckpoint(f"{path} is damaged", why=f"its checksum does not match its {len(body):,} bytes")
    if version != FORMAT:
        raise _other_format(path, str(version))
    return body.decode()


def _header(version: int, body: bytes) -> bytes:
    number = zlib.crc32(body, zlib.crc32(str(version).encode()))
    return f'{{"windbolt": {version}, "crc32": "{number:08x}"}}'.encode()


def _is_unsealed(data: bytes) -> bool:
    """True if the content is a single JSON document. A sealed file never is, even if it is cut short."""
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def _looks(data: bytes) -> str:
    return "it is empty" if not data else f"it begins with {data[:20]!r}"


def _other_format(path: str, version: str) -> CheckpointError:
    return CheckpointError(
        f"{path} has another format: {version}",
        why=f"this version of windbolt reads format {FORMAT}, and cannot convert one into the other",
        do="continue with the version of windbolt that wrote it, or start with a new checkpoint folder "
        "(which reads all input again)",
    )


# A folder of sealed JSON documents, each written atomically and verified when it is read.


_DRAFT = re.compile(r"\..+\.json\.[0-9a-f]{32}")


class SealedFolder:
    """Documents by name, such as ``plans/0000000012``; ``uri`` is the URI of the file system, None for the local
    one."""

    def __init__(self, root: str, filesystem: pafs.FileSystem, uri: str | None) -> None:
        self.root, self.filesystem, self.uri = root, filesystem, uri

    @property
    def place(self) -> str:
        """The folder as users name it: with its scheme, unless it is on this machine."""
        at = urlsplit(self.uri or "")
        host = "" if not at.scheme or is_object_store(self.uri) else at.netloc
        return f"{at.scheme}://{host}{self.root}" if at.scheme else self.root

    def path(self, name: str) -> str:
        """Returns the path of a document."""
        return f"{self.root}/{name}.json"

    def has(self, name: str) -> bool:
        """True if the document exists."""
        path = self.path(name)
        if self.uri is not None and is_object_store(self.uri):
            with as_storage_error(path, "looked at"):
                return object_store.is_object(self.uri, path)
        return files.path_exists(self.filesystem, path)

    def read(self, name: str) -> Any:
        """Returns a document; None if there is none.

        Raises DamagedCheckpoint for a damaged file, CheckpointError for another format, StorageError if the file cannot
        be read.
        """
        path = self.path(name)
        data = self._bytes(path)
        return None if data is None else json.loads(unseal(data, path))

    def write(self, name: str, values: Any) -> None:
        """Write a document atomically."""
        path, data = self.path(name), seal(json.dumps(values))
        if self.uri is not None and is_object_store(self.uri):
            with as_storage_error(path, "written"):
                object_store.write_object(self.uri, path, data)
            return
        write_whole(self.filesystem, self.uri, path, data)

    def sync(self) -> None:
        """Returns once all files that were written, moved or deleted here survive a power cut. Called at the end of a
        command, because no later batch does it."""
        if self.uri is None:
            sync_folder(self.root)

    def create(self, name: str, values: Any) -> bool:
        """Write a document if there is none yet, atomically; False if there is one.

        The values have something of their own, such as a random id: a document that is there with the same values
        counts as written by this call. For object stores and HDFS; on a local file system a lock keeps others off.
        """
        assert self.uri is not None, "on this machine a lock keeps others off"
        path, data = self.path(name), seal(json.dumps(values))
        return create_whole(self.uri, path, data)

    def delete(self, *names: str) -> None:
        """Delete documents; elsewhere than on this machine they may have been deleted already."""
        delete_all(self.filesystem, self.uri, [self.path(name) for name in names])

    def names(self, folder: str) -> list[str]:
        """Returns the names of the documents in a subfolder, sorted: batches in order of time."""
        found = [base.removesuffix(".json") for base in self.entries(folder) if base.endswith(".json")]
        return sorted(base for base in found if not base.startswith("."))

    def entries(self, folder: str) -> list[str]:
        """Returns the names of all entries of a subfolder, hidden files included."""
        return [entry.base_name for entry in files.entries(self.filesystem, f"{self.root}/{folder}".rstrip("/"))]

    def _bytes(self, path: str) -> bytes | None:
        if self.uri is not None and is_object_store(self.uri):
            with as_storage_error(path, "read"):
                return object_store.read_object(self.uri, path)
        return files.read_bytes(self.filesystem, path) if files.path_exists(self.filesystem, path) else None

    def sweep(self, folder: str) -> None:
        """Delete the drafts left by processes that died while writing."""
        for base in self.entries(folder):
            if _DRAFT.fullmatch(base):
                delete_all(self.filesystem, self.uri, ["/".join(filter(None, [self.root, folder, base]))])


def _draft_of(path: str) -> str:
    """Returns a new hidden name for a file that will get this path."""
    folder, base = path.rsplit("/", 1)
    return f"{folder}/.{base}.{uuid.uuid4().hex}"


def write_whole(filesystem: pafs.FileSystem, uri: str | None, path: str, data: bytes) -> None:
    """Write a file, on this machine or in HDFS, so that it is either complete or missing, also after a power cut."""
    draft = _draft_of(path)
    files.write_private(filesystem, draft, data)
    if uri is None:
        sync_file(draft)
    files.move(filesystem, draft, path)
    if uri is None:
        sync_names(os.path.dirname(path))


def create_whole(uri: str, path: str, data: bytes, draft_of: Callable[[str], str] = _draft_of) -> bool:
    """Write a file if there is none yet, in an object store or HDFS; False if there is one with other bytes.

    ``draft_of`` makes a hidden name in the same folder, which HDFS gives it first.
    """
    with as_storage_error(path, "written"):
        if is_hdfs(uri):
            return hdfs.create_file(uri, draft_of(path), path, data)
        return object_store.create_object(uri, path, data)


def delete_all(filesystem: pafs.FileSystem, uri: str | None, paths: Iterable[str], *, missing: bool = False) -> None:
    """Delete files; on an object store together. Elsewhere than on this machine they may have been deleted already;
    ``missing``: here too."""
    if uri is not None and is_object_store(uri):
        doomed = sorted(paths)
        if doomed:
            with as_storage_error(doomed[0], "deleted"):
                object_store.delete_objects(uri, doomed)
        return
    for path in paths:
        files.delete(filesystem, path, missing=missing or is_hdfs(uri))


def required(found: Any, path: str, why: str) -> Any:
    """Returns the document that was found; raises DamagedCheckpoint with the reason ``why`` for None."""
    if found is None:
        raise DamagedCheckpoint(f"{path} is gone", why=why)
    return found


# The owner of a checkpoint without a lock: a sequence of claims and commits, each made by a conditional write.
#
# The documents ``turns/0000000001``, ``turns/0000000002`` and so on are one sequence. A run that opens the checkpoint
# writes the next one, its claim; each commit is the next one, too. A document is only ever created where there is
# none, so of two runs that want the same number one gets it. A claim takes the number that the run before it needs for
# its next commit: that run finds a document of somebody else there, and stops (decision 67).
#
# Each holds what is committed, so the last one says what counts. Elsewhere there are copies of it, which somebody who
# has lost the checkpoint may still write (decision 87).


_FOLDER = "turns"
_ATTEMPTS = 1000
"""Number of lost claims after which a run gives up; each time another run has been faster and committed a batch."""

LogEntry = dict[str, Any]
"""A document of the sequence: the fields of ``Committed``; ``owner``, ``since``, ``run``, ``command``, ``epoch`` of its
writer; and an ``id`` that no other document has."""


@dataclass(frozen=True)
class Committed:
    """State that has been committed, as of one entry of the log."""

    batch: str | None = None
    """The key of the batch committed last; None before the first one."""
    manifest: Any = None
    """Manifest of that batch; None if only ``manifests/`` has it, as in a checkpoint that was copied without its
    ``turns``."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Per name, the present notes that were replaced together with the state."""
    first: str | None = None
    """The key of the first batch that can be gone back to; None for any that is kept."""

    @staticmethod
    def from_entry(entry: LogEntry) -> Committed:
        """Returns the committed state in a document."""
        return Committed(**{each.name: entry[each.name] for each in fields(Committed) if each.name in entry})


@dataclass(frozen=True)
class Owner:
    """Owner of a checkpoint, described for the run that loses it."""

    name: str
    """Name of the owner, such as ``process 4711 on host``."""
    since: int
    """Time of the claim, in microseconds."""
    run: str = ""
    """The id of the run, which stays the same if the run restarts itself."""
    command: str = ""
    """The command that claims it, which ends when it has changed the checkpoint; empty for a run."""


class FencedLog:
    """The sequence of claims and commits of one checkpoint, as one run sees and extends it."""

    def __init__(self, files: SealedFolder) -> None:
        self._files = files
        self.epoch = 0
        """The number of this run's claim; 0 before it."""
        self._last = 0
        """The number of the last document that this run has written."""
        self._owner: Owner | None = None

    def claim(self, owner: Owner, settle: Callable[[Committed | None], Committed], *, again: bool = False) -> Committed:
        """Take the checkpoint over: from now on no run that claimed it before can commit.

        ``again``: this run claimed it before. TakenOver is raised if another run has claimed it since.

        ``settle`` is called with the committed state, perhaps several times. It makes sure that all copies of the state
        exist, and returns the state to commit with the claim. That state is returned.
        """
        for _ in range(_ATTEMPTS):
            number = max(_numbers(self._files), default=0)
            before = self._files.read(_name(number)) if number else None
            if number and before is None:
                continue  # its owner has moved on, and deleted it
            if again and before is not None and before["run"] != owner.run:
                raise self._lost()
            committed = settle(None if before is None else Committed.from_entry(before))
            if not self._create(number + 1, _new_entry(owner, number + 1, committed)):
                continue
            later = self._last_entry_after(number + 1)
            if later is None:
                self.epoch, self._owner = number + 1, owner
                return committed
            if later["epoch"] > number + 1:
                raise self._lost()
            # the run before had used that number, moved on and deleted it: the document there now means nothing
        raise CheckpointError(
            f"checkpoint {self._files.place.removesuffix('/windbolt')} cannot be claimed",
            why=f"another run has committed a batch each of the {_ATTEMPTS} times that this one tried",
            do="stop that run first",
        )

    def commit(self, committed: Committed) -> None:
        """Make this the state of the checkpoint. Raises TakenOver if another run has the checkpoint now; the new owner
        then decides whether this is committed."""
        assert self._owner is not None, "claim() comes before the first commit"
        if not self._create(self._last + 1, _new_entry(self._owner, self.epoch, committed)):
            raise self._lost()
        self.check()

    def check(self) -> None:
        """Raise TakenOver if somebody else has claimed the checkpoint since this run did."""
        if max(_numbers(self._files), default=0) > self._last:
            raise self._lost()

    def clean(self) -> None:
        """Delete the documents before this run's last one. A run that lost the checkpoint may then create a document
        whose number was used before; it finds the later ones, and knows by them that it has lost."""
        self._files.delete(*(_name(number) for number in _numbers(self._files) if number < self._last))

    def _create(self, number: int, entry: LogEntry) -> bool:
        """Write a document if there is none; False if there is one. Where there are later ones the number had been
        used, or somebody else has taken over at once."""
        if not self._files.create(_name(number), {**entry, "id": uuid.uuid4().hex}):
            return False
        self._last = number
        return True

    def _last_entry_after(self, number: int) -> LogEntry | None:
        """Returns the last document, if it is a later one."""
        while (last := max(_numbers(self._files), default=0)) > number:
            found: LogEntry | None = self._files.read(_name(last))
            if found is not None:  # else its owner has moved on, and deleted it
                return found
        return None

    def _lost(self) -> TakenOver:
        unknown: LogEntry = {"owner": "another run", "since": None}
        latest = self._files.read(_name(max(_numbers(self._files), default=0))) or unknown
        since = f" at {show(latest['since'])}" if latest["since"] is not None else ""
        command = latest.get("command", "")
        owner = latest["owner"] + (f" ({command})" if command else "")
        of_run = "let that run continue; or stop it, and start this one again"
        of_command = "start again: a run goes on with what the command has changed, such as other numbers of tasks"
        return TakenOver(
            f"checkpoint {self._files.place.removesuffix('/windbolt')} has been taken over by {owner}{since}",
            why="a checkpoint belongs to whoever took it last; nothing more is committed here",
            do=of_command if command else of_run,
        )


def last_entry(files: SealedFolder) -> LogEntry | None:
    """Returns the last document; None if there is none. Nothing is claimed: a run may be in progress."""
    while True:
        number = max(_numbers(files), default=0)
        found: LogEntry | None = files.read(_name(number)) if number else None
        if found is not None or not number:
            return found  # else its owner has moved on, and deleted it


def _numbers(files: SealedFolder) -> list[int]:
    return [int(name) for name in files.names(_FOLDER) if name.isdigit()]


def _name(number: int) -> str:
    return f"{_FOLDER}/{number:010d}"


def _new_entry(owner: Owner, epoch: int, committed: Committed) -> LogEntry:
    about = {"owner": owner.name, "since": owner.since, "run": owner.run, "command": owner.command, "epoch": epoch}
    return about | asdict(committed)
