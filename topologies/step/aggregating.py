"""The second bolt of a step: rules turn the events of a fired window into messages (UH-24 to UH-32)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from manager.keyed.key_states import is_flat, round_trip_json
from topologies.io.kafka import OFFSET, PARTITION, TOPIC, fit_to_limit, record_size, with_headers
from topologies.io.kafka import REASON as REASON_HEADER
from topologies.io.messages import AvroMessages, Unreadable
from topologies.step.config import (
    CountTriggerSection,
    Details,
    DslTriggerSection,
    Place,
    TimeFromEventTriggerSection,
    TimeTriggerSection,
    is_topic,
)
from topologies.step.config_files import Step
from topologies.step.read_bolt import (
    FAILING,
    ID,
    KEY,
    MESSAGE,
    OUTPUT,
    REASON,
    RULE_COLUMNS,
    EventOrError,
    MessageRow,
    Pairs,
    WindowEvents,
    bytes_as_text,
    header_bytes,
    header_texts,
    message_rows,
    outgoing_columns,
    read_messages,
    reason_of,
    with_columns_of,
)
from topologies.step.rule_values import (
    Aggregation,
    Event,
    Out,
    Outputs,
    RuleError,
    as_outputs,
    as_time,
    header_pairs,
    shown,
)
from topologies.step.rules import NamedRule, Rule
from windowing.bolts.bolt import BatchBolt, TaskContext
from windowing.bolts.windowed_bolt import StatefulWindowedBolt
from windowing.durations import Count
from windowing.errors import DataError, WindboltError
from windowing.schema import DEFAULT_STREAM, Emit, EmittedRows, parse_schema
from windowing.settings.triggers import (
    ColumnRule,
    CountTrigger,
    DailyByRule,
    DailyTrigger,
    FiredBy,
    FireResult,
    KeyTrigger,
    RuleTrigger,
    TriggerCall,
)
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from topologies.io.messages import MessageFormat
    from topologies.step.rules import Kind
    from windowing.daytimes import DayTime, DayTimePattern
    from windowing.events import Tuple


# The rules of a step: where each is defined, and calling it with messages.


def rules_of(step: Step, *, files: bool) -> dict[str, NamedRule]:
    """Returns all rules of a step, by the section that names them: key, trigger and dsl. ``files``: True if rules may
    be read from files."""
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
    """Returns the message of a row in the form for rules. Raises Unreadable if it cannot be read."""
    pairs, key = row["headers"], row["key"]
    if not pairs:  # most messages have no headers
        value = messages.read(row["value"])
        return Event(value, row["topic"] or "", None if key is None else bytes_as_text(key), {})
    value = messages.read(row["value"], header_bytes(pairs))
    return Event(value, row["topic"] or "", None if key is None else bytes_as_text(key), header_texts(pairs))


def trigger_of(step: Step, messages: MessageFormat, rule: Rule | None = None) -> KeyTrigger:
    """Returns the trigger of a step's windows (UH-14 to UH-23). ``rule``: the rule for the trigger or the time, if
    there is one."""
    match step.trigger:
        case CountTriggerSection() as section:
            return CountTrigger(Count(section.count), section.timeout, section.should_fire_at_processing_time)
        case DslTriggerSection() as section:
            assert rule is not None
            asking_trigger = AskTrigger(messages, rule, step.error_details)
            return RuleTrigger(asking_trigger, section.timeout, section.should_fire_at_processing_time)
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
    """Part of an exception that is reported."""
    columns: ClassVar = RULE_COLUMNS

    def read(self, rows: pa.Table) -> Iterator[EventOrError]:
        """Called with new events; returns the argument of ``ask`` for each."""
        return read_messages(rows, self.messages)

    def ask(self, event: EventOrError, call: TriggerCall) -> Any:
        """Called for each event; returns the result of the rule."""
        try:
            if type(event) is Unreadable:
                raise event
            answer = self.rule(event, call)
            if type(answer) in _PLAIN_ANSWERS and type(call.cache) is dict and is_flat(call.cache):
                return answer
            return self.rule.converted(_plain_answer, answer, call)
        except WindboltError as error:
            raise _storable_error(error, self.details) from error

    def __call__(self, event: Tuple, call: TriggerCall) -> Any:
        """Called for a single event; returns the result of the rule."""
        return self.ask(_read_event(event, self.messages), call)

    def blame(self, error: Exception) -> RuleError:
        """Called if the cache of the rule cannot be stored; returns the reason."""
        return _storable_error(self.rule.blame(error), self.details)


@dataclass(frozen=True)
class AskTime(ColumnRule):
    """Calls the rule for the time of day when the window of an event must fire (UH-23)."""

    messages: MessageFormat
    rule: Rule
    pattern: DayTimePattern
    details: Details = "full"
    """Part of an exception that is reported."""
    columns: ClassVar = RULE_COLUMNS

    def read(self, rows: pa.Table) -> Iterator[EventOrError]:
        """Called with new events; returns the argument of ``ask`` for each."""
        return read_messages(rows, self.messages)

    def __call__(self, event: Tuple) -> DayTime:
        """Called for a single event. Raises RuleError if the rule does not return a time."""
        return self.ask(_read_event(event, self.messages))

    def ask(self, event: EventOrError) -> DayTime:
        """Called for each event. Raises RuleError if the rule does not return a time."""
        try:
            if type(event) is Unreadable:
                raise event
            return self.rule.converted(as_time, self.rule(event), self.pattern)
        except WindboltError as error:
            raise _storable_error(error, self.details) from error


_PLAIN_ANSWERS = frozenset({FireResult, str, NoneType})


def _plain_answer(answer: Any, call: TriggerCall) -> str | None:
    """Returns the result of a trigger's rule as plain text, None if it is not text. Converts the cache to the values
    that JSON would restore, so that no code of the rule runs later."""
    call.cache = round_trip_json(call.cache)[1]
    return str.__str__(answer) if isinstance(answer, str) else None


def _read_event(event: Tuple, messages: MessageFormat) -> EventOrError:
    try:
        return event_of(event.values, messages)
    except Unreadable as error:
        return error


def _storable_error(error: WindboltError, details: Details) -> RuleError:
    """Returns the error with only the text that may be stored; the caller has the whole error."""
    return RuleError(reason_of(error, details))


# Turns results of rules into messages: the destination, key, headers and bytes of each (UH-24 to UH-32).


class Unsendable(RuleError):
    """Raised for a rule's result that cannot be sent."""


