"""Tests of your own topologies, in milliseconds and without Java: see docs/testing.md."""

from topologies.engine.phases import PHASES, Phase
from topologies.testing.bolt_run import BoltRun, run_bolt
from topologies.testing.driver import TopologyDriver
from topologies.testing.fired import FiredWindow
from topologies.testing.made_windows import make_window, prepared

__all__ = ["PHASES", "BoltRun", "FiredWindow", "Phase", "TopologyDriver", "make_window", "prepared", "run_bolt"]
