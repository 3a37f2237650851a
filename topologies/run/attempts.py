"""The attempts of one run: it is started again, from its checkpoint, after failures that may pass by themselves."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from manager.outside.transient import is_transient
from topologies.run.bolt_totals import BoltTotals
from topologies.run.restart import ComingRestart, Restart
from topologies.run.summary import Summary

if TYPE_CHECKING:
    from topologies.engine.batch.report import BatchReport
    from topologies.run.options import RunOptions

_JITTER = 0.1
"""Part of a pause by which it is made shorter or longer at random, so that runs that failed together do not all come
back at once."""


class Attempts:
    """What later attempts of a run have to know of earlier ones."""

    def __init__(self, policy: Restart | None = None) -> None:
        """``policy``: None for a run that ends with its first failure."""
        self.policy = policy
        self.token = uuid.uuid4().hex
        """The id that all attempts share."""
        self.has_claimed = False
        """Whether an attempt has had the checkpoint: a later one then takes it from no other run."""
        self.first_run: str | None = None
        """The id by which the note of runs knows this one: that of the first attempt that was noted."""
        self.restarts = 0
        """Number of restarts so far."""
        self._in_a_row = 0

    def progress(self) -> None:
        """Called when a batch is committed."""
        self._in_a_row = 0

    def restarts_after(self, error: BaseException) -> bool:
        """Whether the run is to be started again after this error."""
        policy = self.policy
        passes = policy is not None and isinstance(error, Exception) and is_transient(error)
        return passes and policy is not None and self._in_a_row < policy.attempts

    def next(self, error: BaseException) -> ComingRestart:
        """Count one more restart, which is to come."""
        assert self.policy is not None
        self.restarts, self._in_a_row = self.restarts + 1, self._in_a_row + 1
        pause = self.policy.seconds_before(self._in_a_row) * random.uniform(1 - _JITTER, 1 + _JITTER)
        return ComingRestart(error, self.restarts, self._in_a_row, self.policy.attempts, pause)


def run_in_attempts(
    options: RunOptions,
    attempt: Callable[[RunOptions, Attempts], Summary],
    tell: Callable[[ComingRestart], None],
) -> Summary:
    """Run to the end, in as many attempts as ``options.restart`` allows; the summary is that of all of them.

    ``tell`` is called before each pause, and after it ``options.on_restart``. A run that is asked to stop during a
    pause ends there, between two batches. Raises the error that is not followed by another attempt.
    """
    attempts = Attempts(options.restart)
    if options.restart is None:
        return attempt(options, attempts)
    whole = _Whole(options, attempts)
    while True:
        try:
            return whole.ended(attempt(whole.options, attempts))
        except Exception as error:
            if not attempts.restarts_after(error):
                raise
            coming = attempts.next(error)
        tell(coming)
        options.on_restart(coming)
        if options.stop.wait(coming.seconds):
            return whole.ended(Summary(stopped=True))


class _Whole:
    """The summary of all attempts."""

    def __init__(self, options: RunOptions, attempts: Attempts) -> None:
        self.options = replace(options, on_begin=self._begin, on_report=self._report)
        self._told, self._attempts = options, attempts
        self._sum, self._started = Summary(), time.perf_counter()
        self._before: Mapping[str, BoltTotals] | None = None

    def ended(self, last: Summary) -> Summary:
        """The summary, once the last attempt has ended."""
        whole = self._sum
        whole.restarts, whole.stopped, whole.rescaled = self._attempts.restarts, last.stopped, last.rescaled
        whole.new_columns, whole.new_column_defaults = last.new_columns, last.new_column_defaults
        whole.seconds = time.perf_counter() - self._started
        whole.complaints += [text for text in last.complaints if text not in whole.complaints]
        whole.before = dict(self._before or {})
        return whole

    def _begin(self, before: Mapping[str, BoltTotals]) -> None:
        """What earlier runs had done is what the first attempt found."""
        self._before = before if self._before is None else self._before
        self._told.on_begin(self._before)

    def _report(self, report: BatchReport) -> None:
        self._attempts.progress()
        self._sum.note(report)
        self._told.on_report(report)
