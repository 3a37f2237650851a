"""Spark's half of a checkpoint: its files, and the checks that Spark can continue where it stopped."""

from __future__ import annotations

import json
import re
import struct
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow.fs as pafs

from manager.storage import files, hdfs
from manager.storage.files import delete, entries, path_exists, path_type, sync_file, sync_names
from manager.storage.sealed_files import create_whole
from topologies.engine.kafka_records import OffsetRange
from windowing.errors import CheckpointError, DamagedCheckpoint

# Files of Spark's half of a checkpoint, with Hadoop's checksum files beside them.


_MAGIC = b"crc\0"
_BLOCK = 512
"""Number of bytes for each of Hadoop's checksums."""


def read_spark_file(filesystem: pafs.FileSystem, path: str) -> str:
    """Returns the text of a file that Spark wrote.

    Raises DamagedCheckpoint if it is missing or does not match its ``.crc``, StorageError if it cannot be read. Without
    a ``.crc`` it is not checked, as on object stores and on HDFS, which protect their files by themselves.
    """
    folder, base = path.rsplit("/", 1)
    data = _bytes_or_none(filesystem, path)
    if data is None:
        raise DamagedCheckpoint(
            f"Spark's log {path} is gone",
            why="it records which input belongs to which batch, and which batches are done",
        )
    checksums = _bytes_or_none(filesystem, f"{folder}/.{base}.crc")
    if checksums is not None and not _matches(data, checksums):
        raise DamagedCheckpoint(
            f"Spark's log {path} is damaged", why=f"its {len(data):,} bytes and Spark's checksum in .{base}.crc differ"
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DamagedCheckpoint(f"Spark's log {path} is damaged", why=str(error)) from error


def write_spark_file(filesystem: pafs.FileSystem, path: str, text: str, *, with_checksum: bool) -> None:
    """Writes a file as Spark does, so that it exists completely or not at all; ``with_checksum``: True to write its
    ``.crc``.

    At no moment is there a wrong checksum, since a file without checksum is not checked.
    """
    folder, base = path.rsplit("/", 1)
    checksum_file, data = f"{folder}/.{base}.crc", text.encode()
    if with_checksum:
        files.delete(filesystem, checksum_file, missing_ok=True)
        if isinstance(filesystem, pafs.LocalFileSystem):
            sync_names(folder)
    _write(filesystem, path, data)
    if with_checksum:
        parts = [data[at : at + _BLOCK] for at in range(0, len(data), _BLOCK)]
        _write(filesystem, checksum_file, _MAGIC + struct.pack(f">i{len(parts)}I", _BLOCK, *map(zlib.crc32, parts)))


def create_spark_file(uri: str, path: str, text: str) -> bool:
    """Writes a file without a checksum if it does not exist yet. Returns False if it exists with another text."""
    return create_whole(uri, path, text.encode(), _draft_of)


def delete_spark_file(filesystem: pafs.FileSystem, path: str) -> None:
    """Deletes a file, after its checksum, which would otherwise belong to a missing file."""
    folder, base = path.rsplit("/", 1)
    for each in (f"{folder}/.{base}.crc", path):
        files.delete(filesystem, each, missing_ok=True)


def _write(filesystem: pafs.FileSystem, path: str, data: bytes) -> None:
    if not (isinstance(filesystem, pafs.LocalFileSystem) or hdfs.is_hdfs_filesystem(filesystem)):
        files.write_object_whole(filesystem, path, data)
        return
    folder, draft = path.rsplit("/", 1)[0], _draft_of(path)
    files.write_private(filesystem, draft, data)
    if isinstance(filesystem, pafs.LocalFileSystem):
        sync_file(draft)
    files.move(filesystem, draft, path)
    if isinstance(filesystem, pafs.LocalFileSystem):
        sync_names(folder)


def _draft_of(path: str) -> str:
    """Returns a new draft name, in Spark's form, for a file with this path."""
    folder, base = path.rsplit("/", 1)
    return f"{folder}/.{base.removeprefix('.')}.{uuid.uuid4()}.tmp"


def _matches(data: bytes, checksums: bytes) -> bool:
    """True if ``checksums`` are the checksums of the data: a CRC-32 for each block of bytes."""
    if checksums[:4] != _MAGIC or len(checksums) < 8:
        return False
    size = int.from_bytes(checksums[4:8], "big")
    if size <= 0:
        return False
    actual = [zlib.crc32(data[at : at + size]).to_bytes(4, "big") for at in range(0, len(data), size)]
    return b"".join(actual) == checksums[8:]


def _bytes_or_none(filesystem: pafs.FileSystem, path: str) -> bytes | None:
    return files.read_bytes(filesystem, path) if files.path_type(filesystem, path) == pafs.FileType.File else None


# Spark's half of a checkpoint: the parts that must exist, so that Spark continues where it stopped.


COMPACT = ".compact"
_DRAFT = re.compile(r"\..+\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp(?:\.crc)?")


@dataclass(frozen=True)
class SparkCheckpoint:
    """The folder ``spark/``: ``metadata``, and the logs ``offsets``, ``commits`` and ``sources``."""

    filesystem: pafs.FileSystem
    root: str

    def query(self) -> str | None:
        """Returns the id of its query; None before the first start."""
        if not path_exists(self.filesystem, f"{self.root}/metadata"):
            return None
        try:
            return str(json.loads(self.read("metadata"))["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable("metadata", error) from error

    def offsets(self) -> list[int]:
        """Returns the batches that Spark has planned."""
        return self._numbers("offsets")

    def commits(self) -> list[int]:
        """Returns the batches that Spark considers done."""
        return self._numbers("commits")

    def has_heartbeat(self, spouts: int) -> bool | None:
        """True if the log has a heartbeat source after the ``spouts`` sources of spouts; None if no batch has been
        planned yet."""
        planned = self.offsets()
        if not planned:
            return None
        return len(self.read(f"offsets/{planned[-1]}").rstrip("\n").split("\n")) - 2 > spouts

    def read(self, name: str) -> str:
        """Returns the text of a file. Raises DamagedCheckpoint if it has changed since it was written."""
        return read_spark_file(self.filesystem, f"{self.root}/{name}")

    def check(self, batch: int) -> None:
        """Checks the files that Spark reads when it starts; ``batch``: the last one committed in the other half.

        Raises DamagedCheckpoint. Spark itself would ignore some of the damage. For example, it would read the files of
        a missing log again, or never.
        """
        planned, committed = self.offsets(), self.commits()
        last_batch = max([*planned, *committed, batch], default=-1)
        for number in range(max(last_batch - 1, 0), last_batch + 1):
            self.read(f"offsets/{number}")
        if committed:
            self.read(f"commits/{committed[-1]}")
        if last_batch >= 0:
            for source, number in self.last_entries(last_batch).items():
                self.check_source(source, number)

    def check_batch(self, batch: int) -> None:
        """Checks that all parts exist that going back to the end of a batch needs. Raises DamagedCheckpoint if one is
        missing."""
        for number in range(max(batch - 1, 0), batch + 1):
            self.read(f"offsets/{number}")
        if batch > 0 and batch not in self.commits():
            self.read(f"commits/{batch - 1}")
        if batch >= 0:
            for source, number in self.last_entries(batch).items():
                for each in self.missing(source, number):
                    self.restored_entry(source, each)
                for name in self.log_files(source, number):
                    self.read(name)

    def last_entries(self, batch: int) -> dict[int, int]:
        """Returns, for each file source, the last entry of its log that belongs to this batch or an earlier one."""
        name = f"offsets/{batch}"
        try:
            offsets = [json.loads(line) if line != "-" else None for line in self.read(name).split("\n")[2:]]
        except ValueError as error:
            raise self._unreadable(name, error) from error
        return {
            source: offset["logOffset"]
            for source, offset in enumerate(offsets)
            if isinstance(offset, dict) and isinstance(offset.get("logOffset"), int)
        }

    def check_source(self, source: int, number: int) -> None:
        """Checks that the log of a source is complete up to its end, and that no entry comes after the end."""
        last_entry = max([number, *self.entries(source)], default=-1)
        missing = self.missing(source, last_entry)
        if missing:
            raise DamagedCheckpoint(
                f"Spark's log {self.root}/sources/{source}/{missing[0]} is gone",
                why="it records which files were read; without it Spark would read them again",
            )
        for name in self.log_files(source, last_entry):
            self.read(name)

    def entries(self, source: int) -> dict[int, str]:
        """Returns the log files of a source, by number; every tenth file repeats all entries before it."""
        names = self.names(f"sources/{source}")
        single = {int(name): name for name in names if name.isdigit()}
        compacted = {int(name.removesuffix(COMPACT)): name for name in names if name.removesuffix(COMPACT).isdigit()}
        return single | compacted

    def log_files(self, source: int, last: int) -> list[str]:
        """Returns the existing files that Spark reads if ``last`` is the last entry of a source's log."""
        return _log_files(source, self.entries(source), last)

    def files(self, source: int, entries: dict[int, str] | None = None) -> list[dict[str, Any]]:
        """Returns the entries of a file source's log, one for each file; another check makes sure that it is complete.

        ``entries``: the log files to read; None: all that exist now.
        """
        log_entries = self.entries(source) if entries is None else entries
        names = _log_files(source, log_entries, max(log_entries, default=-1))
        lines = [line for name in names for line in self.read(name).split("\n")[1:]]
        return [json.loads(line) for line in lines if line]

    def missing(self, source: int, last: int) -> list[int]:
        """Returns the missing entries that Spark needs."""
        entries = self.entries(source)
        return [number for number in _since_compaction(entries, last) if number not in entries]

    def restored_entry(self, source: int, number: int) -> str:
        """Returns the text of an entry that Spark has deleted, from a file that repeats it. Raises DamagedCheckpoint
        without such a file."""
        entries = self.entries(source)
        for later in sorted(entries):
            if later > number and entries[later].endswith(COMPACT):
                lines = self.read(f"sources/{source}/{entries[later]}").split("\n")
                own_lines = [line for line in lines[1:] if line and json.loads(line)["batchId"] == number]
                return "\n".join([lines[0], *own_lines])
        raise DamagedCheckpoint(
            f"Spark's log {self.root}/sources/{source}/{number} is gone",
            why="it records which files were read; without it Spark would read them again",
        )

    def after(self, batch: int) -> Iterator[str]:
        """Yields the files of batches after this one, and the damaged files of its own commit."""
        for folder in ("offsets", "commits"):
            names = {
                *self._paths(folder),
                *self.names_with_checksum(folder),
            }  # some files may have left only a checksum
            yield from sorted(name for name in names if (number := _number(name)) is not None and number > batch)
        try:
            if batch in self.commits():
                self.read(f"commits/{batch}")
        except DamagedCheckpoint:
            yield f"commits/{batch}"
        last_entries = self.last_entries(batch) if batch >= 0 else {}
        for source in self._sources_of_files():
            last = last_entries.get(source, -1)
            names = {*self._paths(f"sources/{source}"), *self.names_with_checksum(f"sources/{source}")}
            yield from sorted(name for name in names if (number := _number(name)) is not None and number > last)

    def names_with_checksum(self, folder: str) -> list[str]:
        """Returns the files of a folder with a checksum, including files that are missing."""
        names = [entry.base_name for entry in self._entries(folder)]
        sums = [name for name in names if name.startswith(".") and name.endswith(".crc") and name[1] != "."]
        return sorted("/".join(filter(None, [folder, name[1:-4]])) for name in sums)

    def names(self, folder: str) -> list[str]:
        """Returns the names in a folder, without hidden files."""
        names = [entry.base_name for entry in self._entries(folder)]
        return sorted(name for name in names if not name.startswith("."))

    def sweep(self) -> None:
        """Deletes drafts: of processes that died while writing, and of a run that is being taken over, which may be
        writing one."""
        for folder in ("", "offsets", "commits", *(f"sources/{name}" for name in self.names("sources"))):
            for entry in self._entries(folder):
                if _DRAFT.fullmatch(entry.base_name):
                    delete(self.filesystem, entry.path, missing_ok=True)

    def _entries(self, folder: str) -> list[pafs.FileInfo]:
        return entries(self.filesystem, f"{self.root}/{folder}".rstrip("/"))

    def _sources_of_files(self) -> list[int]:
        """Returns the sources with a file log; other sources keep their whole state in one place."""
        sources = {int(name) for name in self.names("sources") if name.isdigit()}
        return sorted(source for source in sources if self._is_of_files(source))

    def _is_of_files(self, source: int) -> bool:
        for number in reversed(self.offsets()):
            with suppress(DamagedCheckpoint):
                if source in self.last_entries(number):
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
    """Returns the number of a log file; None for other files."""
    base = name.rsplit("/", 1)[-1].removesuffix(COMPACT)
    return int(base) if base.isdigit() else None


def _log_files(source: int, entries: dict[int, str], last: int) -> list[str]:
    return [f"sources/{source}/{entries[number]}" for number in _since_compaction(entries, last) if number in entries]


def _since_compaction(entries: dict[int, str], last: int) -> range:
    """Returns the numbers of the entries that make up a log: from the latest compacted entry, which repeats all before
    it, up to ``last``."""
    compact = [number for number, name in entries.items() if name.endswith(COMPACT) and number <= last]
    return range(max(compact, default=0), last + 1)


# Spark's record of the files in each batch.
#
# The DataFrame of a batch leaves out empty files, although Spark counts them as read, and asking it for names costs a
# job. The log has all files, in the order in which Spark took them.


@dataclass(frozen=True)
class Partitions:
    """The partitions of a Kafka spout when the batch was planned."""

    names: tuple[str, ...]
    """All existing partitions, ``topic/partition``, even without new records."""
    most_with_records: int
    """Upper bound on the number of partitions with new records."""
    ranges: tuple[OffsetRange, ...] | None = None
    """Offsets of each partition in this batch, in order of topic and partition; None if Spark's logs alone do not tell,
    for example after partitions were deleted."""
    readable_ranges: tuple[OffsetRange, ...] = ()
    """The same offsets, without partitions that were deleted or go back."""


@dataclass(frozen=True)
class SourceLog:
    """The offsets and file lists in Spark's half of a checkpoint."""

    filesystem: pafs.FileSystem
    root: str
    spouts: tuple[str, ...]
    """The file spouts, in the order of the query's sources, of which they are the first."""
    kafka_spouts: tuple[str, ...] = ()
    """The Kafka spouts, whose sources come after all others."""

    def files(self, batch: int) -> list[tuple[str, str]]:
        """Returns the new files of a batch as (spout, path), in order of arrival.

        The files of a spout are ordered by their last change, then by their order in Spark's log; one source comes
        after the other. Raises CheckpointError if the log cannot be read.
        """
        if not self.spouts:
            return []
        try:
            now, before = self._last_entries(batch), self._last_entries(batch - 1)
            listed = [
                (source, entry["timestamp"], spout, unquote(entry["path"]))
                for source, spout in enumerate(self.spouts)
                for number in range(before.get(source, -1) + 1, now.get(source, -1) + 1)
                for entry in self._entries(source, number)
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(f"the files of batch {batch}", error) from error
        return [(spout, path) for _, _, spout, path in sorted(listed, key=lambda each: each[:2])]

    def partitions(self, batch: int) -> dict[str, Partitions]:
        """Returns, for each Kafka spout, the partitions that existed when Spark planned the batch.

        A spout that Spark does not know yet is left out. Raises CheckpointError if the log cannot be read.
        """
        if not self.kafka_spouts:
            return {}
        first_kafka_source = len(self.spouts)
        try:
            now, before = self._offsets_by_source(batch), self._offsets_by_source(batch - 1)
            return {
                spout: Partitions(
                    tuple(f"{topic}/{number}" for topic, number in ends),
                    sum(
                        starts is None or starts.get(topic_partition, 0) < end for topic_partition, end in ends.items()
                    ),
                    *_ranges_between(self.beginning(source) if starts is None else starts, ends),
                )
                for source, spout in enumerate(self.kafka_spouts, first_kafka_source)
                if source in now
                for ends, starts in [
                    (end_offsets_of(now[source]), end_offsets_of(before[source]) if source in before else None)
                ]
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._unreadable(f"the offsets of batch {batch}", error) from error

    def kafka_offsets(self, spout: str) -> dict[str, dict[int, int]]:
        """Returns the offsets up to which the last planned batch reads the topics of a Kafka spout."""
        batches = self._batches()
        if not batches:
            return {}
        source = len(self.spouts) + self.kafka_spouts.index(spout)
        try:
            by_topic = self._offsets_by_source(batches[-1]).get(source, {})
            return {topic: {int(number): end for number, end in ends.items()} for topic, ends in by_topic.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._unreadable(f"the offsets of batch {batches[-1]}", error) from error

    def read_from_beginning(self, spout: str, topics: Mapping[str, int], batch: int) -> dict[str, int]:
        """Makes the batches after ``batch``, the last committed one, begin with offset 0 of some topics. Called before
        a query starts. ``topics``: their numbers of partitions. A batch that Spark has already planned reads none of
        their records; returns how many records it was to read."""
        source = len(self.spouts) + self.kafka_spouts.index(spout)
        skipped, planned = dict.fromkeys(topics, 0), self._batches()
        planned_partitions = self.partitions(batch + 1).get(spout) if batch + 1 in planned else None
        for each in () if planned_partitions is None else planned_partitions.ranges or ():
            if each.topic in topics:
                skipped[each.topic] += each.end - each.start
        from_zero = {topic: {str(number): 0 for number in range(partitions)} for topic, partitions in topics.items()}
        for number in planned:
            if number >= batch:
                lines = self._lines(f"offsets/{number}")
                if lines[2 + source] != "-":
                    lines[2 + source] = json.dumps(json.loads(lines[2 + source]) | from_zero)
                    self._write(f"offsets/{number}", lines)
        beginning = self.beginning(source) if batch < 0 else None
        if beginning is not None:
            version, *rest = self._lines(f"sources/{source}/0")
            self._write(f"sources/{source}/0", [version, json.dumps(json.loads("".join(rest)) | from_zero)])
        return skipped

    def _batches(self) -> list[int]:
        """Returns the batches that Spark has planned."""
        return sorted(
            int(entry.base_name)
            for entry in entries(self.filesystem, f"{self.root}/offsets")
            if entry.base_name.isdigit()
        )

    def _write(self, name: str, lines: list[str]) -> None:
        folder, base = f"{self.root}/{name}".rsplit("/", 1)
        with_checksum = path_type(self.filesystem, f"{folder}/.{base}.crc") == pafs.FileType.File
        write_spark_file(self.filesystem, f"{self.root}/{name}", "\n".join(lines), with_checksum=with_checksum)

    def _unreadable(self, what: str, error: Exception) -> CheckpointError:
        return CheckpointError(
            f"Spark's record of {what} in {self.root} cannot be read",
            why=f"{type(error).__name__}: {error}",
            do="use a version of Spark with which windbolt is tested",
        )

    def _offsets_by_source(self, batch: int) -> dict[int, Any]:
        """Returns, for each source, its position in Spark's record of the input of this batch or an earlier one."""
        if batch < 0:
            return {}
        lines = self._lines(f"offsets/{batch}")[1:]  # after the version; the next line is about the batch
        ours = lines[1 : 1 + len(self.spouts) + len(self.kafka_spouts)]
        return {source: json.loads(line) for source, line in enumerate(ours) if line != "-"}

    def beginning(self, source: int) -> dict[tuple[str, int], int] | None:
        """Returns the offsets at which a new query began to read the topics of a source. Spark writes them after a zero
        byte."""
        name = f"sources/{source}/0"
        if path_type(self.filesystem, f"{self.root}/{name}") != pafs.FileType.File:
            return None
        version, *lines = self._lines(name)
        return end_offsets_of(json.loads("".join(lines))) if version.lstrip("\0") == "v1" else None

    def _last_entries(self, batch: int) -> dict[int, int]:
        """Returns, for each file source, the last entry of its log that belongs to this batch or an earlier one."""
        return {
            source: offset["logOffset"]
            for source, offset in self._offsets_by_source(batch).items()
            if source < len(self.spouts)
        }

    def _entries(self, source: int, number: int) -> list[dict[str, Any]]:
        """Returns the files of one entry; every tenth log file also repeats the entries before it."""
        path = f"sources/{source}/{number}"
        if path_type(self.filesystem, f"{self.root}/{path}") != pafs.FileType.File:
            path += ".compact"
        entries = [json.loads(line) for line in self._lines(path)[1:]]
        return [entry for entry in entries if entry["batchId"] == number]

    def _lines(self, name: str) -> list[str]:
        return read_spark_file(self.filesystem, f"{self.root}/{name}").split("\n")


def _ranges_between(
    starts: dict[tuple[str, int], int] | None, ends: dict[tuple[str, int], int]
) -> tuple[tuple[OffsetRange, ...] | None, tuple[OffsetRange, ...]]:
    """Returns the offsets between the ends of two batches, None if a partition was deleted or goes back; and the
    offsets without such partitions.

    A new partition begins with its first record, offset 0; Spark refuses any other beginning as lost records.
    """
    if starts is None:
        return None, ()
    begin_offsets = {topic_partition: starts.get(topic_partition, 0) for topic_partition in ends}
    ranges = tuple(
        OffsetRange(*topic_partition, begin_offsets[topic_partition], end)
        for topic_partition, end in ends.items()
        if begin_offsets[topic_partition] != end
    )
    readable = tuple(each for each in ranges if 0 <= each.start < each.end)
    return (None, readable) if starts.keys() - ends.keys() or readable != ranges else (ranges, ())


def end_offsets_of(offsets: Mapping[str, Mapping[str, int]]) -> dict[tuple[str, int], int]:
    """Returns the end of each partition, in order of topic and partition. ``offsets``: of a Kafka source, in the form
    of Spark's log."""
    by_partition = {(topic, int(number)): end for topic, ends in offsets.items() for number, end in ends.items()}
    return dict(sorted(by_partition.items()))


def offsets_as_json(ends: Mapping[tuple[str, int], int]) -> str:
    """Returns the inverse of ``end_offsets_of``, as JSON."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, number), end in sorted(ends.items()):
        by_topic.setdefault(topic, {})[str(number)] = end
    return json.dumps(by_topic, separators=(",", ":"))
