"""The metrics of one run: instruments with name, unit and labels; health; and lag behind its sources."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from manager.accounts import ACCOUNTS, FINDINGS, SKIPPED
from manager.watermarks import input_of, shown_partition
from topologies.engine.micro_batch import PHASES, MicroBatch
from topologies.engine.report import BatchReport, BoltReport, bolt_report
from topologies.graph.graph import Graph, WindowedNode
from topologies.io.file_spout import FileSpout
from topologies.run.attempts import LagNow, RunObserver, SourceLag
from topologies.run.clock import Clock
from topologies.run.options import ComingRestart
from windowing.errors import TakenOver
from windowing.reprs import error_text
from windowing.settings.rules import SOURCE
from windowing.timestamps import LATEST, show

# A histogram: for each set of labels, the number of values up to each of some bounds.


@dataclass
class Distribution:
    """The values for one set of labels."""

    counts: list[int]
    """Count of each bucket, not cumulated; the last has no upper bound."""
    total: float = 0.0


@dataclass
class Distributions:
    """The values of a histogram."""

    instrument: Instrument
    by_labels: dict[tuple[str, ...], Distribution] = field(default_factory=dict)

    def begin(self, labels: tuple[str, ...]) -> None:
        """Adds labels, so that their first values appear as a rise from zero."""
        if labels not in self.by_labels:
            self.by_labels[labels] = Distribution([0] * (len(self.instrument.buckets) + 1))

    def observe(self, labels: tuple[str, ...], value: float, times: int = 1) -> None:
        """Adds a value, ``times`` times."""
        self.begin(labels)
        distribution = self.by_labels[labels]
        distribution.counts[bisect_left(self.instrument.buckets, value)] += times
        distribution.total += value * times

    def copies(self) -> Iterator[tuple[tuple[str, ...], Distribution]]:
        """Yields copies of its distributions by labels, unaffected by later values."""
        for labels, each in self.by_labels.items():
            yield labels, Distribution(list(each.counts), each.total)


# The instruments, each with name, unit, labels and description.
#
# Names have OpenTelemetry's form. Prometheus writes them with underscores and the unit, and counters with ``_total``.


class InstrumentKind(StrEnum):
    """How the values of an instrument behave."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Instrument:
    """One measured quantity."""

    name: str
    kind: InstrumentKind
    unit: str
    """Unit in UCUM: ``s`` for seconds, ``{event}`` for a number of events; empty without a unit."""
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    """For a histogram, the upper bounds of all buckets but the last, which has none."""

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


# Values of instruments, read from the report of a batch.


class Sample(NamedTuple):
    """One value of an instrument, with its labels."""

    instrument: Instrument
    labels: tuple[str, ...]
    """Values of the labels, in the instrument's order."""
    value: float


def samples_of_bolt(topology: str, node: WindowedNode, report: BoltReport) -> Iterator[Sample]:
    """Yields the values of a bolt."""
    bolt = (topology, node.name)
    for stream, counts in report.streams.items():
        yield from (Sample(EVENTS, (*bolt, stream, account), counts[account]) for account in ACCOUNTS)
        yield Sample(RECEIVED, (*bolt, stream), counts["received"])
        yield Sample(PENDING, (*bolt, stream), counts["pending"])
        yield from (Sample(NOTED, (*bolt, stream, finding), counts[finding]) for finding in (*FINDINGS, SKIPPED))
    yield from _watermark_samples(bolt, node, report)
    yield Sample(WINDOWS, bolt, report.fired)
    if report.open is not None:
        yield Sample(OPEN, bolt, report.open)
    yield from (Sample(EMITTED, (*bolt, stream), rows) for stream, rows in report.emitted.items())
    counted = ANSWERS if node.bolt.counts_answers else COUNTED
    yield from (Sample(counted, (*bolt, name), count) for name, count in report.counters.items())


def _watermark_samples(bolt: tuple[str, str], node: WindowedNode, report: BoltReport) -> Iterator[Sample]:
    """Yields the watermarks; none after the end of the streams, when the watermark is the end of time."""
    for (stream, partition), mark in _watermarks(node, report).items():
        if mark <= LATEST:
            yield Sample(WATERMARK, (*bolt, stream, partition), mark / 1e6)
    if report.watermark is not None and report.watermark <= LATEST:
        yield Sample(BOLT_WATERMARK, bolt, report.watermark / 1e6)
    if report.delay is not None:
        yield Sample(DELAY, bolt, report.delay / 1e6)
    yield Sample(IDLE, bolt, len(report.idle))


