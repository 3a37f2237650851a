"""What every runner takes and gives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from manager.storage.checkpoint import KEPT_STEPS
from topologies.engine.batch.report import BatchReport
from topologies.engine.time.first_output import as_moment
from topologies.run.checkpoint_name import check_named
from topologies.run.clock import Clock, system_clock
from windowing.durations import Duration
from windowing.errors import ConfigError

_COMPLAINTS = 10
SPARK_KEEPS = 100
"""Spark keeps its logs of so many batches (``spark.sql.streaming.minBatchesToRetain``)."""
RECORDS_PER_BATCH = 500_000
"""How many records of Kafka; without a bound the first batch would be a whole topic."""


@dataclass(frozen=True)
class RunOptions:
    """How a topology runs."""

    checkpoint: str | None = None
    """The folder of the state; needed on Spark. A run on the same folder continues where the last one stopped, on
    whichever engine that was."""
    every: Duration | None = None
    """Run until stopped, a micro-batch this often, which needs a checkpoint; None: up to the end of the input that is
    there now."""
    flush: bool = True
    """At the end of the input fire the windows that are still open; if not, they stay open for the next run."""
    first_output: datetime | str | None = None
    """The time of the first output: what it does not need is not read, and windows that end before are not emitted."""
    keep_batches: int = KEPT_STEPS
    """The checkpoint keeps the state after so many of the last batches, 1 to 100, to go back to; the closing at the end
    of a run counts as one."""
    clock: Clock = system_clock
    on_report: Callable[[BatchReport], None] = lambda report: None
    """Called after each micro-batch."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set it, and the run ends after the batch that it is in."""

    def __post_init__(self) -> None:
        if self.checkpoint is not None:
            check_named(self.checkpoint)
        if not 1 <= self.keep_batches <= SPARK_KEEPS:
            raise ConfigError(
                f"keep_batches is {self.keep_batches}",
                why=f"the last batch is needed to go on, and Spark keeps the logs of {SPARK_KEEPS}",
                do=f"give a number from 1 to {SPARK_KEEPS}; more take more room on the disk",
            )

    @property
    def first_output_at(self) -> int | None:
        """The first output in microseconds; ConfigError where it is no time."""
        return None if self.first_output is None else as_moment(self.first_output)


@dataclass
class Summary:
    """A run, after it has ended."""

    batches: int = 0
    rows: int = 0
    seconds: float = 0.0
    last: BatchReport | None = None
    """The last batch; its accounts are the totals."""
    complaints: list[str] = field(default_factory=list)
    """The first few of what could not be read."""
    stopped: bool = False
    """Whether it was stopped before the end of the input."""

    def note(self, report: BatchReport) -> None:
        """Add a batch."""
        self.batches += 1
        self.rows += report.rows
        self.last = report
        self.complaints.extend(report.complaints[: _COMPLAINTS - len(self.complaints)])

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "summary": True,
            "batches": self.batches,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "complaints": self.complaints,
            "stopped": self.stopped,
            "last": None if self.last is None else self.last.to_json(),
        }
