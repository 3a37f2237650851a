"""How the value of a setting is read from what users give: in Python, and in scenario files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from numbers import Integral
from typing import Any

from windowing.errors import ConfigError
from windowing.settings.rules import SOURCE, START, Arrival, OutputTime, one_of
from windowing.time.durations import Count, Duration, as_duration, as_every, as_shift
from windowing.time.timestamps import from_datetime

SOURCE_ONLY = Count(1 << 62)
"""As often as never: the watermarks are those that the source puts in, or that are imported."""


@dataclass(frozen=True)
class Reader:
    """One type of values of settings."""

    words: str
    """What a value is, with its unit: ``a duration``."""
    read: Callable[[Any], Any]
    """Converts what a user gives to the value of a setting. Raises ConfigError for an invalid one."""
    choices: type[Enum] | None = None
    """For a closed choice: its values."""


@cache
def choice(choices: type[Enum]) -> Reader:
    """One of the members of an Enum, itself or by its value."""
    return Reader(" or ".join(repr(each.value) for each in choices), lambda value: one_of(choices, value), choices)


def _duration_above_zero(value: Any) -> Duration:
    duration = as_duration(value)
    if duration.micros == 0:
        raise ConfigError(f"a duration of {value!r}", why="it must be above zero", do="make it longer, or leave it out")
    return duration


def _bytes(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ConfigError(f"{value!r} bytes", why="it must be a whole number above zero", do="give one such as 2**30")
    return int(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{value!r} is neither True nor False", do="give one of them")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(
            f"{value!r} is not a name", why="columns and streams are given by name", do="give the name as a text"
        )
    return value


def _stream(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{value!r} is not the name of a stream", do="give a text such as 'late'")
    return value


def _partition(value: object) -> object:
    return SOURCE if value is SOURCE else _name(value)


def read_partitions(value: object) -> tuple[str, ...] | dict[str, tuple[str, ...]]:
    """The names of partitions that exist, as texts, on every input or per input.

    They are given as texts or whole numbers, each once. Raises ConfigError for what names none.
    """
    if isinstance(value, Mapping) and value:
        return {str(label): _existing(values) for label, values in value.items()}
    return _existing(value)


def _existing(values: object) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ConfigError(
            f"partitions={values!r} is not a list", do="give a list of the column's values, such as [0, 1, 2]"
        )
    given = tuple(values)
    names = tuple(map(str, given))
    sound = all(isinstance(name, str | Integral) and not isinstance(name, bool) and name != "" for name in given)
    if not given or not sound or len(set(names)) < len(names):
        raise ConfigError(
            f"partitions={list(given)!r:.80}",
            why="they are the values of the column that exist, texts or whole numbers, each once",
            do="give a list like [0, 1, 2]",
        )
    return names


def _arrival(value: object) -> Arrival:
    if not isinstance(value, Arrival):
        raise ConfigError(
            f"an arrival of {value!r:.60}",
            why="it says which column has the time of arrival, and how far an event may be from it",
            do='give Arrival("arrived", early="5m", late="5s")',
        )
    return value


def _anchor(value: object) -> str | int:
    if isinstance(value, datetime):
        return from_datetime(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1_000
    if value != START:
        raise ConfigError(f"an anchor of {value!r}", do="give a datetime, milliseconds since the epoch, or 'start'")
    return START


def _imports(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for pair in value.items() for each in pair):
        raise ConfigError(
            f"imports of watermarks from {value!r:.60}",
            why="each input that takes watermarks names the input that it takes them from",
            do="give a mapping such as {'lookup': 'data'}",
        )
    return dict(value)


def _edge(value: Any) -> OutputTime:
    edge: OutputTime = one_of(OutputTime, value)
    if edge is OutputTime.LAST:
        raise ConfigError(
            f"{value!r} is not an edge of windows",
            why="a watermark follows the ends of windows, or the start of the earliest one",
            do="use 'window end', which is what rows at the last microsecond of windows need",
        )
    return edge


DURATION = Reader("a duration", as_duration)
ABOVE_ZERO = Reader("a duration above zero", _duration_above_zero)
SHIFT = Reader("a duration, with a minus sign: back", as_shift)
EDGE = Reader("'window end' or 'window start'", _edge, OutputTime)
EVERY = Reader("a number of events, or a duration above zero", as_every)
BYTES = Reader("a number of bytes above zero", _bytes)
FLAG = Reader("True or False", _flag)
NAME = Reader("the name of a column", _name)
STREAM = Reader("the name of a stream", _stream)
PARTITION = Reader("the name of a column, or SOURCE", _partition)
ANCHOR = Reader("a datetime, milliseconds since the epoch, or 'start'", _anchor)
IMPORTS = Reader("a mapping of inputs to the inputs whose watermarks they take", _imports)
PARTITIONS = Reader("the values of the column that exist, a list, or one for each input", read_partitions)
ARRIVAL = Reader("an Arrival", _arrival)
LISTED = Reader("keys, with `since=` from when on they are there", lambda value: value)


@cache
def as_it_is(words: str) -> Reader:
    """A value that the method itself checks; ``words`` say what it is."""
    return Reader(words, lambda value: value)
