"""The aggregation step: collects events by key until a trigger fires; then rules turn them into new events."""

from topologies.step.rule_values import DECLINE, PASSTHROUGH, Aggregation, Event, Out, Outputs, RuleError
from topologies.step.rules import NamedRule, Rule, load_rule
from windowing.settings.triggers import FireResult, TriggerCall

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
