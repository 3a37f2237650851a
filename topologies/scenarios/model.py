"""A scenario as files hold it: a bolt or a topology, steps in order, and what they must lead to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    Tag,
    model_validator,
)

from topologies.scenarios.times import parse_end, parse_time, written
from windowing.bounds import Bounds
from windowing.durations import Count, Duration, as_duration, as_extent
from windowing.errors import ScenarioError
from windowing.timestamps import EARLIEST, LATEST

ACCOUNTS = ("windowed", "late", "early", "dropped", "invalid", "unwindowed", "purged", "pending")
"""Where a received event can be; the counts of an answer name these, ``received`` and ``adjusted``."""


def _duration(value: object) -> Duration:
    if isinstance(value, Duration | timedelta | str):
        return as_duration(value)
    raise ScenarioError(f"expected a duration, found {value!r}", do="write it like '20ms', '5s' or '2m'")


def _extent(value: object) -> Duration | Count:
    if isinstance(value, Duration | Count | timedelta | str | int) and not isinstance(value, bool):
        return as_extent(value)
    raise ScenarioError(f"expected a number of events or a duration, found {value!r}", do="write 5 or '20s'")


def _positive(value: object) -> Duration:
    duration = _duration(value)
    if duration.micros == 0:
        raise ScenarioError("expected a duration above zero, found '0'", do="leave the setting out")
    return duration


def _bounds(value: object) -> Bounds:
    if isinstance(value, Bounds):
        return value
    allowed = [bounds.value for bounds in Bounds]
    if value in allowed:
        return Bounds(value)
    raise ScenarioError(f"expected {' or '.join(map(repr, allowed))}, found {value!r}")


def _name(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ScenarioError(f"expected an id (a text), found {value!r}")


def _yes(value: object) -> bool:
    if value is True:
        return True
    shown = "false" if value is False else repr(value)
    raise ScenarioError(f"expected true, found {shown}", do="leave the step out")


def _as_given(value: Duration | Count) -> str | int:
    return value.value if isinstance(value, Count) else str(value)


Time = Annotated[int, PlainValidator(parse_time), PlainSerializer(written)]
End = Annotated[int, PlainValidator(parse_end), PlainSerializer(written)]
Span = Annotated[Duration, PlainValidator(_duration), PlainSerializer(str)]
Positive = Annotated[Duration, PlainValidator(_positive), PlainSerializer(str)]
Edges = Annotated[Bounds, PlainValidator(_bounds), PlainSerializer(lambda bounds: bounds.value)]
Extent = Annotated[Duration | Count, PlainValidator(_extent), PlainSerializer(_as_given)]
EventId = Annotated[str, PlainValidator(_name)]
Yes = Annotated[bool, PlainValidator(_yes)]
Text = Annotated[str, Field(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class BoltSettings(_Model):
    """The settings of the bolt that a scenario runs; those that are left out are the bolt's own defaults."""

    length: Extent
    sliding: Extent | None = None
    tumbling: bool = False
    timestamp_field: Text | None = None
    lag: Span | None = None
    late_stream: Text | None = None
    bounds: Edges = Bounds.END
    offset: Span | None = None
    watermark_interval: Positive | None = None

    @model_validator(mode="after")
    def _one_slide(self) -> BoltSettings:
        if self.tumbling and self.sliding is not None and self.sliding != self.length:
            raise ScenarioError(
                f"tumbling, and sliding by {self.sliding}",
                why="a tumbling window slides by its length",
                do="leave out one of the two",
            )
        return self


