"""The protocol of policies: which events a window holds (eviction), and when it fires (trigger).

What a policy is called with depends on the events and on time alone, never on where batches end. A trigger is told of
every event once, in order of (time, arrival), of moments of time between them, and of the end of the streams; it
answers whether a window fires. An eviction is told of the same events and, when a window fires, asked about those that
it has not let expire, up to the one that fires and no further.

Each policy has a state for each task, or for each key with ``with_key``, and sees no other task and no other key. A
policy object itself holds its parameters only: keep it frozen, and all that changes in ``context.state``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from windowing.durations import Duration
from windowing.errors import ConfigError
from windowing.reprs import call_repr, fields_repr, repr_of, simple_attributes

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Action(IntEnum):
    """An eviction policy's decision about one event, when a window fires (ST-19)."""

    EXPIRE = 0
    """The event is not in this window, and in no later one: it is removed, and the eviction is not called for it
    again."""
    PROCESS = 1
    """The event is in this window, and is asked about again for the next one."""
    KEEP = 2
    """The event is not in this window, and is asked about again for the next one."""
    STOP = 3
    """The event and all events after it are kept as with KEEP; the later ones are not asked about for this window."""


class Fire(Enum):
    """A trigger's answer other than ``True``, which fires a window that ends with this event or at this moment."""

    BEFORE = "before"
    """A window fires that ends before the event, which is for the next one; from ``on_time``, before the moment, so
    that events exactly at it are for the next window."""


class QueuedEvent:
    """One event, as a policy sees it: valid during the call only.

    ``event["price"]`` is its value in a column, as a Python value; None for null. Raises KeyError for an unknown
    column.
    """

    __slots__ = ("_columns", "_index", "_streams", "number", "timestamp")

    def __init__(
        self,
        number: int = 0,
        timestamp: int = 0,
        columns: Mapping[str, Sequence[Any]] | None = None,
        index: int = 0,
        streams: Sequence[str] | NDArray[np.object_] = ("default",),
    ) -> None:
        """``columns`` has the values of each column, of which this event has those at ``index``. ``streams`` has the
        name of the stream of each event."""
        self.number = number
        """Number of events of the task (of the key, with ``with_key``) before it, in order of (time, arrival): 0 for
        the first. It never changes, and is the same in all hooks of both policies."""
        self.timestamp = timestamp
        """Event time in microseconds UTC; in processing time, the clock at arrival."""
        self._columns: Mapping[str, Sequence[Any]] = {} if columns is None else columns
        self._index, self._streams = index, streams

    def __getitem__(self, column: str) -> Any:
        return self._columns[column][self._index]

    @property
    def stream(self) -> str:
        """The name of the input stream that it came by."""
        return self._streams[self._index]

    def row(self) -> dict[str, Any]:
        """Returns all columns of the event, by name. Slower than ``event["price"]`` if there are many."""
        return {name: self._columns[name][self._index] for name in self._columns}

    def __repr__(self) -> str:
        return f"QueuedEvent(number={self.number}, timestamp={self.timestamp}, {self.row()!r:.100})"


class QueuedEvents:
    """Some events in order, as columns, for a policy that decides on arrays. Valid during the call only.

    ``events["price"]`` is a NumPy array of the values of a column; do not write to it. If one of them is null, whole
    numbers are floats with NaN, and truth values and texts are objects with None. Raises KeyError for an unknown
    column.
    """

    __slots__ = ("_columns", "_streams", "_where", "numbers", "timestamps")

    def __init__(
        self,
        numbers: NDArray[np.int64],
        timestamps: NDArray[np.int64],
        columns: Mapping[str, NDArray[Any]],
        where: slice | NDArray[np.int64] = slice(None),
        streams: NDArray[np.object_] | None = None,
    ) -> None:
        """``where``: the indices of these events in ``columns``, and in ``streams``, which has the name of the stream
        of each."""
        self.numbers = numbers
        """The number of each event, int64: see ``QueuedEvent.number``."""
        self.timestamps = timestamps
        """The time of each event in microseconds, int64."""
        self._columns, self._where, self._streams = columns, where, streams

    @property
    def streams(self) -> NDArray[np.object_]:
        """The name of the input stream that each came by, an array of str."""
        return np.full(len(self), "default", object) if self._streams is None else self._streams[self._where]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, column: str) -> NDArray[Any]:
        values: NDArray[Any] = self._columns[column][self._where]
        return values

    def __repr__(self) -> str:
        return f"<QueuedEvents: {len(self)} events>"


