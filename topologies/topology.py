"""A topology as users make and hold it: its graph, and the calls that run it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from topologies.graph.builder import GraphBuilder
from topologies.graph.describing import topology_html
from topologies.graph.graph import Graph
from topologies.io import sinks, spouts
from topologies.io.sinks import Sink
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.calls import checked
from windowing.durations import Duration
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from topologies.background import Run
    from topologies.engine.report import BatchReport
    from topologies.run.options import EngineName, Restart
    from topologies.run.summary import Summary
    from topologies.spark.time_metrics import TimeMetrics


class Topology(Graph):
    """A topology in which ``TopologyBuilder.build`` has found no fault."""

    @checked
    def start(
        self,
        checkpoint: str | os.PathLike[str] | None = None,
        *,
        engine: EngineName = "spark",
        spark: Any = None,
        every: Duration | timedelta | str | None = None,
        keep_open: bool = False,
        first_output: datetime | str | None = None,
        keep_batches: int | None = None,
        allow_rescale: bool = False,
        restart: Restart | None = None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        metrics: TimeMetrics | None = None,
        on_report: Callable[[BatchReport], None] | None = None,
        serve_metrics: int | str | None = None,
        otel: bool = False,
        serve_page: int | str | None = None,
        show: bool = True,
    ) -> Run:
        """Starts the topology in the background, and returns at once; in a notebook the run shows itself, unless
        ``show`` is False.

        ``engine``: ``"spark"``, or ``"local"`` for this process, without Java. ``spark``: a session of your own;
        without one the active session, or else a new one (``master``, ``conf``) that is stopped with the last run that
        uses it. The other arguments are those of ``RunOptions``, and ``metrics`` that of ``run_on_spark``.

        Raises ConfigError if the arguments cannot be used together. Every other error is raised by ``run.wait()``.
        """
        # Imported here: programs that check, describe or test a topology need nothing of a run, a third of the imports.
        from topologies.background import options_of, start

        options = options_of(
            checkpoint=checkpoint,
            every=every,
            keep_open=keep_open,
            first_output=first_output,
            keep_batches=keep_batches,
            allow_rescale=allow_rescale,
            restart=restart,
            on_report=on_report,
            serve_metrics=serve_metrics,
            otel=otel,
            serve_page=serve_page,
        )
        return start(self, options, engine=engine, spark=spark, master=master, conf=conf, metrics=metrics, show=show)

    @checked
    def run(
        self,
        checkpoint: str | os.PathLike[str] | None = None,
        *,
        engine: EngineName = "spark",
        spark: Any = None,
        every: Duration | timedelta | str | None = None,
        keep_open: bool = False,
        first_output: datetime | str | None = None,
        keep_batches: int | None = None,
        allow_rescale: bool = False,
        restart: Restart | None = None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        metrics: TimeMetrics | None = None,
        on_report: Callable[[BatchReport], None] | None = None,
        serve_metrics: int | str | None = None,
        otel: bool = False,
        serve_page: int | str | None = None,
    ) -> Summary:
        """Runs the topology to the end of its input, or until it is interrupted; ``start`` and ``wait`` in one.

        The arguments are those of ``start``. An interrupt (Ctrl-C) stops it after the current batch.
        """
        from topologies.background import run_to_the_end

        run = self.start(
            checkpoint,
            engine=engine,
            spark=spark,
            every=every,
            keep_open=keep_open,
            first_output=first_output,
            keep_batches=keep_batches,
            allow_rescale=allow_rescale,
            restart=restart,
            master=master,
            conf=conf,
            metrics=metrics,
            on_report=on_report,
            serve_metrics=serve_metrics,
            otel=otel,
            serve_page=serve_page,
            show=False,
        )
        return run_to_the_end(run)

    def _repr_html_(self) -> str:
        """Called by notebooks: returns the graph of the topology."""
        return topology_html(self)


class TopologyBuilder(GraphBuilder):
    """Gathers the parts of a topology; ``build`` checks them all and reports every mistake at once."""

    @checked
    def build(self) -> Topology:
        """Returns the topology; raises TopologyError with all its mistakes if there are any."""
        graph = super().build()
        return Topology(**{each.name: getattr(graph, each.name) for each in fields(graph)})


@checked
def windowed(
    frame: Any,
    bolt: WindowedBolt,
    *,
    checkpoint: str | os.PathLike[str],
    by: str | Sequence[str] | None = None,
    sink: Sink | str | None = None,
    parallelism: int = 1,
    every: Duration | timedelta | str | None = None,
    keep_open: bool = False,
    restart: Restart | None = None,
    name: str = "windowed",
) -> Run:
    """Start one windowed bolt over a streaming DataFrame, in the session of the DataFrame, and return the run.

    The run is a topology of one spout (``frame``), one bolt and one sink (``out``), with all promises of a topology.
    For several spouts, bolts or sinks, and for late events, use ``TopologyBuilder``. ``by`` names the columns whose
    values share a task; by default, the columns of the bolt's key. ``sink`` is a sink, or the name of a table in
    Spark's catalog; without it the rows are Parquet files in the folder ``output`` of the checkpoint. ``run.frame()``
    is a DataFrame of the rows written so far, except if the sink is a function or Kafka.

    Without ``every`` the run ends with the rows that are there now. ``every``, ``keep_open`` and ``restart`` are those
    of ``Topology.start``; ``name`` is shown in Spark's UI, and a checkpoint belongs to one name. Raises ConfigError or
    TopologyError if these do not fit; every other error is raised by ``run.wait()``.
    """
    if sink is None:
        sink = sinks.files(os.path.join(os.fspath(checkpoint), "output"))
    elif isinstance(sink, str):
        if "/" in sink and "`" not in sink:
            raise ConfigError(
                f"windowed(sink={sink!r:.80}) is a path",
                why="a text is the name of a table in Spark's catalog",
                do="give sinks.files(path) for Parquet files, or the name of a table",
            )
        sink = sinks.table(sink)
    builder = TopologyBuilder(name)
    spouts.check_streaming(frame, "windowed")
    builder.set_spout("frame", spouts.stream(frame))
    declarer = builder.set_bolt("bolt", bolt, parallelism)
    columns = [by] if isinstance(by, str) else by or ()
    if columns or bolt.settings.key or bolt.groups_by or parallelism > 1:
        declarer.fields_grouping("frame", *columns)
    else:
        declarer.global_grouping("frame")
    builder.set_sink("out", sink).from_("bolt")
    spark = frame.sparkSession
    return builder.build().start(checkpoint, spark=spark, every=every, keep_open=keep_open, restart=restart, show=False)