@dataclass(frozen=True)
class Route:
    """Route of messages: to a topic, or to the next step of the run."""

    topic: str
    """The topic of messages for which the rules set no TargetTopic."""
    stream: str = DEFAULT_STREAM
    limit: int | None = None
    """Most bytes in a message, with key and headers; None for no limit, as for messages that do not go to Kafka."""
    sources: frozenset[str] = frozenset()
    """Topics that the first step reads, to which rules must not send on this route."""


@dataclass(frozen=True)
class Sender:
    """Turns results of rules into messages."""

    messages: MessageFormat
    route: Route
    """The main route."""
    branches: Mapping[str, Route] = field(default_factory=dict)
    """The branches, by name."""

    def message(self, out: Out) -> tuple[str, MessageRow]:
        """Returns the stream and the message of an event. Raises Unwritable or Unsendable for an event that cannot be a
        message."""
        route, topic = self._route(out)
        headers = header_pairs(out.headers)
        key, value = _key_bytes(out.key), self._value(out, headers)
        return route.stream, _within_limit(
            {"topic": topic, "key": key, "value": value, "headers": headers}, route.limit
        )

    def unchanged(self, out: Out, row: MessageRow, event: Event, *, same_format: bool) -> tuple[str, MessageRow]:
        """Returns the incoming message with the changes of the rules (UH-27). Its bytes stay if the format, and the
        schema in the headers, are the same.

        Unchanged keys and headers keep their bytes, and repeated headers stay repeated.
        """
        route, topic = self._route(out)
        incoming = {header["key"]: header["value"] for header in header_pairs(event.headers)}
        outgoing = header_pairs(out.headers)
        unchanged_names = {
            header["key"]
            for header in outgoing
            if header["key"] in incoming and incoming[header["key"]] == header["value"]
        }
        unchanged_headers = [header for header in row["headers"] or () if header["key"] in unchanged_names]
        headers = unchanged_headers + [header for header in outgoing if header["key"] not in unchanged_names]
        key = row["key"] if out.key == event.key else _key_bytes(out.key)
        before, after = header_bytes(row["headers"]), header_bytes(headers)
        if isinstance(self.messages, AvroMessages):  # a header names the schema of the bytes
            same_format = same_format and self.messages.schema_for(before) == self.messages.schema_for(after)
        value = row["value"] if same_format else self.messages.write(event.value, after)
        return route.stream, _within_limit(
            {"topic": topic, "key": key, "value": value, "headers": headers}, route.limit
        )

    def _value(self, out: Out, headers: Pairs) -> bytes | None:
        """Returns the bytes of an event; None for a tombstone, which deletes its key."""
        if out.value is not None:
            return self.messages.write(out.value, header_bytes(headers))
        if out.key is None:
            raise Unsendable(
                "a message without a value (a tombstone) takes away what there is of its key: it needs one"
            )
        return None

    def _route(self, out: Out) -> tuple[Route, str]:
        route = self.route
        if out.branch is not None:
            if out.branch not in self.branches:
                known = ", ".join(self.branches) or "none"
                raise Unsendable(f"BranchName {out.branch!r:.80}: there is no such branch; there are: {known}")
            route = self.branches[out.branch]
        if out.topic is not None and not is_topic(out.topic):
            raise Unsendable(f"TargetTopic {out.topic!r:.80} cannot be the name of a topic")
        if out.topic in route.sources:
            raise Unsendable(f"TargetTopic {out.topic!r:.80} is a source of this step: a loop (allowLoops)")
        return route, out.topic or route.topic


