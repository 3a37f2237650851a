"""The base classes of policies, which decide the events of a window (eviction) and when it fires (trigger).

The calls of a policy depend on the events and on time alone, never on where batches end. A trigger policy is called
once with every event, in order of (time, arrival), at moments of time between events, and at the end of the streams; it
decides whether a window fires. An eviction policy is called with the same events. When a window fires, it is called for
each event that has not expired, up to the end of the window.

Each policy has a state for each task, or with ``with_key`` for each key, and gets no events of other tasks or keys.
Keep all values that change in ``context.state``; the policy object holds parameters only, and should be frozen.
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
    """The event is neither in this window nor in a later one: it is removed, and ``evict`` is not called for it
    again."""
    PROCESS = 1
    """The event is in this window; ``evict`` is called for it again for the next window."""
    KEEP = 2
    """The event is not in this window; ``evict`` is called for it again for the next window."""
    STOP = 3
    """The event and all later events are treated as with KEEP; ``evict`` is not called for later events of this
    window."""


class Fire(Enum):
    """A trigger's answer besides True and False."""

    BEFORE = "before"
    """Fire a window that ends before the event; the event belongs to the next window. From ``on_time``: fire a window
    that ends before the moment; events exactly at the moment belong to the next window."""


class QueuedEvent:
    """One event, for a policy; valid during the call only.

    ``event["price"]`` is the value of a column as a Python object; None for null. Raises KeyError for an unknown
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
        """``columns``: the columns of several events; ``streams``: the name of the stream of each; ``index``: the index
        of this event in both."""
        self.number = number
        """The number of the event in its task, or with ``with_key`` in its key, from 0, in order of (time, arrival). It
        never changes, and is the same in all hooks of both policies."""
        self.timestamp = timestamp
        """Event time in microseconds UTC; in processing time, the clock at arrival."""
        self._columns: Mapping[str, Sequence[Any]] = {} if columns is None else columns
        self._index, self._streams = index, streams

    def __getitem__(self, column: str) -> Any:
        return self._columns[column][self._index]

    @property
    def stream(self) -> str:
        """The name of the input stream of the event."""
        return self._streams[self._index]

    def row(self) -> dict[str, Any]:
        """Returns the values of all columns, by name. Slower than ``event["price"]`` if there are many columns."""
        return {name: self._columns[name][self._index] for name in self._columns}

    def __repr__(self) -> str:
        return f"QueuedEvent(number={self.number}, timestamp={self.timestamp}, {self.row()!r:.100})"


class QueuedEvents:
    """Several events in order, as columns, for a policy that decides on arrays; valid during the call only.

    ``events["price"]`` is a NumPy array of the values of a column, which must not be changed. In a column with a null,
    whole numbers become floats with NaN for null, booleans and texts objects with None. Raises KeyError for an unknown
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
        """``columns`` and ``streams``: the columns and the stream names of these and perhaps further events; ``where``:
        the indices of these events in both."""
        self.numbers = numbers
        """The number of each event, int64; see ``QueuedEvent.number``."""
        self.timestamps = timestamps
        """The time of each event in microseconds, int64."""
        self._columns, self._where, self._streams = columns, where, streams

    @property
    def streams(self) -> NDArray[np.object_]:
        """The name of the input stream of each event, an array of str."""
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
    """An argument of the hooks of a policy: its state, the key, the time, and counts of events."""

    state: dict[str, Any] = field(default_factory=dict)
    """The state of the policy for this task or key, with the names of ``state_types``. Change it in place."""
    key: Any = None
    """The key: a value, or a tuple if ``with_key`` names several columns; None without ``with_key``."""
    time: int = 0
    """The time that has been reached, in microseconds: that of the event (or of a later one, see ``on_arrival``), or of
    the moment; in processing time, the clock. The watermark may be later, but depends on where batches end."""
    count: int = 0
    """Number of events so far, with this event; in ``evict``, the number up to the end of the window, so that the
    policy is called only for events with smaller numbers."""
    fired: int | None = None
    """The reference of the window that fired last, in microseconds; None before the first window."""
    fired_count: int = 0
    """Number of events up to the end of the window that fired last; ``count - fired_count`` have come since."""

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
    """The moment, in microseconds, at which ``on_time`` is called once; then it becomes None. Set it to a moment later
    than ``time``, or to None for no call; there is only one moment at a time."""


