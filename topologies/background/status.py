"""What a run is doing now: its phase, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from windowing.data.reprs import of_fields
from windowing.time.timestamps import LATEST, to_datetime


class RunPhase(StrEnum):
    """What a run is doing."""

    STARTING = "starting"
    """Its engine is being started, or its state restored."""
    RUNNING = "running"
    """It runs batches, or waits for input."""
    RESTARTING = "restarting"
    """It failed, and is started again after a pause."""
    STOPPING = "stopping"
    """It was asked to stop, and completes the current batch."""
    FINISHED = "finished"
    """It has read its input to the end."""
    STOPPED = "stopped"
    """It was stopped before that; the next run on its checkpoint continues there."""
    FAILED = "failed"
    """It ended with an error, which ``wait()`` raises."""

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self in (RunPhase.FINISHED, RunPhase.STOPPED, RunPhase.FAILED)


@dataclass(frozen=True)
class RunStatus:
    """What a run was doing when it was asked: a value that does not change. Times are aware datetimes in UTC."""

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
    """By windowed bolt; None before the first watermark. At the end of the streams it is that of the last window, or
    ``datetime.max``."""
    inputs: Mapping[str, Mapping[str, datetime]] = field(default_factory=dict)
    """By windowed bolt: the watermark that each of its inputs alone would allow. An input that has delivered nothing
    is missing; it, or else the one that is furthest behind, holds the bolt's watermark back."""
    error: str | None = None
    """What a failed run ended with, or failed with before it is started again, in a sentence."""
    restarts: int = 0
    """Number of times it was started again after a failure."""

    def __repr__(self) -> str:
        return of_fields(self)

    def __str__(self) -> str:
        text = f"{self.phase} since {show_moment(self.since)}: {counted(self.batches, 'batch', 'batches')}"
        text += f", {counted(self.rows, 'row')} read, {counted(self.emitted, 'row')} emitted"
        text += f", {counted(self.restarts, 'restart')}" if self.restarts else ""
        return text if self.error is None else f"{text}; {self.error}"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: ``1 row``, ``1,200 rows``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def show_moment(moment: datetime) -> str:
    """A moment for people, to the second: ISO 8601 in UTC."""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def moment_of(timestamp: int) -> datetime:
    """A watermark as a datetime; ``datetime.max`` for the end of the streams, and for what no datetime can show."""
    return to_datetime(min(timestamp, LATEST))
