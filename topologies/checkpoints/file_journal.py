"""The journal that tells which files belong to each batch (decisions 38 and 92), even after files were moved."""

from __future__ import annotations

import json
import os
import unicodedata
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote

import pyarrow.fs as pafs

from manager.storage.files import entries, make_folder, path_type
from manager.storage.object_store import is_object_store
from topologies.checkpoints.paired_checkpoint import START_OVER, PairedCheckpoint
from topologies.checkpoints.spark_checkpoint import (
    COMPACT,
    SourceLog,
    SparkCheckpoint,
    create_spark_file,
    delete_spark_file,
    end_offsets_of,
    offsets_as_json,
    read_spark_file,
    write_spark_file,
)
from topologies.graph.graph import Graph
from topologies.io.file_spout import FileSpout, FoundFile
from topologies.io.kafka import KafkaSpout
from topologies.io.paths import folders_before, shown_path
from topologies.io.spouts import FrameSpout
from topologies.run.options import BATCHES_SPARK_KEEPS
from windowing.errors import CheckpointError

# Records which files belong to each batch, in Spark's format (decisions 38 and 92). So each engine continues where the
# other stopped, and all readers of checkpoints find the same format.


_COMPACT_EVERY = 10
"""Interval of a source's log after which an entry repeats all entries before it
(``fileSource.log.compactInterval``)."""
_NOT_QUOTED = "-_.!~*'():@&=+$,;/"
"""Characters that Java leaves unescaped in the path of a URI, besides letters and digits."""
_HEARTBEAT_MILLIS = 1000
"""Milliseconds by which one heartbeat advances Spark's heartbeat source."""


class JournalMoved(Exception):
    """Another run has written the entry that this journal was about to write; read the journal again."""


class FileLog:
    """The files of a spout that belong to batches: the log of a source in Spark's half.

    Both engines write the log here; Spark asks for the number of its last entry (spark/source.py).
    """

    def __init__(self, half: SparkCheckpoint, source: int, uri: str | None) -> None:
        """``source``: its index among the sources of the query. ``uri``: as for ``FileJournal``."""
        self._half, self._source, self._uri = half, source, uri
        # One listing of the folder, so that files which another run is adding are not seen in part.
        entries = half.entries(source)
        self._files = half.files(source, entries)
        self.latest = max(entries, default=-1)
        """The number of the last entry; -1 without entries."""
        self._every = _interval(entries)
        self.seen = {path_of(entry): int(entry["timestamp"]) for entry in self._files}
        """The files that belong to a batch, by absolute path in the order of the batches, with the time of their last
        change in milliseconds."""

    def unplanned_entry_after(self, planned: int) -> int | None:
        """Returns the number of the last entry if it has files and comes after ``planned``, the last entry of a planned
        batch: the batch of these files was never planned. Else None."""
        return self.latest if self._files and self._files[-1]["batchId"] > planned else None

    def note(self, files: Sequence[FoundFile]) -> int:
        """Writes the next entry, and returns its number. Raises JournalMoved if another run was faster."""
        number = self.latest + 1
        new = [{"path": as_uri(each.path), "timestamp": each.changed, "batchId": number} for each in files]
        self._files += new
        compact = (number + 1) % self._every == 0
        lines = map(_compact_json, self._files if compact else new)
        name = f"sources/{self._source}/{number}{COMPACT if compact else ''}"
        create(self._half, self._uri, name, "\n".join(["v1", *lines]))
        self.latest = number
        self.seen |= {each.path: each.changed for each in files}
        first_kept = number + 1 - BATCHES_SPARK_KEEPS
        # The last entry that repeats all entries before the kept ones.
        last_repeating = first_kept - first_kept % self._every - 1
        for old, name in self._half.entries(self._source).items() if compact else ():
            if old < last_repeating:
                delete_spark_file(self._half.filesystem, f"{self._half.root}/sources/{self._source}/{name}")
        return number


