"""Runs a topology on Spark, in a classic session or over Spark Connect; imports only what the session needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from topologies.graph.graph import Graph
from topologies.run.options import RunOptions, check_built, is_over_connect, is_remote_master, refuse_on_spark
from topologies.run.summary import Summary
from topologies.spark.time_metrics import TimeMetrics
from windowing.calls import checked
from windowing.errors import ConfigError


@checked
def run_on_spark(
    topology: Graph,
    options: RunOptions,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    spark: Any = None,
    metrics: TimeMetrics | None = None,
) -> Summary:
    """Runs a topology on Spark: with Structured Streaming in a classic session; over Spark Connect, with this process
    as the driver. A run on an existing checkpoint continues where the last run stopped.

    The session is ``spark``, or else the active session. If there is none, or ``master`` is the address of a Connect
    server (``sc://host:15002``), a session is created (``master``, by default ``local[*]``; ``conf``), and stopped at
    the end of the last run that uses it. ``metrics``: gets the report of each batch with Spark's progress.

    Raises CheckpointError for a checkpoint that does not fit. Raises BoltError for an exception in a bolt; the batch is
    then not committed, and the next run repeats it. Raises EnvironmentMissing if Java is missing, or the connector for
    a topology with Kafka. Raises ConfigError for features that do not work over Connect.
    """
    check_built("run_on_spark", topology)
    refuse_on_spark(options)
    conf = conf or {}
    master = master or conf.get("spark.master")
    session = session_for(spark, master)
    if is_over_connect(session, master):
        if metrics is not None:
            raise ConfigError(
                "metrics= with a session of Spark Connect",
                why="they come with the progress of a query of Spark's, and such a run has none",
                do="use on_report=, which is given the report of each batch",
            )
        from topologies.spark.connect_run import run_over_connect

        return run_over_connect(topology, options, master=master, conf=conf, spark=session)
    from topologies.spark.runner import run_in_session

    return run_in_session(topology, options, master=master, conf=conf, spark=spark, metrics=metrics)


def session_for(spark: Any, master: str | None) -> Any:
    """Returns the session of a run: ``spark``; else a new session, if ``master`` is the address of a Connect server;
    else the active session of this thread. Returns None if the caller must open one."""
    if spark is not None:
        return spark
    return None if is_remote_master(master) else SparkSession.getActiveSession()
