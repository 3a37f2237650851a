"""The rules of a step: where each is, and how they are asked about messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from topologies.step.columns import ASKED, Row, as_text, header_bytes, header_texts
from topologies.step.config import StepConfig
from topologies.step.config.triggers import (
    CountTriggerSection,
    DslTriggerSection,
    TimeFromEventTriggerSection,
    TimeTriggerSection,
)
from topologies.step.config.values import Place
from topologies.step.rules import Event, Rule, RuleError, as_time, load_rule
from windowing.durations import Count, Duration
from windowing.triggers import CountTrigger, DailyByRule, DailyTrigger, KeyTrigger, RuleTrigger, TriggerCall

if TYPE_CHECKING:
    from topologies.messages import MessageFormat
    from topologies.step.rules.rule import Kind
    from windowing.daytimes import DayTime, DayTimePattern
    from windowing.tuples import Tuple


@dataclass(frozen=True)
class RuleAt:
    """A rule that a step names, and under which limits."""

    kind: Kind
    place: Place
    limit: Duration
    files: bool
    """Whether rules may be in files."""

    def load(self) -> Rule:
        """The rule; ConfigError where it is not there, or cannot be called."""
        return load_rule(
            self.kind,
            self.place.source,
            self.place.path.text,
            roots=[self.place.path.folder],
            allow_files=self.files,
            limit_seconds=self.limit.micros / 1_000_000,
        )


def rules_of(config: StepConfig) -> dict[str, RuleAt]:
    """All rules of a step, by the section that names them: key, trigger and dsl."""
    places: dict[str, tuple[Kind, Place]] = {"dsl": ("dsl", config.dsl)}
    if config.key.type == "dsl":
        places["key"] = "key", config.key
    if isinstance(config.trigger, DslTriggerSection):
        places["trigger"] = "trigger", config.trigger
    elif isinstance(config.trigger, TimeFromEventTriggerSection):
        places["trigger"] = "time", config.trigger
    limit, files = config.rule_time_limit, config.allow_file_rules
    return {name: RuleAt(kind, place, limit, files) for name, (kind, place) in places.items()}


def event_of(row: Row, messages: MessageFormat) -> Event:
    """The message of a row as rules see it; Unreadable where it is none."""
    pairs, key = row["headers"], row["key"]
    if not pairs:  # as with most messages
        value = messages.read(row["value"])
        return Event(value, row["topic"] or "", None if key is None else as_text(key), {})
    value = messages.read(row["value"], header_bytes(pairs))
    return Event(value, row["topic"] or "", None if key is None else as_text(key), header_texts(pairs))


def trigger_of(config: StepConfig, messages: MessageFormat) -> KeyTrigger:
    """When windows fire (UH-14 to UH-23)."""
    match config.trigger:
        case CountTriggerSection() as section:
            return CountTrigger(Count(section.count), section.timeout, section.should_fire_at_processing_time)
        case DslTriggerSection() as section:
            asked = AskTrigger(messages, rules_of(config)["trigger"].load())
            return RuleTrigger(asked, section.timeout, section.should_fire_at_processing_time)
        case TimeTriggerSection() as section:
            return DailyTrigger(section.at, section.max_empty_intervals)
        case TimeFromEventTriggerSection() as section:
            asks = AskTime(messages, rules_of(config)["trigger"].load(), section.pattern)
            return DailyByRule(asks, section.max_empty_intervals)


@dataclass(frozen=True)
class AskTrigger:
    """Asks the rules of a trigger about an event that has come (UH-16 to UH-19)."""

    messages: MessageFormat
    rule: Rule
    columns: ClassVar = ASKED

    def __call__(self, event: Tuple, call: TriggerCall) -> Any:
        """Called for each event; what the rules return."""
        return self.rule(event_of(event.values, self.messages), call)

    def blame(self, error: Exception) -> RuleError:
        """Called where what the rules keep in the cache cannot be kept."""
        return self.rule.blame(error)


@dataclass(frozen=True)
class AskTime:
    """Asks the rules for the time of day at which the window of an event is to fire (UH-23)."""

    messages: MessageFormat
    rule: Rule
    pattern: DayTimePattern
    columns: ClassVar = ASKED

    def __call__(self, event: Tuple) -> DayTime:
        """Called for each event; RuleError where the rules return no time."""
        returned = self.rule(event_of(event.values, self.messages))
        try:
            return as_time(returned, self.pattern)
        except RuleError as error:
            raise self.rule.blame(error) from error