class FileJournal:
    """Spark's half of a checkpoint, for file and Kafka spouts: the files and offsets that were read, by batch."""

    def __init__(
        self,
        half: SparkCheckpoint,
        spouts: Sequence[str],
        *,
        heartbeats: bool,
        uri: str | None,
        kafka: Mapping[str, Callable[[], Mapping[tuple[str, int], int]]] = MappingProxyType({}),
    ) -> None:
        """``spouts``: the file spouts, in the order of the sources of Spark's query. ``heartbeats``: True if a
        heartbeat source comes last. ``kafka``: the Kafka spouts in between, each with a function that asks Kafka where
        a new run begins.

        ``uri``: of the file system. None for the local one, where files have checksums, as Spark writes them, and a
        lock excludes other runs. Raises CheckpointError if the journal has other sources.
        """
        self._half, self._spouts, self._uri = half, tuple(spouts), uri
        self._kafka = {
            name: (len(self._spouts) + at, ask_start_offsets)
            for at, (name, ask_start_offsets) in enumerate(kafka.items())
        }
        self._heartbeats = heartbeats
        self._planned = max(half.offsets(), default=-1)
        self._committed = max(half.commits(), default=-1)
        if half.query() is None:
            with suppress(JournalMoved):  # then another run has given the query its id
                self._create("metadata", json.dumps({"id": str(uuid.uuid4())}))
        self._offsets_header: dict[str, Any] = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
        self._offsets = ["-"] * (len(self._spouts) + len(self._kafka) + heartbeats)
        if self._planned >= 0:
            self._resume()
        self._logs = [FileLog(half, source, uri) for source in range(len(self._spouts))]
        self.seen = {spout: log.seen for spout, log in zip(self._spouts, self._logs, strict=True)}
        """For each spout, the files that belong to a batch, as in its log."""

    @property
    def spouts_already_noted(self) -> list[str]:
        """Spouts whose files of the next batch are already recorded, by a run that ended before it recorded the
        batch."""
        return [spout for source, spout in enumerate(self._spouts) if self._is_already_noted(source)]

    @property
    def unfinished(self) -> int | None:
        """The batch that was planned and not committed, by either engine; None without such a batch."""
        return self._planned if self._planned > self._committed else None

    def ends(self, spout: str) -> dict[tuple[str, int], int]:
        """Returns, for each partition of a Kafka spout, the offset before which all records belong to a batch.

        Before the first batch, it is the offset where the run begins to read. It is recorded here, so that a run after
        a crash begins there too.
        """
        source, ask_start_offsets = self._kafka[spout]
        if self._offsets[source] != "-":
            return end_offsets_of(json.loads(self._offsets[source]))
        log = SourceLog(self._half.filesystem, self._half.root, self._spouts, tuple(self._kafka))
        start_offsets = log.beginning(source)
        if start_offsets is None:
            start_offsets = dict(ask_start_offsets())
            self._create(f"sources/{source}/0", f"\0v1\n{offsets_as_json(start_offsets)}")
        return start_offsets

    def is_new(self, spout: str, end_offsets: Mapping[tuple[str, int], int]) -> bool:
        """True if a batch with these ends differs from the batch before, or is the first of a Kafka spout."""
        return self._offsets[self._kafka[spout][0]] == "-" or self.ends(spout) != end_offsets

    def plan(
        self,
        files: Mapping[str, Sequence[FoundFile]],
        clock: int,
        *,
        heartbeat: bool,
        end_offsets: Mapping[str, Mapping[tuple[str, int], int]] = MappingProxyType({}),
    ) -> int:
        """Records the files of the next batch, and returns its number; ``clock`` in microseconds.

        For ``spouts_already_noted``, the recorded files belong to this batch, and ``files`` has none. ``heartbeat``:
        True to add a heartbeat, as Spark does at each trigger. ``end_offsets``: offsets up to which it reads Kafka
        spouts. Raises JournalMoved if another run was faster.
        """
        offsets, already_noted = list(self._offsets), self.spouts_already_noted
        for source, spout in enumerate(self._spouts):
            assert not (spout in already_noted and files.get(spout)), "its part of the batch has been cut"
            if files.get(spout):
                self._logs[source].note(files[spout])
            if spout in already_noted or files.get(spout):
                offsets[source] = log_offset(self._logs[source].latest)
        for spout, (source, _) in self._kafka.items():
            offsets[source] = offsets_as_json(end_offsets[spout] if spout in end_offsets else self.ends(spout))
        if self._heartbeats and (heartbeat or offsets[-1] == "-"):
            before = 0 if offsets[-1] == "-" else json.loads(offsets[-1])["offset"]
            offsets[-1] = _compact_json({"offset": before + 1, "timestamp": _HEARTBEAT_MILLIS * (before + 1)})
        self._offsets_header["batchTimestampMs"] = clock // 1000
        number = self._planned + 1
        self._create(f"offsets/{number}", "\n".join(["v1", _compact_json(self._offsets_header), *offsets]))
        self._offsets, self._planned = offsets, number
        return number

    def commit(self, number: int) -> None:
        """Records that a batch is done, and deletes entries that are too old to go back to."""
        if number > self._committed:
            write(self._half, self._uri, f"commits/{number}", "\n".join(["v1", '{"nextBatchWatermarkMs":0}']))
            self._committed = number
        for folder, batches in (("offsets", self._half.offsets()), ("commits", self._half.commits())):
            for old in batches:
                if old < number - BATCHES_SPARK_KEEPS:
                    delete_spark_file(self._half.filesystem, f"{self._half.root}/{folder}/{old}")

    def _resume(self) -> None:
        name = f"offsets/{self._planned}"
        try:
            _, header, *offsets = self._half.read(name).split("\n")
            self._offsets_header = json.loads(header)
            fits = len(offsets) == len(self._offsets) and all(
                offset == "-" or _has_fields(json.loads(offset), fields)
                for offset, fields in zip(offsets, self._offset_fields, strict=True)
            )
        except (ValueError, AttributeError) as error:
            raise CheckpointError(
                f"Spark's record of batch {self._planned} in {self._half.root} cannot be read",
                why=f"{type(error).__name__}: {error}",
                do="continue with this checkpoint on Spark",
            ) from error
        if not fits:
            raise CheckpointError(
                f"the record of batch {self._planned} in {self._half.root} belongs to other sources",
                why=f"it has {len(offsets)}, and the topology has {len(self._offsets)}: its spouts, and one "
                "more where anything follows the clock: windows, or a bolt with_clock",
                do="run the topology as it was, or start with a new checkpoint folder (which reads all input again)",
            )
        self._offsets = offsets

    def _is_already_noted(self, source: int) -> bool:
        """True if a source's log has files that belong to no planned batch."""
        offset = self._offsets[source]
        planned = -1 if offset == "-" else json.loads(offset)["logOffset"]
        return self._logs[source].unplanned_entry_after(planned) is not None

    @property
    def _offset_fields(self) -> list[set[str] | None]:
        """Returns, for each source of a batch, the names in the JSON of its offset; None for Kafka, where the names are
        topics."""
        topics: list[set[str] | None] = [None] * len(self._kafka)
        return [{"logOffset"}] * len(self._spouts) + topics + [{"offset", "timestamp"}] * self._heartbeats

    def _create(self, name: str, text: str) -> None:
        create(self._half, self._uri, name, text)


