"""What a micro-batch did, for the progress display, the logs and ``--json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from windowing.timestamps import show


@dataclass(frozen=True)
class BoltReport:
    """A windowed bolt after a batch."""

    watermark: int | None
    """In microseconds; None before the first."""
    emitted: int | None
    """The watermark emitted in this batch, if one was."""
    behind: int | None
    """How far the watermark is behind the latest event seen, in microseconds."""
    windows: int
    """Fired in this batch."""
    fired: int
    """Fired so far."""
    open: int
    """Windows that hold pending events, at most."""
    accounts: dict[str, int]
    """Totals so far, ``pending`` among them."""
    streams: dict[str, dict[str, int]]
    """The same for each input stream, and the metrics and what was skipped."""
    metrics: dict[str, int] = field(default_factory=dict)
    """What the rules of time found so far, whatever became of the events (AZ-24)."""
    delay: int | None = field(default=None, compare=False)
    """How far the greatest watermark is behind the clock, in microseconds (AZ-23); None where there is none.

    It is not compared: it depends on when a run was.
    """
    skipped: int = 0
    """Events so far that were older than what the first output of the run needs (AZ-13); they were not received."""
    suppressed: int = 0
    """Windows so far that ended before the first output, and were not emitted."""
    rows: dict[str, int] = field(default_factory=dict)
    """Rows that its windows have emitted so far, by output stream."""
    counters: dict[str, int] = field(default_factory=dict)
    """What the bolt, and the rule of its trigger, have counted so far, by name."""


@dataclass(frozen=True)
class BatchReport:
    """A micro-batch after its commit."""

    batch: int
    closing: bool
    clock: int
    rows: int
    """Rows read by all spouts in this batch."""
    seconds: dict[str, float]
    """Wall time by phase; ``total`` for the whole."""
    bolts: dict[str, BoltReport]
    spouts: dict[str, dict[str, int]]
    """Totals so far."""
    complaints: list[str] = field(default_factory=list)
    first_output: int | None = None
    """Where the run started, if that was at the time of an output."""
    read_from: int | None = None
    """From where on input was read for it; None where all was."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON; times as ISO 8601."""
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