@dataclass(slots=True, repr=False)
class PolicyContext:
    """Information for a policy at each call, besides the event."""

    state: dict[str, Any] = field(default_factory=dict)
    """The policy's state for this task or key: the names of ``state_types``. Change it in place."""
    key: Any = None
    """The key: a value, or a tuple where ``with_key`` names several columns; None without ``with_key``."""
    time: int = 0
    """Time that has been reached, in microseconds: the time of the event (or of a later one, see ``on_arrival``), or
    the moment. That is the watermark as far as a rule may know it, since the watermark itself depends on where batches
    end; in processing time, the clock."""
    count: int = 0
    """Number of events so far, with this one; in ``evict``, the number up to the end of the window, so that the policy
    is called only for events with smaller numbers."""
    fired: int | None = None
    """The reference of the window for which the trigger fired last, in microseconds; None before the first."""
    fired_count: int = 0
    """Number of events up to the end of that window: ``count - fired_count`` have come since."""

    def __repr__(self) -> str:
        return fields_repr(self)


@dataclass(slots=True, repr=False)
class EvictionContext(PolicyContext):
    """The context of an eviction policy."""

    reference: int = 0
    """In ``evict``, the end of the window that fires, in microseconds; in ``track``, the time of the event."""


@dataclass(slots=True, repr=False)
class TriggerContext(PolicyContext):
    """The context of a trigger policy."""

    wake_at: int | None = None
    """The moment, in microseconds, at which ``on_time`` is called once, and then is None. Set it to a later moment than
    ``time``, or to None for no call; it replaces the moment that was set before."""


class Policy:
    """Base class of both kinds of policies."""

    state_types: ClassVar[Mapping[str, type]] = {}
    """The names in ``context.state`` and their types: int, float, str, bool, list or dict; None is allowed for each.
    Kept as JSON."""
    reads: ClassVar[str | Sequence[str] | None] = None
    """The columns that the policy reads, ``"kind, price"``; None for all, which a run then reads and keeps."""

    def __repr__(self) -> str:
        return call_repr(type(self).__qualname__, **simple_attributes(self))

    @property
    def columns_read(self) -> frozenset[str] | None:
        """The columns of ``reads``; None for all. Raises ConfigError for any other value."""
        given = self.reads
        if given is None or given == "*":
            return None if is_own(self) else frozenset()
        names = given.split(",") if isinstance(given, str) else given
        if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(each, str) for each in names):
            raise ConfigError(
                f"{type(self).__name__}.reads = {repr_of(given):.60}",
                why="it is the names of columns",
                do='write reads = "kind, price"',
            )
        return frozenset(name.strip() for name in names if name.strip())

    forget_after: Duration | None = None
    """Time that a key (a task, without ``with_key``) may be without an event; None for ever. After that time, and after
    the moments up to it, ``on_end`` is called, and the key is forgotten: both states, its events and their number. The
    next event of the key counts as its first. If both policies set it, the shorter time counts."""

    def start(self, state: dict[str, Any]) -> None:
        """Called once for each task or key, before its first event: sets its first state. Called again before the first
        event after the key was forgotten.

        Before it, numbers are 0, and texts, lists and dicts empty.
        """


_BUILT_IN = "policies.storm"


def is_own(policy: Policy) -> bool:
    """True for a policy of a user's own: its class is not one of windbolt's, but may be a subclass of one."""
    return type(policy).__module__ != _BUILT_IN


class EvictionPolicy(Policy):
    """Decides which events a window holds. Override ``evict``, or ``evict_all`` to decide on arrays."""

    def track(self, event: QueuedEvent, context: EvictionContext) -> None:
        """Called with each event once, in order of (time, arrival), before any window that may hold it fires."""

    def track_all(self, events: QueuedEvents, context: EvictionContext) -> None:
        """Called instead of ``track``, if overridden: with all events between two windows, or some of them.

        The rule that keeps windows independent of the cut: a call with the first events and then one with the others
        must leave the same state as one call with all of them.
        """

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        """Called when a window fires, for each event that has not expired, in order, from the oldest to the last one
        that the window may hold, until the answer is STOP.

        An event that gets EXPIRE without having been in a window counts as ``unwindowed``. A window that holds no event
        does not reach the bolt.
        """
        raise NotImplementedError

    def evict_all(self, events: QueuedEvents, context: EvictionContext) -> NDArray[np.integer[Any]]:
        """Called instead of ``evict``, if overridden: once for each window that fires, with all events for which
        ``evict`` would be called. Returns an Action for each: ``np.where(good, Action.PROCESS, Action.EXPIRE)``."""
        raise NotImplementedError

    def reset(self, context: EvictionContext) -> None:
        """Called when the trigger has fired and ``evict`` has decided about all events of that window."""

    @property
    def reach(self) -> Duration | None:
        """Greatest time after an event at which it can still be in a window; None if time does not decide it.

        Only for windows that end at multiples of a slide: with a reach, an end fires if an event has come within this
        time before it; without one, if an event has come since the end before it.
        """
        return None

    def window_start(self, reference: int) -> int | None:
        """Returns the start of the window that fires at the reference; both in microseconds. None if it has no
        start."""
        return None if self.reach is None else reference - self.reach.micros


