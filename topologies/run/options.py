"""The options of a run, the same for every runner."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from manager.storage.checkpoint import KEPT_BATCHES
from topologies.engine.event_times import as_moment
from topologies.graph.builder import GraphBuilder
from topologies.graph.graph import Graph
from topologies.run.clock import Clock, system_clock
from topologies.run.summary import Summary
from windowing.calls import checked_value
from windowing.durations import Duration, as_duration
from windowing.errors import ConfigError, did_you_mean
from windowing.reprs import fields_repr

if TYPE_CHECKING:
    from topologies.engine.report import BatchReport
    from topologies.run.summary import BoltTotals


# The name of a checkpoint: a user's folder.


def check_named(checkpoint: str) -> None:
    """Raises ConfigError for a blank name, which would mean the current folder."""
    if not checkpoint.strip():
        raise ConfigError(
            f"the checkpoint {checkpoint!r} is not a folder's name",
            why="a checkpoint needs a folder; perhaps a shell variable in the name is not set",
            do="name a folder, such as ck/",
        )


# The address at which a run serves its metrics or its page: a port of this machine, or a host with a port.


LOOPBACK = "127.0.0.1"
LOCAL_NAMES = frozenset({LOOPBACK, "localhost", "::1"})
"""Names by which this machine knows itself."""
PAGE_PORT = 8765
"""The default port of a page."""
_GIVE_A_PORT = "give a port from 1 to 65535, such as 9464, or a host with one, such as 0.0.0.0:9464"


class Address(NamedTuple):
    """A host, by name or number, and a port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it."""
        return self.host in LOCAL_NAMES

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_of(port_or_address: int | str, what: str = "the metrics") -> Address:
    """Returns the address for ``9464``, ``"9464"``, ``"0.0.0.0:9464"`` or ``"[::1]:9464"``.

    A port alone is on the loopback interface, which other machines cannot reach. ``what``: the part that is served
    there, for errors. Raises ConfigError for an invalid port.
    """
    host, colon, port = str(port_or_address).strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if isinstance(port_or_address, bool) or (colon and not host):
        raise ConfigError(f"{what} at {port_or_address!r}", why="that is not an address", do=_GIVE_A_PORT)
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise ConfigError(f"{what} at {port_or_address!r}", why=f"{port!r} is not a port", do=_GIVE_A_PORT)
    return Address(host or LOOPBACK, int(port))


# Spark's masters: some run tasks on this machine, others on a cluster.


LOCAL = "local[*]"
"""The default master."""
_LOCAL_MASTER = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,([^]]*))?\])?")


def local_cores(master: str) -> tuple[str, str | None] | None:
    """Returns, for a local master, the number of cores (``*`` for all) and how often a task may fail; None for other
    masters."""
    match = _LOCAL_MASTER.fullmatch(master)
    return None if match is None else (match[1] or "1", match[2])


def on_this_machine(master: str) -> bool:
    """True if all of Spark runs on this machine: ``local``, ``local[N]``, ``local-cluster`` of Spark's own tests."""
    return master.startswith("local")


def is_cluster(master: str) -> bool:
    """True if tasks run in executors, in other processes than the driver's."""
    return local_cores(master) is None


REMOTE = "SPARK_REMOTE"
"""PySpark's variable with the address of a Connect server."""


def is_over_connect(spark: Any, master: str | None) -> bool:
    """True if a run in this session, or in a session that it opens, uses Spark Connect."""
    if spark is not None:
        return not hasattr(spark, "_jsparkSession")
    return is_remote_master(master) or (not master and bool(os.environ.get(REMOTE)))


def is_remote_master(master: str | None) -> bool:
    """True for the address of a Connect server."""
    return (master or "").startswith("sc://")


# The engines for topologies and scenarios, with the arguments that each needs or refuses.


EngineName: TypeAlias = Literal["spark", "local"]
"""Names of the engines, as callers write them."""


class Engine(StrEnum):
    """The engine that runs a topology or a scenario."""

    SPARK = "spark"
    LOCAL = "local"


def engine_of(name: str) -> Engine:
    """Returns the engine with this name. Raises ConfigError for an unknown name."""
    try:
        return Engine(name)
    except ValueError:
        raise ConfigError(
            f"engine={name!r}{did_you_mean(name, [engine.value for engine in Engine])}",
            why="there is no such engine",
            do="use 'spark' or 'local'",
        ) from None


def refuse_for_spark(spark_arguments: Mapping[str, Any], local_notation: str) -> None:
    """Raises ConfigError for arguments that have no effect on a run in this process.

    ``spark_arguments``: by the caller's names; None for omitted ones. ``local_notation``: how the caller writes the
    local engine.
    """
    names = [name for name, value in spark_arguments.items() if value is not None]
    if names:
        raise ConfigError(
            f"{', '.join(names)} with {local_notation}", why="they are for Spark", do="leave them out, or run on Spark"
        )


