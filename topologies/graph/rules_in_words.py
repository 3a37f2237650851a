"""The windows and the time settings of a bolt, in words: what differs from Storm's, for people and for checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from policies.eviction import CountEvictionPolicy, TimeEvictionPolicy
from policies.protocol import EvictionPolicy, Policy, TriggerPolicy, is_own
from policies.trigger import CountTriggerPolicy, TimeTriggerPolicy
from topologies.graph.nodes.windowed import WindowedNode
from windowing.bolts.ready.unions import Union
from windowing.settings import DECLARED, WindowSettings
from windowing.settings.declaration import SaidBy
from windowing.settings.kinds import WindowKind
from windowing.settings.panes import PaneTrigger
from windowing.settings.rules import LateAction
from windowing.settings.triggers import CountTrigger, DailyByRule, DailyTrigger, KeyTrigger, RuleTrigger
from windowing.settings.words import trigger_in_words
from windowing.time.durations import Count, Duration

_BESIDE_RULES = {
    "length", "slide", "timestamp_extractor", "extractor_on_columns", "extractor_on_error",
    "extractor_on_truncation",
    *(name for name, declared in DECLARED.items() if declared.has_own_place),
}  # fmt: skip
"""What the JSON of a topology has a place for, beside the rules."""


def changed(settings: WindowSettings) -> dict[str, Any]:
    """The rules that are not Storm's, by their names, as plain JSON."""
    return {
        each.name: _plain(getattr(settings, each.name))
        for each in fields(settings)
        if each.compare and each.name not in _BESIDE_RULES and getattr(settings, each.name) != each.default
    }


def key_trigger_in_words(trigger: KeyTrigger) -> str:
    """When the window of a key fires: ``until 2 events, 100ms after the first or after the last``."""
    match trigger:
        case CountTrigger(count, timeout, from_first):
            return f"from the first event of a key until there are {count}{_timeouts(timeout, from_first=from_first)}"
        case RuleTrigger(rule, timeout, from_first):
            said = f"from the first event of a key until {_called(rule)} says so"
            return said + _timeouts(timeout, from_first=from_first)
        case DailyTrigger(time, most):
            return f"from the first event of a key until {time}, daily{_forgotten(most)}"
        case DailyByRule(rule, most):
            return f"from the first event of a key until the time that {_called(rule)} takes from it{_forgotten(most)}"


def capacity_in_words(events: int | None, size: int | None) -> str:
    """How much a window may hold: ``100,000 events or 64 MiB``; empty where there is no bound."""
    return " or ".join(
        [
            *([] if events is None else [f"{events:,} event{'' if events == 1 else 's'}"]),
            *([] if size is None else [_size(size)]),
        ]
    )


def _size(number: int) -> str:
    for power, unit in ((20, "MiB"), (10, "KiB")):
        if number % (1 << power) == 0:
            return f"{number >> power:,} {unit}"
    return f"{number:,} byte{'' if number == 1 else 's'}"


def _timeouts(timeout: Duration | None, *, from_first: bool) -> str:
    if timeout is None:
        return ""
    return f", or {timeout} after the {'first' if from_first else 'last'}"


def _forgotten(most: int | None) -> str:
    return "" if most is None else f"; forgotten after {most} empty days in a row"


def _called(rule: object) -> str:
    return getattr(rule, "__name__", type(rule).__name__)


def policies_in_words(eviction: EvictionPolicy, trigger: TriggerPolicy) -> str:
    """Windows that a policy of the user's own decides about; such a one goes by the name of its class."""
    holds = fires = ""
    if not is_own(eviction):
        match eviction:
            case CountEvictionPolicy(length):
                holds = f"the last {length}"
            case TimeEvictionPolicy(length, bounds):
                holds = f"the last {length}, {bounds.value}"
    if not is_own(trigger):
        match trigger:
            case CountTriggerPolicy(count):
                fires = "at every event" if count.value == 1 else f"every {count}"
            case TimeTriggerPolicy(slide):
                fires = f"every {slide}"
    return f"{holds or f'what {type(eviction).__name__} keeps'}, fired {fires or f'by {type(trigger).__name__}'}"


def policy_in_words(policy: Policy) -> str:
    """A policy of the user's own: its parameters, its moments, and what it keeps and reads."""
    every = getattr(policy, "every", None)
    shift = getattr(policy, "offset", None)
    words = [repr(policy)]
    if every is not None:
        words.append(f"moments every {every}" + (f", shifted by {shift}" if shift is not None and shift.micros else ""))
    if policy.forget_after is not None:
        words.append(f"forgets a key after {policy.forget_after} without an event")
    if policy.state_types:
        words.append("keeps " + ", ".join(f"{name} {kind.__name__}" for name, kind in policy.state_types.items()))
    read = policy.columns_read
    words.append("reads all columns" if read is None else f"reads {', '.join(sorted(read)) or 'no column'}")
    return "; ".join(words)


def rules_in_words(node: WindowedNode) -> Iterator[str]:
    """What of a bolt's time settings is not Storm's, and changes something, a sentence each, as their declarations have
    them."""
    settings = node.bolt.settings
    for name, declared in DECLARED.items():
        value = getattr(settings, name)
        if isinstance(declared.words, SaidBy) or value == declared.default or name in node.idle:
            continue
        if name == "output_time" and isinstance(node.bolt, Union):  # which has no windows to speak of
            continue
        said = declared.words(value, settings)
        yield from [said] if isinstance(said, str) and said else said


def late_in_words(node: WindowedNode, diverted: str) -> Iterator[str]:
    """What happens to the events that are turned away or moved; ``diverted``: of those that may go to a stream."""
    settings, arrival = node.bolt.settings, node.bolt.settings.arrival
    fates = {
        LateAction.DIVERT: diverted,
        LateAction.DROP: "dropped, and counted as such",
        LateAction.CUT: "what lasts beyond the watermark is cut to begin there, the rest dropped",
        LateAction.ERROR: "the first one stops the run",
    }
    early = arrival is not None and arrival.early is not None
    by_arrival = arrival.action if arrival is not None and arrival.late is not None else None
    moved = "moved to the watermark" if settings.late_action is LateAction.ADJUST else ""
    behind = moved or fates[settings.late_action]
    if by_arrival is None and not early:
        yield behind
        return
    if by_arrival is LateAction.ADJUST:
        yield "by arrival: moved to the earliest time that is in time"
    elif by_arrival is not None:
        yield f"by arrival: {fates[by_arrival]}"
    yield f"behind the watermark: {behind}"
    if early:
        yield f"early: {diverted}"


def _plain(value: Any) -> Any:  # noqa: PLR0911 - one for each type
    match value:
        case Enum():
            return value.value
        case Duration():
            return str(value)
        case Count():
            return value.value
        case dict():
            return value
        case tuple():
            return [_plain(each) for each in value]
        case PaneTrigger():
            return trigger_in_words(value)
        case CountTrigger() | RuleTrigger() | DailyTrigger() | DailyByRule():
            return key_trigger_in_words(value)
        case WindowKind():
            return value.in_words()
        case None | bool() | int() | str():
            return value
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return repr(value)
