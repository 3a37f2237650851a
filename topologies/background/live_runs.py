"""The runs of this process that are still running, and what happens to them when the process ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Generic, Protocol, TypeVar

from topologies.background.error_lines import in_lines

PATIENCE = 60.0
"""Seconds that the end of the process waits for the current batches of its runs."""


class Background(Protocol):
    """A run in the background, as the end of the process sees it."""

    name: str
    error_was_told: bool

    @property
    def ended(self) -> bool: ...
    @property
    def failure(self) -> BaseException | None: ...
    def ask_to_stop(self) -> None: ...
    def end_within(self, seconds: float) -> bool: ...


R = TypeVar("R", bound=Background)


class RunsGoingOn(Generic[R]):
    """The runs that have not ended, and those that failed while nobody looked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: list[R] = []
        self._process = 0
        """The process whose runs these are: a child that it forks has none of their threads."""

    def add(self, run: R) -> None:
        """Note a run that begins."""
        with self._lock:
            if self._process != os.getpid():
                # What is registered last is called first: before Spark's and windbolt's own workers are ended.
                atexit.register(self.end)
                self._process, self._runs = os.getpid(), []
            self._runs = [each for each in self._runs if _matters(each)] + [run]

    def now(self) -> list[R]:
        """Those in progress, the oldest first."""
        with self._lock:
            return [run for run in self._runs if not run.ended]

    def end(self) -> None:
        """Called when the process ends: stops them after their current batches, and tells of errors that nobody saw.

        The batch that takes too long, or that the end of the interpreter breaks off, is not committed: it runs again.
        """
        if self._process != os.getpid():
            return
        with self._lock:
            runs, self._runs = self._runs, []
        cut_off = [run for run in runs if not run.ended]
        for run in runs:
            run.ask_to_stop()
        for run in runs:
            if not run.end_within(PATIENCE):
                _tell(f"the run of {run.name!r} is broken off: its batch took more than {PATIENCE:g} s to complete")
            elif run.failure is not None and not run.error_was_told:
                when = ", when the process ended" if run in cut_off else ""
                _tell(f"the run of {run.name!r} failed{when}", run.failure)


def _matters(run: Background) -> bool:
    return not run.ended or (run.failure is not None and not run.error_was_told)


def _tell(text: str, error: BaseException | None = None) -> None:
    """Write to standard error what happened, and an error in windbolt's three lines: what, why, do."""
    sys.stderr.write(f"windbolt: {text}{'' if error is None else f': {in_lines(error)}'}\n")
