"""The values, steps and expectations of scenario files: reading, checking and writing them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from functools import reduce
from operator import and_, or_
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    Tag,
    field_validator,
    model_validator,
)

from manager.accounts import ACCOUNTS, FINDINGS, SHOWN_FINDINGS
from windowing.durations import Count, Duration, Shift, as_duration, as_every, as_extent, as_shift
from windowing.errors import ScenarioError, did_you_mean
from windowing.settings import presets as azure_words
from windowing.settings.declaration import read_partitions
from windowing.settings.panes import PaneMode, PaneTrigger, after_clock, after_count, after_event_time
from windowing.settings.rules import START, IdleRule, LateAction
from windowing.timestamps import parse_end, parse_time, time_in_answer

# Values of scenario files: reading, checking and writing them.


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


def _event_id(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ScenarioError(f"expected an id (a text), found {value!r}")


def _column_names(value: object) -> tuple[str, ...]:
    """Returns the names in one name or in a list of names."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) and name for name in names):
        raise ScenarioError(f"expected a list of columns, found {value!r}", do="write [user]")
    return tuple(names)


def _times_of_day(value: object) -> tuple[str, ...]:
    """Reads local times; YAML reads 14:00 without quotes as a number."""
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
    """Reads a value of an enum. Raises ScenarioError with the possible values."""
    if isinstance(value, choices):
        return value
    allowed = [choice.value for choice in choices]
    if value in allowed:
        return choices(value)
    raise ScenarioError(f"expected {' or '.join(map(repr, allowed))}, found {value!r}")


def as_written(value: Duration | Count) -> str | int:
    """Returns a number of events or a duration in the form of scenario files."""
    return value.value if isinstance(value, Count) else str(value)


def _value(choice: Enum) -> Any:
    return choice.value


TimeValue = Annotated[int, PlainValidator(parse_time), PlainSerializer(time_in_answer)]
EndValue = Annotated[int, PlainValidator(parse_end), PlainSerializer(time_in_answer)]
Anchor = Annotated[
    int | str, PlainValidator(_anchor), PlainSerializer(lambda at: at if isinstance(at, str) else time_in_answer(at))
]
DurationValue = Annotated[Duration, PlainValidator(_duration), PlainSerializer(str)]
Positive = Annotated[Duration, PlainValidator(_positive), PlainSerializer(str)]
AzureSpan = Annotated[Duration, PlainValidator(_azure_span), PlainSerializer(str)]
"""A duration in Azure's form (``00:05:00``) or windbolt's."""
AzureTolerance = Annotated[
    Duration | None, PlainValidator(_azure_tolerance), PlainSerializer(lambda span: None if span is None else str(span))
]
"""Duration, or ``-1`` for no limit; at most 1,814,399 s."""
AzureLateActionValue = Annotated[
    LateAction, PlainValidator(_azure_action), PlainSerializer(lambda action: action.value)
]
ShiftValue = Annotated[Shift, PlainValidator(_shift), PlainSerializer(str)]
"""A duration; ``-8h`` moves back."""
Delay = Annotated[str, PlainValidator(_delay)]
"""A duration; ``-1us`` is just after the event."""
ExtentValue = Annotated[Duration | Count, PlainValidator(_extent), PlainSerializer(as_written)]
Every = Annotated[Duration | Count, PlainValidator(_every), PlainSerializer(as_written)]
CountValue = Annotated[Count, PlainValidator(_count), PlainSerializer(as_written)]
EventId = Annotated[str, PlainValidator(_event_id)]
NamesValue = Annotated[tuple[str, ...], PlainValidator(_column_names), PlainSerializer(list)]
TimesOfDay = Annotated[tuple[str, ...], PlainValidator(_times_of_day), PlainSerializer(list)]
PartitionNames = Annotated[
    tuple[str, ...] | dict[str, tuple[str, ...]], PlainValidator(read_partitions), PlainSerializer(lambda names: names)
]
Yes = Annotated[bool, PlainValidator(_yes)]
TextValue = Annotated[str, Field(min_length=1)]
Inputs = dict[TextValue, TextValue]
"""For some inputs, another input."""

