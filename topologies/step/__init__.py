"""The aggregation step: events are gathered by key until a trigger fires, and rules make new events of them."""

from topologies.step.rules import (
    DECLINE,
    PASSTHROUGH,
    Aggregation,
    Event,
    FireResult,
    Out,
    Outputs,
    Rule,
    RuleError,
    TriggerCall,
    load_rule,
)

__all__ = [
    "DECLINE",
    "PASSTHROUGH",
    "Aggregation",
    "Event",
    "FireResult",
    "Out",
    "Outputs",
    "Rule",
    "RuleError",
    "TriggerCall",
    "load_rule",
]
