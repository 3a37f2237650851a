"""Arguments and results of the rules of an aggregation step."""

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
