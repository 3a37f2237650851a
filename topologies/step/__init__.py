"""The aggregation step: events are collected by key until a trigger fires, and rules turn them into new events."""

from topologies.step.rules import (
    DECLINE,
    PASSTHROUGH,
    Aggregation,
    Event,
    FireResult,
    NamedRule,
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
    "NamedRule",
    "Out",
    "Outputs",
    "Rule",
    "RuleError",
    "TriggerCall",
    "load_rule",
]
