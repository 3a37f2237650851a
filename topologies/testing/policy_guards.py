"""Policies under guard: their decisions stay the same, but forbidden actions are noticed.

An event is valid for one call: a guarded policy gets an event without neighbours that cannot be read afterwards. Calls
that read a clock are recorded with the user's line.
"""

from __future__ import annotations

import datetime
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from policies.protocol import EvictionPolicy, Policy, QueuedEvent, QueuedEvents, TriggerPolicy, overrides

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOOKS = (
    "start", "track", "track_all", "evict", "evict_all", "on_time", "on_arrival", "on_end", "reset",
)  # fmt: skip
"""Names of all methods of a policy that windbolt calls."""
_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class PolicyMistake(Exception):
    """Raised in a policy that reads a forbidden value."""


@dataclass
class Watch:
    """Record of the forbidden actions of guarded policies."""

    mistakes: list[str] = field(default_factory=list)
    """Forbidden actions, each with the user's line."""
    chance: dict[str, None] = field(default_factory=dict)
    """Calls whose results differ from run to run: ``random.random (rules.py:12)``."""

    def mistake(self, text: str) -> None:
        """Records a forbidden action, once."""
        if text not in self.mistakes:
            self.mistakes.append(text)


def guarded(policy: Policy, watch: Watch) -> Policy:
    """Returns a copy of a policy with guarded hooks; the policy itself if it has no hooks of its own."""
    hooks = [name for name in HOOKS if overrides(policy, name)]
    if not hooks:
        return policy
    kind = type(policy)
    spaces: dict[str, Any] = {name: _guarded_hook(name, getattr(kind, name), watch) for name in hooks}
    spaces |= {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    if not hasattr(policy, "__dict__"):
        spaces["__slots__"] = ()
    guard = copy(policy)
    object.__setattr__(guard, "__class__", type(kind.__name__, (kind,), spaces))
    return guard


def event_by_event(policy: Policy) -> Policy | None:
    """Returns the policy without its hooks on arrays; None if it has none, or cannot decide without them."""
    pairs = (("track_all", "track"), ("evict_all", "evict"))
    without = [on_arrays for on_arrays, single in pairs if overrides(policy, on_arrays) and overrides(policy, single)]
    return _without(policy, without) if without else None


def in_pieces(policy: Policy) -> Policy | None:
    """Returns the policy with ``track_all`` called for one event after another; None if it has no such hook, or is a
    trigger, whose events are cut by batches anyway."""
    if not isinstance(policy, EvictionPolicy) or not overrides(policy, "track_all"):
        return None

    def track_all(self: Any, events: QueuedEvents, context: Any) -> None:
        for index in range(len(events)):
            one = _slice(events, index, index + 1)
            context.count = int(one.numbers[0]) + 1
            context.time = context.reference = int(one.timestamps[0])
            policy.track_all(one, context)

    return _without(policy, [], track_all=track_all)


def _slice(events: QueuedEvents, low: int, high: int) -> QueuedEvents:
    indices = events._where
    if isinstance(indices, slice):
        indices = np.arange(len(events)) + (indices.start or 0)
    numbers, times = events.numbers[low:high], events.timestamps[low:high]
    return QueuedEvents(numbers, times, events._columns, indices[low:high], events._streams)


def _without(policy: Policy, hooks: Sequence[str], **instead: Any) -> Policy:
    """Returns a policy that delegates to another one, without some of its hooks, or with ``instead`` in their place."""
    base = TriggerPolicy if isinstance(policy, TriggerPolicy) else EvictionPolicy
    spaces: dict[str, Any] = {"__module__": type(policy).__module__, "__repr__": lambda self: repr(policy)}
    for name in HOOKS:
        if overrides(policy, name) and name not in hooks:
            spaces[name] = _delegate(policy, name)
    for name in ("state_types", "reads", "event_time", "every", "offset", "reach", "forget_after"):
        if hasattr(policy, name):
            spaces[name] = getattr(policy, name)
    if isinstance(policy, EvictionPolicy):
        spaces["window_start"] = _delegate(policy, "window_start")
    delegating: Policy = type(type(policy).__name__, (base,), spaces | instead)()
    return delegating


def _delegate(policy: Policy, name: str) -> Callable[..., Any]:
    return lambda self, *arguments: getattr(policy, name)(*arguments)


# ---- a guarded call


def _guarded_hook(name: str, hook: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    def call(self: Policy, *arguments: Any) -> Any:
        guarded_arguments = [_guarded_argument(each, self, name, watch) for each in arguments]
        earlier_profiler = sys.getprofile()
        sys.setprofile(_Listener(watch, sys._getframe()))
        try:
            answer = hook(self, *guarded_arguments)
            return answer.copy() if isinstance(answer, np.ndarray) else answer
        finally:
            sys.setprofile(earlier_profiler)
            for each in guarded_arguments:
                if isinstance(each, _OneEvent | _SomeEvents):
                    each.close()

    return call


def _guarded_argument(argument: Any, policy: Policy, hook: str, watch: Watch) -> Any:
    match argument:
        case QueuedEvent():
            return _OneEvent(argument, _Reader(policy, hook, watch))
        case QueuedEvents():
            return _SomeEvents(argument, _Reader(policy, hook, watch))
    return argument


class _Reader:
    """Decides for each read whether it is permitted."""

    def __init__(self, policy: Policy, hook: str, watch: Watch) -> None:
        self.open, self._hook, self._watch, self._policy = True, hook, watch, policy
        self._reads = policy.columns_read

    def check(self, column: str | None = None) -> None:
        """Raises PolicyMistake for an event after its call, KeyError for a column that the policy does not declare."""
        name = type(self._policy).__name__
        if not self.open:
            text = (
                f"{name} reads an event after the call of {self._hook} that it was given to{_users_line()}: an event "
                "is good for one call, and is another event afterwards. Keep its values instead: "
                'context.state["latest"] = event["price"]'
            )
            self._watch.mistake(text)
            raise PolicyMistake(text)
        if column is not None and self._reads is not None and column not in self._reads:
            line = _users_line()
            text = f"{name} reads the column {column!r}, which its `reads` does not name{line}: a run does not keep it"
            self._watch.mistake(text)
            raise KeyError(column)

    def visible(self, names: Sequence[str]) -> list[str]:
        """Returns the columns of ``names`` that the policy declares."""
        return [each for each in names if self._reads is None or each in self._reads]


class _OneEvent(QueuedEvent):
    """An event without neighbours, valid for one call."""

    __slots__ = ("_number", "_reader", "_timestamp")

    def __init__(self, event: QueuedEvent, reader: _Reader) -> None:
        self._reader, self._number, self._timestamp = reader, event.number, event.timestamp
        self._columns = _OneRow(event._columns, event._index, reader)
        self._index, self._streams = 0, (event.stream,)

    @property
    def number(self) -> int:  # type: ignore[override]
        self._reader.check()
        return self._number

    @property
    def timestamp(self) -> int:  # type: ignore[override]
        self._reader.check()
        return self._timestamp

    def close(self) -> None:
        """Ends the call."""
        self._reader.open = False


class _OneRow(Mapping[str, Sequence[Any]]):
    """The columns of one event."""

    def __init__(self, columns: Mapping[str, Sequence[Any]], index: int, reader: _Reader) -> None:
        self._source, self._index, self._reader = columns, index, reader

    def __getitem__(self, name: str) -> Sequence[Any]:
        self._reader.check(name)
        return (self._source[name][self._index],)

    def __iter__(self) -> Iterator[str]:
        self._reader.check()
        return iter(self._reader.visible(list(self._source)))

    def __len__(self) -> int:
        return len(self._reader.visible(list(self._source)))


class _SomeEvents(QueuedEvents):
    """Events as columns, valid for one call; afterwards the arrays hold other values."""

    __slots__ = ("_arrays", "_events", "_reader")

    def __init__(self, events: QueuedEvents, reader: _Reader) -> None:
        self._events, self._reader, self._arrays = events, reader, list[Any]()
        super().__init__(self._copy(events.numbers), self._copy(events.timestamps), {})

    def __getitem__(self, column: str) -> NDArray[Any]:
        self._reader.check(column)
        return self._copy(self._events[column])

    @property
    def streams(self) -> NDArray[np.object_]:
        self._reader.check()
        return self._copy(self._events.streams)

    def _copy(self, values: NDArray[Any]) -> NDArray[Any]:
        array = np.array(values)
        array.flags.writeable = False
        self._arrays.append(array)
        return array

    def close(self) -> None:
        """Ends the call."""
        self._reader.open = False
        for array in self._arrays:
            array.flags.writeable = True
            if array.dtype.kind == "O":
                array[:] = None
            else:
                array[:] = array[::-1].copy() if array.dtype.kind not in "iuf" else -7_777_777
            array.flags.writeable = False


# ---- clocks and chance

_CLOCKS = {time.time, time.time_ns}  # noqa: TID251 - they are not called
_COUNTERS = {time.monotonic, time.monotonic_ns, time.perf_counter, time.perf_counter_ns, id, hash, os.urandom}
_DATE_METHODS = {"now", "utcnow", "today"}
_RANDOM_METHODS = {"random", "getrandbits"}


class _Listener:
    """Called by Python at each call below a hook; records calls of clocks and random numbers."""

    def __init__(self, watch: Watch, above: FrameType) -> None:
        self._watch, self._above = watch, above

    def __call__(self, frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call":
            return
        owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
        try:
            reads_clock = called in _CLOCKS or (
                name in _DATE_METHODS and isinstance(owner, type) and issubclass(owner, datetime.date)
            )
            by_chance = called in _COUNTERS or (name in _RANDOM_METHODS and isinstance(owner, random.Random))
        except TypeError:  # for unhashable objects
            return
        if not (reads_clock or by_chance):
            return
        place = self._users_place(frame)
        if place is None:
            return
        shown = f"{owner.__name__}.{name}" if isinstance(owner, type) else f"{getattr(called, '__module__', '')}.{name}"
        shown = f"random.{name}" if isinstance(owner, random.Random) else shown.removeprefix("builtins.").strip(".")
        if reads_clock:
            self._watch.mistake(
                f"the clock is read by {shown}() at {place}: windows then depend on when a run comes by. Use "
                "context.time, which is how far time has come"
            )
        else:
            self._watch.chance[f"{shown} ({place})"] = None

    def _users_place(self, frame: FrameType | None) -> str | None:
        """Returns the user's line that led to a call; None if the call only writes a log, or windbolt made it."""
        lines: list[str] = []
        while frame is not None and frame is not self._above:
            file = frame.f_code.co_filename
            if frame.f_globals.get("__name__", "").partition(".")[0] == "logging":
                return None
            lines.append(f"{os.path.basename(file)}:{frame.f_lineno}")
            if file.startswith(tuple(os.path.join(_HOME, each, "") for each in _OWN_FOLDERS)) and len(lines) == 1:
                return None
            frame = frame.f_back
        return lines[-1] if lines else None


_OWN_FOLDERS = ("policies", "manager", "windowing", "topologies/testing", "topologies/engine")


def _users_line() -> str:
    """Returns the place of the user's code, as `` (rules.py:12)``."""
    for each in reversed(traceback.extract_stack()):
        own = any(each.filename.startswith(os.path.join(_HOME, folder, "")) for folder in _OWN_FOLDERS)
        if not own:
            return f" ({os.path.basename(each.filename)}:{each.lineno})"
    return ""
