"""HEADERS of the aggregation rule: where events go, and with which key and headers (UH-25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from topologies.step.rules.headers import HeaderText, HeaderValue
from topologies.step.rules.rule_errors import RuleError

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
        raise RuleError(f"HEADERS is {headers!r:.80}", do="make it a dict, or a list of dicts for several events")
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
        return value
    raise RuleError(f"{name} is {value!r:.80}", do="give a name, or leave it out")


def checked_text(name: str, value: Any) -> str:
    """A text, or a whole number as text. Raises RuleError for anything else, and for text that cannot be encoded."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, str):
        raise RuleError(f"{name} is {value!r:.80}", why="it must be a text or a whole number", do="make it a text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise RuleError(f"{name} is {value!r:.80}", why="that is not valid Unicode text", do="fix it") from None
    return str(value)


def flat_headers(name: str, headers: Any) -> Mapping[str, HeaderValue]:
    """The headers of a Kafka message by name: texts, bytes, or None for no value."""
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise RuleError(f"{name} is {headers!r:.80}", do="make it a dict of texts")
    for key, value in headers.items():
        if not isinstance(key, str):
            raise RuleError(f"{name} has the name {key!r:.80}", do="make it a text")
        if isinstance(value, (Mapping, list, tuple)):
            raise RuleError(f"{name}[{key!r:.40}] is {value!r:.80}", why="headers are not nested", do="make it a text")
    return {
        checked_text(f"a name in {name}", key): _header(f"{name}[{key!r:.40}]", value) for key, value in headers.items()
    }


def _header(name: str, value: Any) -> HeaderValue:
    if value is None or isinstance(value, HeaderText):
        return value
    return bytes(value) if isinstance(value, (bytes, bytearray)) else checked_text(name, value)


def _target(headers: Any) -> Target:
    if not isinstance(headers, Mapping):
        raise RuleError(f"HEADERS holds {headers!r:.80}", do="make it a dict for each event")
    if unknown := [repr(name)[:40] for name in headers if name not in _NAMES]:
        raise RuleError(f"HEADERS has {', '.join(unknown)}", do=f"use {', '.join(_NAMES[:-1])} and {_NAMES[-1]}")
    return Target(
        checked_name("TargetTopic", headers.get("TargetTopic")),
        checked_key("TargetKey", headers.get("TargetKey")),
        flat_headers("kafka", headers.get("kafka")),
        checked_name("BranchName", headers.get("BranchName")),
    )