def _has_fields(offset: Any, fields: set[str] | None) -> bool:
    if fields is not None:
        return bool(offset.keys() == fields)
    return all(isinstance(ends, dict) for ends in offset.values())


def create(half: SparkCheckpoint, uri: str | None, name: str, text: str) -> None:
    """Writes a file. Raises JournalMoved if another run has written it first, where there is no lock."""
    if uri is None:
        write(half, uri, name, text)
    elif not create_spark_file(uri, f"{half.root}/{name}", text):
        raise JournalMoved


def write(half: SparkCheckpoint, uri: str | None, name: str, text: str) -> None:
    """Writes a file; an existing one is replaced."""
    path = f"{half.root}/{name}"
    if not is_object_store(uri):
        make_folder(half.filesystem, path.rsplit("/", 1)[0])
    write_spark_file(half.filesystem, path, text, with_checksum=uri is None)


def log_offset(number: int) -> str:
    """Returns the name of the last entry of a file log, as in Spark's ``offsets/``."""
    return _compact_json({"logOffset": number})


def path_of(entry: Mapping[str, Any]) -> str:
    """Returns the absolute path of a file from its entry in the log of its source."""
    return shown_path(unquote(entry["path"]))


def as_uri(path: str) -> str:
    """Returns a local path, or a URI without quoting, exactly as Spark writes it, because Spark recognises files by
    this text.

    Java's URIs keep the letters of all alphabets, and quote all spaces and control characters of Unicode.
    """
    scheme, sign, rest = path.partition("://")
    if not sign or path.startswith("/"):
        scheme, rest = "file", path
    elif scheme == "s3":
        scheme = "s3a"
    if rest.isascii():
        return f"{scheme}://{quote(rest, safe=_NOT_QUOTED)}"
    return f"{scheme}://" + "".join(
        quote(char, safe=_NOT_QUOTED) if char.isascii() else _quoted_if_special(char) for char in rest
    )


