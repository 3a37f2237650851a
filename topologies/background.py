"""Runs in the background: a thread that runs a topology, and what can be asked of it meanwhile."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from topologies.checkpoints.preflight import check_local
from topologies.engine.report import BatchReport, bolts_html, frame_of
from topologies.graph.graph import Graph
from topologies.graph.html import framed, heading, paragraph, table, text
from topologies.io.paths import shown_path
from topologies.run.clock import system_clock
from topologies.run.options import ComingRestart, Engine, EngineName, Restart, RunOptions, check_engine, engine_of
from topologies.run.summary import BoltTotals, Summary
from windowing.calls import checked
from windowing.durations import Duration
from windowing.errors import ConfigError, WindboltError
from windowing.reprs import error_text, fields_repr, printable
from windowing.timestamps import LATEST, to_datetime

if TYPE_CHECKING:
    import pandas as pd

    from topologies.spark.time_metrics import TimeMetrics


# The lines in which the error of a failed run is shown.


def error_in_lines(error: BaseException) -> str:
    """Returns an error as the command prints it, in lines with what, why and do; for an error that is not windbolt's,
    its name and message."""
    if not isinstance(error, WindboltError):
        return error_text(error)
    parts = (("why", error.why), ("do", error.do))
    lines = [error.what, *(f"  {word + ':':<5}{part}" for word, part in parts if part)]
    return printable("\n".join(lines), keep="\n\t")


# The present status of a run: its phase, and its progress.


class RunPhase(StrEnum):
    """Phase of a run."""

    STARTING = "starting"
    """The engine of the run is being started, or its state restored."""
    RUNNING = "running"
    """The run processes batches, or waits for input."""
    RESTARTING = "restarting"
    """The run failed, and is started again after a pause."""
    STOPPING = "stopping"
    """The run was asked to stop, and completes the current batch."""
    FINISHED = "finished"
    """The run has read its input to the end."""
    STOPPED = "stopped"
    """The run was stopped before the end of its input; the next run on its checkpoint continues there."""
    FAILED = "failed"
    """The run ended with an error, which ``wait()`` raises."""

    @property
    def over(self) -> bool:
        """True if the run has ended."""
        return self in (RunPhase.FINISHED, RunPhase.STOPPED, RunPhase.FAILED)


@dataclass(frozen=True)
class RunStatus:
    """Status of a run at one moment: a value that does not change. Times are aware datetimes in UTC."""

    phase: RunPhase
    since: datetime
    """When the phase began."""
    batches: int = 0
    """Number of micro-batches that this run has committed."""
    rows: int = 0
    """Number of rows that this run has read from spouts, without unreadable ones."""
    emitted: int = 0
    """Number of rows that the windowed bolts have emitted in this run."""
    watermarks: Mapping[str, datetime | None] = field(default_factory=dict)
    """For each windowed bolt, its watermark; None before the first. At the end of the streams, the watermark is the end
    of the last window, or ``datetime.max``."""
    inputs: Mapping[str, Mapping[str, datetime]] = field(default_factory=dict)
    """For each windowed bolt, the watermark that each of its inputs alone would allow. An input that has delivered
    nothing is missing, and holds the bolt's watermark back; if no input is missing, the input furthest behind holds it
    back."""
    error: str | None = None
    """Error that ended a failed run, or made it fail before it is started again, in one sentence."""
    restarts: int = 0
    """Number of times it was started again after a failure."""
    late: int = 0
    """Number of events that came too late for windowed bolts in this run, with those that were dropped."""

    def __repr__(self) -> str:
        return fields_repr(self)

    def __str__(self) -> str:
        text = f"{self.phase} since {show_moment(self.since)}: {count_in_words(self.batches, 'batch', 'batches')}"
        text += f", {count_in_words(self.rows, 'row')} read, {count_in_words(self.emitted, 'row')} emitted"
        text += f", {count_in_words(self.late, 'late event')}" if self.late else ""
        text += f", {count_in_words(self.restarts, 'restart')}" if self.restarts else ""
        return text if self.error is None else f"{text}; {self.error}"


def count_in_words(number: int, one: str, many: str = "") -> str:
    """Returns a number with its noun: ``1 row``, ``1,200 rows``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def show_moment(moment: datetime) -> str:
    """Returns a moment for people, to the second: ISO 8601 in UTC."""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def watermark_as_datetime(timestamp: int) -> datetime:
    """Returns a watermark as a datetime; ``datetime.max`` for the end of the streams, and for times that no datetime
    can hold."""
    return to_datetime(min(timestamp, LATEST))


