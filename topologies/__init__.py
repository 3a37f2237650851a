"""Composing topologies and running them: locally, as scenarios, and on Spark."""

from topologies import sinks, spouts
from topologies.builder import TopologyBuilder
from topologies.local import run_local
from topologies.model import Topology
from topologies.running import RunOptions, Summary
from topologies.scenarios.replay import replay

__all__ = ["RunOptions", "Summary", "Topology", "TopologyBuilder", "replay", "run_local", "sinks", "spouts"]
