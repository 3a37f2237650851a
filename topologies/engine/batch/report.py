"""Report of a micro-batch, for the progress display, the logs and ``--json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from windowing.time.timestamps import show


@dataclass(frozen=True)
class BoltReport:
    """The state of a windowed bolt after a batch."""

    watermark: int | None
    """The watermark in microseconds; None before the first."""
    emitted: int | None
    """The watermark emitted in this batch, in microseconds; None if none was."""
    behind: int | None
    """Lag of the watermark behind the latest event seen, in microseconds; None where either is unknown."""
    windows: int
    """Number of windows fired in this batch."""
    fired: int
    """Number of windows fired so far."""
    open: int
    """Upper bound on the number of windows that hold pending events."""
    accounts: dict[str, int]
    """Totals so far, ``pending`` among them."""
    streams: dict[str, dict[str, int]]
    """The same per input stream, with the metrics and the skipped events."""
    metrics: dict[str, int] = field(default_factory=dict)
    """Counts of what the time rules found so far, whatever became of the events (AZ-24)."""
    delay: int | None = field(default=None, compare=False)
    """Lag of the greatest watermark behind the clock, in microseconds (AZ-23); None where there is no watermark.

    Excluded from comparison: it depends on when the run took place.
    """
    skipped: int = 0
    """Number of events so far that were older than the first output of the run needs (AZ-13); they are not counted as
    received."""
    suppressed: int = 0
    """Number of windows so far that ended before the first output and were not emitted."""
    rows: dict[str, int] = field(default_factory=dict)
    """Rows emitted so far by its windows, per output stream."""
    counters: dict[str, int] = field(default_factory=dict)
    """Counters of the bolt and of its trigger's rule so far, by name."""


@dataclass(frozen=True)
class BatchReport:
    """The report of a committed micro-batch."""

    batch: int
    closing: bool
    clock: int
    rows: int
    """Rows read by all spouts in this batch."""
    seconds: dict[str, float]
    """Wall time in seconds by phase; ``total`` for the whole batch."""
    bolts: dict[str, BoltReport]
    spouts: dict[str, dict[str, int]]
    """Totals so far."""
    complaints: list[str] = field(default_factory=list)
    first_output: int | None = None
    """Time of the first output in microseconds, if the run started at one."""
    read_from: int | None = None
    """Time in microseconds from which input was read for it; None where all was."""

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON; times in ISO 8601."""
        return {
            "batch": self.batch,
            "closing": self.closing,
            "clock": show(self.clock),
            "rows": self.rows,
            "seconds": {phase: round(spent, 4) for phase, spent in self.seconds.items()},
            "spouts": self.spouts,
            "bolts": {
                name: {
                    "watermark": None if bolt.watermark is None else show(bolt.watermark),
                    "behind_seconds": None if bolt.behind is None else bolt.behind / 1e6,
                    "windows": bolt.windows,
                    "fired": bolt.fired,
                    "open": bolt.open,
                    "accounts": bolt.accounts,
                    "streams": bolt.streams,
                    "watermark_delay_seconds": None if bolt.delay is None else bolt.delay / 1e6,
                    "metrics": bolt.metrics,
                    "skipped": bolt.skipped,
                    "suppressed": bolt.suppressed,
                    "emitted": bolt.rows,
                    "counters": bolt.counters,
                }
                for name, bolt in self.bolts.items()
            },
            "complaints": self.complaints,
            "first_output": None if self.first_output is None else show(self.first_output),
            "read_from": None if self.read_from is None else show(self.read_from),
        }
