"""The results of the aggregation rule: events, and where each goes."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final

from topologies.step.rules.aggregation import Aggregation
from topologies.step.rules.event import Event
from topologies.step.rules.headers import HeaderValue
from topologies.step.rules.rule_errors import RuleError, shown
from topologies.step.rules.targets import Target, checked_key, checked_name, flat_headers, targets
from windowing.calls.checked import checked_on_failure
from windowing.data.reprs import of_fields

DECLINE: Final = "decline"
"""Returned by the aggregation rule: these events produce nothing (UH-26)."""
PASSTHROUGH: Final = "passthrough"
"""Returned by the aggregation rule: the events are passed on unchanged; ``call.headers`` may redirect them (UH-27)."""

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

    A text that is to be an event needs an Out, because a returned text is a status.
    """

    value: Any
    """The value that the step's format writes; None: no value, a tombstone for its key, whatever the format is."""
    key: str | None = None
    """The key of its Kafka message (TargetKey); None: none."""
    headers: Mapping[str, HeaderValue] | None = field(default_factory=dict)
    """The headers of its Kafka message (kafka): texts, bytes, or None, which is a header without a value."""
    topic: str | None = None
    """The topic it goes to (TargetTopic); None: that of the destination."""
    branch: str | None = None
    """The step it goes to instead of the next one (BranchName, UH-32)."""

    def __repr__(self) -> str:
        return of_fields(self)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The results of a call of the aggregation rule, in order."""

    outs: list[Out]
    unchanged: bool = False
    """Whether each result is the incoming event at its index, whose value is passed on unchanged (UH-27)."""
    counted: tuple[str, ...] = ()
    """What to count about the answer: DECLINED, EMPTIED, UNKNOWN_STATUS."""

    def __repr__(self) -> str:
        return of_fields(self)


def as_outputs(returned: Any, call: Aggregation, events: Sequence[Event]) -> Outputs:
    """The results of what an aggregation rule returned, or filled in its call (UH-24 to UH-28).

    DECLINE: nothing. PASSTHROUGH: the events themselves. None or any other text: the content of ``call.out``, nothing
    if it is not filled. A list, tuple or generator: an event of each element. Anything else: one event.
    ``call.headers`` says where plain values go, and what an Out leaves open.

    Raises RuleError for what cannot be an event, and for headers that do not fit.
    """
    counted: tuple[str, ...] = ()
    if isinstance(returned, Iterator):
        returned = collected(returned)
    if isinstance(returned, str) or returned is None:
        if returned == DECLINE:
            return Outputs([], counted=(DECLINED,))
        if returned == PASSTHROUGH:
            outs = [
                Out(event.value, event.key, flat_headers(f"headers of event {index}", event.headers))
                for index, event in enumerate(events)
            ]
            changes = targets(call.headers, len(outs), one_for_all=True)
            return Outputs([_changed(out, change) for out, change in zip(outs, changes, strict=True)], unchanged=True)
        counted = () if returned is None else (UNKNOWN_STATUS,)
        returned = call.out
    elif call.out is not None:
        raise RuleError("the rule sets call.out and also returns events", do="do only one of the two")
    if returned is None:
        return Outputs([], counted=(*counted, EMPTIED))
    values = list(returned) if isinstance(returned, (list, tuple, Iterator)) else [returned]
    outs = [_out(value) for value in values]
    places = targets(call.headers, len(outs))
    return Outputs([_sent(out, place) for out, place in zip(outs, places, strict=True)], counted=counted)


def collected(returned: Iterator[Any]) -> Any:
    """The items of a generator as a list; a status that it returns at its end takes precedence. A generator that yields
    nothing is what it returns: None."""
    values: list[Any] = []
    if not isinstance(returned, Generator):
        for value in returned:  # no list(returned), which nothing could interrupt
            values.append(value)  # noqa: PERF402
        return values
    while True:
        try:
            values.append(next(returned))
        except StopIteration as end:
            status = end.value if isinstance(end.value, str) else None
            if status in (DECLINE, PASSTHROUGH) or not values:
                return end.value
            if end.value is None or status is not None:
                return values
            raise RuleError(
                f"the rule yields events and also returns {shown(end.value)}", do="yield it, or return a list"
            ) from None


def _out(value: Any) -> Out:
    if not isinstance(value, Out):
        if value is None:
            raise RuleError("None is among the events", do="leave it out, or write Out(None, key=...) for a tombstone")
        value = Out(value)
    if isinstance(value.value, (Iterator, Set, Out)):
        raise RuleError(f"{shown(value.value)} cannot be the value of an event", do="give a dict, list, text or number")
    key, headers = checked_key("key", value.key), flat_headers("headers", value.headers)
    topic, branch = checked_name("topic", value.topic), checked_name("branch", value.branch)
    return Out(value.value, key, headers, topic, branch)


def _sent(out: Out, place: Target) -> Out:
    """An event with its open fields filled from HEADERS."""
    if place == _OPEN:
        return out
    return Out(
        out.value,
        place.key if out.key is None else out.key,
        {**place.headers, **(out.headers or {})},
        place.topic if out.topic is None else out.topic,
        place.branch if out.branch is None else out.branch,
    )


def _changed(out: Out, change: Target) -> Out:
    """An event passed on with the changes of HEADERS; its other headers stay."""
    if change == _OPEN:
        return out
    key = out.key if change.key is None else change.key
    headers = {**(out.headers or {}), **change.headers}
    return replace(out, key=key, headers=headers, topic=change.topic, branch=change.branch)


_OPEN = Target()
