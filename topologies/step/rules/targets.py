"""HEADERS of the aggregation rule: where events go, and with which key and headers (UH-25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from topologies.step.rules.headers import HeaderText, HeaderValue
from topologies.step.rules.rule_errors import RuleError, shown

_NAMES = ("TargetTopic", "TargetKey", "kafka", "BranchName")


@dataclass(frozen=True, slots=True)
class Target:
    """Where an event goes; None fields are left open."""

    topic: str | None = None
    key: str | None = None
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    branch: str | None = None


def targets(headers: Any, count: int, *, one_for_all: bool = False) -> list[Target]:
    """The HEADERS of each of ``count`` events: a dict for one event, or a list in their order.

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
    """A key: a text, or a whole number as text; None is none."""
    return None if value is None else checked_text(name, value)


def checked_name(name: str, value: Any) -> str | None:
    """The name of a topic or a step; None is none."""
    if value is None or (isinstance(value, str) and value):
        return None if value is None else str.__str__(value)
    raise RuleError(f"{name} is {shown(value)}", do="give a name, or leave it out")


def checked_text(name: str, value: Any) -> str:
    """A text, or a whole number as text. Raises RuleError for anything else, and for text that cannot be encoded."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        try:
            return int.__repr__(int(value))
        except ValueError:
            raise RuleError(f"{name} is a whole number with too many digits", do="make it a text") from None
    if not isinstance(value, str):
        raise RuleError(f"{name} is {shown(value)}", why="it must be a text or a whole number", do="make it a text")
    text = str.__str__(value)  # a subclass may have another one of its own
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise RuleError(f"{name} is {shown(text)}", why="that is not valid Unicode text", do="fix it") from None
    return text


def flat_headers(name: str, headers: Any) -> Mapping[str, HeaderValue]:
    """The headers of a Kafka message by name: texts, bytes, or None for no value."""
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise RuleError(f"{name} is {shown(headers)}", do="make it a dict of texts")
    for key, value in headers.items():
        if not isinstance(key, str):
            raise RuleError(f"{name} has the name {shown(key)}", do="make it a text")
        if isinstance(value, (Mapping, list, tuple)):
            told = f"{name}[{shown(key, 40)}] is {shown(value)}"
            raise RuleError(told, why="headers are not nested", do="make it a text")
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
