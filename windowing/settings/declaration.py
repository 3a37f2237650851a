"""Declarations of settings: how a value is read, checked, shown and told apart from the default."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import datetime
from enum import Enum
from functools import cache, cached_property
from numbers import Integral
from typing import Any

from windowing.durations import Count, Duration, as_duration, as_every, as_shift
from windowing.errors import ConfigError
from windowing.settings.rules import SOURCE, START, Arrival, OutputTime, one_of
from windowing.timestamps import from_datetime

# How the value of a setting is read from what users give: in Python, and in scenario files.


SOURCE_ONLY = Count(1 << 62)
"""Interval that never ends: the only watermarks are those that the source puts in, or that are imported."""


@dataclass(frozen=True)
class Reader:
    """Reads one type of values of settings."""

    words: str
    """Description of a value, with its unit: ``a duration``."""
    read: Callable[[Any], Any]
    """Converts what a user gives to the value of a setting. Raises ConfigError for an invalid one."""
    choices: type[Enum] | None = None
    """The values of a closed choice; else None."""


@cache
def choice(choices: type[Enum]) -> Reader:
    """Returns a reader of the members of an Enum, each given as itself or by its value."""
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
    """Returns the names of existing partitions, as texts, on every input or per input. They are given as texts or whole
    numbers, each once. Raises ConfigError for other values."""
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
    if value == START:
        return START
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1_000
    try:
        return moment(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"an anchor of {value!r:.60}",
            why=str(error),
            do="give a datetime or ISO 8601 such as '2024-05-01T12:00:00Z', milliseconds since the epoch, or 'start'",
        ) from error


def moment(value: object) -> int:
    """Returns a datetime, or one as ISO 8601, in microseconds; without a zone it is UTC. Raises TypeError and
    ValueError for anything else, also for what is finer than microseconds."""
    if isinstance(value, datetime):
        return from_datetime(value)
    if not isinstance(value, str):
        raise TypeError("it is no moment")
    if _FINER.search(value):
        raise ValueError("it is finer than 1 microsecond")
    return from_datetime(datetime.fromisoformat(value))


_FINER = re.compile(r"[.,]\d{7,}")


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
ANCHOR = Reader("a datetime or ISO 8601, milliseconds since the epoch, or 'start'", _anchor)
IMPORTS = Reader("a mapping of inputs to the inputs whose watermarks they take", _imports)
PARTITIONS = Reader("the values of the column that exist, a list, or one for each input", read_partitions)
ARRIVAL = Reader("an Arrival", _arrival)
LISTED = Reader("keys, with `since=` from when on they are there", lambda value: value)


@cache
def as_it_is(words: str) -> Reader:
    """Returns a reader of a value that the method itself checks; ``words`` describe it."""
    return Reader(words, lambda value: value)


# The declaration of a setting: made once, at its field, and read by everything that deals with settings.


Words = Callable[[Any, Any], str | tuple[str, ...]]
"""Function of a value that is not the default, and of all settings (WindowSettings), that returns a sentence or
several; empty if the words of another setting say it."""


@dataclass(frozen=True)
class SaidBy:
    """Replaces words: names the place where ``windbolt describe`` shows the setting instead."""

    what: str
    """A setting whose words include this one, or a line of the description."""
    own_place: bool = False
    """True if the JSON of a topology has a key for it beside the rules: ``"lag"``, ``"bounds"``."""


class AdmittedBy(Enum):
    """Where the events of a bolt are admitted or found late, once a setting of it is not at its default.

    Settings that make a bolt hold its events (a key, sessions, a trigger of keys) belong to
    ``policies.choose_policies``: tasks that hold events always admit them.
    """

    READER = "the reader"
    """The task that reads them, with the watermark of the last tick: the setting changes nothing there."""
    TASK = "the bolt's task"
    """In event time, the bolt's task, which knows the watermark before each event."""
    TASK_IN_ANY_TIME = "the bolt's task, in any time"
    """The bolt's task, in processing time as well."""
    FOLLOWING_EVENTS = "the bolt's task, with a watermark that follows events"
    """In event time, the bolt's task; and the watermark follows the events in their order of arrival, not the ticks."""


_KEY = "declaration"


