"""The arguments and results of rules: events, headers, targets and outputs."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Final

from windowing.calls import checked_on_failure
from windowing.columns import own_value
from windowing.daytimes import DayTime, DayTimePattern
from windowing.errors import ConfigError, WindboltError
from windowing.reprs import fields_repr

# Errors of rules.


def shown(value: object, longest: int = 80) -> str:
    """Returns a rule's value as text for an error, even if its ``repr`` fails, as for a number with too many digits."""
    try:
        return repr(value)[:longest]
    except Exception:
        return f"a {type(value).__name__} that cannot be shown"


class RuleError(WindboltError):
    """Raised if a rule failed, took too long, or returned something invalid. The error concerns the events in the call
    of the rule. Its text is one line: the rule, the line in its file, and the problem."""

    def __init__(self, what: str, *, why: str = "", do: str = "", brief: str = "") -> None:
        """``brief``: the error without the text of an exception and without quotations; "" for the class name."""
        super().__init__(what, why=why, do=do)
        self.brief = brief or type(self).__name__


# An event in the form for rules.


@checked_on_failure
@dataclass(frozen=True, slots=True)
class Event:
    """An incoming event (UH-9, UH-19, UH-29); ``Event({"id": "42"})`` is enough for a test."""

    value: Any
    """The content of the message, read by the step's format (IN)."""
    topic: str = ""
    """The topic from which it was read (SourceTopic)."""
    key: str | None = None
    """The key of its Kafka message as text (SourceKey); None without a key."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers of its Kafka message (kafka.headers).

    Headers that are not UTF-8 text, or have no value, appear as text, and keep their bytes when they are copied
    (``HeaderText``).
    """

    def __repr__(self) -> str:
        return fields_repr(self)


class _MutableEvent:
    """An event under construction, because setting the fields of a frozen one costs three times as much."""

    __slots__ = ("headers", "key", "topic", "value")

    def __init__(self, value: Any, topic: str, key: str | None, headers: Mapping[str, str]) -> None:
        self.value, self.topic, self.key, self.headers = value, topic, key, headers


def events_of(
    values: Iterable[Any], topics: Iterable[str], keys: Iterable[str | None], headers: Iterable[Mapping[str, str]]
) -> list[Event]:
    """Returns many events, by their fields."""
    events: list[Any] = list(map(_MutableEvent, values, topics, keys, headers))
    for event in events:
        event.__class__ = Event
    return events


# Headers of messages in the form for rules: texts that remember their original bytes.


HeaderValue = str | bytes | None
"""An outgoing header; None: a header without a value."""


class HeaderText(str):
    r"""The text of a header that is not text: bytes that are not UTF-8 (shown as ``\xff``), or no value (empty).

    It behaves like any other text, but if it is sent unchanged, the header keeps its original bytes.
    """

    raw: bytes | None

    @classmethod
    def of(cls, raw: bytes | None) -> HeaderText:
        """Returns the HeaderText of these bytes, or of no value (None)."""
        text = cls("" if raw is None else raw.decode("utf-8", "backslashreplace"))
        text.raw = raw
        return text


def header_text(raw: bytes | None) -> str:
    """Returns a header in the form for rules: a text, or a HeaderText if plain text would lose the original."""
    try:
        return HeaderText.of(None) if raw is None else raw.decode()
    except UnicodeDecodeError:
        return HeaderText.of(raw)


def header_raw(value: HeaderValue) -> bytes | None:
    """Returns the bytes of an outgoing header: those of its text, the original bytes, or None for no value."""
    if isinstance(value, HeaderText):
        return value.raw
    return value.encode() if isinstance(value, str) else value


def header_pairs(headers: Mapping[str, HeaderValue] | None) -> list[dict[str, str | bytes | None]]:
    """Returns the headers of a message as pairs, in order."""
    return [{"key": name, "value": header_raw(value)} for name, value in (headers or {}).items()]


# The second argument of the aggregation rule: facts about the call, and fields that the rule may fill.


