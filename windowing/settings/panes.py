"""Firings of a window besides the one at its end: their triggers, and the events that they show.

Triggers are combined by ``|`` and ``&``: ``after_count(100) | after_clock("10s")`` fires when either of them does.
A trigger can fire a window several times; with ``.once()`` it fires each window at most once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal

import numpy as np

from windowing.calls import checked_value
from windowing.columns import make_read_only
from windowing.durations import Count, Duration, Time, as_duration, as_every
from windowing.errors import ConfigError
from windowing.settings.rules import one_of, read_flag

if TYPE_CHECKING:
    from numpy.typing import NDArray


RETRACT = "_retract"
"""Name of a column in the rows of a bolt with retracting panes: true in a row that takes back an earlier row."""


class Timing(Enum):
    """When a window fires: before its end, at its end, or after it."""

    EARLY = "early"
    ON_TIME = "on_time"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Pane:
    """One firing of a window (``with_trigger(Panes(...))``)."""

    index: int
    """0 for the first firing of the window."""
    timing: Timing
    """When the window fires: before its end, at its end or after it. If a late event opens a window, its first firing
    is late."""
    last: bool
    """True if the window cannot fire again."""


class PaneMode(Enum):
    """The events that a window shows when it fires again."""

    ACCUMULATING = "accumulating"
    """All events of the window so far."""
    DISCARDING = "discarding"
    """The events since the last firing."""
    RETRACTING = "retracting"
    """All events of the window so far. Before the new rows, the rows of the last firing are emitted again with
    ``_retract`` true."""


@dataclass(frozen=True, slots=True)
class OpenWindows:
    """The state of open windows that triggers decide by; arrays with an entry per window."""

    fresh: NDArray[np.int64]
    """Number of events since the last firing."""
    waited: NDArray[np.int64]
    """Microseconds of the clock since the last firing, or since the arrival of the first event."""
    advanced: NDArray[np.int64]
    """Microseconds by which the watermark has advanced since the last firing, or since the arrival of the first
    event."""
    fired: NDArray[np.int64]
    """Number of firings of each window so far."""

    def __post_init__(self) -> None:
        make_read_only(self, "fresh", "waited", "advanced", "fired")


class PaneTrigger:
    """Decides when an open window fires."""

    uses_clock = False
    """True if the trigger may fire when the clock advances, without a new event."""
    even_unchanged: bool = False
    """True if the trigger may fire windows without new events since their last firing."""

    def due(self, windows: OpenWindows) -> NDArray[np.bool_]:
        """Called at the end of each micro-batch with changes; returns a mask of the windows that fire now."""
        raise NotImplementedError

    def __or__(self, other: PaneTrigger) -> PaneTrigger:
        return AnyOf((self, other))

    def __and__(self, other: PaneTrigger) -> PaneTrigger:
        return AllOf((self, other))

    @checked_value
    def once(self) -> PaneTrigger:
        """Returns a trigger that fires each window at most once, when this trigger does."""
        return Once(self)


def fires(trigger: PaneTrigger, windows: OpenWindows) -> NDArray[np.bool_]:
    """Returns a mask of the windows that fire now: those that are due, and have new events if the trigger needs
    some."""
    due = trigger.due(windows)
    return due if trigger.even_unchanged else due & (windows.fresh > 0)


@dataclass(frozen=True)
class AfterCount(PaneTrigger):
    """Due when a window has received ``count`` events since the last firing."""

    count: Count

    def due(self, windows: OpenWindows) -> NDArray[np.bool_]:
        return windows.fresh >= self.count.value


@dataclass(frozen=True)
class AfterClock(PaneTrigger):
    """Due when the clock has advanced by ``wait`` since the last firing, or since the arrival of the first event."""

    wait: Duration
    even_unchanged: bool = False
    uses_clock = True

    def due(self, windows: OpenWindows) -> NDArray[np.bool_]:
        return windows.waited >= self.wait.micros


@dataclass(frozen=True)
class AfterEventTime(PaneTrigger):
    """Due when the watermark has advanced by ``wait`` since the last firing, or since the arrival of the first
    event."""

    wait: Duration
    even_unchanged: bool = False

    def due(self, windows: OpenWindows) -> NDArray[np.bool_]:
        return windows.advanced >= self.wait.micros


@dataclass(frozen=True)
class AnyOf(PaneTrigger):
    """Due when one of several triggers is due."""

    triggers: tuple[PaneTrigger, ...]

    @property
    def uses_clock(self) -> bool:  # type: ignore[override]
        return any(trigger.uses_clock for trigger in self.triggers)

    @property
    def even_unchanged(self) -> bool:  # type: ignore[override]
        return any(trigger.even_unchanged for trigger in self.triggers)

    def due(self, windows: OpenWindows) -> NDArray[np.bool_]:
        is_due: NDArray[np.bool_] = np.logical_or.reduce([fires(trigger, windows) for trigger in self.triggers])
        return is_due


@dataclass(frozen=True)
class AllOf(PaneTrigger):
    """Due when all of several triggers are due."""

    triggers: tuple[PaneTrigger, ...]

    @property
    def uses_clock(self) -> bool:  # type: ignore[override]
        return any(trigger.uses_clock for trigger in self.triggers)

    @property
    def even_unchanged(self) -> bool:  # type: ignore[override]
        return all(trigger.even_unchanged for trigger in self.triggers)

    def due(self, windows: OpenWindows) -> NDArray[np.bool_]:
        is_due: NDArray[np.bool_] = np.logical_and.reduce([fires(trigger, windows) for trigger in self.triggers])
        return is_due


@dataclass(frozen=True)
class Once(PaneTrigger):
    """Due when another trigger is, for windows that have not fired yet."""

    trigger: PaneTrigger

    @property
    def uses_clock(self) -> bool:  # type: ignore[override]
        return self.trigger.uses_clock

    @property
    def even_unchanged(self) -> bool:  # type: ignore[override]
        return self.trigger.even_unchanged

    def due(self, windows: OpenWindows) -> NDArray[np.bool_]:
        not_fired: NDArray[np.bool_] = windows.fired == 0
        return fires(self.trigger, windows) & not_fired


@dataclass(frozen=True, init=False)
class Panes:
    """Firings of a window besides the one at its end: ``with_trigger(Panes(early="10s", late=True))``.

    In ``execute``, ``window.pane`` is the present firing.
    """

    early: PaneTrigger | None
    """The trigger that fires a window before its end; None: never."""
    late: PaneTrigger | None
    """The trigger that fires a window again for late events, until the allowed lateness is over; None: never."""
    mode: PaneMode
    """The events that a window shows when it fires again."""
    closes: bool
    """True if a window fires only once, early or at its end; later events for the window are late."""
    at_end: Count | None
    """Least number of events with which a window fires at its end; None: it always fires."""

    @checked_value
    def __init__(
        self,
        early: PaneTrigger | int | Count | Time | None = None,
        late: PaneTrigger | int | Count | Time | bool | None = None,
        mode: PaneMode | Literal["accumulating", "discarding", "retracting"] = PaneMode.ACCUMULATING,
        *,
        closes: bool = False,
        at_end: int | Count | None = None,
    ) -> None:
        """``early``: when a window fires before its end: a trigger of ``windowing.settings.panes``, a number of events,
        or a duration of the clock.

        ``late``: when a window fires again for late events, until the allowed lateness is over: given like ``early``,
        or True for each micro-batch with late events. With ``early`` or ``late`` a window fires when the watermark
        reaches its end. It fires once more when the allowed lateness is over if late events have come since its last
        firing.

        ``closes``: True if a window fires only once, early or at its end, without waiting for the allowed lateness
        (Beam's AfterFirst). ``at_end``: a window fires at its end only if it holds this many events; with ``late`` it
        also fires later, as soon as it holds so many (Beam's AfterAll). The events of a window that never fires are
        ``unwindowed``.

        Raises ConfigError if none of ``early``, ``late`` and ``at_end`` is given, and for arguments that contradict
        each other.
        """
        object.__setattr__(self, "early", _read_trigger(early, "an early firing"))
        for_bool = {True: after_count(1), False: None}
        object.__setattr__(
            self, "late", for_bool[late] if isinstance(late, bool) else _read_trigger(late, "a firing for late events")
        )
        object.__setattr__(self, "mode", one_of(PaneMode, mode))
        object.__setattr__(self, "closes", read_flag("closes", closes))
        object.__setattr__(self, "at_end", Count(at_end) if isinstance(at_end, int) else at_end)
        self._check()

    def _check(self) -> None:
        """Raise ConfigError for arguments that contradict each other or have no effect."""
        if self.early is None and self.late is None and self.at_end is None:
            raise ConfigError(
                "Panes without early=, late= and at_end=",
                why="the window would fire only at its end, as it does without Panes",
                do="give early=, late=True, or both",
            )
        if self.closes and (self.early is None or self.late is not None):
            raise ConfigError(
                "Panes(closes=True) without early=" if self.early is None else "Panes(closes=True) with late=",
                why="closes=True makes the first firing the last: an early one, or else the one at the end",
                do="give early= and no late=, or leave closes= out",
            )
        unchanged = [trigger for trigger in (self.early, self.late) if trigger is not None and trigger.even_unchanged]
        if unchanged and (self.mode is PaneMode.DISCARDING or self.closes):
            what = "closes=True" if self.closes else "mode='discarding'"
            raise ConfigError(
                f"Panes({what}) with a trigger that fires windows even unchanged",
                why="the window would not fire again" if self.closes else "such a firing would show no events",
                do="leave even_unchanged= out, or " + ("closes=" if self.closes else "use mode='accumulating'"),
            )

    @property
    def on_time(self) -> bool:
        """True if a window fires when the watermark reaches its end, not only when the allowed lateness is over."""
        return self.early is not None or self.late is not None

    @property
    def uses_clock(self) -> bool:
        """True if a window may fire when the clock advances, without a new event."""
        return any(trigger is not None and trigger.uses_clock for trigger in (self.early, self.late))


@checked_value
def after_count(count: int | Count) -> PaneTrigger:
    """Fire a window when it has received this many events since its last firing."""
    return AfterCount(count if isinstance(count, Count) else Count(count))


@checked_value
def after_clock(wait: Time, *, even_unchanged: bool = False) -> PaneTrigger:
    """Fire a window with new events when the clock has advanced by ``wait`` since its last firing.

    ``even_unchanged``: True to fire windows without new events too, repeatedly until their end (Flink's continuous
    triggers).
    """
    return AfterClock(as_duration(wait), read_flag("even_unchanged", even_unchanged))


@checked_value
def after_event_time(wait: Time, *, even_unchanged: bool = False) -> PaneTrigger:
    """Fire a window with new events when the watermark has advanced by ``wait`` since its last firing.

    ``even_unchanged``: True to fire windows without new events too, repeatedly until their end; with a ``wait`` of one
    microsecond, at every new watermark.
    """
    return AfterEventTime(as_duration(wait), read_flag("even_unchanged", even_unchanged))


def _read_trigger(value: PaneTrigger | int | Count | Time | None, what: str) -> PaneTrigger | None:
    if value is None or isinstance(value, PaneTrigger):
        return value
    every = as_every(value, what)
    return after_count(every) if isinstance(every, Count) else after_clock(every)
