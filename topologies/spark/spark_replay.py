"""Replays scenarios on Spark, in a classic session or over Spark Connect."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from topologies.engine.batch import RunExecutor
from topologies.graph.graph import Graph
from topologies.scenarios.replay import judge_midway
from topologies.scenarios.scenario_answer import Replayed
from topologies.scenarios.scenario_model import Scenario
from topologies.spark.replayed import Play, Replays
from topologies.spark.sessions import is_over_connect, session_for


def replay_on_spark(
    scenarios: Sequence[Scenario],
    topology: Graph | None = None,
    *,
    spark: Any = None,
    checkpoints: str | None = None,
) -> list[Replayed]:
    """The answers to scenarios, in their order, from real Spark queries; over Spark Connect, where ``spark`` or
    SPARK_REMOTE is that, from runs whose tasks are Spark's.

    Batches and checkpoints are in temporary folders, which all machines have to see (``TMPDIR``); ``checkpoints`` is
    another place for the latter, such as one in an object store.
    """
    midway = [list(scenario.midway.items()) for scenario in scenarios]
    prefixes = [prefix for found in midway for _, prefix in found]
    with _playing(spark) as (executor, play):
        answers = Replays(executor, play, [*scenarios, *prefixes], topology, checkpoints).answers()
    ending = iter(answers[len(scenarios) :])
    return [
        judge_midway(answer, {place: next(ending) for place, _ in found})
        for answer, found in zip(answers[: len(scenarios)], midway, strict=True)
    ]


def _playing(spark: Any) -> AbstractContextManager[tuple[RunExecutor, Play]]:
    """Yields an executor, and a function that plays batches, in a session of either kind."""
    session = session_for(spark, None)
    if is_over_connect(session, None):
        from topologies.spark.connect import connect_replay

        return connect_replay.playing(session)
    from topologies.spark import query_replay

    return query_replay.playing(spark)
