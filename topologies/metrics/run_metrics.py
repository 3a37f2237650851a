"""The metrics of one run: what it tells is kept as values that others read at any time."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from topologies.engine.batch.report import BatchReport, BoltReport
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.phases import PHASES
from topologies.engine.reporting import bolt_report
from topologies.io.file_spout import FileSpout
from topologies.metrics import instruments as of
from topologies.metrics.distributions import Distribution, Distributions
from topologies.metrics.health import Health, RunHealth
from topologies.metrics.instruments import Instrument
from topologies.metrics.logged_once import LoggedOnce
from topologies.metrics.sample import Sample, of_bolt
from topologies.run.clock import Clock
from topologies.run.observer import LagNow, RunObserver, SourceLag
from topologies.run.restart import ComingRestart
from topologies.topology import Topology

LAG_SECONDS = 5.0
"""Seconds for which the lag of sources is not looked up again: that may list folders, or ask Spark."""
_LAG_REST = 200
"""The lag is not looked up again for this many times as long as the last look-up took, which costs at most half a
percent of one processor."""
_LOG = logging.getLogger("windbolt.metrics")
Recorder = Callable[[Instrument, tuple[str, ...], Sequence[tuple[float, int]]], None]
"""Called in the thread of the run with a histogram, its labels, and values of it, each with how often it occurred."""


class RunMetrics(RunObserver):
    """Keeps what a run tells; the values may be read from any thread.

    Counts of events, windows and rows are the totals of the checkpoint, so they continue where the run before stopped,
    and count each event once whatever failed; durations and batches are those of this process.
    """

    def __init__(self, topology: Topology, clock: Clock) -> None:
        self.topology = topology
        self.recorders: list[Recorder] = []
        """Who keeps the values of histograms beside this."""
        self.version = 0
        """A number that is greater after each batch, and at the begin and the end."""
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
        self._delays, self._phases = Distributions(of.EMIT_DELAY), Distributions(of.PHASE)
        self._lag: LagNow = tuple
        self._lag_known: Sequence[SourceLag] = ()
        self._lag_due = -math.inf
        self._lag_lock = threading.Lock()
        self._logged = LoggedOnce(_LOG)

    def begin(self, micro_batch: MicroBatch, lag: LagNow) -> None:
        """The totals of earlier runs are there from the start, and zeros for what has not been counted yet."""
        manifest = micro_batch.manifest
        clock = self._clock() if manifest.clock is None else manifest.clock
        bolts = {
            name: bolt_report(node, manifest.bolts[name], clock) for name, node in micro_batch.topology.windowed.items()
        }
        with self._lock:
            self._bolts, self._lag = bolts, lag
            self._spouts = {name: dict(counts) for name, counts in manifest.spouts.items()}
            self._committed = manifest.clock
            self._lag_due = -math.inf  # of what was asked while it started nothing was known
            for bolt in bolts:
                self._delays.begin((self._name, bolt))
            for phase in PHASES[:-1]:
                self._phases.begin((self._name, phase))
            self._health.begin(manifest.batch)
            self.version += 1

    def phase(self, name: str) -> None:
        """Batches that take too long are told by when they began."""
        with self._lock:
            self._health.phase(name)

    def window_ends(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        """The delay of each window is that of its commit, which has just been."""
        now = self._clock()
        for bolt, windows in ends.items():
            delays = [(max(now - end, 0) / 1e6, count) for end, count in windows.items()]
            self._observe(self._delays, (self._name, bolt), delays)

    def report(self, report: BatchReport) -> None:
        """The values of the last batch replace those of the one before it."""
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
        """A file counts once, whatever restarts there were."""
        with self._lock:
            self._changed_files[spout].update(paths)

    def restarting(self, coming: ComingRestart) -> None:
        """It is well while it is being started again, and not ready."""
        with self._lock:
            self._health.restarting(coming.error)
            self.version += 1

    def end(self, *, stopped: bool, error: BaseException | None) -> None:
        """The last values stay."""
        with self._lock:
            self._health.end(stopped=stopped, error=error)
            self.version += 1

    def samples(self) -> list[Sample]:
        """The present values of counters and gauges."""
        lags = self.lags()
        with self._lock:
            bolts, spouts = self._bolts, self._spouts
            changed = {spout: len(paths) for spout, paths in self._changed_files.items()}
            batches, committed, health = self._batches, self._committed, self._health.now()
        name, nodes = self._name, self.topology.windowed
        found = [sample for bolt, report in bolts.items() for sample in of_bolt(name, nodes[bolt], report)]
        found += [
            Sample(of.SPOUT, (name, spout, what), count)
            for spout, counts in spouts.items()
            for what, count in counts.items()
        ]
        found += [Sample(of.CHANGED_FILES, (name, spout), count) for spout, count in changed.items()]
        found += [Sample(of.LAG, (name, lag.spout, lag.unit, lag.partition), lag.behind) for lag in lags]
        found.append(Sample(of.BATCHES, (name,), batches))
        if committed is not None:
            found.append(Sample(of.COMMITTED, (name,), committed / 1e6))
        found.append(Sample(of.HEALTHY, (name,), int(health.well)))
        found.append(Sample(of.RESTARTS, (name,), health.restarts))
        return found

    def distributions(self) -> list[tuple[Instrument, tuple[str, ...], Distribution]]:
        """The present values of histograms."""
        with self._lock:
            return [
                (histogram.instrument, labels, distribution)
                for histogram in (self._delays, self._phases)
                for labels, distribution in histogram.copied()
            ]

    def health(self) -> Health:
        """How the run is."""
        with self._lock:
            return self._health.now(self._committed)

    def _observe(self, histogram: Distributions, labels: tuple[str, ...], values: Sequence[tuple[float, int]]) -> None:
        with self._lock:
            for value, times in values:
                histogram.observe(labels, value, times)
        for record in self.recorders:
            record(histogram.instrument, labels, values)

    def lags(self) -> Sequence[SourceLag]:
        """How far the sources are behind; where that cannot be found out, what was known before."""
        with self._lag_lock:
            began = time.monotonic()
            if began >= self._lag_due:
                try:
                    self._lag_known = self._lag()
                except Exception as error:
                    self._logged.tell(f"the lag of the sources of {self._name!r} is not known", error)
                ended = time.monotonic()
                self._lag_due = ended + max(LAG_SECONDS, _LAG_REST * (ended - began))
            return self._lag_known
