"""Policies of one's own: ``with_policies(eviction=..., trigger=...)`` takes instances of subclasses of these."""

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

__all__ = [
    "Action",
    "EvictionContext",
    "EvictionPolicy",
    "Fire",
    "QueuedEvent",
    "QueuedEvents",
    "TriggerContext",
    "TriggerPolicy",
]