class EventStep(_Model):
    """An event arrives; a ``clock`` moves the clock first."""

    event: dict[str, Any]
    stream: Text | None = None
    clock: Time | None = None
    _id: str = PrivateAttr(default="")

    @property
    def id(self) -> str:
        """The event's own id, or ``e<n>`` for the n-th event of the scenario."""
        return self._id

    def filled(self, number: int, stream: str | None, *, with_id: bool) -> EventStep:
        """This step with its id, and the only stream there is where it names none."""
        given = self.event.get("id")
        known = isinstance(given, str | int) and given != "" and not isinstance(given, bool)
        name = str(given) if known else f"e{number}"
        event = {**self.event, "id": name} if with_id and (known or given is None) else self.event
        filled = self.model_copy(update={"event": event, "stream": self.stream or stream})
        filled._id = name
        return filled


class TickStep(_Model):
    """The watermark interval has passed."""

    tick: Literal["watermark"]


class ClockStep(_Model):
    """The clock moves on."""

    clock: Time


class CrashStep(_Model):
    """Everything in memory is gone; the run recovers from its last commit."""

    crash: Yes


class CloseStep(_Model):
    """The streams end."""

    close: Yes


_KINDS = ("event", "tick", "crash", "close")


def _kind(step: object) -> str | None:
    if isinstance(step, EventStep | TickStep | ClockStep | CrashStep | CloseStep):
        return f"<{type(step).__name__.removesuffix('Step').lower()}>"
    if not isinstance(step, dict):
        return None
    named = [key for key in _KINDS if key in step] or [key for key in ("clock",) if key in step]
    return f"<{named[0]}>" if len(named) == 1 else None


STEP_FORMS = "{event: {...}}, {tick: watermark}, {clock: time}, {crash: true} or {close: true}"

Step = Annotated[
    Annotated[EventStep, Tag("<event>")]
    | Annotated[TickStep, Tag("<tick>")]
    | Annotated[ClockStep, Tag("<clock>")]
    | Annotated[CrashStep, Tag("<crash>")]
    | Annotated[CloseStep, Tag("<close>")],
    Discriminator(_kind, custom_error_type="step_form", custom_error_message=f"expected one of {STEP_FORMS}"),
]


class ExpectedWindow(_Model):
    """A window that must fire; it is compared on the fields that it gives."""

    start: End | None = None
    end: End | None = None
    events: list[EventId] | None = None
    new: list[EventId] | None = None
    expired: list[EventId] | None = None
    task: int | None = None
    key: Any = None

    @model_validator(mode="after")
    def _says_something(self) -> ExpectedWindow:
        if not self.model_fields_set:
            raise ScenarioError("expected a window with some of start, end, events, new, expired, found {}")
        lists = {"events", "new", "expired"}
        empty = [name for name, value in self.given.items() if name in lists and value is None]
        if empty:
            raise ScenarioError(f"expected a list for {', '.join(empty)}, found null", do="write [] for none")
        return self

    @cached_property
    def given(self) -> dict[str, Any]:
        """The fields that the file gives."""
        names = (name for name in type(self).model_fields if name in self.model_fields_set)
        return {name: getattr(self, name) for name in names}


