"""Sealed files of a checkpoint, with format and checksum; and the log of claims, which determines the owner."""

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

# Sealed files: small text files whose first line has the format and a checksum of the text.


FORMAT = 15
"""The format of a checkpoint. Every change of the content of files needs a new format; other formats are refused."""

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
    header_match = _HEADER.fullmatch(header)
    if header_match is None:
        if _is_unsealed(data):
            raise _other_format(path, "an older one, without checksums")
        raise DamagedCheckpoint(f"{path} is damaged", why=f"{_describe_content(data)} instead of text with a checksum")
    version = int(header_match[1])
    if header != _header(version, body):
        raise DamagedCheckpoint(f"{path} is damaged", why=f"its checksum does not match its {len(body):,} bytes")
    if version != FORMAT:
        raise _other_format(path, str(version))
    return body.decode()


def _header(version: int, body: bytes) -> bytes:
    number = zlib.crc32(body, zlib.crc32(str(version).encode()))
    return f'{{"windbolt": {version}, "crc32": "{number:08x}"}}'.encode()


def _is_unsealed(data: bytes) -> bool:
    """True if the content is a single JSON document. A sealed file is never a JSON document, even if truncated."""
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def _describe_content(data: bytes) -> str:
    return "it is empty" if not data else f"it begins with {data[:20]!r}"


def _other_format(path: str, version: str) -> CheckpointError:
    return CheckpointError(
        f"{path} has another format: {version}",
        why=f"this version of windbolt reads format {FORMAT}, and cannot convert one into the other",
        do="continue with the version of windbolt that wrote it, or start with a new checkpoint folder "
        "(which reads all input again)",
    )


# A folder of sealed JSON documents.


_DRAFT = re.compile(r"\..+\.json\.[0-9a-f]{32}")


