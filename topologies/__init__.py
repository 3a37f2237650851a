"""Composing topologies and running them: locally, as scenarios, and on Spark."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from topologies.background.background_run import Run, runs
    from topologies.background.status import RunPhase, RunStatus
    from topologies.compose.builder import TopologyBuilder
    from topologies.io import sinks, spouts
    from topologies.local import run_local
    from topologies.replaying import replay
    from topologies.run.options import RunOptions
    from topologies.run.restart import Restart
    from topologies.run.summary import Summary
    from topologies.spark.runner import run_on_spark
    from topologies.spark.time_metrics import TimeMetrics, report_of
    from topologies.topology import Topology
    from topologies.why_waiting.why import why

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
]

_HOMES = {
    "Restart": "topologies.run.restart",
    "Run": "topologies.background.background_run",
    "RunOptions": "topologies.run.options",
    "RunPhase": "topologies.background.status",
    "RunStatus": "topologies.background.status",
    "Summary": "topologies.run.summary",
    "TimeMetrics": "topologies.spark.time_metrics",
    "Topology": "topologies.topology",
    "TopologyBuilder": "topologies.compose.builder",
    "replay": "topologies.replaying",
    "report_of": "topologies.spark.time_metrics",
    "run_local": "topologies.local",
    "run_on_spark": "topologies.spark.runner",
    "runs": "topologies.background.background_run",
    "why": "topologies.why_waiting.why",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: pytest imports this package in every run, and needs none of it."""
    if name in ("sinks", "spouts"):
        return importlib.import_module(f"topologies.io.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'topologies' has no attribute {name!r}")
