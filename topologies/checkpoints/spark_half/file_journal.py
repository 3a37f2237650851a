"""Which files belong to which batch, noted as Spark notes it (decisions 38 and 92).

So either engine continues where the other stopped, and all that looks at a checkpoint finds it as it knows it.
"""

from __future__ import annotations

import json
import unicodedata
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from manager.storage.file_systems.files import make_folder
from manager.storage.file_systems.object_store import is_object_store
from topologies.checkpoints.spark_half.spark_files import create_spark_file, delete_spark_file, write_spark_file
from topologies.checkpoints.spark_half.spark_half import COMPACT, SparkHalf
from topologies.io.file_spout import FoundFile
from topologies.io.paths import shown_path
from topologies.run.options import SPARK_KEEPS
from windowing.errors import CheckpointError

_COMPACT_EVERY = 10
"""Every tenth entry of the log of a source holds those of all before it too (``fileSource.log.compactInterval``)."""
_NOT_QUOTED = "-_.!~*'():@&=+$,;/"
"""What Java leaves as it is in the path of a URI, besides letters and digits."""
_BEAT = 1000
"""Milliseconds by which a heartbeat of Spark's advances."""


class JournalMoved(Exception):
    """Another run has written what this journal was about to write; read the journal again."""


class FileLog:
    """The files of a spout that belong to a batch: the log of a source in Spark's half.

    Both engines write it here; Spark asks for the number of its last entry (spark/planned_files.py).
    """

    def __init__(self, half: SparkHalf, source: int, uri: str | None) -> None:
        """``source``: its place among the sources of the query. ``uri`` as for ``FileJournal``."""
        self._half, self._source, self._uri = half, source, uri
        # One listing says all: what another run adds meanwhile is not half known.
        entries = half.entries(source)
        self._files = half.files(source, entries)
        self.latest = max(entries, default=-1)
        """The number of the last entry; -1 where there is none."""
        self._every = _interval(entries)
        self.seen = {path_of(entry): int(entry["timestamp"]) for entry in self._files}
        """The files that belong to a batch, by their absolute paths in the order of the batches: when each was last
        changed, in milliseconds."""

    def last_after(self, number: int) -> int | None:
        """The last entry, if it has files and comes after this one: they belong to a batch that was not planned."""
        return self.latest if self._files and self._files[-1]["batchId"] > number else None

    def note(self, files: Sequence[FoundFile]) -> int:
        """Write the next entry, whose number this is. JournalMoved where another run was faster."""
        number = self.latest + 1
        new = [{"path": as_uri(each.path), "timestamp": each.changed, "batchId": number} for each in files]
        self._files += new
        compact = (number + 1) % self._every == 0
        lines = map(_compact_json, self._files if compact else new)
        name = f"sources/{self._source}/{number}{COMPACT if compact else ''}"
        create(self._half, self._uri, name, "\n".join(["v1", *lines]))
        self.latest = number
        self.seen |= {each.path: each.changed for each in files}
        kept = number + 1 - SPARK_KEEPS
        before = kept - kept % self._every - 1  # the last that holds all that went before what is kept
        for old, name in self._half.entries(self._source).items() if compact else ():
            if old < before:
                delete_spark_file(self._half.filesystem, f"{self._half.root}/sources/{self._source}/{name}")
        return number


