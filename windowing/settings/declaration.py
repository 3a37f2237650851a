"""Declarations of settings: how values are read, where they take effect, and how they are described."""

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

# Readers of values, from Python and from scenario files.


SOURCE_ONLY = Count(1 << 62)
"""An interval that never ends: all watermarks are sent by the source or imported."""


@dataclass(frozen=True)
class Reader:
    """Reads values of one type."""

    words: str
    """Description of the values: ``a duration``."""
    read: Callable[[Any], Any]
    """Converts the argument of a user to the value of the setting. Raises ConfigError for an invalid argument."""
    choices: type[Enum] | None = None
    """The Enum of which the values are members; else None."""


@cache
def choice(choices: type[Enum]) -> Reader:
    """Returns a reader of the members of an Enum, which users give as members or by their values."""
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
    """Returns the names of the existing partitions, on every input or per input, from lists of texts or whole numbers.
    Raises ConfigError for other values, and for a partition that is listed twice."""
    if isinstance(value, Mapping) and value:
        return {str(label): _partition_names(values) for label, values in value.items()}
    return _partition_names(value)


def _partition_names(values: object) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ConfigError(
            f"partitions={values!r} is not a list", do="give a list of the column's values, such as [0, 1, 2]"
        )
    listed = tuple(values)
    names = tuple(map(str, listed))
    all_valid = all(isinstance(name, str | Integral) and not isinstance(name, bool) and name != "" for name in listed)
    if not listed or not all_valid or len(set(names)) < len(names):
        raise ConfigError(
            f"partitions={list(listed)!r:.80}",
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
        return parse_moment(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"an anchor of {value!r:.60}",
            why=str(error),
            do="give a datetime or ISO 8601 such as '2024-05-01T12:00:00Z', milliseconds since the epoch, or 'start'",
        ) from error


def parse_moment(value: object) -> int:
    """Convert a datetime, or a text in ISO 8601, to microseconds since the epoch; without a zone it is in UTC. Raises
    TypeError or ValueError for anything else, and for times that are finer than microseconds."""
    if isinstance(value, datetime):
        return from_datetime(value)
    if not isinstance(value, str):
        raise TypeError("it is no moment")
    if _FINER_THAN_MICROS.search(value):
        raise ValueError("it is finer than 1 microsecond")
    return from_datetime(datetime.fromisoformat(value))


_FINER_THAN_MICROS = re.compile(r"[.,]\d{7,}")


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
def unchecked(words: str) -> Reader:
    """Returns a reader that does not check values, because the method of the setting does; ``words`` describe them."""
    return Reader(words, lambda value: value)


# Declarations.


Words = Callable[[Any, Any], str | tuple[str, ...]]
"""A function that describes a value other than the default, by one or more sentences; its second argument is all
settings (WindowSettings). It returns "" if the description of another setting includes the value."""


@dataclass(frozen=True)
class DescribedBy:
    """Used in place of ``Words`` for a setting that ``windbolt describe`` shows elsewhere."""

    what: str
    """The name of the setting that includes this one in its description, or of a line of the description."""
    has_json_key: bool = False
    """True if the setting has its own key in the JSON of a topology, ``"lag"`` or ``"bounds"``, beside the rules."""


class AdmittedBy(Enum):
    """The process that decides whether an event is admitted or late, if a setting is not at its default.

    For settings with which a bolt's tasks retain events (a key, sessions, a trigger of keys),
    ``policies.choose_policies`` decides: these tasks always admit their events.
    """

    READER = "the reader"
    """The process that reads events, with the watermark of the last tick: the setting does not change this."""
    TASK = "the bolt's task"
    """In event time, the bolt's task, which knows the watermark before each event."""
    TASK_IN_ANY_TIME = "the bolt's task, in any time"
    """The bolt's task, in event time and in processing time."""
    FOLLOWING_EVENTS = "the bolt's task, with a watermark that follows events"
    """In event time, the bolt's task; besides, the watermark advances with events in their order of arrival, not at
    ticks."""


_KEY = "declaration"


@dataclass(frozen=True)
class Declaration:
    """The declaration of one setting."""

    name: str
    """Name of its field in WindowSettings."""
    default: Any
    reads: Reader
    method: str
    """The method of WindowedBolt that sets it."""
    argument: str
    """The argument of this method; "" if the method sets only this setting."""
    given_as: str
    """The form of the argument, if several settings share one argument: ``Panes(...)``; else ""."""
    preset: bool
    """True if presets decide the setting."""
    needs: tuple[str, ...]
    """Conditions without which the setting has no effect and is refused: names in ``NEEDS``
    (``topologies/graph/effects.py``). The error names the first one that is not met."""
    scenario: str | None
    """The name in scenario files; None if these write the setting in another way, or not at all."""
    resumes: bool | str
    """True if a run may continue on a checkpoint with another value; a text names exceptions."""
    admitted_by: AdmittedBy
    """The process that admits events if the value is not the default."""
    words: Words | DescribedBy
    """The description of the setting in ``windbolt describe``."""

    @property
    def has_json_key(self) -> bool:
        """True if the setting has its own key in the JSON of a topology, beside the rules."""
        return isinstance(self.words, DescribedBy) and self.words.has_json_key

    @property
    def call(self) -> str:
        """The call by which users set the setting: ``with_watermark(every=...)``."""
        if self.given_as:
            return f"{self.method}({self.given_as})"
        return f"{self.method}({self.argument}=...)" if self.argument else self.method

    def read(self, value: Any) -> Any:
        """Convert the argument of a user to the value of the setting. Raises ConfigError for an invalid argument.

        None resets the setting if its default is None.
        """
        is_reset = value is None and self.default is None and self.argument
        return None if is_reset else self.reads.read(value)


def setting(
    default: Any,
    reads: Reader,
    call: str,
    *,
    admitted_by: AdmittedBy,
    words: Words | DescribedBy,
    given_as: str = "",
    preset: bool = False,
    needs: tuple[str, ...] = (),
    scenario: str | None = "",
    resumes: bool | str = True,
) -> Any:
    """Returns a dataclass field with the declaration of a setting.

    ``call``: ``method`` or ``method.argument``. ``scenario``: "" for the name of the field. See ``Declaration`` for the
    other arguments.
    """
    method, _, argument = call.partition(".")
    arguments = {
        "reads": reads, "method": method, "argument": argument, "given_as": given_as, "preset": preset, "needs": needs,
        "scenario": scenario, "resumes": resumes, "admitted_by": admitted_by, "words": words,
    }  # fmt: skip
    return field(default=default, metadata={_KEY: arguments})


def declarations(settings: type[Any]) -> Mapping[str, Declaration]:
    """Returns the declarations of a settings class, by the names of the settings, in order. Raises ValueError if one
    call sets two settings, because one of them would silently replace the other."""
    by_name = {each.name: _declaration(each) for each in fields(settings) if _KEY in each.metadata}
    by_call: dict[str, str] = {}
    for name, declared in by_name.items():
        if declared.call in by_call:
            raise ValueError(f"the settings {by_call[declared.call]} and {name} are both given by {declared.call}")
        by_call[declared.call] = name
    return by_name


def by_argument(declared: Mapping[str, Declaration]) -> Mapping[tuple[str, str], Declaration]:
    """Returns the declarations by (method, argument), without those of arguments that several settings share."""
    return {(each.method, each.argument): each for each in declared.values() if not each.given_as}


def _declaration(each: Field[Any]) -> Declaration:
    assert each.default is not MISSING
    arguments = dict(each.metadata[_KEY])
    if arguments["scenario"] == "":
        arguments["scenario"] = each.name
    return Declaration(each.name, each.default, **arguments)


# Listed keys, whose empty windows fire before their first event.


_CALL = "with_empty_windows(until='1h', keys=['a', 'b'], since='2024-05-01T12:00:00Z')"


@dataclass(frozen=True)
class ListedKeys:
    """Keys that exist from a moment on, whether or not they have had events."""

    values: tuple[Any, ...]
    """The value of each key; a tuple of values if keys have several columns."""
    since: int
    """The moment from which the keys exist, in microseconds since the epoch."""

    @cached_property
    def digest(self) -> str:
        """A hash of the keys and the moment, as text."""
        return hashlib.sha256(repr((self.values, self.since)).encode()).hexdigest()[:16]

    @staticmethod
    def of(keys: Iterable[Any] | None, since: datetime | str | None) -> ListedKeys | None:
        """Returns the listed keys; None if neither argument is given. Raises ConfigError if only one is given, or one
        is invalid."""
        if keys is None and since is None:
            return None
        if keys is None or since is None:
            absent, present = ("keys", "since") if keys is None else ("since", "keys")
            raise ConfigError(
                f"with_empty_windows({present}=...) without {absent}=",
                why="listed keys are known from a moment on; the others from their first event on",
                do=f"give both: {_CALL}",
            )
        values = _distinct_keys(keys)
        return ListedKeys(values, _read_since(since))


def _distinct_keys(keys: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise ConfigError(
            f"with_empty_windows(keys={keys!r:.60})", why="keys are listed one by one", do=f"give a list: {_CALL}"
        )
    values = tuple(tuple(each) if isinstance(each, list) else each for each in keys)
    if not values:
        raise ConfigError("with_empty_windows(keys=[])", why="no key is listed", do="list some, or leave keys= out")
    repeated = [text for text, times in Counter(map(repr, values)).items() if times > 1]
    if repeated:
        raise ConfigError(f"with_empty_windows lists {', '.join(repeated[:3])} twice", do="list each key once")
    return values


def _read_since(since: datetime | str) -> int:
    try:
        return parse_moment(since)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"with_empty_windows(since={since!r:.60})",
            why=str(error),
            do="give a datetime, or ISO 8601 such as '2024-05-01T12:00:00Z' (without a zone it is UTC)",
        ) from error
