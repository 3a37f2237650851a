"""Values of instruments, as they are read from the report of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from manager.accounts import ACCOUNTS, BESIDE, SKIPPED
from manager.watermarks.arrival_times import input_of
from topologies.engine.batch.report import BoltReport
from topologies.graph.nodes.windowed import WindowedNode
from topologies.metrics import instruments as of
from topologies.metrics.instruments import Instrument
from windowing.settings.rules import SOURCE
from windowing.time.timestamps import LATEST


class Sample(NamedTuple):
    """One value."""

    instrument: Instrument
    labels: tuple[str, ...]
    """In the order of the instrument's."""
    value: float


def of_bolt(topology: str, node: WindowedNode, report: BoltReport) -> Iterator[Sample]:
    """The values of a bolt."""
    bolt = (topology, node.name)
    for stream, counts in report.streams.items():
        yield from (Sample(of.EVENTS, (*bolt, stream, account), counts[account]) for account in ACCOUNTS)
        yield Sample(of.RECEIVED, (*bolt, stream), counts["received"])
        yield Sample(of.PENDING, (*bolt, stream), counts["pending"])
        yield from (Sample(of.NOTED, (*bolt, stream, finding), counts[finding]) for finding in (*BESIDE, SKIPPED))
    yield from _times(bolt, node, report)
    yield Sample(of.WINDOWS, bolt, report.fired)
    if report.open is not None:
        yield Sample(of.OPEN, bolt, report.open)
    yield from (Sample(of.EMITTED, (*bolt, stream), rows) for stream, rows in report.emitted.items())
    counted = of.ANSWERS if node.bolt.counts_answers else of.COUNTED
    yield from (Sample(counted, (*bolt, name), count) for name, count in report.counters.items())


def _times(bolt: tuple[str, str], node: WindowedNode, report: BoltReport) -> Iterator[Sample]:
    """The watermarks; none is left where the streams have ended, and it is the end of time."""
    for (stream, partition), mark in _marks(node, report).items():
        if mark <= LATEST:
            yield Sample(of.WATERMARK, (*bolt, stream, partition), mark / 1e6)
    if report.watermark is not None and report.watermark <= LATEST:
        yield Sample(of.BOLT_WATERMARK, bolt, report.watermark / 1e6)
    if report.delay is not None:
        yield Sample(of.DELAY, bolt, report.delay / 1e6)
    yield Sample(of.IDLE, bolt, len(report.idle))


def _marks(node: WindowedNode, report: BoltReport) -> dict[tuple[str, str], int]:
    """The watermark of each input and partition. Partitions that are found in the events could be as many as keys: of
    those there is only the one that is furthest behind."""
    named = has_named_partitions(node)
    marks: dict[tuple[str, str], int] = {}
    for source, mark in report.inputs.items():
        stream = input_of(source)
        if source == stream or named:
            marks[stream, source[len(stream) + 1 :]] = mark
        elif source not in report.idle:
            marks[stream, ""] = min(mark, marks.get((stream, ""), mark))
    return marks


def has_named_partitions(node: WindowedNode) -> bool:
    """Whether the partitions of a bolt's inputs are those that the source has or that its settings list."""
    settings = node.bolt.settings
    return settings.watermark_partition is SOURCE or bool(settings.partitions)