@checked_on_failure
@dataclass(slots=True)
class Aggregation:
    """A call of the aggregation rule (UH-29); ``Aggregation()`` is enough for a test."""

    key: str = ""
    """The key that the events share (AggregationKey)."""
    window_ms: int = 0
    """How long the window has been open, in milliseconds (AggregationWindowTimeMs)."""
    count: int = 0
    """The number of events of this call (AggregationEventCount)."""
    cache: dict[str, Any] = field(default_factory=dict)
    """The cache, kept between calls; only JSON values."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """The content of the file ``environmentVariables`` (loadedVariables)."""
    full: bool = False
    """True if the window fires only because it is full (maxEvents, maxBytes)."""
    out: Any = None
    """An event or a list of events (OUT, UH-24), for rules that fill it instead of returning events; None: not
    filled."""
    headers: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None
    """Destination of the events (HEADERS, UH-25): TargetTopic, TargetKey, kafka, BranchName; for several events a list
    of such mappings."""

    def __repr__(self) -> str:
        return fields_repr(self)


# HEADERS of the aggregation rule: the destination, key and headers of events (UH-25).


_NAMES = ("TargetTopic", "TargetKey", "kafka", "BranchName")


@dataclass(frozen=True, slots=True)
class Target:
    """Destination of an event; None means unset."""

    topic: str | None = None
    key: str | None = None
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    branch: str | None = None


def targets(headers: Any, count: int, *, one_for_all: bool = False) -> list[Target]:
    """Returns the HEADERS of each of ``count`` events: a dict for one event, or a list in their order.

    ``one_for_all``: a dict applies to each of several events. Raises RuleError for lengths that differ, unknown names,
    and values that are not text.
    """
    if headers is None:
        return [Target()] * count
    if isinstance(headers, Mapping):
        if count > 1 and not one_for_all:
            raise RuleError(
                f"HEADERS is one dict, and there are {count} events",
                why="each of several events has its own",
                do="make it a list with a dict for each event",
            )
        return [_target(headers)] * count
    if not isinstance(headers, Sequence) or isinstance(headers, (str, bytes)):
        raise RuleError(f"HEADERS is {shown(headers)}", do="make it a dict, or a list of dicts for several events")
    if len(headers) != count:
        raise RuleError(
            f"HEADERS has {len(headers)} elements, and there are {count} events",
            why="each event has its own, in the same order",
            do="give as many elements as events",
        )
    return [Target() if header is None else _target(header) for header in headers]


def checked_key(name: str, value: Any) -> str | None:
    """Returns a key as text; a whole number is converted, None stays None."""
    return None if value is None else checked_text(name, value)


def checked_name(name: str, value: Any) -> str | None:
    """Returns the name of a topic or a step; None without one."""
    if value is None or (isinstance(value, str) and value):
        return None if value is None else str.__str__(value)
    raise RuleError(f"{name} is {shown(value)}", do="give a name, or leave it out")


def checked_text(name: str, value: Any) -> str:
    """Returns a text; a whole number is converted. Raises RuleError for other values, and for text that cannot be
    encoded."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        try:
            return int.__repr__(int(value))
        except ValueError:
            raise RuleError(f"{name} is a whole number with too many digits", do="make it a text") from None
    if not isinstance(value, str):
        raise RuleError(f"{name} is {shown(value)}", why="it must be a text or a whole number", do="make it a text")
    text = str.__str__(value)  # a subclass may override it
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise RuleError(f"{name} is {shown(text)}", why="that is not valid Unicode text", do="fix it") from None
    return text


def flat_headers(name: str, headers: Any) -> Mapping[str, HeaderValue]:
    """Returns the headers of a Kafka message by name: texts, bytes, or None for no value."""
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise RuleError(f"{name} is {shown(headers)}", do="make it a dict of texts")
    for key, value in headers.items():
        if not isinstance(key, str):
            raise RuleError(f"{name} has the name {shown(key)}", do="make it a text")
        if isinstance(value, (Mapping, list, tuple)):
            what = f"{name}[{shown(key, 40)}] is {shown(value)}"
            raise RuleError(what, why="headers are not nested", do="make it a text")
    return {
        checked_text(f"a name in {name}", key): _header(f"{name}[{shown(key, 40)}]", value)
        for key, value in headers.items()
    }


