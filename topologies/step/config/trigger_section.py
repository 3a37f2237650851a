"""The section that says when the collected events of a key go to the rules (UH-14 to UH-23)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from topologies.step.config.step_values import Flag, Place, Section, Text, TimeSetting, Whole, at_most
from windowing.errors import ConfigError
from windowing.settings.triggers import MOST_BYTES

if TYPE_CHECKING:
    from windowing.time.daytimes import DayTime, DayTimePattern

_TIMEOUT = 'how long after the last event of a key its window fires: timeout: 100 (milliseconds), or "5s"'
_PATTERN = "how times of day are written: timePattern: HH:mm:ss, or HH:mm:ssXXX with an offset"


def _pattern(pattern: str, zone: str) -> DayTimePattern:
    from windowing.time.daytimes import DayTimePattern

    return DayTimePattern(pattern, zone)


def _said(error: ConfigError) -> str:
    return str(error).rstrip(".")


def _known(pattern: str, zone: str) -> None:
    try:
        _pattern(pattern, zone)
    except ConfigError as error:
        raise ValueError(_said(error)) from None


def _known_pattern(pattern: str) -> str:
    _known(pattern, "UTC")
    return pattern


def _known_zone(zone: str) -> str:
    _known("HH", zone)
    return zone


EventLimit = Annotated[Whole, at_most(10_000_000, "all events of a window go to one call of the rules")]
ByteLimit = Annotated[
    Whole, at_most(MOST_BYTES, "the messages of a window go to one call, whose columns have less than 2^31 bytes")
]
LARGEST = 256 << 20
"""Default maximum size of a window in bytes: as Python objects, in one call of the rules, that is gigabytes."""
_MAX_EVENTS = "how many events a window holds at most, whatever its trigger says: maxEvents: 100000"
_MAX_BYTES = "how many bytes of values, keys and headers a window holds at most: maxBytes: 67108864"


def _never(number: int) -> int:
    raise ValueError("a window never holds more events than the count: leave maxEvents out, or lower the count")


Days = Annotated[Whole, at_most(36_500, "they are days, and that is a century; leave it out to keep keys for good")]

_PatternText = Annotated[Text, AfterValidator(_known_pattern)]
_ZoneText = Annotated[Text, AfterValidator(_known_zone)]


class CountTriggerSection(Section):
    """Fires at a number of events of a key, or after a timeout (UH-14, UH-15)."""

    type: Literal["count"]
    count: EventLimit = Field(description="how many events of a key make its window fire: count: 2")
    timeout: TimeSetting = Field(description=_TIMEOUT)
    should_fire_at_processing_time: Flag = True
    max_bytes: ByteLimit = Field(LARGEST, description=_MAX_BYTES)
    max_events: Annotated[Whole, AfterValidator(_never)] | None = None


class DslTriggerSection(Place):
    """Fires as the rules decide after each event, or after a timeout (UH-15 to UH-19)."""

    type: Literal["dsl"]
    timeout: TimeSetting = Field(description=_TIMEOUT)
    should_fire_at_processing_time: Flag = True
    max_events: EventLimit | None = Field(None, description=_MAX_EVENTS)
    max_bytes: ByteLimit = Field(LARGEST, description=_MAX_BYTES)


class TimeTriggerSection(Section):
    """Fires once a day at a time (UH-20 to UH-22)."""

    type: Literal["time"]
    time: Text = Field(description='the time of day at which all windows fire: time: "11:05:00+03:00"')
    time_pattern: _PatternText = Field(description=_PATTERN)
    max_empty_intervals: Days | None = None
    zone: _ZoneText = "UTC"
    max_events: EventLimit | None = Field(None, description=_MAX_EVENTS)
    max_bytes: ByteLimit = Field(LARGEST, description=_MAX_BYTES)

    @property
    def at(self) -> DayTime:
        """The time of day."""
        return _pattern(self.time_pattern, self.zone).read(self.time)

    @model_validator(mode="after")
    def _known_time(self) -> TimeTriggerSection:
        try:
            _ = self.at
        except ConfigError as error:
            raise ValueError(f"time: {_said(error)}") from None
        return self


class TimeFromEventTriggerSection(Place):
    """Fires once a day at a time that rules take from the events (UH-23)."""

    type: Literal["timeFromEvent"]
    time_pattern: _PatternText = Field(description=_PATTERN)
    max_empty_intervals: Days | None = None
    zone: _ZoneText = "UTC"
    max_events: EventLimit | None = Field(None, description=_MAX_EVENTS)
    max_bytes: ByteLimit = Field(LARGEST, description=_MAX_BYTES)

    @property
    def pattern(self) -> DayTimePattern:
        """The pattern in which the rules write times."""
        return _pattern(self.time_pattern, self.zone)


TriggerSection: TypeAlias = Annotated[
    CountTriggerSection | DslTriggerSection | TimeTriggerSection | TimeFromEventTriggerSection,
    Field(discriminator="type"),
]
