"""Policies of one's own: ``with_policies(eviction=..., trigger=...)`` takes instances of subclasses of these."""

from policies.eviction import EvictionPolicy
from policies.eviction_actions import EvictionAction, EvictionContext, QueuedEvent
from policies.trigger import TriggerPolicy

__all__ = ["EvictionAction", "EvictionContext", "EvictionPolicy", "QueuedEvent", "TriggerPolicy"]
