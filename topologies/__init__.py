"""Composing topologies and running them: locally, as scenarios, and on Spark."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from topologies.background import Run, RunPhase, RunStatus, runs
    from topologies.checkpoints.why import why
    from topologies.io import sinks, spouts
    from topologies.local import run_local
    from topologies.run.options import Restart, RunOptions
    from topologies.run.summary import Summary
    from topologies.spark.running import run_on_spark
    from topologies.spark.time_metrics import TimeMetrics, report_of
    from topologies.testing.replaying import replay
    from topologies.topology import Topology, TopologyBuilder, windowed

__all__ = [
    "Restart",
    "Run",
    "RunOptions",
    "RunPhase",
    "RunStatus",
    "Summary",
    "TimeMetrics",
    "Topology",
    "TopologyBuilder",
    "replay",
    "report_of",
    "run_local",
    "run_on_spark",
    "runs",
    "sinks",
    "spouts",
    "why",
    "windowed",
]

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
    """Import what is asked for: pytest imports this package in every run, and needs none of it."""
    if name in ("sinks", "spouts"):
        return importlib.import_module(f"topologies.io.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'topologies' has no attribute {name!r}")