def _header(name: str, value: Any) -> HeaderValue:
    if value is None or (isinstance(value, HeaderText) and isinstance(value.raw, bytes | None)):
        return value
    return bytes(value) if isinstance(value, (bytes, bytearray)) else checked_text(name, value)


def _target(headers: Any) -> Target:
    if not isinstance(headers, Mapping):
        raise RuleError(f"HEADERS holds {shown(headers)}", do="make it a dict for each event")
    if unknown := [shown(name, 40) for name in headers if name not in _NAMES]:
        raise RuleError(f"HEADERS has {', '.join(unknown)}", do=f"use {', '.join(_NAMES[:-1])} and {_NAMES[-1]}")
    return Target(
        checked_name("TargetTopic", headers.get("TargetTopic")),
        checked_key("TargetKey", headers.get("TargetKey")),
        flat_headers("kafka", headers.get("kafka")),
        checked_name("BranchName", headers.get("BranchName")),
    )


# The results of the aggregation rule: events with their destinations.


DECLINE: Final = "decline"
"""Returned by the aggregation rule to produce nothing from these events (UH-26)."""
PASSTHROUGH: Final = "passthrough"
"""Returned by the aggregation rule to pass the events on unchanged; ``call.headers`` may redirect them (UH-27)."""

DECLINED: Final = "declined"
"""Counter of windows that the rule declined."""
EMPTIED: Final = "emptied"
"""Counter of windows without a result, because the rule returned nothing or an unknown status and did not fill the
call."""
UNKNOWN_STATUS: Final = "unknown_status"
"""Counter of windows for which the rule returned a text that is not a status (UH-28)."""


