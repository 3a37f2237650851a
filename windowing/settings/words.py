"""Descriptions of settings that differ from Storm's rules, for ``windbolt describe``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from windowing.durations import Count, Duration, Shift
from windowing.settings.declaration import SOURCE_ONLY
from windowing.settings.panes import (
    AfterClock,
    AfterCount,
    AfterEventTime,
    AllOf,
    AnyOf,
    Once,
    PaneMode,
    Panes,
    PaneTrigger,
)
from windowing.settings.rules import (
    NO_COLUMN,
    SOURCE,
    Aligned,
    Arrival,
    IdleRule,
    LateBy,
    Lifetime,
    OutputTime,
    Partition,
)
from windowing.timestamps import show


class OtherSettings(Protocol):
    """The attributes of ``WindowSettings`` that descriptions of other settings use."""

    @property
    def watermark_per_key(self) -> bool: ...
    @property
    def watermark_field(self) -> str | None: ...
    @property
    def partitions(self) -> tuple[str, ...] | Mapping[str, tuple[str, ...]] | None: ...
    @property
    def idle_rule(self) -> IdleRule: ...
    @property
    def late_by(self) -> LateBy: ...
    @property
    def watermark_every(self) -> Count | Duration | None: ...
    @property
    def allowed_lateness(self) -> Duration: ...
    @property
    def offset(self) -> Shift: ...
    @property
    def output_time(self) -> OutputTime: ...


def key(columns: tuple[str, ...], settings: OtherSettings) -> str:
    """Describe windows per key, and watermarks per key."""
    return f"windows{' and a watermark' if settings.watermark_per_key else ''} for each {' and '.join(columns)}"


def watermark_every(every: Count | Duration, settings: OtherSettings) -> str:
    """Describe how often inputs make watermarks."""
    match every:
        case Count(1):
            return "a watermark at every event"
        case Count() if every == SOURCE_ONLY:
            return f"watermarks as the source puts them in {settings.watermark_field or 'another input'}"
        case Count(number):
            return f"a watermark at every {number} events of an input"
        case Duration():
            return f"a watermark at every {every} of event time of an input"


def watermark_field(column: str, settings: OtherSettings) -> str:
    """Describe the column of watermarks from the source. Returns "" if no other watermarks are made."""
    return "" if settings.watermark_every == SOURCE_ONLY else f"the source puts watermarks in {column} as well"


def watermark_partition(partition: str | Partition, settings: OtherSettings) -> str:
    """Describe how inputs are divided into partitions."""
    if partition is SOURCE:
        return "the watermark is the least over the partitions of the source, where it has some"
    return f"the watermark is the least over the partitions by {partition}{_partitions_in_words(settings.partitions)}"


def _partitions_in_words(partitions: tuple[str, ...] | Mapping[str, tuple[str, ...]] | None) -> str:
    match partitions:
        case None:
            return ""
        case tuple():
            return f": {', '.join(partitions)}"
        case by_input:
            return ": " + "; ".join(f"{', '.join(names)} of {stream}" for stream, names in by_input.items())


def imports(givers: Mapping[str, str], _: OtherSettings) -> tuple[str, ...]:
    """Describe which inputs take the watermarks of another input."""
    return tuple(f"{taker} takes the watermarks of {giver}" for taker, giver in givers.items())


def idle_timeout(timeout: Duration, settings: OtherSettings) -> str:
    """Describe when windows close by the clock."""
    after = "after its end" if settings.idle_rule is IdleRule.AFTER_WINDOW_END else "after the last event"
    return f"a window closes {timeout} {after} when nothing comes"


def arrival(rule: Arrival, _: OtherSettings) -> tuple[str, ...]:
    """Describe when an event is early or late by its arrival."""
    measured_by = f"by {rule.field}" if rule.field else "by the clock"
    early = f"early if more than {rule.early} before its arrival ({measured_by}): turned away"
    late = f"late if more than {rule.late} after its time at arrival ({measured_by}): {rule.action.value}"
    return tuple(text for text, limit in ((early, rule.early), (late, rule.late)) if limit is not None)


def late_by(rule: LateBy, settings: OtherSettings) -> str:
    """Describe when an event is late."""
    if rule is LateBy.WATERMARK:
        return ""
    return f"late when its windows have closed, {settings.allowed_lateness} after the watermark reached their end"


def allowed_lateness(wait: Duration, settings: OtherSettings) -> str:
    """Describe when windows close; "" if ``late_by`` describes this."""
    return "" if settings.late_by is LateBy.WINDOW else f"windows close {wait} after the watermark reached their end"


def panes(firings: Panes, _: OtherSettings) -> str:
    """Describe how often windows fire, and the content of each firing."""
    triggers = (("before its end", firings.early), ("when late events come", firings.late))
    parts = [f"{name} ({trigger_in_words(trigger)})" for name, trigger in triggers if trigger is not None]
    if firings.at_end is not None:
        parts.append(f"at its end if it holds {firings.at_end} or more")
    if firings.closes:
        return f"fires once, at its end or {', '.join(parts)}; what comes to it afterwards is late"
    if firings.early is None and firings.late is None:
        return f"fires {parts[0]}"
    return f"fires more than once: {', '.join(parts)}; {_MODES[firings.mode]}"


_MODES = {
    PaneMode.ACCUMULATING: "each time with all its events",
    PaneMode.DISCARDING: "each time with the new events only",
    PaneMode.RETRACTING: "each time the rows of the time before are taken back",
}


def trigger_in_words(trigger: PaneTrigger, each: str = "every") -> str:  # noqa: PLR0911 - one for each kind
    """Describe when a trigger fires a window: ``every 100 events or every 10s of the clock``."""
    match trigger:
        case AfterCount(count):
            return f"{each} event" if count.value == 1 and each == "every" else f"{each} {count}"
        case AfterClock(wait, unchanged):
            return f"{each} {wait} of the clock" + (", even unchanged" if unchanged else "")
        case AfterEventTime(wait, unchanged):
            return f"{each} {wait} of event time" + (", even unchanged" if unchanged else "")
        case AnyOf(triggers):
            return " or ".join(trigger_in_words(one, each) for one in triggers)
        case AllOf(triggers):
            parts = [(one, trigger_in_words(one, each)) for one in triggers]
            return " and ".join(f"({text})" if isinstance(one, AnyOf) else text for one, text in parts)
        case Once(inner):
            return trigger_in_words(inner, "once after")
    return f"by {type(trigger).__name__}"


def anchor(moment: str | int, _: OtherSettings) -> str:
    """Describe the moment from which aligned windows are counted."""
    return f"windows are counted from {'the first clock of the run' if isinstance(moment, str) else show(moment)}"


def aligned(_: Aligned, settings: OtherSettings) -> str:
    """Describe the alignment of the starts of windows; the default, aligned ends, has no description."""
    shifted = f", shifted by {settings.offset}" if settings.offset.micros else ""
    return f"the starts of windows are multiples of the slide{shifted}"


def lifetime(rule: Lifetime, _: OtherSettings) -> tuple[str, ...]:
    """Describe how long events last, and which events are edges."""
    if rule.end_field == NO_COLUMN:
        return ("an event of the right stream lasts until the next one of its key",)
    shape = f", {rule.shape_field} says which of them are edges" if rule.shape_field else ""
    edge_key = f", an end edge is matched by {', '.join(rule.edge_key)}" if rule.edge_key else ""
    return (f"each event lasts until the time in {rule.end_field!r}{shape}{edge_key}",)


def output_time(time: OutputTime, _: OtherSettings) -> str:
    """Describe the time of emitted rows."""
    when = "start" if time is OutputTime.START else "last microsecond"
    return f"what is emitted has the time of the window's {when}"


def output_watermark(edge: OutputTime, settings: OtherSettings) -> str:
    """Describe the next bolt's watermark if it follows the starts of windows, and rows have other times; else ""."""
    if edge is not OutputTime.START or settings.output_time is OutputTime.START:
        return ""
    return "the next bolt's watermark follows the start of the earliest open window"