class Expect(_Model):
    """What must come out; a key that is left out is not checked, one that is given is checked whole."""

    windows: list[ExpectedWindow] | None = None
    late: list[EventId] | None = None
    watermarks: list[End | None] | None = None
    pending: list[EventId] | None = None
    counts: dict[str, Annotated[int, Field(ge=0)]] | None = None
    outputs: dict[str, list[dict[str, Any]]] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is expected at all."""
        return all(getattr(self, name) is None for name in type(self).model_fields)


class Scenario(_Model):
    """Steps for a bolt or a topology, and what they must lead to (unknown keys are errors, ``meta`` is free).

    Building one fills what files may leave out: the stream of each event where there is one stream, and the
    id of each event. Everything that is wrong with the steps is reported together, with its place (from 0).
    """

    name: Text
    meta: dict[str, Any] = Field(default_factory=dict)
    bolt: BoltSettings | None = None
    topology: Text | None = None
    streams: list[Text] = Field(default_factory=list)
    steps: list[Step]
    expect: Expect | None = None

    @model_validator(mode="after")
    def _complete(self) -> Scenario:
        if (self.bolt is None) == (self.topology is None):
            raise ScenarioError(
                "expected either bolt or topology, found " + ("neither" if self.bolt is None else "both"),
                do="give bolt: {...} for a bolt alone, topology: file.py:name for your own",
            )
        if self.bolt is not None and not self.streams:
            self.__dict__["streams"] = ["s1"]
        if len(set(self.streams)) != len(self.streams):
            raise ScenarioError(f"streams: a stream is named twice in {self.streams}")
        self.__dict__["steps"] = list(self._filled())
        problems = [*self._stream_problems(), *self._clock_problems(), *self._event_problems(), *self._ends()]
        if problems:
            raise ScenarioError("\n".join(f"steps[{at}]{text}" for at, text in sorted(problems)))
        return self

    @property
    def event_steps(self) -> list[EventStep]:
        """The events in the order of their arrival."""
        return [step for step in self.steps if isinstance(step, EventStep)]

    @property
    def is_event_time(self) -> bool:
        """Whether the bolt reads its time from a field (false for a topology, whose bolts may differ)."""
        return self.bolt is not None and self.bolt.timestamp_field is not None

    def event_time(self, step: EventStep) -> int | None:
        """An event's own time in microseconds; None where it has none, or one outside the years 1 to 9999."""
        field = self.bolt.timestamp_field if self.bolt else None
        value = step.event.get(field) if field else None
        if value is None:
            return None
        micros = parse_time(value)
        return micros if EARLIEST <= micros <= LATEST else None

    def _filled(self) -> Iterator[Step]:
        only = self.streams[0] if len(self.streams) == 1 else None
        number = 0
        for step in self.steps:
            if not isinstance(step, EventStep):
                yield step
                continue
            number += 1
            yield step.filled(number, only, with_id=self.bolt is not None)

    def _stream_problems(self) -> Iterator[tuple[int, str]]:
        if not self.streams:
            return
        for at, step in enumerate(self.steps):
            if not isinstance(step, EventStep) or step.stream in self.streams:
                continue
            found = "nothing" if step.stream is None else repr(step.stream)
            yield at, f".stream: expected one of {', '.join(self.streams)}, found {found}"

    def _clock_problems(self) -> Iterator[tuple[int, str]]:
        clock: int | None = None
        for at, step in enumerate(self.steps):
            moved = step.clock if isinstance(step, EventStep | ClockStep) else None
            if moved is not None and clock is not None and moved < clock:
                yield at, f".clock: the clock goes back, from {clock / 1000:.15g} to {moved / 1000:.15g}"
            clock = clock if moved is None else max(moved, clock if clock is not None else moved)
            if clock is None and isinstance(step, EventStep) and self.bolt and not self.is_event_time:
                yield (
                    at,
                    ".clock: expected a time, found none yet; a bolt without timestamp_field reads the clock",
                )

    def _event_problems(self) -> Iterator[tuple[int, str]]:
        if self.bolt is None:
            return
        seen: dict[str, int] = {}
        for at, step in enumerate(self.steps):
            if not isinstance(step, EventStep):
                continue
            if step.event.get("id") != step.id:
                yield at, f".event.id: expected a text, found {step.event.get('id')!r}"
            elif step.id in seen:
                yield at, f".event.id: {step.id!r} is the id of steps[{seen[step.id]}] already"
            seen.setdefault(step.id, at)
            try:
                self.event_time(step)
            except ScenarioError as error:
                yield at, f".event.{self.bolt.timestamp_field}: {error}"

    def _ends(self) -> Iterator[tuple[int, str]]:
        closings = (at for at, step in enumerate(self.steps) if isinstance(step, CloseStep))
        closed = next(closings, len(self.steps))
        if closed + 1 < len(self.steps):
            yield closed + 1, f": nothing can follow the close of steps[{closed}]"
