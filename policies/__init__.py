"""Decisions: which events a window holds, when it fires, and who comes too late."""

from policies.actions import Action, Event, EvictionContext
from policies.choose import choose_policies
from policies.eviction import (
    CountEvictionPolicy,
    EvictionPolicy,
    TimeEvictionPolicy,
    WatermarkCountEvictionPolicy,
    WatermarkTimeEvictionPolicy,
)
from policies.lateness import Lateness
from policies.trigger import (
    CountTriggerPolicy,
    TimeTriggerPolicy,
    TriggerPolicy,
    WatermarkCountTriggerPolicy,
    WatermarkTimeTriggerPolicy,
)

__all__ = [
    "Action",
    "CountEvictionPolicy",
    "CountTriggerPolicy",
    "Event",
    "EvictionContext",
    "EvictionPolicy",
    "Lateness",
    "TimeEvictionPolicy",
    "TimeTriggerPolicy",
    "TriggerPolicy",
    "WatermarkCountEvictionPolicy",
    "WatermarkCountTriggerPolicy",
    "WatermarkTimeEvictionPolicy",
    "WatermarkTimeTriggerPolicy",
    "choose_policies",
]
