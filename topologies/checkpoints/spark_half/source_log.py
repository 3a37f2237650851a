"""Spark's own record of which files belong to which batch.

The DataFrame of a batch leaves out empty files, which Spark nevertheless counts as read, and to ask it for names
costs a job. The log has all of them, in the order in which Spark took them up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow.fs as pafs

from manager.storage.file_systems.files import entries, path_type
from topologies.checkpoints.spark_half.spark_files import read_spark_file, write_spark_file
from windowing.errors import CheckpointError


class OffsetRange(NamedTuple):
    """The records of one partition that a batch has: from offset ``start`` up to, not including, ``end``."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True)
class Partitions:
    """The partitions of a Kafka spout, as Spark planned a batch."""

    names: tuple[str, ...]
    """All that exist, ``topic/partition``, also those that bring nothing."""
    delivering: int
    """How many bring something, at most."""
    ranges: tuple[OffsetRange, ...] | None = None
    """What each of these brings, in order of topic and partition; None where Spark's logs alone do not tell, as where
    partitions have gone."""


@dataclass(frozen=True)
class SourceLog:
    """The offsets and file lists in Spark's half of a checkpoint."""

    filesystem: pafs.FileSystem
    root: str
    spouts: tuple[str, ...]
    """The file spouts, in the order in which they are the sources of the query: the first ones."""
    kafka_spouts: tuple[str, ...] = ()
    """Those of Kafka, which are the sources after them."""

    def files(self, batch: int) -> list[tuple[str, str]]:
        """The (spout, path) of the files that are new in a batch, in order of arrival.

        Those of one spout by time of change, and in the order of Spark's log where that is equal; one source after the
        other. CheckpointError where the log cannot be read.
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
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(f"the files of batch {batch}", error) from error
        return [(spout, path) for _, _, spout, path in sorted(found, key=lambda each: each[:2])]

    def partitions(self, batch: int) -> dict[str, Partitions]:
        """Of each Kafka spout, the partitions that exist as Spark planned the batch.

        Not there is a spout of which Spark does not know yet. CheckpointError where the log cannot be read.
        """
        if not self.kafka_spouts:
            return {}
        first = len(self.spouts)
        try:
            now, before = self._sources(batch), self._sources(batch - 1)
            return {
                spout: Partitions(
                    tuple(f"{topic}/{number}" for topic, number in ends),
                    sum(starts is None or starts.get(place, 0) < end for place, end in ends.items()),
                    _ranges(self._beginning(at) if starts is None else starts, ends),
                )
                for at, spout in enumerate(self.kafka_spouts, first)
                if at in now
                for ends, starts in [(_ends(now[at]), _ends(before[at]) if at in before else None)]
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._unreadable(f"the offsets of batch {batch}", error) from error

    def kafka_offsets(self, spout: str) -> dict[str, dict[int, int]]:
        """Up to which offsets the last batch that Spark has planned reads the topics of a Kafka spout."""
        batches = self._batches()
        if not batches:
            return {}
        source = len(self.spouts) + self.kafka_spouts.index(spout)
        try:
            found = self._sources(batches[-1]).get(source, {})
            return {topic: {int(number): end for number, end in ends.items()} for topic, ends in found.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._unreadable(f"the offsets of batch {batches[-1]}", error) from error

    def read_from_beginning(self, spout: str, topics: Mapping[str, int], batch: int) -> dict[str, int]:
        """Let the batches after ``batch``, the last that was committed, begin with offset 0 of topics, of which the
        numbers of partitions are given; before a query starts. A batch that Spark has planned already reads none of
        their records. Returns how many it was to read.
        """
        source = len(self.spouts) + self.kafka_spouts.index(spout)
        skipped, planned = dict.fromkeys(topics, 0), self._batches()
        again = self.partitions(batch + 1).get(spout) if batch + 1 in planned else None
        for each in () if again is None else again.ranges or ():
            if each.topic in topics:
                skipped[each.topic] += each.end - each.start
        begun = {topic: {str(number): 0 for number in range(partitions)} for topic, partitions in topics.items()}
        for number in planned:
            if number >= batch:
                lines = self._lines(f"offsets/{number}")
                if lines[2 + source] != "-":
                    lines[2 + source] = json.dumps(json.loads(lines[2 + source]) | begun)
                    self._write(f"offsets/{number}", lines)
        beginning = self._beginning(source) if batch < 0 else None
        if beginning is not None:
            version, *rest = self._lines(f"sources/{source}/0")
            self._write(f"sources/{source}/0", [version, json.dumps(json.loads("".join(rest)) | begun)])
        return skipped

    def _batches(self) -> list[int]:
        """The batches that Spark has planned."""
        return sorted(
            int(entry.base_name)
            for entry in entries(self.filesystem, f"{self.root}/offsets")
            if entry.base_name.isdigit()
        )

    def _write(self, name: str, lines: list[str]) -> None:
        folder, base = f"{self.root}/{name}".rsplit("/", 1)
        summed = path_type(self.filesystem, f"{folder}/.{base}.crc") == pafs.FileType.File
        write_spark_file(self.filesystem, f"{self.root}/{name}", "\n".join(lines), summed=summed)

    def _unreadable(self, what: str, error: Exception) -> CheckpointError:
        return CheckpointError(
            f"Spark's record of {what} in {self.root} cannot be read",
            why=f"{type(error).__name__}: {error}",
            do="use a version of Spark with which windbolt is tested",
        )

    def _sources(self, batch: int) -> dict[int, Any]:
        """Per source, its place in Spark's record of what belongs to the batch or an earlier one."""
        if batch < 0:
            return {}
        lines = self._lines(f"offsets/{batch}")[1:]  # the first is the version, the next tells of the batch
        ours = lines[1 : 1 + len(self.spouts) + len(self.kafka_spouts)]
        return {at: json.loads(line) for at, line in enumerate(ours) if line != "-"}

    def _beginning(self, source: int) -> dict[tuple[str, int], int] | None:
        """Where a new query began to read a topic: Spark wrote it behind a byte that is zero."""
        name = f"sources/{source}/0"
        if path_type(self.filesystem, f"{self.root}/{name}") != pafs.FileType.File:
            return None
        version, *lines = self._lines(name)
        return _ends(json.loads("".join(lines))) if version.lstrip("\0") == "v1" else None

    def _offsets(self, batch: int) -> dict[int, int]:
        """Per source of files, the last entry of its log that belongs to the batch or an earlier one."""
        return {at: place["logOffset"] for at, place in self._sources(batch).items() if at < len(self.spouts)}

    def _entries(self, source: int, number: int) -> list[dict[str, Any]]:
        """The files of one entry; every tenth file of the log holds those of all before it as well."""
        path = f"sources/{source}/{number}"
        if path_type(self.filesystem, f"{self.root}/{path}") != pafs.FileType.File:
            path += ".compact"
        entries = [json.loads(line) for line in self._lines(path)[1:]]
        return [entry for entry in entries if entry["batchId"] == number]

    def _lines(self, name: str) -> list[str]:
        return read_spark_file(self.filesystem, f"{self.root}/{name}").split("\n")


def _ranges(
    starts: dict[tuple[str, int], int] | None, ends: dict[tuple[str, int], int]
) -> tuple[OffsetRange, ...] | None:
    """What lies between the ends of two batches; None where a partition has gone, or one goes back.

    One that has come begins with its first record, offset 0; Spark refuses another beginning as lost records.
    """
    if starts is None or starts.keys() - ends.keys():
        return None
    begun = {place: starts.get(place, 0) for place in ends}
    found = tuple(OffsetRange(*place, begun[place], end) for place, end in ends.items() if begun[place] != end)
    return found if all(0 <= each.start < each.end for each in found) else None


def _ends(offsets: dict[str, dict[str, int]]) -> dict[tuple[str, int], int]:
    """Where each partition ends, in order of topic and partition."""
    found = {(topic, int(number)): end for topic, ends in offsets.items() for number, end in ends.items()}
    return dict(sorted(found.items()))
