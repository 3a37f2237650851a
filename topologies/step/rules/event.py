"""An event as the rules see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from windowing.calls.checked import checked_on_failure
from windowing.data.reprs import of_fields


@checked_on_failure
@dataclass(frozen=True, slots=True)
class Event:
    """One event that came in (UH-9, UH-19, UH-29); ``Event({"id": "42"})`` is enough for a test."""

    value: Any
    """The content of the message, read by the step's format (IN)."""
    topic: str = ""
    """The topic it was read from (SourceTopic)."""
    key: str | None = None
    """The key of its Kafka message as text (SourceKey); None: it has none."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers of its Kafka message (kafka.headers).

    Headers that are not UTF-8 text, or have no value, are shown as text, and keep their bytes where they are copied
    (``HeaderText``).
    """

    def __repr__(self) -> str:
        return of_fields(self)


class _Bare:
    """An event while it is made: setting the fields of a frozen one costs three times as much."""

    __slots__ = ("headers", "key", "topic", "value")

    def __init__(self, value: Any, topic: str, key: str | None, headers: Mapping[str, str]) -> None:
        self.value, self.topic, self.key, self.headers = value, topic, key, headers


def events_of(
    values: Iterable[Any], topics: Iterable[str], keys: Iterable[str | None], headers: Iterable[Mapping[str, str]]
) -> list[Event]:
    """Many events, by their fields."""
    events: list[Any] = list(map(_Bare, values, topics, keys, headers))
    for event in events:
        event.__class__ = Event
    return events
