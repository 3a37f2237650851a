"""Windowed bolts, as Apache Storm has them, in Python, on Spark: all that a topology needs, from one place.

    from windbolt import TopologyBuilder, WindowedBolt, seconds, sinks, spouts

    class Revenue(WindowedBolt):
        outputs = "user string, revenue double"

        def execute(self, window):
            for user, amounts in window.groups("user", "amount"):
                yield user, amounts.sum()

    builder = TopologyBuilder("revenue")
    builder.set_spout("orders", spouts.files("orders/*.jsonl", schema="user string, amount double, ts timestamp"))
    builder.set_bolt(
        "revenue", Revenue().with_tumbling_window(seconds(10)).with_timestamp_field("ts").with_lag(seconds(5))
    ).fields_grouping("orders", "user")
    builder.set_sink("out", sinks.console()).from_("revenue")
    topology = builder.build()

``windbolt run file.py:topology`` runs it, and so do ``run_local`` (in this process, without Java) and ``run_on_spark``;
``topology.start()`` runs it in the background. ``windowed`` runs one bolt over a streaming DataFrame. ``spouts`` and
``sinks`` are the sources and destinations of events; ``aggregates``, ``triggers``, ``panes``, ``kinds``, ``presets``
and ``policies`` configure bolts. ``step`` is for rules of an aggregation step, ``testing`` for tests, and ``state`` for
inspecting checkpoints.

The names come from four packages, each of which imports only those before it: ``windowing`` (classes for users),
``policies`` (decisions), ``manager`` (state), ``topologies`` (composing and running).
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

_PACKAGES = ("windowing", "policies", "manager", "topologies")
_HOME = Path(__file__).resolve().parents[1]
_WHY = "Python takes the first module of a name that it finds, and looks beside the program first."
_DO = "Give that file or folder another name."


def _check_installed() -> None:
    """Raises ImportError if Python would find a user's module in place of a package of windbolt."""
    for name in _PACKAGES:
        loaded = sys.modules.get(name)
        spec = loaded.__spec__ if loaded is not None else PathFinder.find_spec(name)
        if spec is None or spec.origin is None:
            continue  # nothing or a namespace there: the import reports it
        if Path(spec.origin).resolve() != _HOME / name / "__init__.py":
            raise ImportError(f"{spec.origin} hides windbolt's package {name!r}. {_WHY} {_DO}", name=name)


_check_installed()

if TYPE_CHECKING:
    from topologies.background import Run, RunPhase, RunStatus, runs
    from topologies.checkpoints.why import why
    from topologies.local import run_local
    from topologies.run.options import Restart, RunOptions
    from topologies.run.summary import Summary
    from topologies.spark.running import run_on_spark
    from topologies.spark.time_metrics import TimeMetrics, report_of
    from topologies.testing.replaying import replay
    from topologies.topology import Topology, TopologyBuilder, windowed
    from windbolt import aggregates, kinds, panes, policies, presets, sinks, spouts, state, step, testing, triggers
    from windowing import (
        SOURCE,
        AggregateBolt,
        AlterLifetime,
        Arrival,
        BatchBolt,
        BatchWindowedBolt,
        Bolt,
        BoltError,
        Bounds,
        Calendar,
        Changes,
        CheckpointError,
        ConfigError,
        Count,
        CountByStart,
        DamagedCheckpoint,
        DataError,
        DayTime,
        Deduplicate,
        Duration,
        Emit,
        EnvironmentMissing,
        Events,
        Hopping,
        Panes,
        PartitionedSpout,
        Rank,
        RateLimit,
        ScenarioError,
        SchemaError,
        Session,
        ShiftTime,
        Silence,
        SinkError,
        SlidingLog,
        Snapshot,
        Spout,
        SpoutError,
        StatefulBatchBolt,
        StatefulBolt,
        StatefulWindowedBolt,
        StorageError,
        TaskContext,
        TemporalJoin,
        TopN,
        TopologyError,
        Tuple,
        TupleWindow,
        Union,
        WindboltError,
        WindowBatch,
        WindowedBolt,
        WindowJoin,
        days,
        hours,
        micros,
        millis,
        minutes,
        parse_duration,
        seconds,
    )

__all__ = [
    "SOURCE",
    "AggregateBolt",
    "AlterLifetime",
    "Arrival",
    "BatchBolt",
    "BatchWindowedBolt",
    "Bolt",
    "BoltError",
    "Bounds",
    "Calendar",
    "Changes",
    "CheckpointError",
    "ConfigError",
    "Count",
    "CountByStart",
    "DamagedCheckpoint",
    "DataError",
    "DayTime",
    "Deduplicate",
    "Duration",
    "Emit",
    "EnvironmentMissing",
    "Events",
    "Hopping",
    "Panes",
    "PartitionedSpout",
    "Rank",
    "RateLimit",
    "Restart",
    "Run",
    "RunOptions",
    "RunPhase",
    "RunStatus",
    "ScenarioError",
    "SchemaError",
    "Session",
    "ShiftTime",
    "Silence",
    "SinkError",
    "SlidingLog",
    "Snapshot",
    "Spout",
    "SpoutError",
    "StatefulBatchBolt",
    "StatefulBolt",
    "StatefulWindowedBolt",
    "StorageError",
    "Summary",
    "TaskContext",
    "TemporalJoin",
    "TimeMetrics",
    "TopN",
    "Topology",
    "TopologyBuilder",
    "TopologyError",
    "Tuple",
    "TupleWindow",
    "Union",
    "WindboltError",
    "WindowBatch",
    "WindowJoin",
    "WindowedBolt",
    "aggregates",
    "days",
    "hours",
    "kinds",
    "micros",
    "millis",
    "minutes",
    "panes",
    "parse_duration",
    "policies",
    "presets",
    "replay",
    "report_of",
    "run_local",
    "run_on_spark",
    "runs",
    "seconds",
    "sinks",
    "spouts",
    "state",
    "step",
    "testing",
    "triggers",
    "why",
    "windowed",
]

_MODULES = {
    "aggregates", "kinds", "panes", "policies", "presets", "sinks", "spouts", "state", "step", "testing", "triggers",
}  # fmt: skip
_HOMES = {
    "Restart": "topologies.run.options",
    "Run": "topologies.background",
    "RunOptions": "topologies.run.options",
    "RunPhase": "topologies.background",
    "RunStatus": "topologies.background",
    "Summary": "topologies.run.summary",
    "TimeMetrics": "topologies.spark.time_metrics",
    "Topology": "topologies.topology",
    "TopologyBuilder": "topologies.topology",
    "replay": "topologies.testing.replaying",
    "report_of": "topologies.spark.time_metrics",
    "run_local": "topologies.local",
    "run_on_spark": "topologies.spark.running",
    "runs": "topologies.background",
    "why": "topologies.checkpoints.why",
    "windowed": "topologies.topology",
}


def __getattr__(name: str) -> Any:
    """Imports a name on first use, because a bolt needs neither the engine nor Spark."""
    if name in _MODULES:
        return importlib.import_module(f"windbolt.{name}")
    if name in __all__:
        return getattr(importlib.import_module(_HOMES.get(name, "windowing")), name)
    raise AttributeError(f"module 'windbolt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