def _quoted_if_special(char: str) -> str:
    return quote(char) if unicodedata.category(char) in ("Zs", "Zl", "Zp", "Cc") else char


def _interval(entries: Mapping[int, str]) -> int:
    """Returns the number of log entries from one compacted entry, which repeats all before it, to the next; Spark uses
    the same rule."""
    compact = sorted(number for number, name in entries.items() if name.endswith(COMPACT))
    if len(compact) > 1:
        return compact[-1] - compact[-2]
    if not compact or compact[0] + 1 == _COMPACT_EVERY:
        return _COMPACT_EVERY
    first_interval = compact[0] + 1
    if first_interval // 2 <= _COMPACT_EVERY:
        return first_interval
    return next(each for each in range(_COMPACT_EVERY, first_interval + 1) if first_interval % each == 0)


def _compact_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# Files that Spark recorded for a batch, but died before it recorded the batch.
#
# Spark records the files of a batch (``sources/<source>/<entry>``) before the batch itself (``offsets/<batch>``). After
# a death between the two, it would put that entry and the next one into one batch, as no run without a death does
# (decision 32).


def forget_unplanned(filesystem: pafs.FileSystem, root: str, check_owner: Callable[[], None]) -> None:
    """Empties the entries that belong to no batch yet, before a query starts, so that Spark lists their files again.

    For all file sources, including streaming DataFrames. ``check_owner``: raises CheckpointError if another run has
    taken the checkpoint over. It is called after the entries are read and before any is emptied. If it raises nothing,
    the checkpoint was still ours when we read them. Raises CheckpointError if Spark's half, in ``root``, cannot be
    read.
    """
    try:
        unplanned = _all_unplanned(filesystem, root)
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"Spark's record of files in {root} cannot be read or corrected",
            why=f"{type(error).__name__}: {error}",
            do="use a version of Spark with which windbolt is tested",
        ) from error
    if unplanned:
        check_owner()
    for path, text, with_checksum in unplanned:
        write_spark_file(filesystem, path, text, with_checksum=with_checksum)


def _all_unplanned(filesystem: pafs.FileSystem, root: str) -> list[tuple[str, str, bool]]:
    """Returns the unplanned entries of one moment: reads again if another run has planned a batch meanwhile."""
    while True:
        batch = _last_batch(filesystem, root)
        found = list(_unplanned(filesystem, root, batch))
        if not found or _last_batch(filesystem, root) == batch:
            return found


