"""Starting a topology in the background, on either engine, or running it to its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from topologies.engine.batch.report import BatchReport
from topologies.preflight.in_process import check_local
from topologies.run.options import RunOptions
from topologies.run.summary import Summary
from topologies.run.without_checkpoint import refuse_on_spark
from topologies.starting.background_run import Run, Runner
from topologies.starting.showing import notebook
from topologies.topology import Topology
from windowing.errors import ConfigError
from windowing.suggestions import did_you_mean
from windowing.time.durations import Duration

if TYPE_CHECKING:
    from topologies.spark.metrics import TimeMetrics

EngineName: TypeAlias = Literal["spark", "local"]


def options_of(
    checkpoint: str | os.PathLike[str] | None,
    every: Duration | timedelta | str | None,
    flush: bool,
    first_output: datetime | str | None,
    keep_batches: int | None,
    on_report: Callable[[BatchReport], None] | None,
    serve_metrics: int | str | None,
) -> RunOptions:
    """The options that somebody gives by name; None: as it is by default."""
    given: dict[str, Any] = {"keep_batches": keep_batches, "on_report": on_report}
    return RunOptions(
        None if checkpoint is None else os.fspath(checkpoint),
        every,
        flush,
        first_output,
        serve_metrics=serve_metrics,
        **{name: value for name, value in given.items() if value is not None},
    )


def start(
    topology: Topology,
    options: RunOptions,
    *,
    engine: EngineName = "spark",
    spark: Any = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    metrics: TimeMetrics | None = None,
    show: bool = False,
) -> Run:
    """Start a topology in a thread of its own, and return at once; see ``Topology.start``.

    Raises ConfigError for what can be told without an engine: arguments that do not go together. Everything else is
    raised by ``Run.wait``.
    """
    if engine == "local":
        given = {"spark": spark, "master": master, "conf": conf, "metrics": metrics}
        runner = _local(topology, options, [name for name, value in given.items() if value is not None])
    elif engine == "spark":
        runner = _on_spark(topology, options, spark, master, conf, metrics)
    else:
        raise ConfigError(
            f"engine={engine!r}{did_you_mean(engine, get_args(EngineName))}",
            why="there is no such engine",
            do="use 'spark' or 'local'",
        )
    run = Run(topology.name, runner, options)
    if show and notebook() is not None:
        run.show()
    return run


def run_to_the_end(run: Run) -> Summary:
    """Wait for the end of a run that nobody else has; an interrupt (Ctrl-C) stops it after the current batch."""
    try:
        return run.wait()
    except KeyboardInterrupt:
        if not run.ended:
            run.stop()
        raise


def _local(topology: Topology, options: RunOptions, for_spark: list[str]) -> Runner:
    from topologies.local import run_local

    if for_spark:
        raise ConfigError(
            f"{', '.join(f'{name}=' for name in for_spark)} with engine='local'",
            why="they are for Spark",
            do="leave them out, or run on Spark: engine='spark'",
        )
    check_local(topology, options)
    return lambda options: run_local(topology, options)


def _on_spark(
    topology: Topology,
    options: RunOptions,
    spark: Any,
    master: str | None,
    conf: Mapping[str, str] | None,
    metrics: TimeMetrics | None,
) -> Runner:
    refuse_on_spark(options)
    from topologies.spark.jvm.session import active_session
    from topologies.spark.runner import run_on_spark

    session = active_session() if spark is None else spark  # which one is active depends on the thread
    return lambda options: run_on_spark(topology, options, master=master, conf=conf, spark=session, metrics=metrics)
