"""What the rules of an aggregation step are given, and what they return."""

from topologies.step import (
    DECLINE,
    PASSTHROUGH,
    Aggregation,
    Event,
    FireResult,
    Out,
    Outputs,
    RuleError,
    TriggerCall,
)

__all__ = [
    "DECLINE",
    "PASSTHROUGH",
    "Aggregation",
    "Event",
    "FireResult",
    "Out",
    "Outputs",
    "RuleError",
    "TriggerCall",
]
