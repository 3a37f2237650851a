"""One evaluation of key triggers: what it reads; what fires, is purged or refused; what open windows can still hold.

A window is held to a capacity only where a bolt limits it.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from manager.keyed.byte_sizes import byte_sizes
from manager.keyed.key_states import KeyStates
from manager.triggered.keyed_events import KeyedEvents
from policies.firing import FULL, FiredRuns
from policies.window_capacity import NEVER_FULL, Filling, WindowCapacity
from windowing.errors import WindboltError
from windowing.settings.triggers import Capacity
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


_LONGEST_REASON = 1_000
"""In characters."""


class Refusals:
    """Which events are refused, and why."""

    def __init__(self, count: int) -> None:
        """``count`` is the number of all events."""
        self.mask = np.zeros(count, np.bool_)
        self._reasons: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def refuse(self, event: int, rule: Any, error: Exception) -> None:
        """Refuse an event because the rule raised this error."""
        self.mask[event] = True
        self._reasons[event] = _reason(rule, error).encode("utf-8", "backslashreplace").decode()[:_LONGEST_REASON]

    def by_place(self, places: NDArray[np.int64]) -> list[tuple[int, str]]:
        """(place, reason) of each refused event, in order; ``places`` has the place of every event."""
        return sorted((int(places[event]), reason) for event, reason in self._reasons.items())


def _reason(rule: Any, error: Exception) -> str:
    blame = getattr(rule, "blame", None)  # set by rules that know better where they are defined
    if isinstance(error, WindboltError):
        return str(error)
    if blame is not None:
        return str(blame(error))
    name = getattr(rule, "__qualname__", type(rule).__qualname__)
    line = traceback.extract_tb(error.__traceback__)[-1].lineno
    return f"rule {name}, line {line}: {type(error).__name__}: {_message(error)}"


def _message(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return "(it cannot say why)"


@dataclass
class KeyFirings:
    """The firings of an evaluation, in any order. A window holds the events from ``lows`` to ``highs``; the first five
    fields are lists of equal length."""

    lows: list[int] = field(default_factory=list)
    highs: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    causes: list[int] = field(default_factory=list)
    purges: list[bool] = field(default_factory=list)
    forgotten: list[tuple[int, int]] = field(default_factory=list)
    """(time in microseconds, hash) of the keys that are forgotten."""
    cleared: list[tuple[int, int]] = field(default_factory=list)
    """Runs of events that a rule purged without firing."""
    waiting: list[int] = field(default_factory=list)
    """Clocks, in microseconds, at which something is due."""
    unknown_answers: int = 0
    """Number of invalid answers of the rule; such an answer fires and purges (UH-18)."""

    @property
    def full(self) -> int:
        """Number of windows that fired because they reached their capacity."""
        return self.causes.count(FULL)

    def fire(self, low: int, high: int, end: int, cause: int, *, purge: bool = True) -> None:
        """Record the firing of one window."""
        self.lows.append(low)
        self.highs.append(high)
        self.ends.append(end)
        self.causes.append(cause)
        self.purges.append(purge)

    def take(self, fired: FiredRuns) -> None:
        """Record the firings of several windows."""
        self.lows += fired.lows.tolist()
        self.highs += fired.highs.tolist()
        self.ends += fired.ends.tolist()
        self.causes += fired.causes.tolist()
        self.purges += [True] * len(fired.lows)
        if fired.next_due is not None:
            self.waiting.append(fired.next_due)

    def cleared_of(self, count: int) -> NDArray[np.bool_]:
        """Which of all events were purged without a firing."""
        cleared = np.zeros(count, np.bool_)
        for low, high in self.cleared:
            cleared[low:high] = True
        return cleared

    def purged_of(self, count: int) -> NDArray[np.bool_]:
        """Which of all events were purged, by a firing or without one."""
        purges = np.array(self.purges, np.bool_)
        fired = zip(np.array(self.lows)[purges].tolist(), np.array(self.highs)[purges].tolist(), strict=True)
        steps = np.zeros(count + 1, np.int64)
        for low, high in (*fired, *self.cleared):
            steps[low] += 1
            steps[high] -= 1
        purged: NDArray[np.bool_] = np.cumsum(steps[:-1]) > 0
        return purged


class Room:
    """The capacity of windows, and which keys come near it. Events are measured only where a key may reach it."""

    def __init__(self, capacity: Capacity | None, arrivals: KeyedEvents, firings: KeyFirings) -> None:
        self._arrivals, self._firings = arrivals, firings
        measured = None if capacity is None or not len(arrivals) else _measured(capacity, arrivals)
        near = None if measured is None else measured.reached(arrivals.blocks.edges)
        reached = near is not None and bool(near.any())
        self.capacity = measured if reached else None
        """None where no key has enough events or bytes to reach it."""
        self.near: NDArray[np.bool_] = (
            near if near is not None and reached else np.zeros(len(arrivals.blocks.edges) - 1, np.bool_)
        )
        """Which blocks have enough events or bytes to reach it."""

    def open_start(self, block: int) -> int:
        """Where the open window of a key begins, after firing all windows that its old events fill.

        They can fill a window only where the capacity was larger when they came.
        """
        low, new = int(self._arrivals.blocks.edges[block]), int(self._arrivals.new_starts[block])
        if self.capacity is not None and self.near[block]:
            for start, high, last in self.capacity.parts(low, new):
                self._firings.fire(start, high, int(self._arrivals.times[last]), FULL)
                low = high
        return low

    def filling(self, block: int, start: int) -> Filling:
        """The fill level of a key's open window, which holds its old events from ``start`` on; ``NEVER_FULL`` far from
        capacity."""
        if self.capacity is None or not self.near[block]:
            return NEVER_FULL
        return Filling(self.capacity, start, int(self._arrivals.new_starts[block]))


def _measured(capacity: Capacity, arrivals: KeyedEvents) -> WindowCapacity:
    """The capacity, with the bytes of each event where all events together have enough for one window."""
    sizes = None
    if capacity.bytes is not None:
        columns = arrivals.payload.select(list(capacity.columns or arrivals.payload.column_names))
        if columns.nbytes + len(arrivals) >= capacity.bytes:
            sizes = byte_sizes(columns)[arrivals.places]
    return WindowCapacity.of(capacity, sizes)


@dataclass(frozen=True)
class Evaluation:
    """The events and records of a task's keys at a clock; firings, refusals and records are updated in place."""

    arrivals: KeyedEvents
    room: Room
    key_states: KeyStates
    firings: KeyFirings
    refusals: Refusals
    now: int
    """The clock in microseconds."""
    closing: bool
    """Whether the streams end at that clock, and all windows still open then fire."""

    @property
    def until(self) -> int:
        """The clock up to which windows without a timer of their own are due."""
        return FOREVER if self.closing else self.now
