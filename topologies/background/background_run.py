"""A run in the background: a thread that runs a topology, and what one can ask and tell it meanwhile."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from topologies.background.live_runs import RunsGoingOn
from topologies.background.notebook_view import Display, run_html
from topologies.background.status import RunPhase, RunStatus, counted, moment_of
from topologies.engine.batch.report import BatchReport, frame_of
from topologies.run.bolt_totals import BoltTotals
from topologies.run.clock import system_clock
from topologies.run.options import RunOptions
from topologies.run.restart import ComingRestart
from topologies.run.summary import Summary
from windowing.calls.checked import checked
from windowing.data.printable import error_text, printable
from windowing.errors import WindboltError
from windowing.time.timestamps import to_datetime

if TYPE_CHECKING:
    import pandas as pd

KEPT_REPORTS = 1_000
"""Number of the latest reports of batches that a run keeps."""

Runner = Callable[[RunOptions], Summary]
"""Runs a topology with these options, to its end: ``run_local`` or ``run_on_spark`` with the topology given."""


class StillRunning(WindboltError, TimeoutError):
    """A run that did not end in the time that somebody wanted to wait; it is still running."""


class Run:
    """A topology that runs in the background: what ``topology.start(...)`` returns.

    It runs until its input ends, it is stopped, it fails, or the process ends, which stops it after the current
    batch. Nobody has to keep it: ``windbolt.runs()`` has all that are in progress. As a context manager it is stopped
    at the end of the block. All its methods may be called from any thread.
    """

    def __init__(self, name: str, run: Runner, options: RunOptions) -> None:
        """Starts at once. ``run`` is called in a thread of its own; ``options`` are those it is given, but that the
        run hears of every report first."""
        self.name = name
        """The name of the topology."""
        self._stop = options.stop
        self._options = options
        self._lock = threading.Lock()
        self._phase, self._since = RunPhase.STARTING, system_clock()
        self._summary, self._began = Summary(), time.perf_counter()
        self._reports: deque[BatchReport] = deque(maxlen=KEPT_REPORTS)
        self._error: BaseException | None = None
        self._passing: BaseException | None = None
        """Why it is to be started again."""
        self._trace: TracebackType | None = None
        self._ended = threading.Event()
        self.error_was_told = False
        """Whether somebody has seen the error of the run, if it failed."""
        self._display = Display(self)
        own = replace(options, on_begin=self._begin, on_report=self._report, on_restart=self._restart)
        thread = threading.Thread(target=copy_context().run, args=(self._work, run, own), name="windbolt-run")
        thread.daemon = True  # the end of the process stops it (going_on.py), and does not wait forever
        _GOING_ON.add(self)
        thread.start()

    def __repr__(self) -> str:
        status = self.status
        rows = f"{counted(status.rows, 'row')} read, {counted(status.emitted, 'row')} emitted"
        return f"<Run of {self.name!r}: {status.phase}, {counted(status.batches, 'batch', 'batches')}, {rows}>"

    def _repr_html_(self) -> str:
        return run_html(self)

    def _ipython_display_(self) -> None:
        self.show()

    @checked
    def show(self) -> None:
        """Show it in the output of this cell of a notebook, where it is kept up to date; elsewhere as a line of
        text."""
        self._display.show()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.ask_to_stop()
        self._ended.wait()
        if kind is None:
            self.wait()

    @property
    def status(self) -> RunStatus:
        """What it is doing now."""
        with self._lock:
            summary, phase, since = self._snapshot(), self._phase, self._since
            error = self._error or self._passing
        if phase in (RunPhase.STARTING, RunPhase.RUNNING, RunPhase.RESTARTING) and self._stop.is_set():
            phase = RunPhase.STOPPING
        bolts = {} if summary.last is None else summary.last.bolts
        return RunStatus(
            phase=phase,
            since=to_datetime(since),
            batches=summary.batches,
            rows=summary.rows,
            emitted=sum(sum(bolt.emitted.values()) for bolt in summary.this_run().values()),
            watermarks={
                name: None if bolt.watermark is None else moment_of(bolt.watermark) for name, bolt in bolts.items()
            },
            inputs={
                name: {stream: moment_of(watermark) for stream, watermark in bolt.inputs.items()}
                for name, bolt in bolts.items()
            },
            error=None if error is None else error_in_words(error),
            restarts=summary.restarts,
        )

    @property
    def summary(self) -> Summary:
        """What it has come to so far, as ``wait`` returns it at the end: batches, rows, the last batch's report."""
        with self._lock:
            return self._snapshot()

    @property
    def reports(self) -> list[BatchReport]:
        """The reports of its latest 1,000 batches, the oldest first."""
        with self._lock:
            return list(self._reports)

    @checked
    def to_pandas(self) -> pd.DataFrame:
        """A row for each of its latest 1,000 batches and each windowed bolt, for plots; with the columns of
        ``BatchReport.to_pandas``."""
        return frame_of(self.reports)

    @checked
    def wait(self, timeout: float | None = None) -> Summary:
        """Wait for its end, for ``timeout`` seconds at most, and return the summary.

        Raises the error that the run ended with, and TimeoutError where it has not ended by then. It is then still
        running, as after an interrupt (Ctrl-C): ``stop`` stops it.
        """
        if not self._ended.wait(timeout):
            raise StillRunning(
                f"the run of {self.name!r} has not ended within {timeout:g} s",
                why="it is still running in the background",
                do="wait longer, look at run.status, or stop it with run.stop()",
            )
        self._display.refresh(again=True)
        if self._error is not None:
            self.error_was_told = True
            raise self._error.with_traceback(self._trace)
        return self.summary

    @checked
    def stop(self, timeout: float | None = None) -> Summary:
        """Stop it between two batches, and return the summary: the current batch completes and is committed.

        A later run on the checkpoint continues there. Stopping a run that has ended changes nothing. Raises as
        ``wait``.
        """
        self.ask_to_stop()
        return self.wait(timeout)

    def ask_to_stop(self) -> None:
        """Have it stop after the current batch, without waiting for that."""
        with self._lock:
            if not self._ended.is_set() and not self._stop.is_set():
                self._since = system_clock()
            self._stop.set()

    @property
    def ended(self) -> bool:
        """Whether it has ended, in whichever way."""
        return self._ended.is_set()

    def end_within(self, seconds: float) -> bool:
        """Wait for its end, at most this long; whether it has ended. Raises nothing."""
        return self._ended.wait(seconds)

    @property
    def failure(self) -> BaseException | None:
        """The error that it ended with, which ``wait`` raises; None for others."""
        return self._error

    def _work(self, run: Runner, options: RunOptions) -> None:
        summary, error = None, None
        try:
            summary = run(options)
        except BaseException as failure:
            error = failure
        with self._lock:
            self._error, self._trace = error, None if error is None else error.__traceback__
            self._since, self._passing = system_clock(), None
            if summary is not None:
                self._summary = summary
            stopped = summary is not None and summary.stopped
            self._phase = RunPhase.FAILED if error else RunPhase.STOPPED if stopped else RunPhase.FINISHED
        self._ended.set()

    def _begin(self, before: Mapping[str, BoltTotals]) -> None:
        with self._lock:
            self._summary.before = dict(before)
            self._phase, self._since, self._passing = RunPhase.RUNNING, system_clock(), None
            if not self._summary.batches:
                self._began = time.perf_counter()
        self._options.on_begin(before)

    def _restart(self, coming: ComingRestart) -> None:
        with self._lock:
            self._summary.restarts = coming.restarts
            self._phase, self._since, self._passing = RunPhase.RESTARTING, system_clock(), coming.error
        self._options.on_restart(coming)

    def _report(self, report: BatchReport) -> None:
        with self._lock:
            self._summary.note(report)
            self._summary.seconds = time.perf_counter() - self._began
            self._reports.append(report)
        self._options.on_report(report)

    def _snapshot(self) -> Summary:
        """A summary that the run does not change any more; within the lock."""
        return replace(self._summary, complaints=list(self._summary.complaints))


_GOING_ON: RunsGoingOn[Run] = RunsGoingOn()


@checked
def runs() -> list[Run]:
    """The runs of this process that were started in the background and have not ended, the oldest first."""
    return _GOING_ON.now()


def error_in_words(error: BaseException) -> str:
    """An error in a sentence or three; of windbolt's what, why and what to do."""
    return printable(str(error), keep="\n\t") if isinstance(error, WindboltError) else error_text(error)
