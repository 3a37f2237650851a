"""Tests of your own topologies, in milliseconds and without Java: see docs/testing.md."""

from topologies.engine.micro_batch import PHASES, Phase
from topologies.testing.bolt_run import BoltRun, make_window, prepared, run_bolt
from topologies.testing.driver import FiredWindow, TopologyDriver
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
