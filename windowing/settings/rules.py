"""The rules on which systems differ: closed choices, each a setting with one home (``WindowSettings``)."""

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


# Which end of a window belongs to it: the one place that knows. Other code asks, and never compares itself.


class Bounds(Enum):
    """The end of a window of time that belongs to it (``with_alignment(bounds=...)``)."""

    END = "(start, end]"
    """Storm's and Azure's (ST-10, AZ-19): an event at the end belongs to the window, one at the start does not."""

    START = "[start, end)"
    """Atlas's, StreamInsight's and Flink's (AT-1): an event at the start belongs to the window, one at the end does
    not."""

    def holds(self, start: int, end: int, timestamp: int) -> bool:
        """True if the window from ``start`` to ``end`` holds an event of this time (all in microseconds)."""
        return start < timestamp <= end if self is Bounds.END else start <= timestamp < end

    def among(self, timestamps: NDArray[np.int64], start: int, end: int) -> NDArray[np.bool_]:
        """Returns a mask of the events that the window from ``start`` to ``end`` holds."""
        if self is Bounds.END:
            return (timestamps > start) & (timestamps <= end)
        return (timestamps >= start) & (timestamps < end)

    def first_end(self, timestamps: NDArray[np.int64], slide: int, offset: int) -> NDArray[np.int64]:
        """Returns the earliest aligned end whose window may hold each event: the first multiple of the slide not before
        it."""
        shifted = timestamps - offset
        if self is Bounds.END:
            return -((-shifted) // slide) * slide + offset
        return (shifted // slide + 1) * slide + offset

    def last_end(self, timestamps: NDArray[np.int64], length: int, slide: int, offset: int) -> NDArray[np.int64]:
        """Returns the latest aligned end whose window of this length still holds each event.

        It lies before ``first_end`` when the slide is longer than the length and the event falls in the gap.
        """
        reach = timestamps + length - offset - (1 if self is Bounds.END else 0)
        return reach // slide * slide + offset

    def up_to(self, timestamps: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns how many of the sorted timestamps lie before the end of each window; given starts, the first place in
        each window."""
        return np.searchsorted(timestamps, ends, side="right" if self is Bounds.END else "left")


# Which events of a join have a row: pairs, and events without a partner.


How = Literal["inner", "left", "right", "full", "semi", "anti"]
"""``inner``: pairs; ``left``, ``right``, ``full``: also left events, right events, or both, without a partner;
``semi``, ``anti``: left events that have a partner, or have none."""


def check_how(how: object) -> None:
    """Raise ConfigError for anything that is not a ``How``."""
    if how not in get_args(How):
        raise ConfigError(
            f"a join with how={how!r:.60}",
            why=f"that is none of {', '.join(get_args(How))}",
            do="use how='inner' for pairs only, 'left' to keep left events without a partner",
        )


# The rules on which systems differ: closed choices, each a setting with one home (``WindowSettings``).


Choice = TypeVar("Choice", bound=Enum)


def one_of(rules: type[Choice], value: Choice | str) -> Choice:
    """Returns the choice that a user means, by itself or by its value; raises ConfigError, with the possible values,
    for anything else."""
    try:
        return rules(value)
    except ValueError:
        name, says = _NAMES.get(rules.__name__, (f"a value of {rules.__name__}", ""))
        raise ConfigError(
            f"{value!r} is not {name}",
            why=f"{name}: {says}" if says else "",
            do=f"use one of {', '.join(repr(each.value) for each in rules)}",
        ) from None


def flag(argument: str, value: object) -> bool:
    """Returns a boolean; raises ConfigError for anything else, because Python would take the text "no" for true."""
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
"""The name of each choice in messages, and its meaning."""


class LateBy(Enum):
    """When an event is late."""

    WATERMARK = "watermark"
    """Earlier than the watermark, although its window may be open (ST-17, SI-4, AZ-11)."""
    WINDOW = "window"
    """When every window that could hold it has closed (AT-16)."""


LateActionName: TypeAlias = Literal["divert", "drop", "adjust", "cut", "error"]


class LateAction(Enum):
    """Action for a late event."""

    DIVERT = "divert"
    """A late event goes to the late stream, if there is one, and into the account ``late`` (ST-18, AT-16)."""
    DROP = "drop"
    """A late event goes into the account ``dropped``, and nowhere else (SI-12, AZ-9)."""
    ADJUST = "adjust"
    """The time of a late event is moved to the earliest that is not late (SI-13, AZ-9); its columns do not change."""
    CUT = "cut"
    """A late lifetime is cut to begin at the earliest time that is not late; late points and ends of edges are dropped
    (SI-13)."""
    ERROR = "error"
    """The run stops (SI-14)."""


IdleRuleName: TypeAlias = Literal["after_window_end", "max_remaining"]


class IdleRule(Enum):
    """When the idle timeout closes a window."""

    AFTER_WINDOW_END = "after_window_end"
    """The timeout after the later of the window's end and the last arrival, by the clock (AT-17)."""
    MAX_REMAINING = "max_remaining"
    """The timeout after the last arrival, and not before the window's end (AT-19)."""


class WatermarkCombiner(Enum):
    """Rule that joins the watermarks of several inputs into one."""

    MIN = "min"
    MAX = "max"


class Partition(Enum):
    """Division of an input into partitions other than by a column of its events."""

    SOURCE = "the source's own"
    """The partitions that the source itself has, a topic of Kafka's; other sources have one."""


SOURCE: Literal[Partition.SOURCE] = Partition.SOURCE
"""A bolt's watermark has one partition for each partition of its source."""


class Aligned(Enum):
    """The edge of aligned windows that is a multiple of the slide; it matters if the length is no multiple of the
    slide."""

    ENDS = "ends"
    """The ends, as in Storm (ST-3)."""
    STARTS = "starts"
    """The starts, as in Atlas (AT-3), StreamInsight and Azure."""


DefaultTimeName: TypeAlias = Literal["the clock", "the record's", "the arrival", "none"]


class DefaultTime(Enum):
    """The time that a bolt uses if it names none and its inputs bring none along."""

    CLOCK = "the clock"
    """Processing time (ST-9)."""
    RECORD = "the record's"
    """The time at which the broker took a record; if there is none, the bolt must name a time (AT-10)."""
    ARRIVAL = "the arrival"
    """The column of the arrival, without policies (AZ-1, AZ-7); if no column is named, the clock."""
    NONE = "none"
    """There is no default: the bolt must name a time (SI-1)."""


OutputTimeName: TypeAlias = Literal["window end", "window last", "window start"]


class OutputTime(Enum):
    """The time of emitted rows."""

    END = "window end"
    """A point at the end of the window (SI-31: PointAlignToWindowEnd; AZ-19)."""
    LAST = "window last"
    """The last microsecond of a window that does not hold its end, so that the next bolt has the row in the same
    window."""
    START = "window start"
    """The lifetime of the window (SI-31: ClipToWindowEnd): rows have its start as their time, and the watermark for the
    next bolt follows the starts too (SI-24)."""


@dataclass(frozen=True)
class InputRules:
    """Rules of one input of a bolt that its source declares (SI-17)."""

    watermark_every: Count | Duration | None
    delay: int
    """Time that its watermarks stay behind its latest event, in microseconds; below zero where they run ahead."""
    late_action: LateAction


@dataclass(frozen=True, init=False)
class Arrival:
    """Limits on the time from an event to its arrival (AZ-8, AZ-12, AZ-14): ``Arrival("arrived", late="5s")``."""

    field: str | None
    """The column with the time of arrival; None: the clock of the micro-batch."""
    early: Duration | None
    """An event from further in the future is early: turned away, and the watermark does not see it. None: never."""
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
        """Raises ConfigError for ``action="cut"``, which is only for events behind the watermark."""
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
    """Events that last (SI-3): from their timestamp to the time in ``end_field``, exclusively; until further notice if
    that is null, or 9999-12-31."""

    end_field: str
    """The column with the end of an event."""
    shape_field: str | None = None
    """A column with ``point``, ``interval``, ``start_edge`` or ``end_edge``; None: all are intervals.

    A start edge lasts until the end that the end edge with the same start and the same ``edge_key`` tells, whichever of
    the two comes first (SI-19). An end edge whose start has not come when the watermark reaches its end is invalid.
    Not beside an idle timeout or a watermark for each key.
    """
    edge_key: tuple[str, ...] = ()
    """The columns by which an end edge finds its start."""


NO_COLUMN: Final = ""
"""Instead of ``Lifetime.end_field``: no event says when it ends; the next version of its key ends it."""

START: Final = "start"
"""Windows are counted from when the topology first ran, by its clock."""