def _watermarks(node: WindowedNode, report: BoltReport) -> dict[tuple[str, str], int]:
    """Returns the watermark of each input and partition. Partitions found in events may be as many as keys, so only the
    one furthest behind is returned."""
    named = has_named_partitions(node)
    marks: dict[tuple[str, str], int] = {}
    for source, mark in report.inputs.items():
        stream = input_of(source)
        if source == stream or named:
            label = stream, shown_partition(source)  # of names that differ in a tab alone, the same
            marks[label] = min(mark, marks.get(label, mark))
        elif source not in report.idle:
            marks[stream, ""] = min(mark, marks.get((stream, ""), mark))
    return marks


def has_named_partitions(node: WindowedNode) -> bool:
    """True if the source or the settings name the partitions of a bolt's inputs."""
    settings = node.bolt.settings
    return settings.watermark_partition is SOURCE or bool(settings.partitions)


# Logs repeated errors once for each kind.


class LoggedOnce:
    """Logs errors of repeated requests, by a scrape or a page, only once for each reason."""

    def __init__(self, log: logging.Logger) -> None:
        self._log, self._lock = log, threading.Lock()
        self._known: set[tuple[str, type[BaseException]]] = set()

    def log_once(self, what: str, error: BaseException, level: int = logging.WARNING) -> None:
        """Logs an error with its traceback, unless such an error has been logged for ``what`` before."""
        with self._lock:
            was_logged = (what, type(error)) in self._known
            self._known.add((what, type(error)))
        if not was_logged:
            self._log.log(level, "%s; this is logged once", what, exc_info=error)


# How far reading is behind the sources: files from their folders, records from Spark's reports.


_KAFKA = "KafkaV2["


class SourceProgress(Protocol):
    """Spark's report on a source; offsets are JSON: ``{"topic": {"0": 5}}``."""

    @property
    def description(self) -> str: ...
    @property
    def endOffset(self) -> str: ...  # noqa: N802 - Spark's names
    @property
    def latestOffset(self) -> str: ...  # noqa: N802


def files_behind(topology: Graph, read: Mapping[str, Container[str]]) -> list[SourceLag]:
    """Returns, for each spout of local files, how many files belong to no batch yet; lists the folders.

    ``read``: by spout, the files that belong to a batch, by absolute path.
    """
    return [
        SourceLag(name, "files", len(node.spout.list_files(read.get(name, frozenset()))))
        for name, node in topology.spouts.items()
        if isinstance(node.spout, FileSpout) and node.spout.is_here
    ]


def records_behind(sources: Iterable[SourceProgress], spouts: Sequence[str]) -> list[SourceLag]:
    """Returns, for each Kafka spout and partition, the number of records that belong to no batch yet, at the last
    trigger.

    ``spouts``: in the order of the query's Kafka sources. Empty until Spark has reported all of them.
    """
    kafka_sources = [source for source in sources if source.description.startswith(_KAFKA)]
    if len(kafka_sources) != len(spouts):
        return []
    return [lag for spout, source in zip(spouts, kafka_sources, strict=True) for lag in _lags_of(spout, source)]


def _lags_of(spout: str, source: SourceProgress) -> Iterator[SourceLag]:
    ends, latest = (_offsets(text) for text in (source.endOffset, source.latestOffset))
    for partition, end in latest.items():
        yield SourceLag(spout, "records", max(end - ends.get(partition, 0), 0), partition)


def _offsets(text: str) -> dict[str, int]:
    """Returns offsets by partition, ``topic/0``."""
    offsets = json.loads(text) if text and text != "null" else {}
    return {f"{topic}/{number}": end for topic, ends in offsets.items() for number, end in ends.items()}


# The health of a run: it is healthy if it has not failed, and its batches complete.


STALL_SECONDS, STALL_FACTOR = 300.0, 10
"""A run stalls while a batch takes longer than these seconds, and longer than this multiple of the longest batch so
far."""


class RunState(StrEnum):
    """State of a run, for outside observers."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STALLED = "stalled"
    FINISHED = "finished"
    STOPPED = "stopped"
    TAKEN_OVER = "taken over"
    """Another run has taken its checkpoint over."""
    FAILED = "failed"


@dataclass(frozen=True)
class Health:
    """State of a run at the time of a request."""

    state: RunState
    batch: int | None
    """The last committed batch; None before the first of the checkpoint."""
    committed: int | None
    """Time of that commit, in microseconds."""
    phase: str | None
    """The phase of the present batch; None between batches."""
    phase_seconds: float | None
    """Time that the present batch has taken so far."""
    error: str | None
    """Error that ended a failed run, or for which it will be restarted; for a run that was taken over, by whom and
    when."""
    restarts: int = 0
    """Number of restarts."""

    @property
    def live(self) -> bool:
        """True unless a restart is needed. A run that was taken over counts as live, because a restart would take the
        checkpoint back."""
        return self.well

    @property
    def well(self) -> bool:
        """True if the run has not failed, and does not stall."""
        return self.state not in (RunState.FAILED, RunState.STALLED)

    @property
    def ready(self) -> bool:
        """True if the run takes input: its state is restored, and it has not ended."""
        return self.state is RunState.RUNNING

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values; times in ISO 8601."""
        return {
            "state": str(self.state),
            "live": self.live,
            "ready": self.ready,
            "last_commit": None if self.committed is None else {"batch": self.batch, "at": show(self.committed)},
            "batch_in_hand": None
            if self.phase is None or self.phase_seconds is None
            else {"phase": self.phase, "seconds": round(self.phase_seconds, 3)},
            "error": self.error,
            "restarts": self.restarts,
        }