LateActionValue = Annotated[
    LateAction, PlainValidator(lambda value: one_of(value, LateAction)), PlainSerializer(_value)
]
Idle = Annotated[IdleRule, PlainValidator(lambda value: one_of(value, IdleRule)), PlainSerializer(_value)]
PaneModeValue = Annotated[PaneMode, PlainValidator(lambda value: one_of(value, PaneMode)), PlainSerializer(_value)]


class Strict(BaseModel):
    """A mapping of a scenario file: unknown keys are errors, and values are not converted silently."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    @property
    def given(self) -> dict[str, Any]:
        """The fields that the file sets, in the order of declaration."""
        names = (name for name in type(self).model_fields if name in self.model_fields_set)
        return {name: getattr(self, name) for name in names}


class MappingOfFewKeys(Strict):
    """A mapping of a scenario file with so few keys that errors list them all."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, value: Any) -> Any:
        unknown = [str(key) for key in value if key not in cls.model_fields] if isinstance(value, Mapping) else []
        if unknown:
            allowed = ", ".join(cls.model_fields) or "none"
            raise ScenarioError(f"unknown key {', '.join(map(repr, unknown))}, expected some of: {allowed}")
        return value


# Triggers of panes in scenario files: ``3``, ``10s``, ``{event_time: 5s}``, ``{any: [3, 10s]}``.


_TRIGGER_KINDS = ("count", "clock", "event_time", "any", "all")


class TriggerSetting(MappingOfFewKeys):
    """Trigger for firings of a window before or after its end: one of ``count``, ``clock``, ``event_time``, ``any`` and
    ``all``."""

    count: CountValue | None = None
    clock: Positive | None = None
    event_time: Positive | None = None
    any: list[TriggerSetting] | None = None
    all: list[TriggerSetting] | None = None
    even_unchanged: bool = False
    once: bool = False

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        """Reads the short form: a number means events, a text means a duration of the clock."""
        if isinstance(value, Mapping | TriggerSetting):
            return value
        if isinstance(value, str | int | Duration | Count) and not isinstance(value, bool):
            every = as_every(value, "a firing")
            return {"count" if isinstance(every, Count) else "clock": every}
        raise ScenarioError(
            f"expected a number of events, a duration of the clock or a trigger, found {value!r}",
            do="write 3, 10s, {event_time: 5s} or {any: [3, 10s]}",
        )

    @field_validator("any", "all")
    @classmethod
    def _several(cls, value: list[TriggerSetting] | None) -> list[TriggerSetting] | None:
        if value is not None and len(value) < 2:
            raise ScenarioError(f"expected two triggers or more, found {len(value)}", do="write [3, 10s]")
        return value

    @model_validator(mode="after")
    def _one(self) -> TriggerSetting:
        named = [name for name in _TRIGGER_KINDS if getattr(self, name) is not None]
        if len(named) != 1:
            raise ScenarioError(f"expected one of {', '.join(_TRIGGER_KINDS)}, found {' and '.join(named) or 'none'}")
        if self.even_unchanged and named[0] not in ("clock", "event_time"):
            raise ScenarioError(
                f"{named[0]} with even_unchanged",
                why="a trigger fires unchanged windows as time advances",
                do="write it beside clock or event_time",
            )
        return self

    @property
    def trigger(self) -> PaneTrigger:
        """Returns the trigger in the form that bolts take."""
        return self._every.once() if self.once else self._every

    @property
    def _every(self) -> PaneTrigger:
        if self.count is not None:
            return after_count(self.count)
        if self.clock is not None:
            return after_clock(self.clock, even_unchanged=self.even_unchanged)
        if self.event_time is not None:
            return after_event_time(self.event_time, even_unchanged=self.even_unchanged)
        if self.any is not None:
            return reduce(or_, (each.trigger for each in self.any))
        assert self.all is not None  # _one
        return reduce(and_, (each.trigger for each in self.all))


