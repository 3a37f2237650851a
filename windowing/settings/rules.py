"""Choices for the rules on which systems differ, the values of settings (``WindowSettings``)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from windowing.calls import checked_value
from windowing.durations import Count, Duration, Time, as_duration
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Bounds of windows. No other code compares the time of an event with the edges of a window.


class Bounds(Enum):
    """Which edge of a window of time belongs to it (``with_alignment(bounds=...)``)."""

    END = "(start, end]"
    """An event at the end belongs to the window, an event at the start does not: in Storm and Azure (ST-10, AZ-19)."""

    START = "[start, end)"
    """An event at the start belongs to the window, an event at the end does not: in Atlas, StreamInsight and Flink
    (AT-1)."""

    def holds(self, start: int, end: int, timestamp: int) -> bool:
        """True if the window from ``start`` to ``end`` holds an event at ``timestamp``; all in microseconds."""
        return start < timestamp <= end if self is Bounds.END else start <= timestamp < end

    def among(self, timestamps: NDArray[np.int64], start: int, end: int) -> NDArray[np.bool_]:
        """Returns a mask of the timestamps that the window from ``start`` to ``end`` holds; all in microseconds."""
        if self is Bounds.END:
            return (timestamps > start) & (timestamps <= end)
        return (timestamps >= start) & (timestamps < end)

    def first_end(self, timestamps: NDArray[np.int64], slide: int, offset: int) -> NDArray[np.int64]:
        """Returns, for each timestamp, the end of the first aligned window that may hold it; all in microseconds."""
        shifted = timestamps - offset
        if self is Bounds.END:
            return -((-shifted) // slide) * slide + offset
        return (shifted // slide + 1) * slide + offset

    def last_end(self, timestamps: NDArray[np.int64], length: int, slide: int, offset: int) -> NDArray[np.int64]:
        """Returns, for each timestamp, the end of the last aligned window of this length that holds it; all in
        microseconds.

        For an event in a gap between windows, if the slide is longer than the length, it is less than ``first_end``.
        """
        reach = timestamps + length - offset - (1 if self is Bounds.END else 0)
        return reach // slide * slide + offset

    def count_before_end(self, timestamps: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns, for the end of each window, the number of sorted timestamps before the window's end.

        With the starts of windows as ``ends``, this is the index of the first event of each window.
        """
        return np.searchsorted(timestamps, ends, side="right" if self is Bounds.END else "left")


# Kinds of joins.


How = Literal["inner", "left", "right", "full", "semi", "anti"]
"""Which rows a join emits. ``inner``: pairs. ``left``, ``right``, ``full``: pairs, and left events, right events or
both without a partner. ``semi``: left events that have a partner. ``anti``: left events that have none."""


def check_how(how: object) -> None:
    """Raise ConfigError for anything that is not a ``How``."""
    if how not in get_args(How):
        raise ConfigError(
            f"a join with how={how!r:.60}",
            why=f"that is none of {', '.join(get_args(How))}",
            do="use how='inner' for pairs only, 'left' to keep left events without a partner",
        )


# Choices of settings.


Choice = TypeVar("Choice", bound=Enum)


def one_of(rules: type[Choice], value: Choice | str) -> Choice:
    """Returns the member of an Enum that a user gives, as a member or by its value; raises ConfigError, with the
    possible values, for anything else."""
    try:
        return rules(value)
    except ValueError:
        name, meaning = _NAMES.get(rules.__name__, (f"a value of {rules.__name__}", ""))
        raise ConfigError(
            f"{value!r} is not {name}",
            why=f"{name}: {meaning}" if meaning else "",
            do=f"use one of {', '.join(repr(each.value) for each in rules)}",
        ) from None


def read_flag(argument: str, value: object) -> bool:
    """Returns the value of an argument that is True or False; raises ConfigError for any other value, because Python
    takes the text "no" for true."""
    if not isinstance(value, bool):
        raise ConfigError(f"{argument}={value!r:.60}", why="it is True or False", do="give one of them")
    return value


_NAMES = {
    "LateAction": ("a late action", "what happens to late events"),
    "LateBy": ("a rule of lateness", "by what an event is late"),
    "IdleRule": ("an idle rule", "when the idle timeout closes a window"),
    "Bounds": ("an edge", "which end belongs to a window"),
    "DefaultTime": ("a default time", "which time a bolt goes by that names none"),
    "WatermarkCombiner": ("a rule for several inputs", "how their marks become one watermark"),
    "Aligned": ("an alignment", "which edge of windows is a multiple of the slide"),
    "OutputTime": ("an output time", "which time emitted rows have"),
    "PaneMode": ("a mode of panes", "what a window shows when it fires again"),
}
"""For errors: a name for the members of each Enum, and what they decide."""


class LateBy(Enum):
    """When an event is late."""

    WATERMARK = "watermark"
    """An event earlier than the watermark is late, even if its window is open (ST-17, SI-4, AZ-11)."""
    WINDOW = "window"
    """An event is late if every window that could hold it has closed (AT-16)."""


LateActionName: TypeAlias = Literal["divert", "drop", "adjust", "cut", "error"]


class LateAction(Enum):
    """Action for a late event."""

    DIVERT = "divert"
    """A late event goes to the late stream, if there is one, and is counted as ``late`` (ST-18, AT-16)."""
    DROP = "drop"
    """A late event is only counted, as ``dropped`` (SI-12, AZ-9)."""
    ADJUST = "adjust"
    """A late event gets the earliest time that is not late (SI-13, AZ-9); its columns do not change."""
    CUT = "cut"
    """A late lifetime is cut to begin at the earliest time that is not late; late points and late end edges are dropped
    (SI-13)."""
    ERROR = "error"
    """The run stops (SI-14)."""