# The runs of this process that are still running, and what happens to them when the process ends.


END_TIMEOUT = 60.0
"""Seconds that the end of the process waits for the current batches of its runs."""


class BackgroundRun(Protocol):
    """A run in the background, as the code at the end of the process needs it."""

    name: str
    error_was_told: bool

    @property
    def ended(self) -> bool: ...
    @property
    def failure(self) -> BaseException | None: ...
    def ask_to_stop(self) -> None: ...
    def end_within(self, seconds: float) -> bool: ...


R = TypeVar("R", bound=BackgroundRun)


class RunsGoingOn(Generic[R]):
    """The runs in progress, and failed runs whose error nobody has read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: list[R] = []
        self._process = 0
        """The process whose runs these are: a child that it forks has none of their threads."""

    def add(self, run: R) -> None:
        """Adds a run that begins."""
        with self._lock:
            if self._process != os.getpid():
                # Functions that are registered last are called first: this one before Spark's and windbolt's own
                # workers are ended.
                atexit.register(self.end)
                self._process, self._runs = os.getpid(), []
            self._runs = [each for each in self._runs if _is_to_keep(each)] + [run]

    def now(self) -> list[R]:
        """Returns the runs in progress, the oldest first."""
        with self._lock:
            return [run for run in self._runs if not run.ended]

    def end(self) -> None:
        """Called when the process ends: stops the runs after their current batches, and tells of errors that nobody
        saw.

        A batch that takes too long, or that the end of the interpreter breaks off, is not committed, and runs again.
        """
        if self._process != os.getpid():
            return
        with self._lock:
            runs, self._runs = self._runs, []
        in_progress = [run for run in runs if not run.ended]
        for run in runs:
            run.ask_to_stop()
        for run in runs:
            if not run.end_within(END_TIMEOUT):
                _write_to_stderr(
                    f"the run of {run.name!r} is broken off: its batch took more than {END_TIMEOUT:g} s to complete"
                )
            elif run.failure is not None and not run.error_was_told:
                when = ", when the process ended" if run in in_progress else ""
                _write_to_stderr(f"the run of {run.name!r} failed{when}", run.failure)


def _is_to_keep(run: BackgroundRun) -> bool:
    return not run.ended or (run.failure is not None and not run.error_was_told)


def _write_to_stderr(text: str, error: BaseException | None = None) -> None:
    """Writes an event of the run to standard error; an error has windbolt's three lines: what, why, do."""
    sys.stderr.write(f"windbolt: {text}{'' if error is None else f': {error_in_lines(error)}'}\n")


# How a run shows itself in a notebook: as HTML, which is replaced while the run is in progress.


_UPDATE_SECONDS = 0.5
"""Seconds between two updates of a displayed run."""
_STYLE_CLASSES = {RunPhase.FINISHED: "good", RunPhase.FAILED: "bad"}
"""For each phase, the class of the style in which it is shown."""


class DisplayedRun(Protocol):
    """A run, as the code that displays it needs it."""

    name: str
    error_was_told: bool

    @property
    def status(self) -> RunStatus: ...
    @property
    def summary(self) -> Summary: ...
    @property
    def failure(self) -> BaseException | None: ...
    def end_within(self, seconds: float) -> bool: ...


