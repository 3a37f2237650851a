"""The values that scenario files write: how each is read, checked, and written again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, model_validator

from topologies.io.times import parse_end, parse_time, written
from windowing.errors import ScenarioError
from windowing.settings import azure_words
from windowing.settings.panes import PaneMode
from windowing.settings.readers import read_partitions
from windowing.settings.rules import START, IdleRule, LateAction
from windowing.time.durations import Count, Duration, Shift, as_duration, as_every, as_extent, as_shift

E = TypeVar("E", bound=Enum)


def _duration(value: object) -> Duration:
    if isinstance(value, Duration | timedelta | str):
        return as_duration(value)
    raise ScenarioError(f"expected a duration, found {value!r}", do="write it like '20ms', '5s' or '2m'")


def _extent(value: object) -> Duration | Count:
    if isinstance(value, Duration | Count | timedelta | str | int) and not isinstance(value, bool):
        return as_extent(value)
    raise ScenarioError(f"expected a number of events or a duration, found {value!r}", do="write 5 or '20s'")


def _every(value: object) -> Duration | Count:
    if isinstance(value, Duration | Count | timedelta | str | int) and not isinstance(value, bool):
        return as_every(Count(value) if isinstance(value, int) else value, "once")
    raise ScenarioError(f"expected a number of events or a duration, found {value!r}", do="write 1 or '5s'")


def _count(value: object) -> Count:
    if isinstance(value, Count):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Count(value)
    raise ScenarioError(f"expected a number, found {value!r}", do="write 2")


def _positive(value: object) -> Duration:
    duration = _duration(value)
    if duration.micros == 0:
        raise ScenarioError("expected a duration above zero, found '0'", do="leave the setting out")
    return duration


def _shift(value: object) -> Shift:
    if isinstance(value, Shift | Duration | timedelta | str):
        return as_shift(value)
    raise ScenarioError(f"expected a duration, found {value!r}", do="write it like '5s', '8h' or '-8h'")


def _delay(value: object) -> str:
    if isinstance(value, str) and value.strip().startswith("-"):
        return f"-{_duration(value.strip()[1:])}"
    return str(_duration(value))


def _azure_action(value: object) -> LateAction:
    if isinstance(value, LateAction | str):
        return azure_words.late_action(value)
    raise ScenarioError(f"expected 'adjust', 'drop' or 'error', found {value!r}")


def _azure_span(value: object) -> Duration:
    if isinstance(value, str):
        return azure_words.time_span("tolerance", value)
    return _duration(value)


def _azure_tolerance(value: object) -> Duration | None:
    unlimited = value is None or (value in azure_words.UNLIMITED and not isinstance(value, bool))
    return None if unlimited else azure_words.late_tolerance(_azure_span(value))


def _anchor(value: object) -> int | str:
    return START if value == START else parse_time(value)


def _name(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ScenarioError(f"expected an id (a text), found {value!r}")


def _names(value: object) -> tuple[str, ...]:
    """One name, or a list of them."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) and name for name in names):
        raise ScenarioError(f"expected a list of columns, found {value!r}", do="write [user]")
    return tuple(names)


def _times_of_day(value: object) -> tuple[str, ...]:
    """Local times; YAML reads 14:00 without quotes as a number."""
    if not isinstance(value, list | tuple) or not value or not all(isinstance(text, str) for text in value):
        raise ScenarioError(
            f"expected a list of times of day, found {value!r}", do='write ["06:00", "14:00"], in quotes'
        )
    return tuple(value)


def _yes(value: object) -> bool:
    if value is True:
        return True
    shown = "false" if value is False else repr(value)
    raise ScenarioError(f"expected true, found {shown}", do="leave it out")


def one_of(value: object, choices: type[E]) -> E:
    """A closed choice by its value; ScenarioError with those there are."""
    if isinstance(value, choices):
        return value
    allowed = [choice.value for choice in choices]
    if value in allowed:
        return choices(value)
    raise ScenarioError(f"expected {' or '.join(map(repr, allowed))}, found {value!r}")


def as_given(value: Duration | Count) -> str | int:
    """A number of events or a duration as a file writes it."""
    return value.value if isinstance(value, Count) else str(value)


def _value(choice: Enum) -> Any:
    return choice.value


TimeValue = Annotated[int, PlainValidator(parse_time), PlainSerializer(written)]
EndValue = Annotated[int, PlainValidator(parse_end), PlainSerializer(written)]
Anchor = Annotated[
    int | str, PlainValidator(_anchor), PlainSerializer(lambda at: at if isinstance(at, str) else written(at))
]
DurationValue = Annotated[Duration, PlainValidator(_duration), PlainSerializer(str)]
Positive = Annotated[Duration, PlainValidator(_positive), PlainSerializer(str)]
AzureSpan = Annotated[Duration, PlainValidator(_azure_span), PlainSerializer(str)]
"""A duration, as Azure writes it (``00:05:00``) or as everybody else here does."""
AzureTolerance = Annotated[
    Duration | None, PlainValidator(_azure_tolerance), PlainSerializer(lambda span: None if span is None else str(span))
]
"""The same, or ``-1`` for no limit; at most 1,814,399 s."""
AzureLateActionValue = Annotated[
    LateAction, PlainValidator(_azure_action), PlainSerializer(lambda action: action.value)
]
Moved = Annotated[Shift, PlainValidator(_shift), PlainSerializer(str)]
"""A duration, or ``-8h``: back."""
Delay = Annotated[str, PlainValidator(_delay)]
"""A duration, or ``-1us``: just after the event."""
ExtentValue = Annotated[Duration | Count, PlainValidator(_extent), PlainSerializer(as_given)]
Every = Annotated[Duration | Count, PlainValidator(_every), PlainSerializer(as_given)]
CountValue = Annotated[Count, PlainValidator(_count), PlainSerializer(as_given)]
EventId = Annotated[str, PlainValidator(_name)]
NamesValue = Annotated[tuple[str, ...], PlainValidator(_names), PlainSerializer(list)]
TimesOfDay = Annotated[tuple[str, ...], PlainValidator(_times_of_day), PlainSerializer(list)]
PartitionNames = Annotated[
    tuple[str, ...] | dict[str, tuple[str, ...]], PlainValidator(read_partitions), PlainSerializer(lambda names: names)
]
Yes = Annotated[bool, PlainValidator(_yes)]
TextValue = Annotated[str, Field(min_length=1)]
Inputs = dict[TextValue, TextValue]
"""An input for each input."""

LateActionValue = Annotated[
    LateAction, PlainValidator(lambda value: one_of(value, LateAction)), PlainSerializer(_value)
]
Idle = Annotated[IdleRule, PlainValidator(lambda value: one_of(value, IdleRule)), PlainSerializer(_value)]
PaneModeValue = Annotated[PaneMode, PlainValidator(lambda value: one_of(value, PaneMode)), PlainSerializer(_value)]


class Strict(BaseModel):
    """A mapping of a scenario file: unknown keys are errors, and nothing is converted behind one's back."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @property
    def given(self) -> dict[str, Any]:
        """The fields that the file gives, in the order in which they are declared."""
        names = (name for name in type(self).model_fields if name in self.model_fields_set)
        return {name: getattr(self, name) for name in names}


class Listed(Strict):
    """A mapping of so few keys that an error names them all."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        unknown = [str(key) for key in value if key not in cls.model_fields] if isinstance(value, Mapping) else []
        if unknown:
            allowed = ", ".join(cls.model_fields) or "none"
            raise ScenarioError(f"unknown key {', '.join(map(repr, unknown))}, expected some of: {allowed}")
        return value