class SealedFolder:
    """Documents by name, such as ``plans/0000000012``; each is written atomically and verified when it is read.

    ``uri``: the URI of the file system; None for the local file system.
    """

    def __init__(self, root: str, filesystem: pafs.FileSystem, uri: str | None) -> None:
        self.root, self.filesystem, self.uri = root, filesystem, uri

    @property
    def shown_name(self) -> str:
        """The name of the folder in error texts: a URI, or the path of a local folder."""
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
        """Returns a document; None if the document does not exist.

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
        """Make all changes of local files survive a power cut; called at the end of a command, because no later batch
        makes them survive."""
        if self.uri is None:
            sync_folder(self.root)

    def create(self, name: str, values: Any) -> bool:
        """Write a document atomically if it does not exist. Returns False if it exists with other values.

        The values must be unique, by a random id for example: an existing document with the same values counts as
        written by this call. For object stores and HDFS only, because a local checkpoint has a lock.
        """
        assert self.uri is not None, "on this machine a lock keeps others off"
        path, data = self.path(name), seal(json.dumps(values))
        return create_whole(self.uri, path, data)

    def delete(self, *names: str) -> None:
        """Delete documents. Remote documents may already be deleted."""
        delete_all(self.filesystem, self.uri, [self.path(name) for name in names])

    def names(self, folder: str) -> list[str]:
        """Returns the names of the documents in a subfolder, sorted."""
        document_names = [base.removesuffix(".json") for base in self.entries(folder) if base.endswith(".json")]
        return sorted(base for base in document_names if not base.startswith("."))

    def entries(self, folder: str) -> list[str]:
        """Returns the names of all entries of a subfolder, also of hidden files."""
        return [entry.base_name for entry in files.entries(self.filesystem, f"{self.root}/{folder}".rstrip("/"))]

    def _bytes(self, path: str) -> bytes | None:
        if self.uri is not None and is_object_store(self.uri):
            with as_storage_error(path, "read"):
                return object_store.read_object(self.uri, path)
        return files.read_bytes(self.filesystem, path) if files.path_exists(self.filesystem, path) else None

    def sweep(self, folder: str) -> None:
        """Delete the drafts of processes that died while writing."""
        for base in self.entries(folder):
            if _DRAFT.fullmatch(base):
                delete_all(self.filesystem, self.uri, ["/".join(filter(None, [self.root, folder, base]))])


def _draft_of(path: str) -> str:
    """Returns the path of a new hidden file in the same folder, to be renamed to ``path``."""
    folder, base = path.rsplit("/", 1)
    return f"{folder}/.{base}.{uuid.uuid4().hex}"


def write_whole(filesystem: pafs.FileSystem, uri: str | None, path: str, data: bytes) -> None:
    """Write a file atomically, on the local file system or in HDFS; a local file also survives a power cut."""
    draft = _draft_of(path)
    files.write_private(filesystem, draft, data)
    if uri is None:
        sync_file(draft)
    files.move(filesystem, draft, path)
    if uri is None:
        sync_names(os.path.dirname(path))


def create_whole(uri: str, path: str, data: bytes, draft_of: Callable[[str], str] = _draft_of) -> bool:
    """Write a file atomically in an object store or HDFS if it does not exist. Returns False if it exists with other
    bytes.

    ``draft_of`` returns the path of the hidden file that HDFS writes first.
    """
    with as_storage_error(path, "written"):
        if is_hdfs(uri):
            return hdfs.create_file(uri, draft_of(path), path, data)
        return object_store.create_object(uri, path, data)


def delete_all(filesystem: pafs.FileSystem, uri: str | None, paths: Iterable[str], *, missing_ok: bool = False) -> None:
    """Delete files. Remote files may already be deleted; ``missing_ok``: local files too."""
    if uri is not None and is_object_store(uri):
        doomed = sorted(paths)
        if doomed:
            with as_storage_error(doomed[0], "deleted"):
                object_store.delete_objects(uri, doomed)
        return
    for path in paths:
        files.delete(filesystem, path, missing_ok=missing_ok or is_hdfs(uri))


def require_document(found: Any, path: str, why: str) -> Any:
    """Returns the document ``found``; raises DamagedCheckpoint with the reason ``why`` for None."""
    if found is None:
        raise DamagedCheckpoint(f"{path} is gone", why=why)
    return found


# The log of a checkpoint without a lock: a sequence of entries, each created by a conditional write.
#
# The entries are the documents ``claims/0000000001``, ``claims/0000000002`` and so on. A run that opens the checkpoint
# writes the next entry, its claim; each commit is another entry. Only one of two runs can create an entry of the same
# number. A claim takes the number that the former owner needs for its next commit; the former owner finds the claim
# there, and stops (decision 67).
#
# Each entry holds the committed state, and the state in the last entry is valid. Other files hold copies of the state,
# which may be out of date: a former owner can still write copies (decision 87).


_LOG_FOLDER = "claims"
_ATTEMPTS = 1000
"""Number of failed claims after which a run gives up. A claim fails if another run commits a batch at that moment."""

LogEntry = dict[str, Any]
"""An entry of the log: the fields of ``Committed``; ``owner``, ``since``, ``run``, ``command`` and ``epoch`` of the
writer; and a unique ``id``."""


@dataclass(frozen=True)
class Committed:
    """The committed state in an entry of the log."""

    batch: str | None = None
    """The key of the batch committed last; None before the first commit."""
    manifest: Any = None
    """The manifest of ``batch``; None if only ``manifests/`` has it, as in a checkpoint that was copied without
    ``claims/``."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """The notes that belong to the state, by name."""
    first: str | None = None
    """The key of the first batch to which a run can go back; None for all kept batches."""

    @staticmethod
    def from_entry(entry: LogEntry) -> Committed:
        """Returns the committed state in an entry."""
        return Committed(**{each.name: entry[each.name] for each in fields(Committed) if each.name in entry})


@dataclass(frozen=True)
class Owner:
    """Owner of a checkpoint, as described to the run that loses the checkpoint."""

    name: str
    """Name of the owner, such as ``process 4711 on host``."""
    since: int
    """Time of the claim, in microseconds."""
    run: str = ""
    """The id of the run, which does not change if the run restarts itself."""
    command: str = ""
    """The command that claims the checkpoint; empty for a run."""


class FencedLog:
    """The log of one checkpoint, as used by one run."""

    def __init__(self, documents: SealedFolder) -> None:
        self._documents = documents
        self.epoch = 0
        """The number of this run's claim; 0 before the claim."""
        self._last = 0
        """The number of the last entry that this run has written."""
        self._owner: Owner | None = None

    def claim(self, owner: Owner, settle: Callable[[Committed | None], Committed], *, again: bool = False) -> Committed:
        """Claim the checkpoint; its former owners can then no longer commit. Returns the state committed with the
        claim.

        ``settle`` takes the committed state, makes sure that all copies of the state exist, and returns the state to
        commit with the claim. It may be called several times.

        ``again``: this run has claimed the checkpoint before. TakenOver is raised if another run has claimed it since.
        """
        for _ in range(_ATTEMPTS):
            number = max(_numbers(self._documents), default=0)
            before = self._documents.read(_name(number)) if number else None
            if number and before is None:
                continue  # the owner has committed again, and deleted this entry
            if again and before is not None and before["run"] != owner.run:
                raise self._taken_over_error()
            committed = settle(None if before is None else Committed.from_entry(before))
            if not self._create(number + 1, _new_entry(owner, number + 1, committed)):
                continue
            later = self._last_entry_after(number + 1)
            if later is None:
                self.epoch, self._owner = number + 1, owner
                return committed
            if later["epoch"] > number + 1:
                raise self._taken_over_error()
            # the former owner had used this number, committed again and deleted the entry: this claim is not valid
        raise CheckpointError(
            f"checkpoint {self._documents.shown_name.removesuffix('/windbolt')} cannot be claimed",
            why=f"another run has committed a batch each of the {_ATTEMPTS} times that this one tried",
            do="stop that run first",
        )

    def commit(self, committed: Committed) -> None:
        """Make this the state of the checkpoint. Raises TakenOver if another run has claimed the checkpoint; whether
        the commit is valid then depends on that run."""
        assert self._owner is not None, "claim() comes before the first commit"
        if not self._create(self._last + 1, _new_entry(self._owner, self.epoch, committed)):
            raise self._taken_over_error()
        self.check()

    def check(self) -> None:
        """Raise TakenOver if another run has claimed the checkpoint since this run's last entry."""
        if max(_numbers(self._documents), default=0) > self._last:
            raise self._taken_over_error()

    def clean(self) -> None:
        """Delete the entries before this run's last entry.

        A former owner may then create an entry with a deleted number, but finds the later entries and stops.
        """
        self._documents.delete(*(_name(number) for number in _numbers(self._documents) if number < self._last))

    def _create(self, number: int, entry: LogEntry) -> bool:
        """Write an entry; return False if the number is taken. If there are later entries, the entry is not valid."""
        if not self._documents.create(_name(number), {**entry, "id": uuid.uuid4().hex}):
            return False
        self._last = number
        return True

    def _last_entry_after(self, number: int) -> LogEntry | None:
        """Returns the last entry if it is after this number, else None."""
        while (last_number := max(_numbers(self._documents), default=0)) > number:
            entry: LogEntry | None = self._documents.read(_name(last_number))
            if entry is not None:  # else the owner has committed again, and deleted this entry
                return entry
        return None

    def _taken_over_error(self) -> TakenOver:
        unknown: LogEntry = {"owner": "another run", "since": None}
        latest = self._documents.read(_name(max(_numbers(self._documents), default=0))) or unknown
        since = f" at {show(latest['since'])}" if latest["since"] is not None else ""
        command = latest.get("command", "")
        owner = latest["owner"] + (f" ({command})" if command else "")
        advice_for_run = "let that run continue; or stop it, and start this one again"
        advice_for_command = (
            "start again: a run goes on with what the command has changed, such as other numbers of tasks"
        )
        return TakenOver(
            f"checkpoint {self._documents.shown_name.removesuffix('/windbolt')} has been taken over by {owner}{since}",
            why="a checkpoint belongs to whoever took it last; nothing more is committed here",
            do=advice_for_command if command else advice_for_run,
        )


def last_entry(documents: SealedFolder) -> LogEntry | None:
    """Returns the last entry, without a claim; None for an empty log."""
    while True:
        number = max(_numbers(documents), default=0)
        entry: LogEntry | None = documents.read(_name(number)) if number else None
        if entry is not None or not number:
            return entry  # else the owner has committed again, and deleted this entry


def _numbers(documents: SealedFolder) -> list[int]:
    return [int(name) for name in documents.names(_LOG_FOLDER) if name.isdigit()]


def _name(number: int) -> str:
    return f"{_LOG_FOLDER}/{number:010d}"


def _new_entry(owner: Owner, epoch: int, committed: Committed) -> LogEntry:
    writer = {"owner": owner.name, "since": owner.since, "run": owner.run, "command": owner.command, "epoch": epoch}
    return writer | asdict(committed)