def run_html(run: DisplayedRun) -> str:
    """Returns the present state of a run as HTML."""
    status, summary = run.status, run.summary
    phase = f" <span class='phase {_STYLE_CLASSES.get(status.phase, '')}'>{text(status.phase)}</span>"
    facts = [f"since {show_moment(status.since)}", count_in_words(status.batches, "batch", "batches")]
    facts += [f"{count_in_words(status.rows, 'row')} read", f"{count_in_words(status.emitted, 'row')} emitted"]
    parts = [heading(run.name, phase), paragraph(" · ".join(facts), "dim")]
    if run.failure is not None:
        parts.append(paragraph(error_in_lines(run.failure), "bad"))
    if summary.last is not None:
        parts.append(bolts_html(summary.last.bolts))
    input_watermarks = [
        (bolt, stream, show_moment(watermark))
        for bolt, inputs in status.inputs.items()
        if len(inputs) > 1
        for stream, watermark in inputs.items()
    ]
    if input_watermarks:
        parts.append(table(["bolt", "input", "its watermark"], input_watermarks))
    parts += [paragraph(complaint, "bad") for complaint in summary.complaints]
    return framed(*parts)


class Display:
    """A run in the output of cells of a notebook, each of which is kept up to date."""

    def __init__(self, run: DisplayedRun) -> None:
        self._run = run
        self._handles: list[Any] = []
        self._cell: object = None
        self._last: RunStatus | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def show(self) -> None:
        """Show the run in the output of this cell, once; without a notebook as a line of text."""
        shell = notebook()
        if shell is None:
            sys.stdout.write(f"{self._run!r}\n")
            return
        cell = getattr(shell, "execution_count", None)
        if self._cell is not None and cell == self._cell:
            return  # `topology.start(...)` has shown it, and is the last expression of its cell too
        self._cell = cell
        display = sys.modules["IPython.display"].display
        self._handles.append(display(self._bundle(), raw=True, display_id=True))
        if self._thread is None:
            # In no cell's context: an update belongs to the cell that is executed then, whichever shows the run.
            self._thread = threading.Thread(target=self._follow, name="windbolt-display", daemon=True)
            self._thread.start()

    def refresh(self, *, again: bool = False) -> None:
        """Brings the output up to date, if the status of the run has changed.

        ``again``: update even if nothing has changed. A program that executes notebooks shows changes only while a cell
        runs, so code that waits in a cell calls this with ``again``.
        """
        with self._lock:
            now = self._run.status
            if not self._handles or (now == self._last and not again):
                return
            self._last, bundle = now, self._bundle()
            for handle in self._handles:
                with suppress(Exception):  # a kernel that ends has nowhere to show anything
                    handle.update(bundle, raw=True)

    def _follow(self) -> None:
        while not self._run.end_within(_UPDATE_SECONDS):
            self.refresh()
        self.refresh()

    def _bundle(self) -> dict[str, str]:
        if self._run.status.phase is RunPhase.FAILED:
            self._run.error_was_told = True
        return {"text/html": run_html(self._run), "text/plain": repr(self._run)}


