"""The instruments of a run, each with name, unit and labels, and their values."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from manager.accounts import ACCOUNTS, BESIDE, SKIPPED
from manager.watermarks import input_of
from topologies.engine.report import BoltReport
from topologies.graph.graph import WindowedNode
from windowing.settings.rules import SOURCE
from windowing.timestamps import LATEST

# A histogram: how many values there were up to each of some bounds, for each set of labels.


@dataclass
class Distribution:
    """The values of one set of labels."""

    counts: list[int]
    """Count of each bucket, the last of which has no upper bound; not cumulated."""
    total: float = 0.0


@dataclass
class Distributions:
    """The values of an instrument that is a histogram."""

    instrument: Instrument
    of_labels: dict[tuple[str, ...], Distribution] = field(default_factory=dict)

    def begin(self, labels: tuple[str, ...]) -> None:
        """Adds labels, so that their first values are seen as a rise from zero."""
        if labels not in self.of_labels:
            self.of_labels[labels] = Distribution([0] * (len(self.instrument.buckets) + 1))

    def observe(self, labels: tuple[str, ...], value: float, times: int = 1) -> None:
        """Adds a value, ``times`` times."""
        self.begin(labels)
        distribution = self.of_labels[labels]
        distribution.counts[bisect_left(self.instrument.buckets, value)] += times
        distribution.total += value * times

    def copied(self) -> Iterator[tuple[tuple[str, ...], Distribution]]:
        """Yields copies of its distributions by labels, which later values do not change."""
        for labels, each in self.of_labels.items():
            yield labels, Distribution(list(each.counts), each.total)


# What is measured: each instrument with its name, its unit, its labels and what it means.
#
# Names are OpenTelemetry's form; Prometheus writes them with underscores, with the unit, and counters with ``_total``.


class InstrumentKind(StrEnum):
    """Behaviour of an instrument's values."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Instrument:
    """One measured quantity."""

    name: str
    kind: InstrumentKind
    unit: str
    """Unit in UCUM: ``s`` for seconds, ``{event}`` for a number of events; empty if there is none."""
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    """For a histogram, the upper bounds of its buckets except for the last, which has none."""

    @property
    def prometheus(self) -> str:
        """Name of the instrument in Prometheus."""
        name = self.name.replace(".", "_") + ("_seconds" if self.unit == "s" else "")
        return f"{name}_total" if self.kind is InstrumentKind.COUNTER else name


_DELAYS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 21600.0, 86400.0)
_PHASES = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_BOLT = ("topology", "bolt")

EVENTS = Instrument(
    "windbolt.events",
    InstrumentKind.COUNTER,
    "{event}",
    "Events by the account they are in, each in one; in all runs on the checkpoint.",
    (*_BOLT, "stream", "account"),
)
RECEIVED = Instrument(
    "windbolt.events.received",
    InstrumentKind.COUNTER,
    "{event}",
    "Events that arrived at a windowed bolt: those of all accounts, and the pending ones.",
    (*_BOLT, "stream"),
)
PENDING = Instrument(
    "windbolt.events.pending",
    InstrumentKind.GAUGE,
    "{event}",
    "Events that are in no window yet and may still be in one.",
    (*_BOLT, "stream"),
)
NOTED = Instrument(
    "windbolt.events.noted",
    InstrumentKind.COUNTER,
    "{event}",
    "What the time rules found of events, whatever happened to them: adjusted, early_input, late_input, out_of_order; "
    "truncated, finer than microseconds and cut; and skipped, older than the first output needs.",
    (*_BOLT, "stream", "finding"),
)
WATERMARK = Instrument(
    "windbolt.watermark.timestamp",
    InstrumentKind.GAUGE,
    "s",
    "The watermark that an input, or a partition of it, would allow alone; the least holds the bolt's watermark back.",
    (*_BOLT, "input", "partition"),
)
BOLT_WATERMARK = Instrument(
    "windbolt.bolt.watermark.timestamp",
    InstrumentKind.GAUGE,
    "s",
    "The watermark of the bolt, over all its inputs.",
    _BOLT,
)
IDLE = Instrument(
    "windbolt.watermark.idle",
    InstrumentKind.GAUGE,
    "{source}",
    "Inputs and partitions that do not hold the watermark back: silent for longer than their idle timeout.",
    _BOLT,
)
DELAY = Instrument(
    "windbolt.watermark.delay",
    InstrumentKind.GAUGE,
    "s",
    "The clock of the last batch minus the watermark of the bolt.",
    _BOLT,
)
EMIT_DELAY = Instrument(
    "windbolt.window.emit_delay",
    InstrumentKind.HISTOGRAM,
    "s",
    "The clock when a window's output was committed minus the end of the window; 0 for windows that fired before it.",
    _BOLT,
    _DELAYS,
)
WINDOWS = Instrument(
    "windbolt.windows.fired", InstrumentKind.COUNTER, "{window}", "Windows fired, in all runs on the checkpoint.", _BOLT
)
OPEN = Instrument(
    "windbolt.windows.open",
    InstrumentKind.GAUGE,
    "{window}",
    "Upper bound on the number of windows that hold events and would fire if the streams ended now.",
    _BOLT,
)
EMITTED = Instrument(
    "windbolt.rows.emitted",
    InstrumentKind.COUNTER,
    "{row}",
    "Rows emitted by windows, in all runs on the checkpoint.",
    (*_BOLT, "stream"),
)
ANSWERS = Instrument(
    "windbolt.rule.answers",
    InstrumentKind.COUNTER,
    "{answer}",
    "What the rules of a step answered, where that is counted: declined, emptied, unknown_status and others.",
    (*_BOLT, "answer"),
)
COUNTED = Instrument(
    "windbolt.bolt.counted", InstrumentKind.COUNTER, "{count}", "What a bolt counts by itself.", (*_BOLT, "counter")
)
SPOUT = Instrument(
    "windbolt.spout",
    InstrumentKind.COUNTER,
    "{item}",
    "What a spout has read: rows, those of which a time was truncated, rows and files that cannot be read, and "
    "tombstones that were left out.",
    ("topology", "spout", "what"),
)
CHANGED_FILES = Instrument(
    "windbolt.files.changed",
    InstrumentKind.COUNTER,
    "{file}",
    "Files that this process found to have been changed after they were read; they are not read again.",
    ("topology", "spout"),
)
LAG = Instrument(
    "windbolt.source.lag",
    InstrumentKind.GAUGE,
    "{item}",
    "Files or Kafka records that are there and belong to no batch yet.",
    ("topology", "spout", "unit", "partition"),
)
PHASE = Instrument(
    "windbolt.batch.phase",
    InstrumentKind.HISTOGRAM,
    "s",
    "Wall time of the phases of a micro-batch.",
    ("topology", "phase"),
    _PHASES,
)
BATCHES = Instrument(
    "windbolt.batches", InstrumentKind.COUNTER, "{batch}", "Micro-batches committed by this process.", ("topology",)
)
COMMITTED = Instrument(
    "windbolt.last_commit.timestamp", InstrumentKind.GAUGE, "s", "When the last batch was committed.", ("topology",)
)
HEALTHY = Instrument(
    "windbolt.run.healthy", InstrumentKind.GAUGE, "", "0 where the run has failed or stalls, else 1.", ("topology",)
)
RESTARTS = Instrument(
    "windbolt.restarts",
    InstrumentKind.COUNTER,
    "{restart}",
    "Restarts by this process, after failures that may pass by themselves.",
    ("topology",),
)

