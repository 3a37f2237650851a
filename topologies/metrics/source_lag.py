"""How far the reading of sources is behind what is there: files by their folders, records by Spark's reports."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from topologies.io.file_spout import FileSpout
from topologies.run.observer import SourceLag
from topologies.topology import Topology

_KAFKA = "KafkaV2["


class SourceProgress(Protocol):
    """What Spark reports of a source; offsets are JSON: ``{"topic": {"0": 5}}``."""

    @property
    def description(self) -> str: ...
    @property
    def endOffset(self) -> str: ...  # noqa: N802 - Spark's names
    @property
    def latestOffset(self) -> str: ...  # noqa: N802


def files_behind(topology: Topology, read: Mapping[str, Container[str]]) -> list[SourceLag]:
    """Per spout of files on this machine, how many of them belong to no batch yet; their folders are listed.

    ``read``: by spout, the files that belong to a batch, by their absolute paths.
    """
    return [
        SourceLag(name, "files", len(node.spout.listed(read.get(name, frozenset()))))
        for name, node in topology.spouts.items()
        if isinstance(node.spout, FileSpout) and node.spout.is_here
    ]


def records_behind(sources: Iterable[SourceProgress], spouts: Sequence[str]) -> list[SourceLag]:
    """Per spout of Kafka and partition, how many records belong to no batch yet, as of the last trigger.

    ``spouts`` in the order of the query's sources of Kafka. Empty before Spark has reported all of them.
    """
    of_kafka = [source for source in sources if source.description.startswith(_KAFKA)]
    if len(of_kafka) != len(spouts):
        return []
    return [lag for spout, source in zip(spouts, of_kafka, strict=True) for lag in _of(spout, source)]


def _of(spout: str, source: SourceProgress) -> Iterator[SourceLag]:
    ends, latest = (_offsets(text) for text in (source.endOffset, source.latestOffset))
    for partition, end in latest.items():
        yield SourceLag(spout, "records", max(end - ends.get(partition, 0), 0), partition)


def _offsets(text: str) -> dict[str, int]:
    """By partition, ``topic/0``."""
    known = json.loads(text) if text and text != "null" else {}
    return {f"{topic}/{number}": end for topic, ends in known.items() for number, end in ends.items()}