def notebook() -> Any:
    """Returns the shell of the notebook that this process runs for; None elsewhere, as in a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if hasattr(shell, "kernel") else None


# A run in the background: a thread that runs a topology, and what can be asked of it meanwhile.


KEPT_REPORTS = 1_000
"""Number of the latest reports of batches that a run keeps."""

Runner = Callable[[RunOptions], Summary]
"""Function that runs a topology with these options to its end: ``run_local`` or ``run_on_spark`` with the topology
given."""


class StillRunning(WindboltError, TimeoutError):
    """A run that did not end in the time that somebody wanted to wait; it is still running."""


class Run:
    """A topology that runs in the background: what ``topology.start(...)`` returns.

    It runs until its input ends, it is stopped, it fails, or the process ends, which stops it after the current
    batch. Nobody has to keep it: ``windbolt.runs()`` has all that are in progress. As a context manager it is stopped
    at the end of the block. All its methods may be called from any thread.
    """

    def __init__(
        self, name: str, run: Runner, options: RunOptions, frames: Callable[[str | None], Any] | None = None
    ) -> None:
        """Starts at once. ``run`` is called in a thread of its own; ``options``: the run's options, changed so that
        this object receives every report first. ``frames`` makes DataFrames of the rows in sinks; None without
        Spark."""
        self.name = name
        """The name of the topology."""
        self._stop, self._frame_of_sink = options.stop, frames
        self._options = options
        self._lock = threading.Lock()
        self._phase, self._since = RunPhase.STARTING, system_clock()
        self._summary, self._began = Summary(), time.perf_counter()
        self._reports: deque[BatchReport] = deque(maxlen=KEPT_REPORTS)
        self._error: BaseException | None = None
        self._restart_error: BaseException | None = None
        """Error for which the run is to be started again."""
        self._traceback: TracebackType | None = None
        self._ended = threading.Event()
        self.error_was_told = False
        """True if somebody has seen the error of the run, if it failed."""
        self._display = Display(self)
        own_options = replace(options, on_begin=self._begin, on_report=self._report, on_restart=self._restart)
        thread = threading.Thread(target=copy_context().run, args=(self._work, run, own_options), name="windbolt-run")
        thread.daemon = True  # the end of the process stops it (RunsGoingOn), and does not wait forever
        _GOING_ON.add(self)
        thread.start()

    def __repr__(self) -> str:
        status = self.status
        facts = f"{status.phase}, {count_in_words(status.batches, 'batch', 'batches')}"
        facts += f", {count_in_words(status.rows, 'row')} read, {count_in_words(status.emitted, 'row')} emitted"
        facts += f", {count_in_words(status.late, 'late event')}" if status.late else ""
        complaints = len(self.summary.complaints)
        facts += f", {count_in_words(complaints, 'complaint')} in run.summary.complaints" if complaints else ""
        facts += f", checkpoint {self._options.checkpoint}" if self._options.checkpoint else ""
        return f"<Run of {self.name!r}: {facts}>"

    def _repr_html_(self) -> str:
        return run_html(self)

    def _ipython_display_(self) -> None:
        self.show()

    @checked
    def show(self) -> None:
        """Shows the run in the output of this cell of a notebook, where it is kept up to date; elsewhere as a line of
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
        """Returns the present status of the run."""
        with self._lock:
            summary, phase, since = self._snapshot(), self._phase, self._since
            error = self._error or self._restart_error
        if phase in (RunPhase.STARTING, RunPhase.RUNNING, RunPhase.RESTARTING) and self._stop.is_set():
            phase = RunPhase.STOPPING
        bolts = {} if summary.last is None else summary.last.bolts
        totals = summary.this_run().values()
        return RunStatus(
            phase=phase,
            since=to_datetime(since),
            batches=summary.batches,
            rows=summary.rows,
            emitted=sum(sum(bolt.emitted.values()) for bolt in totals),
            late=sum(bolt.accounts.get(account, 0) for bolt in totals for account in ("late", "dropped")),
            watermarks={
                name: None if bolt.watermark is None else watermark_as_datetime(bolt.watermark)
                for name, bolt in bolts.items()
            },
            inputs={
                name: {stream: watermark_as_datetime(watermark) for stream, watermark in bolt.inputs.items()}
                for name, bolt in bolts.items()
            },
            error=None if error is None else error_in_words(error),
            restarts=summary.restarts,
        )

    @property
    def summary(self) -> Summary:
        """Returns the summary so far, as ``wait`` returns it at the end: batches, rows, the last batch's report."""
        with self._lock:
            return self._snapshot()

    @property
    def reports(self) -> list[BatchReport]:
        """The reports of its latest 1,000 batches, the oldest first."""
        with self._lock:
            return list(self._reports)

    @checked
    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each of its latest 1,000 batches and each windowed bolt, for plots; with the columns of
        ``BatchReport.to_pandas``."""
        return frame_of(self.reports)

    @checked
    def frame(self, sink: str | None = None) -> Any:
        """Returns a Spark DataFrame of the rows that a sink has written so far, in the session of the run.

        It has what is there now: for later batches ask again. ``sink`` is the name of a sink of tables, of Parquet
        files or JSON lines, or in memory; it may be left out if there is one such sink. Raises ConfigError for others,
        in a local run, and where windbolt has started the session itself and the run has ended.
        """
        if self._frame_of_sink is None:
            raise ConfigError(
                f"the run of {self.name!r} is local, and has no Spark DataFrame",
                why="a local run has no Spark",
                do="take the rows of sinks.memory(), or read the files of the sink",
            )
        return self._frame_of_sink(sink)

    @checked
    def wait(self, timeout: float | None = None) -> Summary:
        """Wait for its end, for ``timeout`` seconds at most, and return the summary.

        Raises the error that the run ended with, and TimeoutError if it has not ended by then. It is then still
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
            raise self._error.with_traceback(self._traceback)
        return self.summary

    @checked
    def stop(self, timeout: float | None = None) -> Summary:
        """Stops the run between two batches, and returns the summary: the current batch completes and is committed.

        A later run on the checkpoint continues there. Stopping a run that has ended changes nothing. Raises as
        ``wait``.
        """
        self.ask_to_stop()
        return self.wait(timeout)

    def ask_to_stop(self) -> None:
        """Makes the run stop after the current batch, without waiting for that."""
        with self._lock:
            if not self._ended.is_set() and not self._stop.is_set():
                self._since = system_clock()
            self._stop.set()

    @property
    def ended(self) -> bool:
        """True if the run has ended, in whichever way."""
        return self._ended.is_set()

    def end_within(self, seconds: float) -> bool:
        """Waits for the end of the run, at most this long; returns True if it has ended. Raises nothing."""
        return self._ended.wait(seconds)

    @property
    def failure(self) -> BaseException | None:
        """The error with which the run ended, which ``wait`` raises; None if it has not failed."""
        return self._error

    def _work(self, run: Runner, options: RunOptions) -> None:
        summary, error = None, None
        try:
            summary = run(options)
        except BaseException as failure:
            error = failure
        with self._lock:
            self._error, self._traceback = error, None if error is None else error.__traceback__
            self._since, self._restart_error = system_clock(), None
            if summary is not None:
                self._summary = summary
            stopped = summary is not None and summary.stopped
            self._phase = RunPhase.FAILED if error else RunPhase.STOPPED if stopped else RunPhase.FINISHED
        self._ended.set()

    def _begin(self, before: Mapping[str, BoltTotals]) -> None:
        with self._lock:
            self._summary.before = dict(before)
            self._phase, self._since, self._restart_error = RunPhase.RUNNING, system_clock(), None
            if not self._summary.batches:
                self._began = time.perf_counter()
        self._options.on_begin(before)

    def _restart(self, coming: ComingRestart) -> None:
        with self._lock:
            self._summary.restarts = coming.restarts
            self._phase, self._since, self._restart_error = RunPhase.RESTARTING, system_clock(), coming.error
        self._options.on_restart(coming)

    def _report(self, report: BatchReport) -> None:
        with self._lock:
            self._summary.note(report)
            self._summary.seconds = time.perf_counter() - self._began
            self._reports.append(report)
        self._options.on_report(report)

    def _snapshot(self) -> Summary:
        """Returns a summary that the run no longer changes; called within the lock."""
        return replace(self._summary, complaints=list(self._summary.complaints))


