"""Decisions: which events a window holds, when it fires, and which come too late."""

from policies.choose_policies import choose_policies
from policies.eviction import (
    CountEvictionPolicy,
    TimeEvictionPolicy,
    WatermarkCountEvictionPolicy,
    WatermarkTimeEvictionPolicy,
)
from policies.protocol import (
    Action,
    EvictionContext,
    EvictionPolicy,
    Fire,
    QueuedEvent,
    QueuedEvents,
    TriggerContext,
    TriggerPolicy,
)
from policies.trigger import (
    CountTriggerPolicy,
    TimeTriggerPolicy,
    WatermarkCountTriggerPolicy,
    WatermarkTimeTriggerPolicy,
)

__all__ = [
    "Action",
    "CountEvictionPolicy",
    "CountTriggerPolicy",
    "EvictionContext",
    "EvictionPolicy",
    "Fire",
    "QueuedEvent",
    "QueuedEvents",
    "TimeEvictionPolicy",
    "TimeTriggerPolicy",
    "TriggerContext",
    "TriggerPolicy",
    "WatermarkCountEvictionPolicy",
    "WatermarkCountTriggerPolicy",
    "WatermarkTimeEvictionPolicy",
    "WatermarkTimeTriggerPolicy",
    "choose_policies",
]