def _within_limit(row: MessageRow, limit: int | None) -> MessageRow:
    """Returns the message if Kafka accepts its size. Raises Unsendable otherwise, because a message that is too large
    would stop every run."""
    if limit is not None and (size := record_size(row)) > limit:
        raise Unsendable(f"a message of {size} bytes, and Kafka takes {limit} (max.request.size)")
    return row


def _key_bytes(key: str | None) -> bytes | None:
    return None if key is None else key.encode()


# The second bolt of a step: rules turn the events of a fired window into new events (UH-24 to UH-32).


_RuleResult = tuple[list[tuple[str, MessageRow]], dict[str, Any], tuple[str, ...], bool]
"""The messages of rules, by stream; their cache; the counters to raise; and True if these are the incoming messages."""


class AggregateMessages(StatefulWindowedBolt):
    """Calls the rules with the messages of a window, and writes all resulting messages, or none.

    On any failure, the window's messages go to the stream ``failed``, each with the reason, and the rules' cache stays
    unchanged.
    """

    state_types: ClassVar = {"caches": dict, "run": str}
    state_keys: ClassVar = {"caches": KEY, "run": ()}

    def __init__(
        self,
        read: MessageFormat,
        rule: Rule,
        sender: Sender,
        *,
        variables: Mapping[str, Any] | None = None,
        keeps_cache: bool = False,
        details: Details = "full",
        step: str = "",
    ) -> None:
        """``variables``: loadedVariables. ``keeps_cache``: True if the cache survives restarts (UH-30). ``details``:
        the part of exceptions that is reported. ``step``: the name of the bolt's step."""
        self.read, self.rule, self.sender = read, rule, sender
        self.variables = dict(variables or {})
        self.keeps_cache, self.details, self.step = keeps_cache, details, step
        self.columns = parse_schema(f"{MESSAGE}, {KEY} string")
        self.events = WindowEvents(read)
        self.counters: Counter[str] = Counter()

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns a bolt whose failed messages keep all incoming columns."""
        return with_columns_of(self, inputs)

    @property
    def counts_answers(self) -> bool:
        """Returns True, because the bolt counts the results of its rules."""
        return True

    def output_schemas(self) -> dict[str, pa.Schema]:
        """Returns the streams: messages for the destination, for each branch, and failed ones."""
        failed = self.columns.append(pa.field(REASON, pa.string()))
        streams = (DEFAULT_STREAM, *(route.stream for route in self.sender.branches.values()))
        return {**dict.fromkeys(streams, outgoing_columns(self.columns)), FAILING: failed}

    def prepare(self, context: TaskContext) -> None:
        """Called before the first window of a batch. A cache that is not kept is lost in a restart."""
        self.counters = context.counters
        if not self.keeps_cache and self.state["run"] != context.run:
            self.state = {**self.initial_state(), "run": context.run}

    def forget(self, key: str) -> None:
        """Called when a key is forgotten after being empty for long enough (UH-22); drops its cache."""
        self.state["caches"].pop(key, None)

    def execute(self, window: TupleWindow) -> EmittedRows:
        """Called when a window fires."""
        ids = window.table.column(ID).to_pylist() if ID in self.columns.names else []
        key, start = str(window.key), window.start_timestamp
        lasted = 0 if start is None else max(window.end_timestamp - start, 0)
        stored_cache = self.state["caches"].get(key)
        cache = deepcopy(stored_cache) if stored_cache else {}
        variables = deepcopy(self.variables) if self.variables else {}
        call = Aggregation(key, lasted // 1_000, 0, cache, variables)
        call.full = window.fired_by is FiredBy.FULL
        try:
            messages, new_cache, counted, unchanged = self._call_rule(window, call)
        except (RuleError, Unreadable) as error:
            reasons = pa.array([reason_of(error, self.details)] * window.table.num_rows, pa.string())
            yield Emit(window.table.append_column(REASON, reasons), stream=FAILING)
            return
        if new_cache:
            self.state["caches"][key] = new_cache
        else:
            self.state["caches"].pop(key, None)
        self.counters.update(counted)
        names = _message_ids(ids, len(messages), unchanged=unchanged) if ids else []
        for index, (stream, message) in enumerate(messages):
            yield Emit({**message, ID: names[index]} if names else message, stream=stream)

    def _call_rule(self, window: TupleWindow, call: Aggregation) -> _RuleResult:
        """Returns the messages that the rules make of a window's messages."""
        events = self.events.of(window)
        call.count = len(events)
        return self.rule.converted(self._messages_of_answer, self.rule(list(events), call), window, call, events)

    def _messages_of_answer(
        self, returned: Any, window: TupleWindow, call: Aggregation, events: list[Event]
    ) -> _RuleResult:
        """Returns the messages of a rule's result."""
        outputs = as_outputs(returned, call, events)
        return list(self._messages(window, outputs)), _storable_cache(call.cache), outputs.counted, outputs.unchanged

    def _messages(self, window: TupleWindow, outputs: Outputs) -> Iterator[tuple[str, MessageRow]]:
        if not outputs.unchanged:
            yield from map(self.sender.message, outputs.outs)
            return
        same = self.read == self.sender.messages
        for row, out in zip(message_rows(window.table), outputs.outs, strict=True):
            event = event_of(row, self.read)  # read again, since rules may have modified their events
            yield self.sender.unchanged(out, row, event, same_format=same)