@checked_on_failure
@dataclass(frozen=True, slots=True)
class Out:
    """An outgoing event: ``Out({"n": 2}, key="k")``; a plain value is the same as an Out with nothing else.

    An event that is a text needs an Out, because a returned text is a status.
    """

    value: Any
    """The value, which the step's format writes; None: no value, a tombstone for its key in every format."""
    key: str | None = None
    """The key of its Kafka message (TargetKey); None: none."""
    headers: Mapping[str, HeaderValue] | None = field(default_factory=dict)
    """The headers of its Kafka message (kafka): texts, bytes, or None, which is a header without a value."""
    topic: str | None = None
    """The topic of the message (TargetTopic); None: the topic of the destination."""
    branch: str | None = None
    """The step to which it goes instead of the next one (BranchName, UH-32)."""

    def __repr__(self) -> str:
        return fields_repr(self)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The results of a call of the aggregation rule, in order."""

    outs: list[Out]
    unchanged: bool = False
    """True if each result is the incoming event at its index, with its value unchanged (UH-27)."""
    counted: tuple[str, ...] = ()
    """Counters to raise for the result: DECLINED, EMPTIED, UNKNOWN_STATUS."""

    def __repr__(self) -> str:
        return fields_repr(self)


def as_outputs(returned: Any, call: Aggregation, events: Sequence[Event]) -> Outputs:
    """Returns the results of an aggregation rule, from its return value or from the call that it filled (UH-24 to
    UH-28).

    DECLINE: nothing. PASSTHROUGH: the events themselves. None or any other text: the content of ``call.out``, or
    nothing if it is not filled. A list, tuple or generator: an event for each element. Any other value: one event.
    ``call.headers`` applies to plain values, and fills unset fields of an Out.

    Raises RuleError for values that cannot be an event, and for headers that do not fit.
    """
    counted: tuple[str, ...] = ()
    if isinstance(returned, Iterator):
        returned = collect_events(returned)
    if isinstance(returned, str) or returned is None:
        if returned == DECLINE:
            return Outputs([], counted=(DECLINED,))
        if returned == PASSTHROUGH:
            outs = [
                Out(event.value, event.key, flat_headers(f"headers of event {index}", event.headers))
                for index, event in enumerate(events)
            ]
            changes = targets(call.headers, len(outs), one_for_all=True)
            return Outputs(
                [_with_changes(out, change) for out, change in zip(outs, changes, strict=True)], unchanged=True
            )
        counted = () if returned is None else (UNKNOWN_STATUS,)
        returned = call.out
    elif call.out is not None:
        raise RuleError("the rule sets call.out and also returns events", do="do only one of the two")
    if returned is None:
        return Outputs([], counted=(*counted, EMPTIED))
    values = list(returned) if isinstance(returned, (list, tuple, Iterator)) else [returned]
    outs = [_checked_out(value) for value in values]
    event_targets = targets(call.headers, len(outs))
    return Outputs(
        [_with_target(out, target) for out, target in zip(outs, event_targets, strict=True)], counted=counted
    )


def collect_events(returned: Iterator[Any]) -> Any:
    """Returns the items of a generator as a list; a status as its return value takes precedence. A generator that
    yields nothing counts as its return value, or as None."""
    values: list[Any] = []
    if not isinstance(returned, Generator):
        for value in returned:  # list(returned) could not be interrupted
            values.append(copy_of_yielded(value))  # noqa: PERF401
        return values
    while True:
        try:
            values.append(copy_of_yielded(next(returned)))
        except StopIteration as end:
            status = end.value if isinstance(end.value, str) else None
            if status in (DECLINE, PASSTHROUGH) or not values:
                return end.value
            if end.value is None or status is not None:
                return values
            raise RuleError(
                f"the rule yields events and also returns {shown(end.value)}", do="yield it, or return a list"
            ) from None


def copy_of_yielded(value: Any) -> Any:
    """Returns a yielded event, copied if it is a dict, which the rule may reuse."""
    if isinstance(value, Out):
        headers = dict(value.headers) if isinstance(value.headers, dict) else value.headers
        return replace(value, value=own_value(value.value), headers=headers)
    return own_value(value)


def _checked_out(value: Any) -> Out:
    if not isinstance(value, Out):
        if value is None:
            raise RuleError("None is among the events", do="leave it out, or write Out(None, key=...) for a tombstone")
        value = Out(value)
    if isinstance(value.value, (Iterator, Set, Out)):
        raise RuleError(f"{shown(value.value)} cannot be the value of an event", do="give a dict, list, text or number")
    key, headers = checked_key("key", value.key), flat_headers("headers", value.headers)
    topic, branch = checked_name("topic", value.topic), checked_name("branch", value.branch)
    return Out(value.value, key, headers, topic, branch)


def _with_target(out: Out, target: Target) -> Out:
    """Returns an event with unset fields filled from HEADERS."""
    if target == _NO_TARGET:
        return out
    return Out(
        out.value,
        target.key if out.key is None else out.key,
        {**target.headers, **(out.headers or {})},
        target.topic if out.topic is None else out.topic,
        target.branch if out.branch is None else out.branch,
    )


def _with_changes(out: Out, change: Target) -> Out:
    """Returns a passed-on event with the changes of HEADERS; its other headers stay."""
    if change == _NO_TARGET:
        return out
    key = out.key if change.key is None else change.key
    headers = {**(out.headers or {}), **change.headers}
    return replace(out, key=key, headers=headers, topic=change.topic, branch=change.branch)


_NO_TARGET = Target()


# Checks the results of rules for keys and times.


def as_key(returned: Any) -> str:
    """Returns a rule's key (UH-8): a text, possibly empty, or a whole number as text (42 is "42").

    Raises RuleError for other values, because an event without a key is in no window.
    """
    if type(returned) is str and returned.isascii():
        return returned
    if returned is None:
        raise RuleError("the key rule returned nothing", why="an event needs a key", do="return a text")
    return checked_text("the returned key", returned)


def as_time(returned: Any, pattern: DayTimePattern) -> DayTime:
    """Returns a rule's time of day (UH-23), given as a text in the step's ``timePattern``. Raises RuleError for other
    values."""
    try:
        return pattern.read(returned)
    except ConfigError as error:
        what = f"the time rule returned {shown(returned)}: {error.what}"
        raise RuleError(what, why=error.why, do=error.do) from error