class TriggerPolicy(Policy):
    """Decides when a window fires, and where it ends. Override ``track`` (or ``track_all``), ``on_time``, or both.

    An answer is False; True for a window that ends with this event, or at this moment; or ``Fire.BEFORE``. The
    reference of a window, its end, is the time of that event, or the moment.
    """

    event_time: ClassVar[bool | None] = None
    """The time that the policy needs: event time (True), the clock (False), or the time of the bolt (None)."""
    every: Duration | None = None
    """Interval of ``on_time``, which is called at each multiple of this that passes, if an event has come since the
    multiple before. None: only ``wake_at`` counts."""
    offset: Duration = Duration(0)
    """Shift of the multiples of ``every`` from those since the epoch, in UTC: ``days(1)`` less ``hours(9)`` is midnight
    in Tokyo."""

    def track(self, event: QueuedEvent, context: TriggerContext) -> Answer:
        """Called with each event once, in order of (time, arrival): in event time once the watermark has reached it,
        in processing time when it arrives."""
        return False

    def track_all(self, events: QueuedEvents, context: TriggerContext) -> NDArray[np.bool_]:
        """Called instead of ``track``, if overridden: with all events between two moments, or some of them. Returns for
        each event True if a window fires that ends with it. ``context`` is the context before the first event. The
        state must be left as it is after the last event, since ``reset`` is not called for these windows, and
        ``wake_at`` cannot be set.

        The rule that keeps windows independent of the cut: a call with the first events and then one with the others
        must give the same answers, and leave the same state, as one call with all of them.
        """
        raise NotImplementedError

    def on_time(self, time: int, context: TriggerContext) -> Answer:
        """Called at each moment that ``every`` or ``wake_at`` asks for, in microseconds, after all events up to it:
        once the watermark (in processing time, the clock) is past it. True fires a window that ends at the moment.

        At the end of the streams the moments that are asked for by then pass too, before ``on_end``.
        """
        return False

    def on_arrival(self, event: QueuedEvent) -> bool:
        """Called with each event when it arrives, in order of arrival, before the watermark has reached it: True fires
        at once.

        ``track`` is first called for all events (of the key) that have arrived, in order of (time, arrival), with the
        moments between them; then a window fires that ends with the last of them. So **it follows arrival**: an event
        that comes later is after these, whatever its time, and time does not go back. Decide by the event alone: how
        far ``track`` is when an event arrives depends on where batches end. ``event.number`` is -1. Not called in
        processing time, where ``track`` is called on arrival.
        """
        return False

    def on_end(self, context: TriggerContext) -> Answer:
        """Called at the end of the streams, after all events and moments. True fires a window that ends with the last
        event; its rows reach the next bolt with the time of the watermark, if the watermark is past this event.
        Otherwise nothing fires then, and events in no window stay ``pending``.

        With ``forget_after`` it is called when the key is forgotten, at that moment; at the end of the streams all keys
        are forgotten. Events in no window are then ``purged``.
        """
        return False

    def reset(self, context: TriggerContext) -> None:
        """Called when the trigger has fired, before the next event; the decisions of the eviction are unknown."""


Answer = bool | Fire
"""Type of a trigger's answer."""


def forget_after(*policies: Policy) -> Duration | None:
    """Returns how long a key or task may be without an event before it is forgotten; None for ever."""
    given = [each.forget_after for each in policies if each.forget_after is not None]
    return min(given, key=lambda each: each.micros, default=None)


def overrides(policy: Policy, *hooks: str) -> bool:
    """True if a user's class, of the policy or a base class, defines one of the hooks."""
    return _defines(type(policy), hooks)  # type: ignore[arg-type]  # classes can be hashed


@lru_cache(maxsize=1_000)
def _defines(kind: type, hooks: tuple[str, ...]) -> bool:
    return any(hook in vars(each) for each in _of_users(kind) for hook in hooks)


def _of_users(kind: type) -> Iterator[type]:
    """Yields the class of a policy, and those above it, up to those that windbolt brings."""
    for each in kind.__mro__:
        if each.__module__ in (__name__, _BUILT_IN):
            return
        yield each