_GOING_ON: RunsGoingOn[Run] = RunsGoingOn()


@checked
def runs() -> list[Run]:
    """Returns the runs of this process that were started in the background and have not ended, the oldest first."""
    return _GOING_ON.now()


def error_in_words(error: BaseException) -> str:
    """Returns an error in one to three sentences; for windbolt's errors what, why and what to do."""
    return printable(str(error), keep="\n\t") if isinstance(error, WindboltError) else error_text(error)


# Starting a topology in the background, on either engine, or running it to its end.


def options_of(
    *,
    checkpoint: str | os.PathLike[str] | None,
    every: Duration | timedelta | str | None,
    keep_open: bool,
    first_output: datetime | str | None,
    keep_batches: int | None,
    allow_rescale: bool,
    restart: Restart | None,
    on_report: Callable[[BatchReport], None] | None,
    serve_metrics: int | str | None,
    otel: bool,
    serve_page: int | str | None,
) -> RunOptions:
    """Returns the options that are given by name; None stands for the default."""
    optional: dict[str, Any] = {"keep_batches": keep_batches, "on_report": on_report}
    options = RunOptions(
        checkpoint=None if checkpoint is None else os.fspath(checkpoint),
        every=every,
        keep_open=keep_open,
        first_output=first_output,
        allow_rescale=allow_rescale,
        restart=restart,
        serve_metrics=serve_metrics,
        otel=otel,
        serve_page=serve_page,
        **{name: value for name, value in optional.items() if value is not None},
    )
    # Where the working directory changes meanwhile, the checkpoint stays where it was meant to be.
    return options if options.checkpoint is None else replace(options, checkpoint=shown_path(options.checkpoint))


