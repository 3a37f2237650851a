"""Base classes for users' policies: ``with_policies(eviction=..., trigger=...)`` takes instances of subclasses."""

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