def refuse_on_spark(options: RunOptions) -> None:
    """Raises ConfigError for a run on Spark without a checkpoint."""
    if options.checkpoint is None:
        raise ConfigError(
            "a run on Spark without a checkpoint",
            why="the checkpoint holds the state, so that a restart continues where the last run stopped",
            do="give a folder: checkpoint='ck/', or --checkpoint ck/; or run it in this process: engine='local',"
            " or --engine local",
        )


def refuse_in_process(options: RunOptions) -> None:
    """Raises ConfigError for a run in this process that has no end and no checkpoint."""
    if options.checkpoint is None and options.every is not None:
        raise ConfigError(
            "a local run with a trigger interval and no checkpoint",
            why="when the run is stopped, open windows would be lost, and the input would be read again",
            do="give it a folder: checkpoint='ck/', or --checkpoint ck/",
        )


def check_engine(engine: Engine, options: RunOptions, for_spark: Mapping[str, Any], local_notation: str) -> None:
    """Raises ConfigError for missing arguments of an engine, and for arguments without effect on it.

    ``for_spark``: arguments that only Spark takes, by the caller's names; None for omitted ones. ``local_notation``:
    how the caller writes the local engine.
    """
    if engine is Engine.SPARK:
        refuse_on_spark(options)
    else:
        refuse_for_spark(for_spark, local_notation)
        refuse_in_process(options)


# Restarts after failures that may pass by themselves: how often, and after which pauses.


RESTARTS = 20
"""Default number of restarts in a row, without a committed batch between."""