class RunHealth:
    """Follows the state of a run."""

    def __init__(self) -> None:
        self._state = RunState.STARTING
        self._batch: int | None = None
        self._phase: str | None = None
        self._batch_began = 0.0
        self._longest_batch = 0.0
        self._error: str | None = None
        self._restarts = 0

    def begin(self, batch: int) -> None:
        """Called when the state is restored. ``batch``: the last committed one, negative without one."""
        self._state, self._error = RunState.RUNNING, None
        self._batch = batch if batch >= 0 else None

    def phase(self, name: str) -> None:
        """Called as a phase begins."""
        if self._phase is None:
            self._batch_began = time.monotonic()
        self._phase = name

    def commit(self, batch: int) -> None:
        """Called when a batch is done."""
        if self._phase is not None:
            self._longest_batch = max(self._longest_batch, time.monotonic() - self._batch_began)
        self._batch, self._phase = batch, None

    def restarting(self, error: BaseException) -> None:
        """Called when the run has failed, and will be restarted."""
        self._phase, self._state, self._error = None, RunState.RESTARTING, error_text(error)
        self._restarts += 1

    def end(self, *, stopped: bool, error: BaseException | None) -> None:
        """Called at the end of the run."""
        self._phase, self._error = None, None if error is None else error_text(error)
        if error is None:
            self._state = RunState.STOPPED if stopped else RunState.FINISHED
        else:
            self._state = RunState.TAKEN_OVER if isinstance(error, TakenOver) else RunState.FAILED

    def now(self, committed: int | None = None) -> Health:
        """Returns the state now. ``committed``: time of the last batch, in microseconds."""
        seconds = None if self._phase is None else time.monotonic() - self._batch_began
        state = self._state
        if seconds is not None and seconds > max(STALL_SECONDS, STALL_FACTOR * self._longest_batch):
            state = RunState.STALLED
        return Health(state, self._batch, committed, self._phase, seconds, self._error, self._restarts)


# The metrics of a run, as values that other threads read at any time.


LAG_SECONDS = 5.0
"""Seconds until the lag of sources is looked up again, which may list folders, or ask Spark."""
_LAG_PAUSE_FACTOR = 200
"""The lag is not looked up again for this multiple of the last look-up's duration, so that it costs at most half a
percent of one processor."""
_LOG = logging.getLogger("windbolt.metrics")
Recorder = Callable[[Instrument, tuple[str, ...], Sequence[tuple[float, int]]], None]
"""Called in the thread of the run with a histogram, its labels, and values with their numbers of occurrences."""