@dataclass(frozen=True)
class Declaration:
    """One setting: how it is given, what it needs, and how it is shown."""

    name: str
    """Name of its field in WindowSettings."""
    default: Any
    reads: Reader
    method: str
    """The method of WindowedBolt that sets it."""
    argument: str
    """The argument of that method; empty if the method sets this alone."""
    given_as: str
    """The part of the argument, if several settings share one argument: ``Panes(...)``; else empty."""
    preset: bool
    """True if a preset decides it."""
    needs: tuple[str, ...]
    """Conditions without which the setting changes nothing and is refused; the error names the first missing one. These
    are names in ``NEEDS`` (``topologies/graph/effects.py``)."""
    scenario: str | None
    """Name in scenario files; None if those have another way to say it, or none."""
    resumes: bool | str
    """True if a run may continue with another value on the same checkpoint; a text gives the exceptions."""
    admitted_by: AdmittedBy
    """The part of a run that admits the events if the value is not the default."""
    words: Words | SaidBy
    """Text of ``windbolt describe`` for the setting."""

    @property
    def has_own_place(self) -> bool:
        """True if the JSON of a topology has a key for it beside the rules."""
        return isinstance(self.words, SaidBy) and self.words.own_place

    @property
    def call(self) -> str:
        """The call with which a user sets it: ``with_watermark(every=...)``."""
        if self.given_as:
            return f"{self.method}({self.given_as})"
        return f"{self.method}({self.argument}=...)" if self.argument else self.method

    def read(self, value: Any) -> Any:
        """Convert what a user gives to the setting's value. Raises ConfigError for an invalid one.

        None resets a setting to its value without the call, if None is the argument's default.
        """
        taken_back = value is None and self.default is None and self.argument
        return None if taken_back else self.reads.read(value)


def setting(
    default: Any,
    reads: Reader,
    call: str,
    *,
    admitted_by: AdmittedBy,
    words: Words | SaidBy,
    given_as: str = "",
    preset: bool = False,
    needs: tuple[str, ...] = (),
    scenario: str | None = "",
    resumes: bool | str = True,
) -> Any:
    """Returns a field of WindowSettings with its declaration; ``call`` is ``method`` or ``method.argument``.

    ``scenario`` is the name in scenario files, the field's own unless given; see ``Declaration`` for the others.
    """
    method, _, argument = call.partition(".")
    about = {
        "reads": reads, "method": method, "argument": argument, "given_as": given_as, "preset": preset, "needs": needs,
        "scenario": scenario, "resumes": resumes, "admitted_by": admitted_by, "words": words,
    }  # fmt: skip
    return field(default=default, metadata={_KEY: about})


def declarations(settings: type[Any]) -> Mapping[str, Declaration]:
    """Returns the declaration of each declared setting by its name, in order. Raises ValueError if two settings are
    given by the same call: one would silently replace the other."""
    found = {each.name: _declaration(each) for each in fields(settings) if _KEY in each.metadata}
    by_call: dict[str, str] = {}
    for name, declared in found.items():
        if declared.call in by_call:
            raise ValueError(f"the settings {by_call[declared.call]} and {name} are both given by {declared.call}")
        by_call[declared.call] = name
    return found


def by_argument(declared: Mapping[str, Declaration]) -> Mapping[tuple[str, str], Declaration]:
    """Returns, for each argument of a method, the setting that it sets; arguments that several settings share are left
    out."""
    return {(each.method, each.argument): each for each in declared.values() if not each.given_as}


def _declaration(each: Field[Any]) -> Declaration:
    assert each.default is not MISSING
    about = dict(each.metadata[_KEY])
    if about["scenario"] == "":
        about["scenario"] = each.name
    return Declaration(each.name, each.default, **about)


# Keys that a user lists: their windows fire without events before any event has come.


_CALL = "with_empty_windows(until='1h', keys=['a', 'b'], since='2024-05-01T12:00:00Z')"


@dataclass(frozen=True)
class ListedKeys:
    """The keys that are there from a moment on, whether or not they have had events."""

    values: tuple[Any, ...]
    """A value for each key; a tuple of values if the key has several columns."""
    since: int
    """The moment, in microseconds since the epoch."""

    @cached_property
    def digest(self) -> str:
        """Returns a text that distinguishes lists."""
        return hashlib.sha256(repr((self.values, self.since)).encode()).hexdigest()[:16]

    @staticmethod
    def of(keys: Iterable[Any] | None, since: datetime | str | None) -> ListedKeys | None:
        """Returns the keys that a user lists; None if neither argument is given. Raises ConfigError if one is missing
        or wrong."""
        if keys is None and since is None:
            return None
        if keys is None or since is None:
            missing, there = ("keys", "since") if keys is None else ("since", "keys")
            raise ConfigError(
                f"with_empty_windows({there}=...) without {missing}=",
                why="listed keys are known from a moment on; the others from their first event on",
                do=f"give both: {_CALL}",
            )
        values = _distinct(keys)
        return ListedKeys(values, _moment(since))


def _distinct(keys: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise ConfigError(
            f"with_empty_windows(keys={keys!r:.60})", why="keys are listed one by one", do=f"give a list: {_CALL}"
        )
    values = tuple(tuple(each) if isinstance(each, list) else each for each in keys)
    if not values:
        raise ConfigError("with_empty_windows(keys=[])", why="no key is listed", do="list some, or leave keys= out")
    twice = [text for text, times in Counter(map(repr, values)).items() if times > 1]
    if twice:
        raise ConfigError(f"with_empty_windows lists {', '.join(twice[:3])} twice", do="list each key once")
    return values


def _moment(since: datetime | str) -> int:
    try:
        return moment(since)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"with_empty_windows(since={since!r:.60})",
            why=str(error),
            do="give a datetime, or ISO 8601 such as '2024-05-01T12:00:00Z' (without a zone it is UTC)",
        ) from error
