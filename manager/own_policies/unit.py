"""One task, or one key, with policies of a user's own: what is kept of it, its told events, and errors of policies.

An event is *told* once its place in the order, and so its number, is final.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from policies.protocol import Policy, QueuedEvent, QueuedEvents
from windowing.time.timestamps import show

if TYPE_CHECKING:
    from numpy.typing import NDArray


class PolicyFailure(Exception):
    """What a policy raised or answered wrongly, and what it was called with."""

    def __init__(
        self, policy: Policy, hook: str, about: QueuedEvent | str, key: Any, error: BaseException | str
    ) -> None:
        """``about`` is the event, moment or window; ``error`` what the policy raised, or what is wrong with its
        answer."""
        super().__init__(str(error))
        self.policy, self.hook, self.key, self.error = policy, hook, key, error
        if isinstance(about, QueuedEvent):
            which = "an event" if about.number < 0 else f"event {about.number}"
            about = f"{which} at {show(about.timestamp)}"
        self.about = about


class _Walk(Protocol):
    """What calls a policy for one unit."""

    policy: Any
    key: Any


def call(walk: _Walk, hook: str, about: QueuedEvent | str, *arguments: Any) -> Any:
    """Call a hook of a policy. Raises PolicyFailure for what it raises."""
    try:
        return getattr(walk.policy, hook)(*arguments)
    except (Exception, SystemExit) as error:  # else sys.exit() would end a run as if it had succeeded
        raise PolicyFailure(walk.policy, hook, about, walk.key, error) from error


@dataclass
class UnitRecord:
    """What is kept of a unit between two batches, apart from its events; times in microseconds."""

    count: int = 0
    """Number of events told."""
    time: int | None = None
    """How far time has come; None before the first event."""
    ties: int = 0
    """Number of the last events, one after another, that are at this time."""
    fired: int | None = None
    """The reference of the last firing."""
    fired_count: int = 0
    """Number of events up to it."""
    tracked: int = 0
    """Number of events that the eviction has been told of."""
    evicted: int | None = None
    """The reference of the last firing that the eviction has decided about."""
    evicted_count: int = 0
    """Number of events up to that."""
    touched: int | None = None
    """How far time had come with the last event."""
    wake_at: int | None = None
    """The moment that the trigger has asked for."""
    next_end: int | None = None
    """The next multiple of ``every``, or the next end of a slide, of which the trigger is to be told."""
    last_end: int | None = None
    """The last end of a slide that an event so far makes due."""
    trigger: dict[str, Any] = field(default_factory=dict)
    """The state of the trigger."""
    eviction: dict[str, Any] = field(default_factory=dict)
    """The state of the eviction."""

    @staticmethod
    def from_text(text: str) -> UnitRecord:
        """The record that ``to_text`` gave."""
        return UnitRecord(**json.loads(text))

    def to_text(self) -> str:
        """The record as JSON."""
        return json.dumps(vars(self))

    @property
    def next_moment(self) -> int | None:
        """The next moment that the trigger is to be told of; None where there is none."""
        wake, end = self.wake_at, self.next_end
        return end if wake is None else wake if end is None else min(wake, end)


Indices = range | np.ndarray
"""Indices of events: a range where they follow each other, which costs nothing, else an array."""


def packed(indices: NDArray[np.int64]) -> Indices:
    """Indices that ascend, as a range where they follow each other."""
    if not len(indices):
        return range(0)
    low, high = int(indices[0]), int(indices[-1]) + 1
    return range(low, high) if high - low == len(indices) else indices


def at(indices: Indices) -> slice | NDArray[np.int64]:
    """Indices as what picks them from an array."""
    return slice(indices.start, indices.stop) if isinstance(indices, range) else indices


def among(indices: Indices, which: NDArray[np.bool_]) -> Indices:
    """Those of the indices that a mask picks."""
    count = int(np.count_nonzero(which))
    if count == len(indices):
        return indices
    if not isinstance(indices, range):
        return packed(indices[which])
    first = int(which.argmax())
    if which[first : first + count].all():
        return range(indices.start + first, indices.start + first + count)
    return np.flatnonzero(which) + indices.start


@dataclass(frozen=True)
class ToldEvents:
    """Events in the order in which they are told; arrays of equal length."""

    times: NDArray[np.int64]
    places: Indices
    """The place of each in the columns; a range where they follow each other."""
    lists: Mapping[str, Sequence[Any]]
    """The columns as Python values, made when one is asked for; of these events and others."""
    arrays: Mapping[str, NDArray[Any]]
    """The same columns as NumPy arrays."""
    streams: Sequence[str] = ()
    """The name of the stream of each of them; empty where there is one stream."""

    def __len__(self) -> int:
        return len(self.times)

    @property
    def rows(self) -> Sequence[int]:
        """The place of each, as Python numbers."""
        return self.places if isinstance(self.places, range) else self.places.tolist()

    def columns(self, which: Indices, numbers: NDArray[np.int64]) -> QueuedEvents:
        """The events at these indices, which have these numbers, as columns."""
        index = at(which)
        places = self.places[index] if isinstance(index, slice) else np.asarray(self.places)[index]
        return QueuedEvents(_read_only(numbers), _read_only(self.times[index]), self.arrays, at(places))


def _read_only(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """A view that a policy cannot write to: the array is what the engine goes by."""
    view = array.view()
    view.flags.writeable = False
    return view