# Expected results of a scenario.


WHEREABOUTS = (*ACCOUNTS, "pending")
"""Accounts in which a received event can be, and ``pending``. The counts of a result have these names, and also
``received``, ``adjusted`` and ``truncated``."""

METRICS = (*FINDINGS, "watermark_delay")
"""Counts of a result that are not accounts."""


def _check_names(value: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any]:
    """Returns the value. Raises ScenarioError for a key that is not among the names."""
    for key in value:
        if key not in names:
            raise ScenarioError(f"expected some of {', '.join(names)}, found {key!r}{did_you_mean(key, names)}")
    return value


Counts = Annotated[
    dict[str, Annotated[int, Field(ge=0)]],
    Field(min_length=1),
    AfterValidator(lambda value: _check_names(value, ("received", *WHEREABOUTS, *SHOWN_FINDINGS))),
]
Metrics = Annotated[
    dict[str, int | float], Field(min_length=1), AfterValidator(lambda value: _check_names(value, METRICS))
]

DecisionLabel = Literal[
    "accepted",
    "duplicate",
    "adjusted_late",
    "adjusted_out_of_order",
    "late",
    "dropped_late",
    "dropped_out_of_order",
    "early",
    "invalid",
    "watermark",
    "unwindowed",
    "unmatched",
]
"""Label of the decision about an event when it arrived, in the ``action`` of results.

``watermark``: it was a watermark of the source, not an event. ``unwindowed``: it lies between windows. ``unmatched``:
an end edge whose start is unknown.
"""


class ExpectedPane(Strict):
    """The expected firing of a window, compared on the fields that it has."""

    index: int | None = None
    timing: Literal["early", "on_time", "late"] | None = None
    last: bool | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ExpectedPane:
        if not self.given:
            raise ScenarioError("expected some of index, timing, last, found {}")
        return self


class ExpectedWindow(Strict):
    """An expected window, compared on the fields that it has."""

    step: str | None = None
    """Name of the window's step; None: the first step."""
    bolt: str | None = None
    """Name of the window's bolt; None: any bolt."""
    start: EndValue | None = None
    end: EndValue | None = None
    events: list[EventId] | None = None
    new: list[EventId] | None = None
    expired: list[EventId] | None = None
    task: int | None = None
    key: Any = None
    kind: int | None = None
    pane: ExpectedPane | None = None
    by: Literal["count", "rule", "timeout", "time", "close", "full"] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ExpectedWindow:
        if not self.model_fields_set - {"step", "bolt"}:
            raise ScenarioError("expected a window with some of start, end, events, new, expired, found {}")
        lists = {"events", "new", "expired"}
        empty = [name for name, value in self.given.items() if name in lists and value is None]
        if empty:
            raise ScenarioError(f"expected a list for {', '.join(empty)}, found null", do="write [] for none")
        return self


class ExpectedEvent(Strict):
    """The expected admission of an event, compared on the fields that it has."""

    id: EventId
    time: TimeValue | None = None
    """The assigned time; null for none."""
    action: DecisionLabel | None = None
    watermark: EndValue | None = None
    """The watermark of the bolt after the event."""
    mark: EndValue | None = None
    """The mark of the event's own input, partition or key after the event."""


class Includes(Strict):
    """Results that must be among all results, in this order; other results are ignored."""

    windows: list[ExpectedWindow] | None = None
    late: list[EventId] | None = None
    outputs: dict[str, list[dict[str, Any]]] | None = None
    """Rows of sinks, each compared on the columns that it has."""

    @model_validator(mode="after")
    def _asks_something(self) -> Includes:
        lists = [self.windows, self.late, *(self.outputs.values() if self.outputs is not None else [])]
        given = [each for each in lists if each is not None]
        if not given or not all(given) or not all(row for rows in (self.outputs or {}).values() for row in rows):
            raise ScenarioError(
                "expected something to be included, found nothing",
                do="name windows, late events or rows, or leave it out; to expect none use windows, late or outputs",
            )
        return self


