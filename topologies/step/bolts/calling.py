"""The rules of a step: where each is defined, and how it is called with messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from manager.keyed.rule_cache import is_flat, kept_json
from topologies.io.messages import Unreadable
from topologies.step.bolts.rule_events import Read, read_messages
from topologies.step.bolts.step_columns import ASKED, MessageRow, decoded, header_bytes, header_texts, reason_of
from topologies.step.config import Step
from topologies.step.config.step_values import Details, Place
from topologies.step.config.trigger_section import (
    CountTriggerSection,
    DslTriggerSection,
    TimeFromEventTriggerSection,
    TimeTriggerSection,
)
from topologies.step.rules import Event, NamedRule, Rule, RuleError, as_time
from windowing.errors import WindboltError
from windowing.settings.triggers import (
    ColumnRule,
    CountTrigger,
    DailyByRule,
    DailyTrigger,
    FireResult,
    KeyTrigger,
    RuleTrigger,
    TriggerCall,
)
from windowing.time.durations import Count

if TYPE_CHECKING:
    from topologies.io.messages import MessageFormat
    from topologies.step.rules.rule import Kind
    from windowing.data.tuples import Tuple
    from windowing.time.daytimes import DayTime, DayTimePattern


def rules_of(step: Step, *, files: bool) -> dict[str, NamedRule]:
    """All rules of a step, by the section that names them: key, trigger and dsl. ``files``: whether rules may be read
    from files."""
    places: dict[str, tuple[Kind, Place]] = {"dsl": ("dsl", step.dsl)}
    if step.key.type == "dsl":
        places["key"] = "key", step.key
    if isinstance(step.trigger, DslTriggerSection):
        places["trigger"] = "trigger", step.trigger
    elif isinstance(step.trigger, TimeFromEventTriggerSection):
        places["trigger"] = "time", step.trigger
    return {
        name: NamedRule(
            kind,
            place.source,
            place.path.text,
            roots=(place.path.folder,),
            allow_files=files,
            limit_seconds=step.rule_time_limit.micros / 1_000_000,
        )
        for name, (kind, place) in places.items()
    }


def event_of(row: MessageRow, messages: MessageFormat) -> Event:
    """The message of a row as rules see it. Raises Unreadable where it is none."""
    pairs, key = row["headers"], row["key"]
    if not pairs:  # as with most messages
        value = messages.read(row["value"])
        return Event(value, row["topic"] or "", None if key is None else decoded(key), {})
    value = messages.read(row["value"], header_bytes(pairs))
    return Event(value, row["topic"] or "", None if key is None else decoded(key), header_texts(pairs))


def trigger_of(step: Step, messages: MessageFormat, rule: Rule | None = None) -> KeyTrigger:
    """The trigger of a step's windows (UH-14 to UH-23). ``rule``: that of the trigger or the time, where it has one."""
    match step.trigger:
        case CountTriggerSection() as section:
            return CountTrigger(Count(section.count), section.timeout, section.should_fire_at_processing_time)
        case DslTriggerSection() as section:
            assert rule is not None
            asked = AskTrigger(messages, rule, step.error_details)
            return RuleTrigger(asked, section.timeout, section.should_fire_at_processing_time)
        case TimeTriggerSection() as section:
            return DailyTrigger(section.at, section.max_empty_intervals)
        case TimeFromEventTriggerSection() as section:
            assert rule is not None
            asks = AskTime(messages, rule, section.pattern, step.error_details)
            return DailyByRule(asks, section.max_empty_intervals)


@dataclass(frozen=True)
class AskTrigger(ColumnRule):
    """Calls the rule of a trigger for an event (UH-16 to UH-19)."""

    messages: MessageFormat
    rule: Rule
    details: Details = "full"
    """How much to report of exceptions."""
    columns: ClassVar = ASKED

    def read(self, rows: pa.Table) -> Iterator[Read]:
        """Called with new events; returns what ``ask`` is called with for each."""
        return read_messages(rows, self.messages)

    def ask(self, event: Read, call: TriggerCall) -> Any:
        """Called for each event; returns what the rule returns."""
        try:
            if type(event) is Unreadable:
                raise event
            answer = self.rule(event, call)
            if type(answer) in _PLAIN_ANSWERS and type(call.cache) is dict and is_flat(call.cache):
                return answer
            return self.rule.converted(_settled, answer, call)
        except WindboltError as error:
            raise _told(error, self.details) from error

    def __call__(self, event: Tuple, call: TriggerCall) -> Any:
        """Called for a single event; returns what the rule returns."""
        return self.ask(_read_alone(event, self.messages), call)

    def blame(self, error: Exception) -> RuleError:
        """Called where the cache of the rule cannot be stored; returns the reason."""
        return _told(self.rule.blame(error), self.details)


@dataclass(frozen=True)
class AskTime(ColumnRule):
    """Calls the rule for the time of day at which the window of an event is to fire (UH-23)."""

    messages: MessageFormat
    rule: Rule
    pattern: DayTimePattern
    details: Details = "full"
    """How much to report of exceptions."""
    columns: ClassVar = ASKED

    def read(self, rows: pa.Table) -> Iterator[Read]:
        """Called with new events; returns what ``ask`` is called with for each."""
        return read_messages(rows, self.messages)

    def __call__(self, event: Tuple) -> DayTime:
        """Called for a single event. Raises RuleError where the rule does not return a time."""
        return self.ask(_read_alone(event, self.messages))

    def ask(self, event: Read) -> DayTime:
        """Called for each event. Raises RuleError where the rule does not return a time."""
        try:
            if type(event) is Unreadable:
                raise event
            return self.rule.converted(as_time, self.rule(event), self.pattern)
        except WindboltError as error:
            raise _told(error, self.details) from error


_PLAIN_ANSWERS = frozenset({FireResult, str, NoneType})


def _settled(answer: Any, call: TriggerCall) -> str | None:
    """The answer of a trigger's rule as plain text, and its cache as JSON restores it: nothing of the rule's own runs
    later. None for an answer that is no text."""
    call.cache = kept_json(call.cache)[1]
    return str.__str__(answer) if isinstance(answer, str) else None


def _read_alone(event: Tuple, messages: MessageFormat) -> Read:
    try:
        return event_of(event.values, messages)
    except Unreadable as error:
        return error


def _told(error: WindboltError, details: Details) -> RuleError:
    """The error with only the text that may be stored: the caller uses all of it."""
    return RuleError(reason_of(error, details))
