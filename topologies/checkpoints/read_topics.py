"""Topics that were deleted and made anew since a checkpoint has read them, and records that were deleted unread.

A checkpoint knows a topic by its name, and goes on at the offset where it stopped: the first records of a new topic
would be passed over, in silence where it has more of them than were read of the old one. So the ids that Kafka gives to
topics are noted in the checkpoint, and compared when a run starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from manager.storage.files import UNREADABLE
from manager.storage.sealed_files import SealedFolder
from topologies.checkpoints.spark_checkpoint import SourceLog
from topologies.engine.kafka_records import UNKNOWN_ID, Admin, AdminOf, OffsetRange, TopicInfo, matching
from topologies.io.kafka import KafkaSpout, may_lose
from windowing.errors import DataError, UnreachableError

TOPICS = "topics"
"""The note of the topics that were read: spout, topic, id, and after which batch that was found."""


@dataclass
class ReadTopics:
    """The topics of the Kafka spouts of a run."""

    opened: AdminOf
    spouts: Mapping[str, KafkaSpout]
    ids: dict[str, dict[str, str]] = field(default_factory=dict)
    """Per spout, the ids of its topics as the run began."""

    def begin(self, files: SealedFolder, log: SourceLog, batch: int, check_owner: Callable[[], None]) -> list[str]:
        """Compare the topics with those that the checkpoint has read up to ``batch``, the last that was committed.

        One that was made anew is read from its beginning, where its spout lets records be lost: returns what is to be
        said of that. DataError where it does not.
        """
        noted, said = _noted(files), []
        for name, spout in self.spouts.items():
            offsets = log.kafka_offsets(name)
            known = {topic: found for whose, topic, found, since in noted if whose == name and since <= batch}
            with self.opened(f"spout {name!r}", spout.servers, spout.options) as admin:
                now = _topics(admin, spout, offsets)
                self.ids[name] = {topic: found for topic, (found, _) in now.items() if found != UNKNOWN_ID}
                remade = [
                    topic
                    for topic, read in offsets.items()
                    if topic in now and self._is_remade(admin, topic, read, known.get(topic), now[topic])
                ]
            if remade and not may_lose(spout.options):
                raise _refused(name, remade[0], offsets[remade[0]])
            if remade:
                check_owner()
                skipped = log.read_from_beginning(name, {topic: now[topic][1] for topic in remade}, batch)
                said += [_said(name, topic, skipped[topic]) for topic in remade]
            noted += [
                [name, topic, found, batch] for topic, found in self.ids[name].items() if known.get(topic) != found
            ]
        if noted != _noted(files):
            files.write(TOPICS, {"topics": noted})
        return said

    def begin_anew(self) -> None:
        """Note the topics for a run without a checkpoint."""
        for name, spout in self.spouts.items():
            with self.opened(f"spout {name!r}", spout.servers, spout.options) as admin:
                found = _topics(admin, spout, ())
            self.ids[name] = {topic: each.id for topic, each in found.items() if each.id != UNKNOWN_ID}

    def compare(self, ranges: Mapping[str, Sequence[OffsetRange]]) -> None:
        """DataError where a topic was made anew since the run began; as ``lost``, for who finds himself what was
        deleted."""
        for name, of_spout in ranges.items():
            spout = self.spouts[name]
            passing = nullcontext() if may_lose(spout.options) else suppress(UnreachableError)
            with passing, self.opened(f"spout {name!r}", spout.servers, spout.options) as admin:
                self._refuse_remade(admin, name, of_spout)

    def lost(self, ranges: Mapping[str, Sequence[OffsetRange] | None]) -> list[str]:
        """Say which records of a batch were deleted before they were read, where that does not stop the run. DataError
        where a topic was made anew since the run began.

        Called before the records of a batch are read. A broker that does not answer now is asked before the next one:
        its topics are compared before a further batch is committed, or when the next run starts.
        """
        said: list[str] = []
        for name, spout in self.spouts.items():
            of_spout = ranges.get(name) or ()
            earliest: dict[tuple[str, int], int] = {}
            passing = nullcontext() if may_lose(spout.options) else suppress(UnreachableError)
            with passing, self.opened(f"spout {name!r}", spout.servers, spout.options) as admin:
                self._refuse_remade(admin, name, of_spout)
                if may_lose(spout.options):
                    earliest = admin.ends([(each.topic, each.partition) for each in of_spout], first=True)
            for each in of_spout:
                gone = min(earliest.get((each.topic, each.partition), each.start), each.end) - each.start
                if gone > 0:
                    said.append(
                        f"{name}: topic {each.topic}, partition {each.partition}: {gone:,} records from offset "
                        f"{each.start} on were deleted before they were read"
                    )
        return said

    def _refuse_remade(self, admin: Admin, name: str, ranges: Sequence[OffsetRange]) -> None:
        """Raise DataError for a topic of a spout that is another one than when the run began."""
        spout, ids = self.spouts[name], self.ids[name]
        for topic, (found, _) in _topics(admin, spout, ids).items():
            if ids.get(topic, found) == found:
                continue
            if may_lose(spout.options):
                raise DataError(
                    f"spout {name!r}: topic {topic!r} was deleted and made anew while the run read it",
                    why="its records have other offsets now",
                    do="start the run again: it reads the new topic from its beginning",
                )
            read = {each.partition: each.start for each in ranges if each.topic == topic}
            raise DataError(
                f"spout {name!r}: topic {topic!r} was deleted and made anew while the run read it",
                why=f"the old one was read in {_places(read)}; the new one would be read from there on, without the "
                "records before"
                if read
                else "its records have other offsets now",
                do=_GO_ON,
            )

    def _is_remade(self, admin: Admin, topic: str, read: Mapping[int, int], known: str | None, now: TopicInfo) -> bool:
        """True if a topic is not the one that was read: by its id, or if that is unknown, because it ends before the
        records that were read."""
        found, partitions = now
        if known is not None and found != UNKNOWN_ID:
            return known != found
        ends = admin.ends([(topic, partition) for partition in read if partition < partitions])
        return any(read[partition] > end for (_, partition), end in ends.items())


_GO_ON = (
    "give the spout options={'failOnDataLoss': False}: the run then goes on with the new topic from its "
    "beginning, and what had not been read of the old one is lost. Or start with a new checkpoint"
)


def _refused(name: str, topic: str, read: Mapping[int, int]) -> DataError:
    return DataError(
        f"spout {name!r}: topic {topic!r} is another one than the checkpoint has read: it was deleted and made anew",
        why=f"the old one was read in {_places(read)}; the new one would be read from there on, without the records "
        "before",
        do=_GO_ON,
    )


def _places(read: Mapping[int, int]) -> str:
    return ", ".join(f"partition {partition} up to offset {offset}" for partition, offset in sorted(read.items())[:5])


def _said(name: str, topic: str, skipped: int) -> str:
    records = f"{skipped:,} record{'' if skipped == 1 else 's'}"
    lost = f"; up to {records} of the old one that a batch was to read {'is' if skipped == 1 else 'are'} lost"
    return f"{name}: topic {topic} was deleted and made anew, and is read from its beginning{lost if skipped else ''}"


def _noted(files: SealedFolder) -> list[list[Any]]:
    """The topics that runs have read. A note that cannot be read is made again: ids are then not known."""
    with suppress(*UNREADABLE):
        note = files.read(TOPICS)
        return [] if note is None else list(note["topics"])
    return []


def _topics(admin: Admin, spout: KafkaSpout, read: Iterable[str]) -> dict[str, TopicInfo]:
    """The topics of a spout that exist."""
    there = admin.topics()
    return admin.describe(there & {*spout.topics, *read, *matching(spout.pattern, there)})