class FileJournal:
    """Spark's half of a checkpoint, for spouts of files alone: which of their files are read, and by which batch."""

    def __init__(self, half: SparkHalf, spouts: Sequence[str], *, heartbeats: bool, uri: str | None) -> None:
        """``spouts`` in the order of the sources of Spark's query, ``heartbeats`` whether a heartbeat comes after them.

        ``uri`` of the file system, None for the local one: there files are written with checksums, as Spark writes
        them, and a lock keeps other runs off. CheckpointError where the journal is of other sources.
        """
        self._half, self._spouts, self._uri = half, tuple(spouts), uri
        self._heartbeats = heartbeats
        self._planned = max(half.offsets(), default=-1)
        self._committed = max(half.commits(), default=-1)
        if half.query() is None:
            with suppress(JournalMoved):  # then it has the id that the other run gave it
                self._create("metadata", json.dumps({"id": str(uuid.uuid4())}))
        self._about: dict[str, Any] = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
        self._places = ["-"] * (len(self._spouts) + heartbeats)
        if self._planned >= 0:
            self._resume()
        self._logs = [FileLog(half, source, uri) for source in range(len(self._spouts))]
        self.seen = {spout: log.seen for spout, log in zip(self._spouts, self._logs, strict=True)}
        """Per spout, the files that belong to a batch, as in their logs."""

    @property
    def begun(self) -> list[str]:
        """The spouts whose files of the next batch are noted already, by a run that did not come to note the batch."""
        return [spout for source, spout in enumerate(self._spouts) if self._is_begun(source)]

    @property
    def unfinished(self) -> int | None:
        """The batch that was planned and not committed, by whichever engine."""
        return self._planned if self._planned > self._committed else None

    def plan(self, files: Mapping[str, Sequence[FoundFile]], clock: int, *, heartbeat: bool) -> int:
        """Note the files of the next batch, whose number this is; ``clock`` in microseconds.

        Of the spouts that are ``begun`` those that are noted belong to it, and ``files`` has none. ``heartbeat``: with
        a heartbeat, as Spark has one at each trigger. JournalMoved where another run was faster.
        """
        places, begun = list(self._places), self.begun
        for source, spout in enumerate(self._spouts):
            assert not (spout in begun and files.get(spout)), "its part of the batch has been cut"
            if files.get(spout):
                self._logs[source].note(files[spout])
            if spout in begun or files.get(spout):
                places[source] = log_offset(self._logs[source].latest)
        if self._heartbeats and (heartbeat or places[-1] == "-"):
            before = 0 if places[-1] == "-" else json.loads(places[-1])["offset"]
            places[-1] = _compact_json({"offset": before + 1, "timestamp": _BEAT * (before + 1)})
        self._about["batchTimestampMs"] = clock // 1000
        number = self._planned + 1
        self._create(f"offsets/{number}", "\n".join(["v1", _compact_json(self._about), *places]))
        self._places, self._planned = places, number
        return number

    def commit(self, number: int) -> None:
        """Note that a batch is done, and delete what is too old to be gone back to."""
        if number > self._committed:
            write(self._half, self._uri, f"commits/{number}", "\n".join(["v1", '{"nextBatchWatermarkMs":0}']))
            self._committed = number
        for folder, batches in (("offsets", self._half.offsets()), ("commits", self._half.commits())):
            for old in batches:
                if old < number - SPARK_KEEPS:
                    delete_spark_file(self._half.filesystem, f"{self._half.root}/{folder}/{old}")

    def _resume(self) -> None:
        name = f"offsets/{self._planned}"
        try:
            _, about, *places = self._half.read(name).split("\n")
            self._about = json.loads(about)
            fits = len(places) == len(self._places) and all(
                place == "-" or json.loads(place).keys() == wanted
                for place, wanted in zip(places, self._kinds, strict=True)
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
                why=f"it has {len(places)}, and the topology has {len(self._places)}: its spouts, and a heartbeat "
                "where windows follow the clock",
                do="run the topology as it was, or start with a new checkpoint folder (which reads all input again)",
            )
        self._places = places

    def _is_begun(self, source: int) -> bool:
        """Whether the log of a source has files that belong to none of the batches that are planned."""
        place = self._places[source]
        return self._logs[source].last_after(-1 if place == "-" else json.loads(place)["logOffset"]) is not None

    @property
    def _kinds(self) -> list[set[str]]:
        return [{"logOffset"}] * len(self._spouts) + [{"offset", "timestamp"}] * self._heartbeats

    def _create(self, name: str, text: str) -> None:
        create(self._half, self._uri, name, text)


def create(half: SparkHalf, uri: str | None, name: str, text: str) -> None:
    """Write a file that another run may be about to write, where no lock keeps it off: then JournalMoved."""
    if uri is None:
        write(half, uri, name, text)
    elif not create_spark_file(uri, f"{half.root}/{name}", text):
        raise JournalMoved


def write(half: SparkHalf, uri: str | None, name: str, text: str) -> None:
    """Write a file in place of one that may be there."""
    path = f"{half.root}/{name}"
    if not is_object_store(uri):
        make_folder(half.filesystem, path.rsplit("/", 1)[0])
    write_spark_file(half.filesystem, path, text, summed=uri is None)


def log_offset(number: int) -> str:
    """How Spark's ``offsets/`` name the last entry of a log of files."""
    return _compact_json({"logOffset": number})


def path_of(entry: Mapping[str, Any]) -> str:
    """The absolute path of a file from its entry in the log of its source."""
    return shown_path(unquote(entry["path"]))


def as_uri(path: str) -> str:
    """A local path, or a URI with nothing quoted, as Spark notes it, to the letter: by it Spark knows what files it has
    read.

    Java's URIs keep letters of all alphabets as they are, and quote spaces and controls, wherever they are from.
    """
    scheme, sign, rest = path.partition("://")
    if not sign or path.startswith("/"):
        scheme, rest = "file", path
    elif scheme == "s3":
        scheme = "s3a"
    if rest.isascii():
        return f"{scheme}://{quote(rest, safe=_NOT_QUOTED)}"
    return f"{scheme}://" + "".join(quote(char, safe=_NOT_QUOTED) if char.isascii() else _other(char) for char in rest)


def _other(char: str) -> str:
    return quote(char) if unicodedata.category(char) in ("Zs", "Zl", "Zp", "Cc") else char


def _interval(entries: Mapping[int, str]) -> int:
    """From one entry that holds all before it to the next: by the rule by which Spark finds them."""
    compact = sorted(number for number, name in entries.items() if name.endswith(COMPACT))
    if len(compact) > 1:
        return compact[-1] - compact[-2]
    if not compact or compact[0] + 1 == _COMPACT_EVERY:
        return _COMPACT_EVERY
    whole = compact[0] + 1
    if whole // 2 <= _COMPACT_EVERY:
        return whole
    return next(each for each in range(_COMPACT_EVERY, whole + 1) if whole % each == 0)


def _compact_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