def start(
    topology: Graph,
    options: RunOptions,
    *,
    engine: EngineName = "spark",
    spark: Any = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    metrics: TimeMetrics | None = None,
    show: bool = False,
) -> Run:
    """Start a topology in a thread of its own, and return at once; see ``Topology.start``.

    Raises ConfigError for mistakes that are found without an engine: arguments that do not go together. Everything else
    is raised by ``Run.wait``.
    """
    chosen_engine = engine_of(engine)
    for_spark = {"spark=": spark, "master=": master, "conf=": conf, "metrics=": metrics}
    check_engine(chosen_engine, options, for_spark, "engine='local'")
    if chosen_engine is Engine.LOCAL:
        check_local(topology, options)
    frame_of_sink = (
        None
        if chosen_engine is Engine.LOCAL
        else frame_function(topology, spark, master or (conf or {}).get("spark.master"))
    )
    work = runner(chosen_engine, topology, spark=spark, master=master, conf=conf, metrics=metrics)
    run = Run(topology.name, work, options, frame_of_sink)
    if show and notebook() is not None:
        run.show()
    return run


def run_to_the_end(run: Run) -> Summary:
    """Wait for the end of a run that nobody else has; an interrupt (Ctrl-C) stops it after the current batch."""
    try:
        return run.wait()
    except KeyboardInterrupt:
        if not run.ended:
            run.stop()
        raise


def frame_function(topology: Graph, spark: Any, master: str | None) -> Callable[[str | None], Any]:
    """Returns a function that makes the DataFrame of a sink, in the session of the run."""
    from topologies.spark.running import session_for
    from topologies.spark.tables import frame_of

    users_session = session_for(spark, master)

    def frame(sink: str | None) -> Any:
        session = users_session or session_for(None, master)
        if session is None:
            raise ConfigError(
                f"the run of {topology.name!r} has a Spark session of its own",
                why="windbolt has started it for this run, and stops it at its end",
                do="start a session first, and the run uses it: SparkSession.builder.getOrCreate()",
            )
        return frame_of(topology, sink, session)

    return frame


def runner(
    engine: Engine,
    topology: Graph,
    *,
    spark: Any = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    metrics: TimeMetrics | None = None,
) -> Runner:
    """Returns a function that runs a topology on an engine. Spark is imported only if chosen; the keywords are for
    it."""
    if engine is Engine.LOCAL:
        from topologies.local import run_local

        return lambda options: run_local(topology, options)
    from topologies.spark.running import run_on_spark, session_for

    session = session_for(spark, master or (conf or {}).get("spark.master"))  # which is active depends on the thread
    return lambda options: run_on_spark(topology, options, master=master, conf=conf, spark=session, metrics=metrics)
