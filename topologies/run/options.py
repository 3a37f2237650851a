"""The options and the summary of a run, the same for every runner."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from manager.storage.checkpoint import KEPT_BATCHES
from topologies.engine.batch.report import BatchReport, bolts_html
from topologies.engine.time.first_output import as_moment
from topologies.html.page import framed, heading, paragraph
from topologies.run.checkpoint_name import check_named
from topologies.run.clock import Clock, system_clock
from windowing.calls.checked import checked, checked_value
from windowing.data.reprs import of_fields
from windowing.errors import ConfigError
from windowing.time.durations import Duration, as_duration

if TYPE_CHECKING:
    import pandas as pd

_COMPLAINTS = 10
SPARK_KEEPS = 100
"""Number of batches whose logs Spark keeps (``spark.sql.streaming.minBatchesToRetain``)."""
RECORDS_PER_BATCH = 500_000
"""Default maximum number of Kafka records per batch; without one the first batch would be a whole topic."""


@checked_value
@dataclass(frozen=True)
class RunOptions:
    """The options of a run, the same for ``run_local``, ``run_on_spark`` and the command ``windbolt run``.

    Raises ConfigError for ``keep_batches`` out of its range, for an interval ``every`` of zero, and for a checkpoint
    without a name.
    """

    checkpoint: str | None = None
    """Folder of the checkpoint; required on Spark. A run on an existing checkpoint continues where the last run
    stopped, whichever engine that used."""
    every: Duration | timedelta | str | None = None
    """Run until stopped, with a micro-batch at this interval (``"2s"``), which requires a checkpoint; None: run to the
    end of the present input."""
    flush: bool = True
    """Whether the windows still open at the end of the input fire; if not, they stay open for the next run."""
    first_output: datetime | str | None = None
    """Time of the first output: input that it does not need is not read, and windows that end before are not emitted.
    None for no such limit."""
    keep_batches: int = KEPT_BATCHES
    """Number of last batches, 1 to 100, whose state the checkpoint keeps so that one can go back to it; the closing at
    the end of a run counts as a batch."""
    clock: Clock = system_clock
    """Called for the time of a batch: microseconds since the epoch. For tests; by default the system's clock."""
    on_begin: Callable[[Mapping[str, BoltTotals]], None] = lambda before: None
    """Called when the state is restored and the first batch is awaited, with what the bolts had done in earlier runs on
    the checkpoint."""
    on_report: Callable[[BatchReport], None] = lambda report: None
    """Called after each micro-batch."""
    stop: threading.Event = field(default_factory=threading.Event, repr=False)
    """Event that ends the run after the current batch when set."""

    def __repr__(self) -> str:
        return of_fields(self)

    def __post_init__(self) -> None:
        if self.checkpoint is not None:
            check_named(self.checkpoint)
        if not 1 <= self.keep_batches <= SPARK_KEEPS:
            raise ConfigError(
                f"keep_batches is {self.keep_batches}",
                why=f"a run needs the last batch, and Spark keeps the logs of only {SPARK_KEEPS}",
                do=f"give a number from 1 to {SPARK_KEEPS}; more take more room on the disk",
            )

        if self.interval is not None and self.interval.micros == 0:
            raise ConfigError(
                f"every={self.every!r}", why="the interval must be longer than zero", do="give one such as every='1s'"
            )

    @property
    def interval(self) -> Duration | None:
        """The interval of micro-batches; None where the run ends with its input. ConfigError for what is none."""
        return None if self.every is None else as_duration(self.every)

    @property
    def first_output_at(self) -> int | None:
        """The first output in microseconds; None where there is none. Raises ConfigError for what is not a time."""
        return None if self.first_output is None else as_moment(self.first_output)


@dataclass(frozen=True)
class BoltTotals:
    """What a windowed bolt has done, in all runs on a checkpoint."""

    accounts: dict[str, int]
    """The events that it received, by what became of them; without those that are pending."""
    fired: int
    """Number of windows."""
    emitted: dict[str, int]
    """Number of rows emitted, by stream."""


@dataclass
class Summary:
    """The summary of a run that has ended: what ``run_local`` and ``run_on_spark`` return."""

    batches: int = 0
    """Number of micro-batches of this run."""
    rows: int = 0
    """Number of rows that this run read from spouts, without unreadable ones."""
    seconds: float = 0.0
    """Wall time."""
    last: BatchReport | None = None
    """Report of the last batch; its accounts are the totals."""
    complaints: list[str] = field(default_factory=list)
    """The first few messages about unreadable input."""
    stopped: bool = False
    """Whether it was stopped before the end of the input."""
    before: dict[str, BoltTotals] = field(default_factory=dict)
    """What the bolts had done in earlier runs on the checkpoint; empty where it is the first."""

    def __repr__(self) -> str:
        end = ", stopped" if self.stopped else ""
        told = f", {len(self.complaints)} complaints" if self.complaints else ""
        return f"<Summary: {self.rows} rows in {self.batches} batches, {self.seconds:.3g} s{end}{told}>"

    def _repr_html_(self) -> str:
        facts = f"{self.rows:,} rows · {self.batches:,} batches · {self.seconds:.2f} s"
        parts = [heading("summary"), paragraph(facts + (" · stopped" if self.stopped else ""), "dim")]
        if self.last is not None:
            parts.append(bolts_html(self.last.bolts))
        return framed(*parts, *(paragraph(complaint, "bad") for complaint in self.complaints))

    @checked
    def to_pandas(self) -> pd.DataFrame:
        """A row for each windowed bolt, by its name: what it has done in this run. ``windows`` it fired, ``emitted`` in
        rows, and its accounts, but for the events that are pending."""
        import pandas as pd

        rows = {
            name: {"windows": bolt.fired, "emitted": sum(bolt.emitted.values()), **bolt.accounts}
            for name, bolt in self.this_run().items()
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("bolt")

    @checked
    def this_run(self) -> dict[str, BoltTotals]:
        """What the windowed bolts have done in this run alone."""
        bolts = {} if self.last is None else self.last.bolts
        return {
            name: BoltTotals(
                _less(
                    {account: count for account, count in bolt.accounts.items() if account != "pending"},
                    before.accounts,
                ),
                bolt.fired - before.fired,
                _less(bolt.emitted, before.emitted),
            )
            for name, bolt in bolts.items()
            for before in [self.before.get(name, _NOTHING)]
        }

    def note(self, report: BatchReport) -> None:
        """Add the report of a batch."""
        self.batches += 1
        self.rows += report.rows
        self.last = report
        self.complaints.extend(report.complaints[: _COMPLAINTS - len(self.complaints)])

    @checked
    def to_json(self) -> dict[str, Any]:
        """The summary as plain JSON."""
        return {
            "summary": True,
            "batches": self.batches,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "complaints": self.complaints,
            "stopped": self.stopped,
            "last": None if self.last is None else self.last.to_json(),
            "this_run": {
                name: {"accounts": bolt.accounts, "fired": bolt.fired, "emitted": bolt.emitted}
                for name, bolt in self.this_run().items()
            },
        }


def _less(totals: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in totals.items()}


_NOTHING = BoltTotals({}, 0, {})