@checked_value
@dataclass(frozen=True)
class Restart:
    """Rules for restarting a run, from its checkpoint, after a failure that may pass by itself.

    The pause before the first restart is ``initial_backoff``; each further pause is twice as long, up to
    ``max_backoff``. A committed batch is progress: the count and the pauses then start over.

    Raises ConfigError for fewer than one restart, and for a ``max_backoff`` below ``initial_backoff``.
    """

    attempts: int = RESTARTS
    """Number of restarts in a row, without a committed batch between, after which the run ends with its error."""
    initial_backoff: Duration | timedelta | str = "1s"
    """The first pause."""
    max_backoff: Duration | timedelta | str = "1m"
    """The longest pause."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ConfigError(
                f"attempts={self.attempts}",
                why="that would be no restart at all",
                do="give a number from 1 on; to end with the first failure, leave out the restart",
            )
        if self._longest_seconds < self._first_seconds:
            raise ConfigError(
                f"max_backoff={str(self.max_backoff)!r} with initial_backoff={str(self.initial_backoff)!r}",
                why="the longest pause is at least the first one",
                do="give a longer max_backoff, or a shorter initial_backoff",
            )

    def seconds_before(self, restart: int) -> float:
        """Returns the pause before a restart, in seconds; ``restart``: counted from 1 since the last progress."""
        # After 60 doublings any pause is the longest one.
        return min(self._first_seconds * 2.0 ** min(restart - 1, 60), self._longest_seconds)

    @property
    def _first_seconds(self) -> float:
        return as_duration(self.initial_backoff).micros / 1e6

    @property
    def _longest_seconds(self) -> float:
        return as_duration(self.max_backoff).micros / 1e6


@dataclass(frozen=True)
class ComingRestart:
    """The next restart, for observers of the run."""

    error: BaseException
    """Error of the failed run."""
    restarts: int
    """Number of restarts of the run, including this one."""
    in_a_row: int
    """Number of restarts since the last committed batch, including this one."""
    most: int
    """Number of restarts in a row after which the run ends with its error."""
    seconds: float
    """The pause before the restart."""


# Checks that a runner gets a topology, not its builder.


def check_built(call: str, topology: object) -> None:
    """Raises ConfigError for anything but a topology; ``call``: the called function, such as ``run_local``."""
    if isinstance(topology, GraphBuilder):
        raise ConfigError(f"{call}(builder)", why="a builder is not a topology yet", do="give builder.build()")
    if not isinstance(topology, Graph):
        raise ConfigError(f"{call}({topology!r:.60})", do="give the topology that builder.build() returns")


# The options of a run, the same for every runner.


BATCHES_SPARK_KEEPS = 100
"""Number of batches whose logs Spark keeps (``spark.sql.streaming.minBatchesToRetain``)."""


@checked_value
@dataclass(frozen=True)
class RunOptions:
    """The options of a run, the same for ``run_local``, ``run_on_spark`` and the command ``windbolt run``.

    Raises ConfigError for ``keep_batches`` out of its range, an interval ``every`` of zero, a checkpoint without a
    name, a ``first_output`` that is not a time, a ``restart`` without a checkpoint, and an invalid address in
    ``serve_metrics`` or ``serve_page``.
    """

    checkpoint: str | None = None
    """Folder of the checkpoint; required on Spark. A run on an existing checkpoint continues where the last run
    stopped, whichever engine that run used."""
    every: Duration | timedelta | str | None = None
    """Run until stopped, with a micro-batch at this interval (``"2s"``), which requires a checkpoint. None: run to the
    end of the present input."""
    keep_open: bool = False
    """True: windows that are open at the end of the input stay open for the next run. False: they fire."""
    first_output: datetime | str | None = None
    """Time of the first output: input that no later output needs is not read, and windows that end before this time are
    not emitted. None: no limit."""
    keep_batches: int = KEPT_BATCHES
    """Number of last batches, 1 to 100, whose state the checkpoint keeps, so that one can go back to it; the closing
    batch at the end of a run counts too."""
    allow_rescale: bool = False
    """True if a checkpoint may be changed to the topology's parallelism; False: a topology with different parallelism
    is refused."""
    clock: Clock = system_clock
    """Returns the time of a batch, in microseconds since the epoch. For tests; by default the system's clock."""
    on_begin: Callable[[Mapping[str, BoltTotals]], None] = lambda before: None
    """Called with the totals of each bolt in earlier runs on the checkpoint, when the state is restored and the run
    waits for the first batch."""
    on_report: Callable[[BatchReport], None] = lambda report: None
    """Called after each micro-batch."""
    restart: Restart | None = None
    """Rules for restarting the run, from its checkpoint, after a failure that may pass by itself: a server or store
    that does not respond, a lost executor or process. None: the run ends with its first failure."""
    on_restart: Callable[[ComingRestart], None] = lambda coming: None
    """Called before each restart, before its pause."""
    serve_metrics: int | str | None = None
    """Port for metrics for Prometheus (``/metrics``) and the health of the run (``/health``), which are served until
    the process ends: ``9464`` on the loopback interface, ``"0.0.0.0:9464"`` on all. None: no metrics."""
    otel: bool = False
    """True if the run reports to OpenTelemetry: metrics, and spans of batches, phases and windows. They go to the
    providers that the program has set up, or else to the providers in the variables ``OTEL_*``."""
    serve_page: int | str | None = None
    """Port for a live page of the run, which is served until the process ends: ``8765`` on the loopback interface,
    ``"0.0.0.0:8765"`` on all. None: no page. It may be the port of ``serve_metrics``."""
    stop: threading.Event = field(default_factory=threading.Event, repr=False)
    """Event that ends the run after the current batch, even if that is the last one; open windows then do not fire."""

    def __repr__(self) -> str:
        return fields_repr(self)

    def __post_init__(self) -> None:
        if self.checkpoint is not None:
            check_named(self.checkpoint)
        if not 1 <= self.keep_batches <= BATCHES_SPARK_KEEPS:
            raise ConfigError(
                f"keep_batches is {self.keep_batches}",
                why=f"a run needs the last batch, and Spark keeps the logs of only {BATCHES_SPARK_KEEPS}",
                do=f"give a number from 1 to {BATCHES_SPARK_KEEPS}; more take more room on the disk",
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
        """Returns the interval of micro-batches; None if the run ends with its input. Raises ConfigError for an invalid
        interval."""
        return None if self.every is None else as_duration(self.every)

    @property
    def metrics_address(self) -> Address | None:
        """Address for metrics; None without metrics. Raises ConfigError for an invalid address."""
        return None if self.serve_metrics is None else address_of(self.serve_metrics)

    @property
    def page_address(self) -> Address | None:
        """Address for the live page; None without a page. Raises ConfigError for an invalid address."""
        return None if self.serve_page is None else address_of(self.serve_page, "the page")

    @property
    def first_output_at(self) -> int | None:
        """The first output in microseconds; None without a limit."""
        return None if self.first_output is None else as_moment(self.first_output)


# Closing at the end of a run: do open windows fire?


def ends_streams(summary: Summary, options: RunOptions) -> bool:
    """True if a run without further batches fires its open windows. Records in ``summary`` whether it was stopped.

    A run that was asked to stop ends after the present batch, even if that is the last one. Its windows stay open, as
    with ``every``, where a run continues until it is stopped.
    """
    summary.stopped = options.stop.is_set()
    return not options.keep_open and options.every is None and not summary.stopped