class Expect(Strict):
    """Expected results; a missing key is not checked, a present key is checked completely."""

    includes: Includes | None = None
    """Results that must be among all results."""

    windows: list[ExpectedWindow] | None = None
    late: list[EventId] | None = None
    watermarks: list[EndValue | None] | None = None
    pending: list[EventId] | None = None
    counts: Counts | None = None
    outputs: dict[str, list[dict[str, Any]]] | None = None
    events: list[ExpectedEvent] | None = None
    clocks: list[EndValue | None] | None = None
    metrics: Metrics | None = None
    """Expected metrics; only these are compared."""

    @property
    def is_empty(self) -> bool:
        """True if nothing is expected at all."""
        return all(getattr(self, name) is None for name in type(self).model_fields)


# The steps of a scenario, in order.


class EventStep(Strict):
    """An event arrives. A ``clock`` moves the clock first, in a batch of its own if that matters to the bolt.

    With an ``arrival``, the event comes in the batch of that clock, without an empty batch before it.
    """

    event: dict[str, Any]
    stream: TextValue | None = None
    clock: TimeValue | None = None
    arrival: TimeValue | None = None
    _id: str = PrivateAttr(default="")

    @property
    def moved(self) -> int | None:
        """Returns the clock at this step; None if the step does not set it."""
        return self.clock if self.arrival is None else self.arrival

    @property
    def id(self) -> str:
        """The event's own id, or ``e<n>`` for the n-th event of the scenario."""
        return self._id

    def with_id_and_stream(self, number: int, stream: str | None, *, with_id: bool) -> EventStep:
        """Returns this step with its id and, if it names no stream, the only stream."""
        own_id = self.event.get("id")
        has_id = isinstance(own_id, str | int) and own_id != "" and not isinstance(own_id, bool)
        name = str(own_id) if has_id else f"e{number}"
        event = {**self.event, "id": name} if with_id and (has_id or own_id is None) else self.event
        filled = self.model_copy(update={"event": event, "stream": self.stream or stream})
        filled._id = name
        return filled


class TickStep(Strict):
    """The watermark interval has passed."""

    tick: Literal["watermark"]


class ClockStep(Strict):
    """The clock advances."""

    clock: TimeValue

    @property
    def moved(self) -> int:
        """Returns the clock at this step."""
        return self.clock


class CrashStep(Strict):
    """Everything in memory is lost; the run recovers from its last commit."""

    crash: Yes


class CloseStep(Strict):
    """The streams end."""

    close: Yes


class ExpectStep(Strict):
    """Results that must have come out so far, as if the scenario ended here."""

    expect: Expect


_STEP_KINDS = ("event", "tick", "crash", "close", "expect")


def _kind(step: object) -> str | None:
    if isinstance(step, EventStep | TickStep | ClockStep | CrashStep | CloseStep | ExpectStep):
        return f"<{type(step).__name__.removesuffix('Step').lower()}>"
    if not isinstance(step, dict):
        return None
    named = [key for key in _STEP_KINDS if key in step] or [key for key in ("clock",) if key in step]
    return f"<{named[0]}>" if len(named) == 1 else None


STEP_FORMS = "{event: {...}}, {tick: watermark}, {clock: time}, {crash: true}, {close: true} or {expect: {...}}"

ScenarioStep = Annotated[
    Annotated[EventStep, Tag("<event>")]
    | Annotated[TickStep, Tag("<tick>")]
    | Annotated[ClockStep, Tag("<clock>")]
    | Annotated[CrashStep, Tag("<crash>")]
    | Annotated[CloseStep, Tag("<close>")]
    | Annotated[ExpectStep, Tag("<expect>")],
    Discriminator(_kind, custom_error_type="step_form", custom_error_message=f"expected one of {STEP_FORMS}"),
]