def _last_batch(filesystem: pafs.FileSystem, root: str) -> int | None:
    return max((int(name) for name in _names(filesystem, f"{root}/offsets") if name.isdigit()), default=None)


def _unplanned(filesystem: pafs.FileSystem, root: str, batch: int | None) -> Iterator[tuple[str, str, bool]]:
    """Yields each log file with entries after those of a batch: its path, the text without them, and True if it has a
    checksum."""
    planned = [] if batch is None else _lines(filesystem, f"{root}/offsets/{batch}")[2:]
    for source in _names(filesystem, f"{root}/sources"):
        if not source.isdigit():
            continue
        last_planned = _last_entry(planned[int(source)] if int(source) < len(planned) else "-")
        if last_planned is None:
            continue
        for name in _names(filesystem, f"{root}/sources/{source}"):
            number = name.removesuffix(".compact")
            if number.isdigit() and int(number) > last_planned:
                yield from _without_unplanned(filesystem, f"{root}/sources/{source}", name, last_planned)


def _last_entry(offset: str) -> int | None:
    """Returns the last entry in a line of ``offsets/``; None if the source does not read files."""
    if offset == "-":
        return -1
    try:
        found = json.loads(offset)
    except ValueError:
        return None
    return int(found["logOffset"]) if isinstance(found, dict) and found.keys() == {"logOffset"} else None


def _without_unplanned(
    filesystem: pafs.FileSystem, folder: str, name: str, last_planned: int
) -> Iterator[tuple[str, str, bool]]:
    """Yields a log file without the entries after ``last_planned``, if it has such entries.

    The file is not deleted, because every tenth log file also repeats the entries before it, which Spark may have
    deleted.
    """
    version, *lines = _lines(filesystem, f"{folder}/{name}")
    lines = [line for line in lines if line]
    if not all(map(_is_file, lines)):
        return  # another kind of source
    kept = [line for line in lines if json.loads(line)["batchId"] <= last_planned]
    if len(kept) == len(lines):
        return
    with_checksum = path_type(filesystem, f"{folder}/.{name}.crc") == pafs.FileType.File
    # A missing checksum is not required.
    yield f"{folder}/{name}", "\n".join([version, *kept]), with_checksum


def _is_file(line: str) -> bool:
    """True if a line belongs to a file log."""
    try:
        found = json.loads(line)
    except ValueError:
        return False
    return isinstance(found, dict) and found.keys() >= {"path", "timestamp", "batchId"}


def _names(filesystem: pafs.FileSystem, folder: str) -> list[str]:
    return sorted(entry.base_name for entry in entries(filesystem, folder))


def _lines(filesystem: pafs.FileSystem, path: str) -> list[str]:
    return read_spark_file(filesystem, path).split("\n")


# Paths of input files in a checkpoint, after the files have been moved.


_LOCAL = "file://"


@dataclass(frozen=True)
class Relocation:
    """Folders by their old and new places; if several fit, the first counts."""

    moved: tuple[tuple[str, str], ...] = ()

    def path(self, path: str) -> str | None:
        """Returns the present path of a file from this path or URI; None if it was not moved."""
        shown = shown_path(path)
        for before, now in self.moved:
            start, target = shown_path(before).rstrip("/"), shown_path(now).rstrip("/")
            if shown == start or shown.startswith(f"{start}/"):
                return target + shown.removeprefix(start)
        return None

    def document(self, values: Any) -> Any:
        """Returns a plan, or a note of poison input, with the present paths."""
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
        """Returns a file of a source's log with the present paths; other files are unchanged."""
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


# Input that was moved together with the folder in which runs are started: its files are recognised, and not read again.


_CHECKED_FILES = 100
"""Number of the latest recorded files that are checked to detect an earlier start in another folder. This is enough,
because a run first rewrites all other files relative to its own folder."""


