"""The attempts of a run, which is restarted after failures that may pass, and the observers of the run."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from manager.remote import is_transient
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.report import BatchReport
from topologies.engine.task_data import RejectedEvent
from topologies.run.options import ComingRestart, Restart, RunOptions
from topologies.run.summary import BoltTotals, Summary

# Reports of a run to its observers: metrics, traces.


@dataclass(frozen=True)
class SourceLag:
    """How far the reading of a spout is behind its source."""

    spout: str
    unit: str
    """Unit of ``behind``: ``files`` or ``records``."""
    behind: int
    """Number of existing files or records that belong to no batch yet."""
    partition: str = ""
    """The partition of a topic, ``topic/0``; empty without partitions."""


LagNow = Callable[[], Sequence[SourceLag]]
"""Returns the present lags of the spouts, without unknown ones; called from any thread."""


class RunObserver:
    """Receives the events of a run. All methods except ``end`` are called from the thread of the run; this
    class does nothing."""

    wants_trace_contexts: bool = False
    """True if ``trace_contexts`` must be called; collecting them costs a little for each fired window."""
    wants_rejected_events = False
    """True if the observer wants samples of rejected events."""

    def begin(self, micro_batch: MicroBatch, lag: LagNow) -> None:
        """Called when the state is restored and the run waits for the first batch."""

    def phase(self, name: str) -> None:
        """Called as a phase of a batch begins; with ``committed`` after the commit of the batch."""

    def trace_contexts(self, found: Mapping[str, Mapping[int, Sequence[str]]]) -> None:
        """Called after the commit of a batch, before ``window_ends``, with samples of trace contexts of events in the
        windows, by bolt and by window end in microseconds."""

    def window_ends(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        """Called after the commit of a batch with the number of fired windows, by bolt and by end in microseconds."""

    def rejected_events(self, events: Sequence[RejectedEvent]) -> None:
        """Called after the commit of a batch with samples of rejected events, for observers that want them."""

    def changed_files(self, spout: str, paths: Sequence[str]) -> None:
        """Called when files of a spout were changed after they were read; once for each file, and again after a
        restart."""

    def report(self, report: BatchReport) -> None:
        """Called with the report of a committed batch."""

    def restarting(self, coming: ComingRestart) -> None:
        """Called when the run has failed and will be restarted, before the pause. ``begin`` follows, unless the run
        fails before that."""

    def end(self, *, stopped: bool, error: BaseException | None) -> None:
        """Called once, when the run has ended. ``error``: the error of a failed run, else None."""


class Observers(RunObserver):
    """Several observers, notified in order."""

    def __init__(self, observers: Sequence[RunObserver]) -> None:
        self.observers = tuple(observers)

    def begin(self, micro_batch: MicroBatch, lag: LagNow) -> None:
        """Sets the hooks of a batch; without observers it sets none."""
        if not self.observers:
            return
        micro_batch.on_phase, micro_batch.on_window_ends = self.phase, self.window_ends
        if any(observer.wants_trace_contexts for observer in self.observers):
            micro_batch.on_trace_contexts = self.trace_contexts
        if any(observer.wants_rejected_events for observer in self.observers):
            micro_batch.on_rejected_events = self.rejected_events
        for observer in self.observers:
            observer.begin(micro_batch, lag)

    def phase(self, name: str) -> None:
        """Passes the call on to all observers."""
        for observer in self.observers:
            observer.phase(name)

    def trace_contexts(self, found: Mapping[str, Mapping[int, Sequence[str]]]) -> None:
        """Passes the call on to all observers."""
        for observer in self.observers:
            observer.trace_contexts(found)

    def window_ends(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        """Passes the call on to all observers."""
        for observer in self.observers:
            observer.window_ends(ends)

    def rejected_events(self, events: Sequence[RejectedEvent]) -> None:
        """Passes the call on to the observers that want samples."""
        for observer in self.observers:
            if observer.wants_rejected_events:
                observer.rejected_events(events)

    def changed_files(self, spout: str, paths: Sequence[str]) -> None:
        """Passes the call on to all observers."""
        for observer in self.observers:
            observer.changed_files(spout, paths)

    def report(self, report: BatchReport) -> None:
        """Passes the call on to all observers."""
        for observer in self.observers:
            observer.report(report)

    def restarting(self, coming: ComingRestart) -> None:
        """Passes the call on to all observers."""
        for observer in self.observers:
            observer.restarting(coming)

    def end(self, *, stopped: bool, error: BaseException | None) -> None:
        """Passes the call on to all observers."""
        for observer in self.observers:
            observer.end(stopped=stopped, error=error)


NO_OBSERVERS = Observers(())


# A run with observers, which are told about its restarts and its end.


def run_with_observers(
    options: RunOptions,
    run_observers: Sequence[RunObserver],
    run: Callable[[RunOptions, Observers, Attempts], Summary],
) -> Summary:
    """Calls ``run`` in as many attempts as the options allow, and returns its summary. The observers are passed to
    ``run``, and are told about its restarts and its end."""
    observers = Observers(run_observers)
    try:
        summary = run_in_attempts(
            options, lambda attempt_options, attempts: run(attempt_options, observers, attempts), observers.restarting
        )
    except BaseException as error:
        observers.end(stopped=False, error=error)
        raise
    observers.end(stopped=summary.stopped, error=None)
    return summary


# The attempts of a run: it is restarted from its checkpoint after failures that may pass by themselves.


_JITTER = 0.1
"""Fraction by which a pause is made shorter or longer at random, so that runs after a common failure do not all return
at once."""


class Attempts:
    """State that earlier attempts of a run leave to later ones."""

    def __init__(self, policy: Restart | None = None) -> None:
        """``policy``: None for a run that ends with its first failure."""
        self.policy = policy
        self.token = uuid.uuid4().hex
        """The id that all attempts share."""
        self.has_claimed = False
        """True if an attempt has had the checkpoint: a later attempt then takes it from no other run."""
        self.first_run: str | None = None
        """The id of this run in its record: the id of the first recorded attempt."""
        self.restarts = 0
        """Number of restarts so far."""
        self._in_a_row = 0

    def progress(self) -> None:
        """Called when a batch is committed."""
        self._in_a_row = 0

    def restarts_after(self, error: BaseException) -> bool:
        """True if the run is restarted after this error."""
        policy = self.policy
        may_pass = policy is not None and isinstance(error, Exception) and is_transient(error)
        return may_pass and policy is not None and self._in_a_row < policy.attempts

    def next(self, error: BaseException) -> ComingRestart:
        """Counts a coming restart."""
        assert self.policy is not None
        self.restarts, self._in_a_row = self.restarts + 1, self._in_a_row + 1
        pause = self.policy.seconds_before(self._in_a_row) * random.uniform(1 - _JITTER, 1 + _JITTER)
        return ComingRestart(error, self.restarts, self._in_a_row, self.policy.attempts, pause)


def run_in_attempts(
    options: RunOptions,
    attempt: Callable[[RunOptions, Attempts], Summary],
    on_restart: Callable[[ComingRestart], None],
) -> Summary:
    """Runs to the end, in as many attempts as ``options.restart`` allows; the summary covers all of them.

    ``on_restart``: called before each pause, before ``options.on_restart``. If the run is asked to stop during a pause,
    it ends there, between two batches. Raises the error after which no attempt follows.
    """
    attempts = Attempts(options.restart)
    if options.restart is None:
        return attempt(options, attempts)
    all_attempts = _AllAttempts(options, attempts)
    while True:
        try:
            return all_attempts.final_summary(attempt(all_attempts.options, attempts))
        except Exception as error:
            if not attempts.restarts_after(error):
                raise
            coming = attempts.next(error)
        on_restart(coming)
        options.on_restart(coming)
        if options.stop.wait(coming.seconds):
            return all_attempts.final_summary(Summary(stopped=True))


class _AllAttempts:
    """The summary of all attempts."""

    def __init__(self, options: RunOptions, attempts: Attempts) -> None:
        self.options = replace(options, on_begin=self._begin, on_report=self._report)
        self._users_options, self._attempts = options, attempts
        self._summary, self._started = Summary(), time.perf_counter()
        self._before: Mapping[str, BoltTotals] | None = None

    def final_summary(self, last_summary: Summary) -> Summary:
        """Returns the summary, once the last attempt has ended."""
        summary = self._summary
        summary.restarts, summary.stopped, summary.rescaled = (
            self._attempts.restarts,
            last_summary.stopped,
            last_summary.rescaled,
        )
        summary.new_columns, summary.new_column_defaults = last_summary.new_columns, last_summary.new_column_defaults
        summary.seconds = time.perf_counter() - self._started
        summary.complaints += [text for text in last_summary.complaints if text not in summary.complaints]
        summary.before = dict(self._before or {})
        return summary

    def _begin(self, before: Mapping[str, BoltTotals]) -> None:
        """Keeps the totals of earlier runs, as the first attempt found them."""
        self._before = before if self._before is None else self._before
        self._users_options.on_begin(self._before)

    def _report(self, report: BatchReport) -> None:
        self._attempts.progress()
        self._summary.note(report)
        self._users_options.on_report(report)