INSTRUMENTS = (
    EVENTS, RECEIVED, PENDING, NOTED, WATERMARK, BOLT_WATERMARK, IDLE, DELAY, EMIT_DELAY, WINDOWS, OPEN, EMITTED,
    ANSWERS, COUNTED, SPOUT, CHANGED_FILES, LAG, PHASE, BATCHES, COMMITTED, HEALTHY, RESTARTS,
)  # fmt: skip


# Values of instruments, as they are read from the report of a batch.


class Sample(NamedTuple):
    """One value of an instrument, with its labels."""

    instrument: Instrument
    labels: tuple[str, ...]
    """Values of the labels, in the instrument's order."""
    value: float


def of_bolt(topology: str, node: WindowedNode, report: BoltReport) -> Iterator[Sample]:
    """Yields the values of a bolt."""
    bolt = (topology, node.name)
    for stream, counts in report.streams.items():
        yield from (Sample(EVENTS, (*bolt, stream, account), counts[account]) for account in ACCOUNTS)
        yield Sample(RECEIVED, (*bolt, stream), counts["received"])
        yield Sample(PENDING, (*bolt, stream), counts["pending"])
        yield from (Sample(NOTED, (*bolt, stream, finding), counts[finding]) for finding in (*BESIDE, SKIPPED))
    yield from _times(bolt, node, report)
    yield Sample(WINDOWS, bolt, report.fired)
    if report.open is not None:
        yield Sample(OPEN, bolt, report.open)
    yield from (Sample(EMITTED, (*bolt, stream), rows) for stream, rows in report.emitted.items())
    counted = ANSWERS if node.bolt.counts_answers else COUNTED
    yield from (Sample(counted, (*bolt, name), count) for name, count in report.counters.items())


def _times(bolt: tuple[str, str], node: WindowedNode, report: BoltReport) -> Iterator[Sample]:
    """Yields the watermarks; none where the streams have ended, because the watermark is then the end of time."""
    for (stream, partition), mark in _marks(node, report).items():
        if mark <= LATEST:
            yield Sample(WATERMARK, (*bolt, stream, partition), mark / 1e6)
    if report.watermark is not None and report.watermark <= LATEST:
        yield Sample(BOLT_WATERMARK, bolt, report.watermark / 1e6)
    if report.delay is not None:
        yield Sample(DELAY, bolt, report.delay / 1e6)
    yield Sample(IDLE, bolt, len(report.idle))


def _marks(node: WindowedNode, report: BoltReport) -> dict[tuple[str, str], int]:
    """Returns the watermark of each input and partition. Partitions that are found in the events may be as many as
    keys: only the one that is furthest behind is returned."""
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
    """True if the partitions of a bolt's inputs are those that the source has or that its settings list."""
    settings = node.bolt.settings
    return settings.watermark_partition is SOURCE or bool(settings.partitions)