def _message_ids(ids: list[str], count: int, *, unchanged: bool) -> list[str]:
    """Returns ids, for tracing, of messages made from others: ``e1+e2``; for several messages ``e1+e2.1`` and so on."""
    if unchanged:
        return ids
    joined = "+".join(ids)
    return [joined] if count == 1 else [f"{joined}.{number}" for number in range(1, count + 1)]


def _storable_cache(cache: object) -> dict[str, Any]:
    """Returns the cache as the checkpoint would restore it. Raises Unsendable if it cannot be stored."""
    if type(cache) is dict and not cache:
        return cache
    if not isinstance(cache, dict):
        raise Unsendable(f"the cache is {shown(cache)}, and must be a dict")
    try:
        return round_trip_json(cache)[1]
    except (TypeError, ValueError) as error:
        raise Unsendable(f"the cache cannot be kept as JSON: {error}") from None


# Handles failed messages (UH-31): passes them on unchanged with the reason, or stops the run.


class DeadLetters(BatchBolt):
    """Sends failed messages to the error section's topic or step, unchanged except for additional headers.

    ``windbolt-reason`` is the reason; ``windbolt-topic``, ``-partition`` and ``-offset`` are the message's origin. A
    message larger than the topic accepts is cut (``topologies.io.kafka.fit_to_limit``).
    """

    def __init__(self, topic: str, limit: int | None = None, *, again: bool = False) -> None:
        """``limit``: most bytes in a message there; None for no limit. ``again``: True if all messages have already
        failed in another step, and name their origin."""
        self.topic, self.limit, self.again = topic, limit, again
        self.columns = parse_schema(MESSAGE)

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns a bolt that passes on the columns of failed messages."""
        return with_columns_of(self, inputs)

    def output_schemas(self) -> dict[str, pa.Schema]:
        """Returns the columns of messages to be sent."""
        return {DEFAULT_STREAM: outgoing_columns(self.columns)}

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with failed messages."""
        for row in batch.to_pylist():
            origin = {TOPIC: row["topic"], PARTITION: row.get("partition"), OFFSET: row.get("offset")}
            if self.again:
                earlier = header_texts(row["headers"])
                origin = {name: earlier.get(name) for name in origin}
            headers = with_headers(row["headers"], {REASON_HEADER: row["_reason"], **origin})
            letter = {"topic": self.topic, "key": row["key"], "value": row["value"], "headers": headers}
            id_column = {ID: row[ID]} if ID in self.columns.names else {}
            yield {**fit_to_limit(letter, self.limit), **id_column}


class StopAtFailure(BatchBolt):
    """Stops the run at the first failed message, before its batch is committed: nothing is lost."""

    outputs = OUTPUT

    def __init__(self, step: str) -> None:
        self.step = step

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with failed messages; raises DataError."""
        row = batch.slice(0, 1).to_pylist()[0]
        others = f"; {batch.num_rows - 1} more failed with it" if batch.num_rows > 1 else ""
        raise DataError(
            f"step {self.step!r}: {_message_in_words(row)} failed: {row['_reason']}{others}",
            why="the step has no error section, and windbolt loses no message",
            do='add one, error: {name: "deadletter", topic: "deadletter", config: {...}}, and rerun',
        )


def _message_in_words(row: MessageRow) -> str:
    if row.get("partition") is None and row.get("offset") is None:
        return f"a message of topic {row['topic']!r}"
    return f"the message {row['topic']!r}, partition {row['partition']}, offset {row['offset']}"