def follow_moved_input(
    halves: PairedCheckpoint, topology: Graph, check_owner: Callable[[], None]
) -> dict[str, tuple[str, str]]:
    """Rewrites the recorded files of spouts with relative paths, if this run was started in another folder.

    Returns, by spout, the folder of earlier runs and the folder of this run. A checkpoint knows files by absolute path.
    If a file is missing at its old path, and this run's folder has one with the same time, both are the same file.
    Raises CheckpointError if they may be different files or copies, which would be read again, or wrongly skipped.
    """
    file_spouts = sorted(name for name, node in topology.spouts.items() if not _is_kafka_or_frame(node.spout))
    found: dict[str, tuple[str, str]] = {}
    for source, name in enumerate(file_spouts):
        spout = topology.spouts[name].spout
        if isinstance(spout, FileSpout):
            moved = _folder_change(halves, name, spout, halves.spark_checkpoint.files(source))
            if moved is not None:
                check_owner()
                _rewrite(halves, source, Relocation((moved,)))
                found[name] = moved
    return found


def _is_kafka_or_frame(spout: object) -> bool:
    """True for spouts that are not among the first sources of the query (spark/source.py)."""
    return isinstance(spout, KafkaSpout | FrameSpout)


def _folder_change(
    halves: PairedCheckpoint, name: str, spout: FileSpout, entries: list[dict[str, Any]]
) -> tuple[str, str] | None:
    moved, may_be_other_files = None, False
    if not any(_folder_pairs(spout, entry) for entry in entries[-_CHECKED_FILES:]):
        return None
    for entry in entries:
        path = path_of(entry)
        for earlier_folder, present_folder in _folder_pairs(spout, entry):
            with suppress(OSError):
                changed = os.stat(present_folder + path.removeprefix(earlier_folder)).st_mtime_ns // 1_000_000
                moved = moved or (earlier_folder, present_folder)
                may_be_other_files = (
                    may_be_other_files
                    or changed != entry["timestamp"]
                    or os.path.lexists(path)
                    or (earlier_folder, present_folder) != moved
                )
                break
    if moved is not None and may_be_other_files:
        earlier_folder, present_folder = moved
        raise CheckpointError(
            f"spout {name!r} would read files again that were read in {earlier_folder!r}",
            why=f"its path {spout.path!r} is relative, and this run was started in {present_folder!r}; there are files "
            "of the same names, and a checkpoint knows files by their whole paths",
            do=f"start the run in {earlier_folder!r}; if these are copies of the same files, take the checkpoint "
            f"along, windbolt savepoint {halves.path} NEW --moved {earlier_folder}={present_folder}; or {START_OVER}",
        )
    return moved


def _folder_pairs(spout: FileSpout, entry: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns pairs of an earlier folder and the present one, between which a recorded file may have been moved
    (``folders_before``); empty for a file within the spout's present path."""
    pairs = [each for path in spout.paths for each in folders_before(path, path_of(entry))]
    return [] if any(earlier == present for earlier, present in pairs) else pairs


def _rewrite(halves: PairedCheckpoint, source: int, relocation: Relocation) -> None:
    """Rewrites the paths in the plans, and then in the logs. The logs come last: if a run dies before, the next run
    sees from them that work remains."""
    for folder in ("plans", "poison"):
        for key in halves.documents.names(folder):
            document = halves.documents.read(f"{folder}/{key}")
            changed = relocation.document(document)
            if changed != document:
                halves.documents.write(f"{folder}/{key}", changed)
    half = halves.spark_checkpoint
    for _, name in sorted(half.entries(source).items()):
        text = half.read(f"sources/{source}/{name}")
        changed = relocation.log(text)
        if changed != text:
            folder = f"{half.root}/sources/{source}"
            with_checksum = path_type(half.filesystem, f"{folder}/.{name}.crc") == pafs.FileType.File
            write_spark_file(half.filesystem, f"{folder}/{name}", changed, with_checksum=with_checksum)
