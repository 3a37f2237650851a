"""Runs a topology interactively: progress, signals, and the end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial
from types import FrameType

from topologies.background.background_run import Run, Runner
from topologies.cli.step_options import NO_OPTIONS, StepOptions
from topologies.cli.terminal.progress_display import ProgressDisplay, shown_progress
from topologies.named_topology import load_topology
from topologies.run.options import RunOptions
from topologies.run.restart import ComingRestart
from topologies.run.summary import Summary
from topologies.step.config import is_step
from topologies.topology import Topology
from windowing.data.printable import error_text, printable
from windowing.errors import WindboltError


def loaded(reference: str, options: StepOptions = NO_OPTIONS) -> Topology:
    """A user's topology. Output of its file while loading is not a result, and goes to standard error."""
    with redirect_stdout(sys.stderr):
        if is_step(reference):
            from topologies.step.checking import step_problems
            from topologies.step.compile_step import step_topology

            problems = partial(step_problems, load=True, complete=True)
            return step_topology(options.load(reference, problems))
        options.refuse(reference)
        return load_topology(reference)


def end_at_sigterm_in_a_container() -> None:
    """Let SIGTERM end this process until a run handles it, as it ends others: the kernel drops a signal without a
    handler for the first process of a container, which would then be killed after its time of grace."""
    if os.getpid() == 1 and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(128 + number))


def run_watched(topology: Topology, runner: Runner, options: RunOptions, *, as_json: bool) -> Summary:
    """Run with progress on standard output; a first Ctrl-C or SIGTERM ends the run after the current batch."""
    with shown_progress(topology, as_json=as_json) as progress:

        def tell(coming: ComingRestart) -> None:
            progress.note(restart_in_words(coming), until_batch=True)

        watched = replace(options, on_report=progress.report, on_restart=tell)
        summary = _in_background(topology.name, runner, watched, progress)
        progress.end(summary)
    return summary


def restart_in_words(coming: ComingRestart) -> str:
    """A restart that is to come, on one line."""
    why = coming.error.what if isinstance(coming.error, WindboltError) else error_text(coming.error)
    number = f"{coming.in_a_row} of at most {coming.most} without a batch"
    return printable(f"restarting in {coming.seconds:.1f} s ({number}): {why}")


def _in_background(name: str, runner: Runner, options: RunOptions, progress: ProgressDisplay) -> Summary:
    """Run in another thread, so that signals reach this one at once, and Spark does not take them over."""
    with _signals(options.stop, progress):
        run = Run(name, runner, options)
        while not run.end_within(0.2):
            progress.beat()
    return run.wait()


@contextmanager
def _signals(stop: threading.Event, progress: ProgressDisplay) -> Iterator[None]:
    """Handle signals: the first asks the run to stop, the second ends the process with status 128 + its number."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            if os.isatty(1):
                os.write(1, b"\x1b[?25h\n")  # show the cursor that the display has hidden
            os._exit(128 + number)
        stop.set()
        progress.note("finishing the batch, then stopping; once more (Ctrl-C) to force it")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
