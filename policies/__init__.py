"""Decisions: which events a window holds, when it fires, and which come too late."""

from policies.choose_policies import choose_policies
from policies.eviction import (
    CountEvictionPolicy,
    EvictionPolicy,
    TimeEvictionPolicy,
    WatermarkCountEvictionPolicy,
    WatermarkTimeEvictionPolicy,
)
from policies.eviction_actions import EvictionAction, EvictionContext, QueuedEvent
from policies.trigger import (
    CountTriggerPolicy,
    TimeTriggerPolicy,
    TriggerPolicy,
    WatermarkCountTriggerPolicy,
    WatermarkTimeTriggerPolicy,
)

__all__ = [
    "CountEvictionPolicy",
    "CountTriggerPolicy",
    "EvictionAction",
    "EvictionContext",
    "EvictionPolicy",
    "QueuedEvent",
    "TimeEvictionPolicy",
    "TimeTriggerPolicy",
    "TriggerPolicy",
    "WatermarkCountEvictionPolicy",
    "WatermarkCountTriggerPolicy",
    "WatermarkTimeEvictionPolicy",
    "WatermarkTimeTriggerPolicy",
    "choose_policies",
]