class RunMetrics(RunObserver):
    """The metrics of a run; the values may be read from any thread.

    Counts of events, windows and rows are totals of the checkpoint: they continue from the previous run, and count each
    event once, even after failures. Durations and batches are those of this process.
    """

    def __init__(self, topology: Graph, clock: Clock) -> None:
        self.topology = topology
        self.recorders: list[Recorder] = []
        """Recorders that also receive the values of histograms."""
        self.version = 0
        """Number that grows after each batch, at the beginning and at the end."""
        self._clock, self._name = clock, topology.name
        self._lock = threading.Lock()
        self._health = RunHealth()
        self._bolts: dict[str, BoltReport] = {}
        self._spouts: dict[str, dict[str, int]] = {}
        self._changed_files = {
            name: set[str]() for name, node in topology.spouts.items() if isinstance(node.spout, FileSpout)
        }
        self._batches = 0
        self._committed: int | None = None
        self._delays, self._phases = Distributions(EMIT_DELAY), Distributions(PHASE)
        self._lag: LagNow = tuple
        self._last_lags: Sequence[SourceLag] = ()
        self._lag_due = -math.inf
        self._lag_lock = threading.Lock()
        self._logged = LoggedOnce(_LOG)

    def begin(self, micro_batch: MicroBatch, lag: LagNow) -> None:
        """Sets the totals of earlier runs, and zeros for counts that do not exist yet. Called at the start."""
        manifest = micro_batch.manifest
        clock = self._clock() if manifest.clock is None else manifest.clock
        bolts = {
            name: bolt_report(node, manifest.bolts[name], clock) for name, node in micro_batch.topology.windowed.items()
        }
        with self._lock:
            self._bolts, self._lag = bolts, lag
            self._spouts = {name: dict(counts) for name, counts in manifest.spouts.items()}
            self._committed = manifest.clock
            self._lag_due = -math.inf  # lags requested during the start were unknown
            for bolt in bolts:
                self._delays.begin((self._name, bolt))
            for phase in PHASES[:-1]:
                self._phases.begin((self._name, phase))
            self._health.begin(manifest.batch)
            self.version += 1

    def phase(self, name: str) -> None:
        """Records when a batch begins, so that a batch that takes too long is noticed."""
        with self._lock:
            self._health.phase(name)

    def window_ends(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        """Records the delay of each window, up to the commit just made."""
        now = self._clock()
        for bolt, windows in ends.items():
            delays = [(max(now - end, 0) / 1e6, count) for end, count in windows.items()]
            self._observe(self._delays, (self._name, bolt), delays)

    def report(self, report: BatchReport) -> None:
        """Replaces the values of the previous batch by the values of this batch."""
        now = self._clock()
        with self._lock:
            self._bolts, self._spouts = report.bolts, report.spouts
            self._batches += 1
            self._committed = now
            self._health.commit(report.batch)
            self.version += 1
        for phase, seconds in report.seconds.items():
            if phase != "total":
                self._observe(self._phases, (self._name, phase), [(seconds, 1)])

    def changed_files(self, spout: str, paths: Sequence[str]) -> None:
        """Counts each file once, however many restarts there were."""
        with self._lock:
            self._changed_files[spout].update(paths)

    def restarting(self, coming: ComingRestart) -> None:
        """Records that the run is being restarted: it is then live, but not ready."""
        with self._lock:
            self._health.restarting(coming.error)
            self.version += 1

    def end(self, *, stopped: bool, error: BaseException | None) -> None:
        """Ends the run; the last values stay."""
        with self._lock:
            self._health.end(stopped=stopped, error=error)
            self.version += 1

    def samples(self) -> list[Sample]:
        """Returns the present values of counters and gauges."""
        lags = self.lags()
        with self._lock:
            bolts, spouts = self._bolts, self._spouts
            changed = {spout: len(paths) for spout, paths in self._changed_files.items()}
            batches, committed, health = self._batches, self._committed, self._health.now()
        name, nodes = self._name, self.topology.windowed
        found = [sample for bolt, report in bolts.items() for sample in samples_of_bolt(name, nodes[bolt], report)]
        found += [
            Sample(SPOUT, (name, spout, what), count)
            for spout, counts in spouts.items()
            for what, count in counts.items()
        ]
        found += [Sample(CHANGED_FILES, (name, spout), count) for spout, count in changed.items()]
        found += [Sample(LAG, (name, lag.spout, lag.unit, lag.partition), lag.behind) for lag in lags]
        found.append(Sample(BATCHES, (name,), batches))
        if committed is not None:
            found.append(Sample(COMMITTED, (name,), committed / 1e6))
        found.append(Sample(HEALTHY, (name,), int(health.well)))
        found.append(Sample(RESTARTS, (name,), health.restarts))
        return found

    def distributions(self) -> list[tuple[Instrument, tuple[str, ...], Distribution]]:
        """Returns the present values of histograms."""
        with self._lock:
            return [
                (histogram.instrument, labels, distribution)
                for histogram in (self._delays, self._phases)
                for labels, distribution in histogram.copies()
            ]

    def health(self) -> Health:
        """Returns the state of the run."""
        with self._lock:
            return self._health.now(self._committed)

    def _observe(self, histogram: Distributions, labels: tuple[str, ...], values: Sequence[tuple[float, int]]) -> None:
        with self._lock:
            for value, times in values:
                histogram.observe(labels, value, times)
        for record in self.recorders:
            record(histogram.instrument, labels, values)

    def lags(self) -> Sequence[SourceLag]:
        """Returns the lags of the sources; if they cannot be determined now, the last known ones."""
        with self._lag_lock:
            began = time.monotonic()
            if began >= self._lag_due:
                try:
                    self._last_lags = self._lag()
                except Exception as error:
                    self._logged.log_once(f"the lag of the sources of {self._name!r} is not known", error)
                ended = time.monotonic()
                self._lag_due = ended + max(LAG_SECONDS, _LAG_PAUSE_FACTOR * (ended - began))
            return self._last_lags