class Policy:
    """Base class of eviction and trigger policies."""

    state_types: ClassVar[Mapping[str, type]] = {}
    """The names in ``context.state`` and their types: int, float, str, bool, list or dict; a value may also be None.
    The state is stored as JSON."""
    reads: ClassVar[str | Sequence[str] | None] = None
    """The columns that the policy reads, ``"kind, price"``; None: all, so that a run reads and keeps all columns."""

    def __repr__(self) -> str:
        return call_repr(type(self).__qualname__, **simple_attributes(self))

    @property
    def columns_read(self) -> frozenset[str] | None:
        """The columns of ``reads``; None for all. Raises ConfigError for any other value."""
        reads = self.reads
        if reads is None or reads == "*":
            return None if is_custom(self) else frozenset()
        names = reads.split(",") if isinstance(reads, str) else reads
        if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(each, str) for each in names):
            raise ConfigError(
                f"{type(self).__name__}.reads = {repr_of(reads):.60}",
                why="it is the names of columns",
                do='write reads = "kind, price"',
            )
        return frozenset(name.strip() for name in names if name.strip())

    forget_after: Duration | None = None
    """Time without events after which a key (without ``with_key``, a task) is forgotten; None: never. After all moments
    up to that time, ``on_end`` is called; then the states of both policies, the events and their number are removed.
    The next event of the key counts as its first. If both policies set a time, the shorter one counts."""

    def start(self, state: dict[str, Any]) -> None:
        """Called before the first event of each task or key, and of a key that was forgotten; sets the initial state.

        At the call, numbers in ``state`` are 0, and texts, lists and dicts are empty.
        """


_BUILT_IN = "policies.storm"


def is_custom(policy: Policy) -> bool:
    """True for a custom policy: its class is a user's, perhaps a subclass of a policy of windbolt."""
    return type(policy).__module__ != _BUILT_IN


class EvictionPolicy(Policy):
    """Decides which events a window holds. Override ``evict``, or ``evict_all`` for decisions on arrays."""

    def track(self, event: QueuedEvent, context: EvictionContext) -> None:
        """Called once with each event, in order of (time, arrival), before any window that may hold it fires."""

    def track_all(self, events: QueuedEvents, context: EvictionContext) -> None:
        """Called in place of ``track``, if overridden, with the events between two windows, in one or more calls.

        Windows must not depend on how events are divided among calls: a call with the first events and a call with the
        others must result in the same state as one call with all of them.
        """

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        """Called when a window fires, for each event that has not expired, from the oldest to the last one that the
        window may hold, or until the answer is STOP.

        An event that expires without having been in a window counts as ``unwindowed``. The bolt is not called for a
        window without events.
        """
        raise NotImplementedError

    def evict_all(self, events: QueuedEvents, context: EvictionContext) -> NDArray[np.integer[Any]]:
        """Called in place of ``evict``, if overridden, once for each window that fires, with all events for which
        ``evict`` would be called; returns an Action for each: ``np.where(good, Action.PROCESS, Action.EXPIRE)``."""
        raise NotImplementedError

    def reset(self, context: EvictionContext) -> None:
        """Called when a window has fired, after all calls of ``evict`` for it."""

    @property
    def reach(self) -> Duration | None:
        """Greatest time from an event to the end of a window that holds it; None if there is no greatest time.

        It matters for windows that end at multiples of a slide. With a reach, such a window fires if an event lies at
        most this time before its end; without one, if an event lies between its end and the end before it.
        """
        return None

    def window_start(self, reference: int) -> int | None:
        """Returns the start of the window with this reference, both in microseconds; None if it has no start."""
        return None if self.reach is None else reference - self.reach.micros


