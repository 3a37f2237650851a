"""One evaluation of key triggers: the events it reads; what fires, is purged or refused."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.key_states import KeyStates
from policies.firing import FULL, NEVER_FULL, Blocks, Filling, FiredRuns, WindowCapacity
from windowing.columns import byte_sizes, take_rows
from windowing.errors import WindboltError
from windowing.events import tuples_of
from windowing.settings.triggers import Capacity, ColumnRule
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manager.keyed.retained_events import Held, SortedEvents


# The events of a task's keys as key triggers see them: key by key, those of the open window before the new ones.


class KeyedEvents:
    """The events in order of (key, arrival); events are named by their indices in this order, keys by their blocks."""

    def __init__(self, events: Held, first_new: int, sorted_events: SortedEvents) -> None:
        """``first_new`` is the index, among the given events, of the first new one; ``sorted_events`` has them in
        order."""
        assert events.keys is not None
        count = len(events)
        self.events, self._first_new, self._sorted = events, first_new, sorted_events
        self.times = sorted_events.live.starts
        """The time of each event in microseconds."""
        self.places = sorted_events.places(np.arange(count))
        """The index of each event among the given ones."""
        keys = events.keys[self.places]
        self._is_new = self.places >= first_new
        edges = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [count]]) if count else np.zeros(1, int)
        self.blocks = Blocks(self.times, edges)
        self.keys: list[int] = keys[edges[:-1]].tolist()
        """The hash of the key of each block."""
        old = np.add.reduceat((~self._is_new).astype(np.int64), edges[:-1]) if count else np.zeros(0, np.int64)
        self.new_starts: NDArray[np.int64] = edges[:-1] + old
        """Start of the new events of each block, behind its old ones."""

    def __len__(self) -> int:
        return len(self.times)

    @property
    def payload(self) -> pa.Table:
        """The payload of the events as they were given."""
        return self.events.payload

    @property
    def fresh(self) -> NDArray[np.bool_]:
        """Returns which blocks have new events."""
        fresh: NDArray[np.bool_] = self.new_starts < self.blocks.edges[1:]
        return fresh

    def run(self, block: int) -> tuple[int, int]:
        """Returns where the events of a block begin and end."""
        low, high = self.blocks.edges[block : block + 2].tolist()
        return low, high

    def block_of(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the block of each of these events."""
        return np.searchsorted(self.blocks.edges, events, side="right") - 1

    def key_values(self, blocks: NDArray[np.int64], key: Sequence[str]) -> list[Any]:
        """Returns the value of the key of each of these blocks, which have new events; tuples where it has several
        columns."""
        columns = [column.to_pylist() for column in self._new_rows(self.new_starts[blocks], key).columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def new_events(self) -> NDArray[np.int64]:
        """Returns the indices of the new events, in order."""
        return np.flatnonzero(self._is_new)

    def asked(self, rule: Any) -> Iterator[Any]:
        """Returns a rule's argument for each new event, in order: a Tuple, or what a ColumnRule reads from the columns.

        A rule may name the columns that it needs (``columns``); otherwise it gets all.
        """
        names = getattr(rule, "columns", None)
        events = self.new_events()
        rows = self._new_rows(events, self.payload.column_names if names is None else names)
        if isinstance(rule, ColumnRule):
            return rule.read(rows)
        return iter(tuples_of(rows, self.times[events].tolist(), self._sorted.streams_of(events)))

    def _new_rows(self, events: NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
        """Returns columns of new events, without touching the old ones, of which there may be very many."""
        new = self.payload.select(list(columns)).slice(self._first_new)
        return take_rows(new, self.places[events] - self._first_new)


# One evaluation of key triggers: what it reads; what fires, is purged or refused; what open windows can still hold.
#
# A window is held to a capacity only where a bolt limits it.


_LONGEST_REASON = 1_000
"""Greatest length of a reason in characters."""


class Refusals:
    """Refused events and the reasons."""

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
        """Returns which of all events were purged without a firing."""
        cleared = np.zeros(count, np.bool_)
        for low, high in self.cleared:
            cleared[low:high] = True
        return cleared

    def purged_of(self, count: int) -> NDArray[np.bool_]:
        """Returns which of all events were purged, by a firing or without one."""
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
        """The capacity; None where no key has enough events or bytes to reach it."""
        self.near: NDArray[np.bool_] = (
            near if near is not None and reached else np.zeros(len(arrivals.blocks.edges) - 1, np.bool_)
        )
        """True for blocks that have enough events or bytes to reach the capacity."""

    def open_start(self, block: int) -> int:
        """Returns where the open window of a key begins, after firing all windows that its old events fill.

        Old events fill a window only if the capacity was larger when they came.
        """
        low, new = int(self._arrivals.blocks.edges[block]), int(self._arrivals.new_starts[block])
        if self.capacity is not None and self.near[block]:
            for start, high, last in self.capacity.parts(low, new):
                self._firings.fire(start, high, int(self._arrivals.times[last]), FULL)
                low = high
        return low

    def filling(self, block: int, start: int) -> Filling:
        """Returns the fill level of a key's open window, which holds its old events from ``start`` on; ``NEVER_FULL``
        far from capacity."""
        if self.capacity is None or not self.near[block]:
            return NEVER_FULL
        return Filling(self.capacity, start, int(self._arrivals.new_starts[block]))


def _measured(capacity: Capacity, arrivals: KeyedEvents) -> WindowCapacity:
    """Returns the capacity, with the bytes of each event where all events together have enough for one window."""
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
    """True if the streams end at that clock; then all windows still open fire."""

    @property
    def until(self) -> int:
        """The clock up to which windows without a timer of their own are due."""
        return FOREVER if self.closing else self.now
