"""What a run tells somebody who watches it: metrics, traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from topologies.engine.batch.report import BatchReport
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.work.output import TurnedAway
from topologies.run.restart import ComingRestart


@dataclass(frozen=True)
class SourceLag:
    """How far the reading of a spout is behind what is there."""

    spout: str
    unit: str
    """``files`` or ``records``."""
    behind: int
    """Number of files or records that are there and belong to no batch yet."""
    partition: str = ""
    """The partition of a topic, ``topic/0``; empty where there are none."""


LagNow = Callable[[], Sequence[SourceLag]]
"""Called from any thread: how far the spouts are behind now; without those of which that cannot be told."""


class RunObserver:
    """Hears of everything that a run does. All its methods but ``end`` are called from the thread of the run; this
    class does nothing."""

    wants_trace_contexts: bool = False
    """Whether ``trace_contexts`` is called; looking for them costs each window that fires a little."""
    wants_turned_away = False
    """Whether it wants to see some of the events that are not admitted."""

    def begin(self, micro_batch: MicroBatch, lag: LagNow) -> None:
        """Called when the state is restored and the first batch is awaited."""

    def phase(self, name: str) -> None:
        """Called as a phase of a batch begins, and with ``committed`` when the batch is."""

    def trace_contexts(self, found: Mapping[str, Mapping[int, Sequence[str]]]) -> None:
        """Called after the commit of a batch, before ``window_ends``, with samples of the trace contexts that events in
        the windows carry, by bolt and by the end of the window in microseconds."""

    def window_ends(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        """Called after the commit of a batch with the number of windows that fired, by bolt and by their end in
        microseconds."""

    def turned_away(self, events: Sequence[TurnedAway]) -> None:
        """Called after the commit of a batch with some of the events that it did not admit, to those who want to
        see them."""

    def changed_files(self, spout: str, paths: Sequence[str]) -> None:
        """Called when files of a spout were found to have been changed after they were read; once each, and again after
        a restart."""

    def report(self, report: BatchReport) -> None:
        """Called with the report of a batch that has been committed."""

    def restarting(self, coming: ComingRestart) -> None:
        """Called when the run has failed and is to be started again, before the pause; ``begin`` follows, unless it
        fails again before."""

    def end(self, *, stopped: bool, error: BaseException | None) -> None:
        """Called when the run has ended, once. ``error``: with which, if it failed."""


class Observers(RunObserver):
    """Several observers, told in order."""

    def __init__(self, observers: Sequence[RunObserver]) -> None:
        self.observers = tuple(observers)

    def begin(self, micro_batch: MicroBatch, lag: LagNow) -> None:
        """Without observers nothing is noted for them."""
        if not self.observers:
            return
        micro_batch.on_phase, micro_batch.on_window_ends = self.phase, self.window_ends
        if any(observer.wants_trace_contexts for observer in self.observers):
            micro_batch.on_trace_contexts = self.trace_contexts
        if any(observer.wants_turned_away for observer in self.observers):
            micro_batch.on_turned_away = self.turned_away
        for observer in self.observers:
            observer.begin(micro_batch, lag)

    def phase(self, name: str) -> None:
        """Passed on."""
        for observer in self.observers:
            observer.phase(name)

    def trace_contexts(self, found: Mapping[str, Mapping[int, Sequence[str]]]) -> None:
        """Passed on."""
        for observer in self.observers:
            observer.trace_contexts(found)

    def window_ends(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        """Passed on."""
        for observer in self.observers:
            observer.window_ends(ends)

    def turned_away(self, events: Sequence[TurnedAway]) -> None:
        """Passed on to those who want to see them."""
        for observer in self.observers:
            if observer.wants_turned_away:
                observer.turned_away(events)

    def changed_files(self, spout: str, paths: Sequence[str]) -> None:
        """Passed on."""
        for observer in self.observers:
            observer.changed_files(spout, paths)

    def report(self, report: BatchReport) -> None:
        """Passed on."""
        for observer in self.observers:
            observer.report(report)

    def restarting(self, coming: ComingRestart) -> None:
        """Passed on."""
        for observer in self.observers:
            observer.restarting(coming)

    def end(self, *, stopped: bool, error: BaseException | None) -> None:
        """Passed on."""
        for observer in self.observers:
            observer.end(stopped=stopped, error=error)


NOBODY = Observers(())
