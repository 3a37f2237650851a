"""The options of a run, the same for every runner."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from manager.storage.checkpoint import KEPT_BATCHES
from topologies.engine.time.first_output import as_moment
from topologies.run.address import Address, address_of
from topologies.run.checkpoint_name import check_named
from topologies.run.clock import Clock, system_clock
from topologies.run.restart import Restart
from windowing.calls.checked import checked_value
from windowing.data.reprs import of_fields
from windowing.errors import ConfigError
from windowing.time.durations import Duration, as_duration

if TYPE_CHECKING:
    from topologies.engine.batch.report import BatchReport
    from topologies.run.bolt_totals import BoltTotals
    from topologies.run.restart import ComingRestart

SPARK_KEEPS = 100
"""Number of batches whose logs Spark keeps (``spark.sql.streaming.minBatchesToRetain``)."""


@checked_value
@dataclass(frozen=True)
class RunOptions:
    """The options of a run, the same for ``run_local``, ``run_on_spark`` and the command ``windbolt run``.

    Raises ConfigError for ``keep_batches`` out of its range, for an interval ``every`` of zero, for a checkpoint
    without a name, for a ``first_output`` that is not a time, for a ``restart`` without a checkpoint, and for
    ``serve_metrics`` or ``serve_page`` that is not an address.
    """

    checkpoint: str | None = None
    """Folder of the checkpoint; required on Spark. A run on an existing checkpoint continues where the last run
    stopped, whichever engine that used."""
    every: Duration | timedelta | str | None = None
    """Run until stopped, with a micro-batch at this interval (``"2s"``), which requires a checkpoint; None: run to the
    end of the present input."""
    keep_open: bool = False
    """Whether the windows still open at the end of the input stay open for the next run; if not, they fire."""
    first_output: datetime | str | None = None
    """Time of the first output: input that it does not need is not read, and windows that end before are not emitted.
    None for no such limit."""
    keep_batches: int = KEPT_BATCHES
    """Number of last batches, 1 to 100, whose state the checkpoint keeps so that one can go back to it; the closing at
    the end of a run counts as a batch."""
    allow_rescale: bool = False
    """Whether a checkpoint may be given the parallelism that the topology has now; if not, a topology with different
    parallelism is refused."""
    clock: Clock = system_clock
    """Called for the time of a batch: microseconds since the epoch. For tests; by default the system's clock."""
    on_begin: Callable[[Mapping[str, BoltTotals]], None] = lambda before: None
    """Called when the state is restored and the first batch is awaited, with the totals of each bolt from earlier runs
    on the checkpoint."""
    on_report: Callable[[BatchReport], None] = lambda report: None
    """Called after each micro-batch."""
    restart: Restart | None = None
    """How the run is started again, from its checkpoint, after a failure that may pass by itself: a server or a store
    that does not answer, an executor or a process that is gone. None: the run ends with its first failure."""
    on_restart: Callable[[ComingRestart], None] = lambda coming: None
    """Called before each restart, before its pause."""
    serve_metrics: int | str | None = None
    """Port at which metrics for Prometheus (``/metrics``) and the health of the run (``/health``) are served until the
    process ends: ``9464`` on the loopback interface, ``"0.0.0.0:9464"`` on all; None for none."""
    otel: bool = False
    """Whether the run reports to OpenTelemetry: metrics, and spans of batches, phases and windows. They go to the
    providers that the program has set up, or else where the variables ``OTEL_*`` say."""
    serve_page: int | str | None = None
    """Port at which a live page of the run is served until the process ends: ``8765`` on the loopback interface,
    ``"0.0.0.0:8765"`` on all; None for none. It may be that of ``serve_metrics``."""
    stop: threading.Event = field(default_factory=threading.Event, repr=False)
    """Event that ends the run after the current batch when set; also after the last one, without firing the windows
    that are open then."""

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
        if self.first_output is not None:
            as_moment(self.first_output)
        if self.restart is not None and self.checkpoint is None:
            raise ConfigError(
                "restarts without a checkpoint",
                why="a restart continues from the checkpoint; without one it would write everything again",
                do="give a folder: checkpoint='ck/', or --checkpoint ck/",
            )
        _ = self.metrics_address, self.page_address
        if self.interval is not None and self.interval.micros == 0:
            raise ConfigError(
                f"every={self.every!r}",
                why="the interval must be longer than zero",
                do="give one such as every='1s', or --every 1s",
            )

    @property
    def interval(self) -> Duration | None:
        """The interval of micro-batches; None where the run ends with its input. Raises ConfigError for an invalid
        one."""
        return None if self.every is None else as_duration(self.every)

    @property
    def metrics_address(self) -> Address | None:
        """Where metrics are served; None where they are not. Raises ConfigError for an invalid address."""
        return None if self.serve_metrics is None else address_of(self.serve_metrics)

    @property
    def page_address(self) -> Address | None:
        """Where the live page is served; None where it is not. Raises ConfigError for an invalid address."""
        return None if self.serve_page is None else address_of(self.serve_page, "the page")

    @property
    def first_output_at(self) -> int | None:
        """The first output in microseconds; None where there is none."""
        return None if self.first_output is None else as_moment(self.first_output)