IdleRuleName: TypeAlias = Literal["after_window_end", "max_remaining"]


class IdleRule(Enum):
    """When the idle timeout closes a window."""

    AFTER_WINDOW_END = "after_window_end"
    """A window closes by the clock, the timeout after its end or after the last arrival, whichever is later (AT-17)."""
    MAX_REMAINING = "max_remaining"
    """A window closes by the clock, the timeout after the last arrival, but not before its end (AT-19)."""


class WatermarkCombiner(Enum):
    """Which of the marks of several inputs is the watermark: the least or the greatest."""

    MIN = "min"
    MAX = "max"


class Partition(Enum):
    """Partitions of an input that are not given by a column of its events."""

    SOURCE = "the source's own"
    """The partitions of the source itself, such as a Kafka topic; other sources have one partition."""


SOURCE: Literal[Partition.SOURCE] = Partition.SOURCE
"""The argument of ``with_watermark(partition=...)`` for the partitions of the source itself."""


class Aligned(Enum):
    """Which edges of aligned windows are multiples of the slide; this makes a difference if the length is not a
    multiple of the slide."""

    ENDS = "ends"
    """The ends, as in Storm (ST-3)."""
    STARTS = "starts"
    """The starts, as in Atlas (AT-3), StreamInsight and Azure."""


DefaultTimeName: TypeAlias = Literal["the clock", "the record's", "the arrival", "none"]


class DefaultTime(Enum):
    """The time of events if a bolt names no source of time, and its inputs carry no times."""

    CLOCK = "the clock"
    """Processing time (ST-9)."""
    RECORD = "the record's"
    """The time of the record in its Kafka topic; a bolt with other inputs must name a source of time (AT-10)."""
    ARRIVAL = "the arrival"
    """The column of the arrival, without policies (AZ-1, AZ-7); if no column is named, the clock."""
    NONE = "none"
    """No time: the bolt must name a source of time (SI-1)."""


OutputTimeName: TypeAlias = Literal["window end", "window last", "window start"]


class OutputTime(Enum):
    """The time of emitted rows."""

    END = "window end"
    """The end of the window (SI-31: PointAlignToWindowEnd; AZ-19)."""
    LAST = "window last"
    """One microsecond before the end of the window, for windows that do not hold their end: the row is then in the same
    window of the next bolt."""
    START = "window start"
    """The start of the window (SI-31: ClipToWindowEnd); the watermark for the next bolt follows the starts of windows
    too (SI-24)."""


@dataclass(frozen=True)
class InputRules:
    """The rules of one input of a bolt, which its source may declare (SI-17)."""

    watermark_every: Count | Duration | None
    delay: int
    """Microseconds by which its watermarks are behind its latest event; below zero if they are ahead of it."""
    late_action: LateAction


@dataclass(frozen=True, init=False)
class Arrival:
    """Limits on the time from an event to its arrival (AZ-8, AZ-12, AZ-14): ``Arrival("arrived", late="5s")``."""

    field: str | None
    """The column with the time of arrival; None: the clock of the micro-batch."""
    early: Duration | None
    """An event whose time is more than this after its arrival is early: it is turned away, and does not move the
    watermark. None: no limit."""
    late: Duration | None
    """An event that arrives more than this after its time is late. None: no limit."""
    action: LateAction
    """Action for an event that is late by its arrival."""

    @checked_value
    def __init__(
        self,
        field: str | None = None,
        early: Time | None = None,
        late: Time | None = None,
        action: LateAction | Literal["adjust", "drop", "divert", "error"] = LateAction.ADJUST,
    ) -> None:
        """Raise ConfigError for ``action="cut"``, which is only for events behind the watermark."""
        chosen = one_of(LateAction, action)
        if chosen is LateAction.CUT:
            raise ConfigError(
                "Arrival(action='cut')",
                why="a lifetime is cut at the watermark, and a late arrival is measured against the arrival",
                do="use 'adjust', 'drop', 'divert' or 'error'",
            )
        object.__setattr__(self, "field", field)
        object.__setattr__(self, "early", None if early is None else as_duration(early))
        object.__setattr__(self, "late", None if late is None else as_duration(late))
        object.__setattr__(self, "action", chosen)


@dataclass(frozen=True)
class Lifetime:
    """Events that last (SI-3): from their timestamp to the time in ``end_field``, exclusive; without an end if that is
    null or 9999-12-31."""

    end_field: str
    """The column with the end of an event."""
    shape_field: str | None = None
    """A column with the shape of each event, ``point``, ``interval``, ``start_edge`` or ``end_edge``; None: all events
    are intervals.

    A start edge lasts until the end of the end edge with the same start and the same ``edge_key``; either of the two
    may come first (SI-19). An end edge is invalid if its start edge has not come when the watermark is past its end.
    Cannot be combined with processing time, lateness by window, an idle timeout or a watermark for each key.
    """
    edge_key: tuple[str, ...] = ()
    """The columns that a start edge and its end edge have in common."""


NO_COLUMN: Final = ""
"""The value of ``Lifetime.end_field`` if no column has the ends of events: the next version of a key ends an event."""

START: Final = "start"
"""The value of ``anchor`` with which windows are counted from the first clock of the run."""
