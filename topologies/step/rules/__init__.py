"""The rules of the aggregation step: Python functions that give the key, the trigger, the time and the events."""

from topologies.step.rules.aggregation import Aggregation
from topologies.step.rules.answers import as_key, as_time
from topologies.step.rules.event import Event
from topologies.step.rules.named_rule import NamedRule
from topologies.step.rules.outputs import DECLINE, PASSTHROUGH, Out, Outputs, as_outputs
from topologies.step.rules.rule import Rule
from topologies.step.rules.rule_errors import RuleError
from topologies.step.rules.rule_modules import load_rule
from topologies.step.rules.rule_text import look_at_rule
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
    "as_key",
    "as_outputs",
    "as_time",
    "load_rule",
    "look_at_rule",
]
