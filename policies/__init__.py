"""Decisions: which events a window holds, when it fires, and which come too late."""

from policies.choose_policies import choose_policies
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
from policies.storm import (
    CountEvictionPolicy,
    CountTriggerPolicy,
    TimeEvictionPolicy,
    TimeTriggerPolicy,
    WatermarkCountEvictionPolicy,
    WatermarkCountTriggerPolicy,
    WatermarkTimeEvictionPolicy,
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
