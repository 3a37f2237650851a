"""Whether a run is well: it has not failed, and its batches get done."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from windowing.data.printable import error_text
from windowing.errors import TakenOver
from windowing.time.timestamps import show

STALL_SECONDS, STALL_FACTOR = 300.0, 10
"""A run stalls while a batch takes longer than this, and than so many times the longest batch before it."""


class RunState(StrEnum):
    """What a run is doing, for those who watch it from outside."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STALLED = "stalled"
    FINISHED = "finished"
    STOPPED = "stopped"
    TAKEN_OVER = "taken over"
    """Another run has its checkpoint by now, and continues with it."""
    FAILED = "failed"


@dataclass(frozen=True)
class Health:
    """How a run was when it was asked."""

    state: RunState
    batch: int | None
    """The last batch that was committed; None before the first of the checkpoint."""
    committed: int | None
    """When that was, in microseconds."""
    phase: str | None
    """The phase of the batch in hand; None between batches."""
    phase_seconds: float | None
    """How long the batch in hand has taken so far."""
    error: str | None
    """What a failed run ended with, or one that is to be started again failed with; of one that was taken over by whom,
    and when."""
    restarts: int = 0
    """How often it was started again."""

    @property
    def live(self) -> bool:
        """Whether there is nothing that only a restart can help; started again, a run that was taken over would take
        the checkpoint back."""
        return self.well

    @property
    def well(self) -> bool:
        """Whether the run has not failed, and does not stall."""
        return self.state not in (RunState.FAILED, RunState.STALLED)

    @property
    def ready(self) -> bool:
        """Whether the run takes input: its state is restored, and it has not ended."""
        return self.state is RunState.RUNNING

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; times in ISO 8601."""
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
    """Follows a run."""

    def __init__(self) -> None:
        self._state = RunState.STARTING
        self._batch: int | None = None
        self._phase: str | None = None
        self._began = 0.0
        self._longest = 0.0
        self._error: str | None = None
        self._restarts = 0

    def begin(self, batch: int) -> None:
        """Called when the state is restored. ``batch``: the last one that is committed, negative for none."""
        self._state, self._error = RunState.RUNNING, None
        self._batch = batch if batch >= 0 else None

    def phase(self, name: str) -> None:
        """Called as a phase begins."""
        if self._phase is None:
            self._began = time.monotonic()
        self._phase = name

    def commit(self, batch: int) -> None:
        """Called when a batch is done."""
        if self._phase is not None:
            self._longest = max(self._longest, time.monotonic() - self._began)
        self._batch, self._phase = batch, None

    def restarting(self, error: BaseException) -> None:
        """Called when it has failed, and is to be started again."""
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
        """How it is now. ``committed``: when the last batch was, in microseconds."""
        seconds = None if self._phase is None else time.monotonic() - self._began
        state = self._state
        if seconds is not None and seconds > max(STALL_SECONDS, STALL_FACTOR * self._longest):
            state = RunState.STALLED
        return Health(state, self._batch, committed, self._phase, seconds, self._error, self._restarts)
