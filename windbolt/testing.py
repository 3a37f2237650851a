"""Tests of your own topologies, in milliseconds and without Java: see docs/testing.md."""

from topologies.engine.phases import PHASES, Phase
from topologies.testing.bolt_run import BoltRun, run_bolt
from topologies.testing.driver import TopologyDriver
from topologies.testing.fired import FiredWindow
from topologies.testing.made_windows import make_window, prepared
from topologies.testing.policy_check import CheckedWindow, PolicyCheck, PolicyDiffers, check_policy

__all__ = [
    "PHASES",
    "BoltRun",
    "CheckedWindow",
    "FiredWindow",
    "Phase",
    "PolicyCheck",
    "PolicyDiffers",
    "TopologyDriver",
    "check_policy",
    "make_window",
    "prepared",
    "run_bolt",
]