class TriggerPolicy(Policy):
    """Decides when a window fires, and where it ends. Override ``track`` (or ``track_all``), ``on_time``, or both.

    Answers are False (no window fires), True (a window fires that ends with this event or at this moment) and
    ``Fire.BEFORE``. The end of a window, its reference, is the time of the event or the moment.
    """

    event_time: ClassVar[bool | None] = None
    """True if the policy needs event time, False if it needs the clock, None if it works with both."""
    every: Duration | None = None
    """Interval of ``on_time``: it is called at each multiple of this interval, if an event has come since the multiple
    before. None: it is called only at ``wake_at``."""
    offset: Duration = Duration(0)
    """Time by which the multiples of ``every`` are shifted from those since the epoch, in UTC: ``days(1)`` less
    ``hours(9)`` is midnight in Tokyo."""

    def track(self, event: QueuedEvent, context: TriggerContext) -> Answer:
        """Called once with each event, in order of (time, arrival): in event time when the watermark has reached it, in
        processing time when it arrives."""
        return False

    def track_all(self, events: QueuedEvents, context: TriggerContext) -> NDArray[np.bool_]:
        """Called in place of ``track``, if overridden, with the events between two moments, in one or more calls;
        returns a mask of the events with which a window ends and fires.

        ``context`` is that of the first event. ``reset`` is not called for these windows: the state must be correct
        after the last event. ``wake_at`` cannot be set.

        Windows must not depend on how events are divided among calls: a call with the first events and a call with the
        others must return the same answers, and result in the same state, as one call with all of them.
        """
        raise NotImplementedError

    def on_time(self, time: int, context: TriggerContext) -> Answer:
        """Called at each moment of ``every`` and ``wake_at``, in microseconds, after all events up to it: when the
        watermark (in processing time, the clock) is past it. True fires a window that ends at the moment.

        At the end of the streams it is called for the remaining moments, before ``on_end``.
        """
        return False

    def on_arrival(self, event: QueuedEvent) -> bool:
        """Called with each event when it arrives, in order of arrival, before the watermark has reached it; True fires
        a window at once.

        Before the window fires, ``track`` is called for all events (of the key) that have arrived, in order of (time,
        arrival), with the moments between them; the window ends with the last of them. So **windows depend on the order
        of arrival**: an event that arrives later comes after these events, whatever its time.

        Decide by the event alone, not by the state of ``track``, which depends on where batches end. ``event.number``
        is -1. It is not called in processing time, where ``track`` is called on arrival.
        """
        return False

    def on_end(self, context: TriggerContext) -> Answer:
        """Called at the end of the streams, after all events and moments. True fires a window that ends with the last
        event; if the watermark is past this event, the rows of the window have the time of the watermark. With any
        other answer events in no window stay ``pending``.

        With ``forget_after`` it is called when a key is forgotten, and at the end of the streams for all keys. Events
        in no window are then ``purged``.
        """
        return False

    def reset(self, context: TriggerContext) -> None:
        """Called when the trigger has fired, before the next event; the eviction policy may not have decided yet."""


Answer = bool | Fire
"""The answer of a trigger policy."""


def forget_after(*policies: Policy) -> Duration | None:
    """Returns the shortest ``forget_after`` of several policies; None if none of them forgets."""
    durations = [each.forget_after for each in policies if each.forget_after is not None]
    return min(durations, key=lambda each: each.micros, default=None)


def overrides(policy: Policy, *hooks: str) -> bool:
    """True if the class of a policy, or a user's base class of it, defines one of the hooks."""
    return _defines(type(policy), hooks)  # type: ignore[arg-type]  # classes can be hashed


@lru_cache(maxsize=1_000)
def _defines(kind: type, hooks: tuple[str, ...]) -> bool:
    return any(hook in vars(each) for each in _user_classes(kind) for hook in hooks)


def _user_classes(kind: type) -> Iterator[type]:
    """Yields the class of a policy and its base classes, up to the first class of windbolt."""
    for each in kind.__mro__:
        if each.__module__ in (__name__, _BUILT_IN):
            return
        yield each
