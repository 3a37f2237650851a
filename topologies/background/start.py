"""Starting a topology in the background, on either engine, or running it to its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from topologies.background.background_run import Run, Runner
from topologies.background.notebook_view import notebook
from topologies.engine.batch.report import BatchReport
from topologies.preflight.in_process import check_local
from topologies.run.engine import Engine, EngineName, check_engine, engine_of
from topologies.run.options import RunOptions
from topologies.run.restart import Restart
from topologies.run.summary import Summary
from topologies.topology import Topology
from windowing.time.durations import Duration

if TYPE_CHECKING:
    from topologies.spark.time_metrics import TimeMetrics


def options_of(
    *,
    checkpoint: str | os.PathLike[str] | None,
    every: Duration | timedelta | str | None,
    keep_open: bool,
    first_output: datetime | str | None,
    keep_batches: int | None,
    allow_rescale: bool,
    restart: Restart | None,
    on_report: Callable[[BatchReport], None] | None,
    serve_metrics: int | str | None,
    otel: bool,
    serve_page: int | str | None,
) -> RunOptions:
    """The options that somebody gives by name; None: as it is by default."""
    given: dict[str, Any] = {"keep_batches": keep_batches, "on_report": on_report}
    return RunOptions(
        checkpoint=None if checkpoint is None else os.fspath(checkpoint),
        every=every,
        keep_open=keep_open,
        first_output=first_output,
        allow_rescale=allow_rescale,
        restart=restart,
        serve_metrics=serve_metrics,
        otel=otel,
        serve_page=serve_page,
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
    chosen = engine_of(engine)
    for_spark = {"spark=": spark, "master=": master, "conf=": conf, "metrics=": metrics}
    check_engine(chosen, options, for_spark, "engine='local'")
    if chosen is Engine.LOCAL:
        check_local(topology, options)
    run = Run(topology.name, runner(chosen, topology, spark=spark, master=master, conf=conf, metrics=metrics), options)
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


def runner(
    engine: Engine,
    topology: Topology,
    *,
    spark: Any = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    metrics: TimeMetrics | None = None,
) -> Runner:
    """What runs a topology on an engine; Spark is imported only if requested. The rest is for Spark alone."""
    if engine is Engine.LOCAL:
        from topologies.local import run_local

        return lambda options: run_local(topology, options)
    from topologies.spark.jvm.session import active_session
    from topologies.spark.runner import run_on_spark

    session = active_session() if spark is None else spark  # which one is active depends on the thread
    return lambda options: run_on_spark(topology, options, master=master, conf=conf, spark=session, metrics=metrics)
