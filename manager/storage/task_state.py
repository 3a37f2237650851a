"""The state of a task. The declaration of a field determines how the field is stored, renamed, moved to another task,
repaired and shown (decision 115)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from manager.storage.segments import (
    CLOSED_COLUMN,
    CODE_COLUMN,
    KEY_COLUMN,
    TIME_COLUMN,
    WINDOW_KEY_COLUMN,
    Ref,
    Refs,
)
from policies.watermarks import NONE
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Declarations of fields.


class FieldKind(Enum):
    """The content of a field, which determines how the field changes when rows move between tasks."""

    VALUE = "value"
    """A value of the whole task."""
    POSITION = "position"
    """One or several positions in the task's queue. A position is the number of events before it."""
    EVENTS = "events"
    """Waiting events that are not live. An event moves to the task of its key."""
    KEYS = "keys"
    """One row per key, with the columns of the key. A row moves to the task of its key."""
    CODES = "codes"
    """Rows with the code of a key in the column ``key_column``. A row moves to the task of its key."""
    OWN = "own"
    """Rows of a user's state. If the user has declared their keys (``state_keys``), a row moves to the task of its
    key."""


STORED = (FieldKind.EVENTS, FieldKind.KEYS, FieldKind.CODES, FieldKind.OWN)
"""Kinds whose fields hold references to stored rows: a ``Ref``, None, or several ``Ref`` by name."""

Merge = Callable[[Sequence[Any]], Any]
"""Function that merges the values of one field in several tasks; no value is None."""


@dataclass(frozen=True)
class StateField:
    """Declaration of one field of a state."""

    kind: FieldKind
    merge: Merge | None = None
    """Merges the values of several tasks into the value of a task that takes over their rows; None: the value is the
    default."""
    from_all_tasks: bool = False
    """True if the values of all tasks are merged, also those of tasks that give no rows to the new task."""
    counts: str = ""
    """``KEYS_WITH_EVENTS`` if the value is a number of keys, which is counted anew when rows move between tasks; else
    empty."""
    key_column: str = ""
    """The column of stored rows with the code of the key."""
    floor: str = ""
    """The name of the field that holds a lower bound for all keys: a key without a row has this value in the columns
    ``floor_columns``."""
    floor_columns: tuple[str, ...] = ()
    shown_name: str = ""
    """The name under which users see the field: a column of the table of tasks, or for stored rows the table
    (``state_tables``)."""


KEYS_WITH_EVENTS = "keys with events"
"""The value of ``StateField.counts`` for a number of keys with live events."""
_DECLARED = "state"
"""The key of the declaration in the metadata of a dataclass field."""


def declared_field(kind: FieldKind, default: Any = None, **arguments: Any) -> Any:
    """Returns a dataclass field with its declaration. ``default``: the value before the first event. ``arguments``: the
    further arguments of ``StateField``."""
    metadata = {_DECLARED: StateField(kind, **arguments)}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def value_field(default: Any = None, merge: Merge | None = None, **arguments: Any) -> Any:
    """Returns a declared dataclass field of kind VALUE."""
    return declared_field(FieldKind.VALUE, default, merge=merge, **arguments)


def _union(values: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted({each for of_task in values for each in of_task}))


def _total(values: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Returns the sum of counts by name, in order of first occurrence."""
    total: dict[str, int] = {}
    for counts in values:
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    return total


def _positive(values: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Returns the sum of counts by name, sorted by name, without sums of 0."""
    return {name: count for name, count in sorted(_total(values).items()) if count > 0}


class StoredRows(NamedTuple):
    """A reference to stored rows of a field."""

    field: str
    key: str
    """The name of the reference in a field with several references; else ""."""
    ref: Ref


class DeclaredState:
    """A dataclass whose fields are all declared."""

    @classmethod
    @cache
    def declarations(cls) -> Mapping[str, StateField]:
        """Returns the declarations of the fields, by name."""
        return {each.name: each.metadata[_DECLARED] for each in fields(cls)}  # type: ignore[arg-type]

    @classmethod
    @cache
    def fields_of(cls, *kinds: FieldKind) -> tuple[str, ...]:
        """Returns the names of the fields of these kinds."""
        return tuple(name for name, declaration in cls.declarations().items() if declaration.kind in kinds)

    @classmethod
    @cache
    def fields_by_name(cls) -> Mapping[str, str]:
        """Maps the names of fields, and the names under which users see fields, to the names of fields."""
        field_by_shown_name = {
            declaration.shown_name: name for name, declaration in cls.declarations().items() if declaration.shown_name
        }
        return {name: name for name in cls.declarations()} | field_by_shown_name

    @classmethod
    @cache
    def _readers(cls) -> Mapping[str, Callable[[Any], Any]]:
        """Returns a function per field that decodes its JSON value."""
        default_state, stored = cls(), cls.fields_of(*STORED)
        tuple_fields = {name: tuple for name in cls.declarations() if isinstance(getattr(default_state, name), tuple)}
        return {
            name: _read_refs if name in stored else tuple_fields.get(name, _unchanged) for name in cls.declarations()
        }

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the value of a field; ``default`` if the value is None or there is no such field. ``name``: a key of
        ``fields_by_name``."""
        field_name = self.fields_by_name().get(name)
        value = None if field_name is None else getattr(self, field_name)
        return default if value is None else value

    def rows(self, *kinds: FieldKind) -> Iterator[StoredRows]:
        """Yield the references in the fields of these kinds; without kinds, in all fields."""
        for name in self.fields_of(*(kinds or STORED)):
            content = getattr(self, name)
            for key, ref in content.items() if isinstance(content, Mapping) else (("", content),):
                if ref is not None:
                    yield StoredRows(name, key, ref)

    def with_rows(self, change: Callable[[Ref], Ref | None], *kinds: FieldKind) -> Self:
        """Returns the state with changed references in the fields of these kinds; without kinds, in all fields. If
        ``change`` returns None, the reference is removed."""
        changed: dict[str, Any] = {}
        for name in self.fields_of(*(kinds or STORED)):
            content = getattr(self, name)
            if isinstance(content, Mapping):
                changed[name] = {key: change(ref) for key, ref in content.items()}
            elif content is not None:
                changed[name] = change(content)
        return self.with_values(**changed) if changed else self

    def with_values(self, **values: Any) -> Self:
        """Returns the state with these values of fields."""
        return replace(self, **values)  # type: ignore[type-var]

    def with_key_count(self, count: Callable[[], int]) -> Self:
        """Returns the state with a new number of keys with live events, if it has such a field. ``count``: returns the
        number."""
        count_fields = [
            name for name, declaration in self.declarations().items() if declaration.counts == KEYS_WITH_EVENTS
        ]
        return self.with_values(**{name: count() for name in count_fields}) if count_fields else self

    def without_rows(self, kept: NDArray[np.bool_]) -> Self:
        """Returns the state of a queue from which events are removed. ``kept``: a mask of the events that stay, which
        are the only ones that positions then count."""
        kept_before = np.concatenate([[0], np.cumsum(kept)])
        positions = {name: getattr(self, name) for name in self.fields_of(FieldKind.POSITION)}
        new_positions = {
            name: [int(kept_before[each]) for each in position]
            if isinstance(position, list)
            else int(kept_before[position])
            for name, position in positions.items()
            if position is not None
        }
        return replace(self, **new_positions)  # type: ignore[type-var]

    @classmethod
    def merged(cls, states: Sequence[Any], sources: Iterable[int]) -> dict[str, Any]:
        """Returns the merged values of fields for a task that takes over rows of some tasks. ``states``: the states of
        all tasks of a bolt. ``sources``: the indices of the tasks whose rows are taken over."""
        source_states, merged_fields = [states[number] for number in sources], {}
        for name, declaration in cls.declarations().items():
            if declaration.merge is not None:
                values = [getattr(state, name) for state in (states if declaration.from_all_tasks else source_states)]
                values = [each for each in values if each is not None]
                if values:
                    merged_fields[name] = declaration.merge(values)
        return merged_fields

    def to_json(self) -> dict[str, Any]:
        """Returns the fields by name, as plain JSON values."""
        return {name: _to_json(getattr(self, name)) for name in self.declarations()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Returns the state from the values of ``to_json``. Raises KeyError for a field that is not declared."""
        readers = cls._readers()
        return cls(**{name: readers[name](value) for name, value in values.items()})


def _to_json(content: Any) -> Any:
    if content is None or type(content) in _PLAIN:
        return content
    if isinstance(content, Ref):
        return content.to_json()
    return {key: _to_json(each) for key, each in content.items()} if isinstance(content, Mapping) else content


_PLAIN = (int, str, tuple, list)


def _unchanged(content: Any) -> Any:
    return content


def _read_refs(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {name: Ref.from_json(each) for name, each in content.items()}
    return None if content is None else Ref.from_json(content)


# The state of a task, which depends on the family of its windows. It is saved after each batch and restored after a
# crash.


class WindowsState(DeclaredState):
    """State of the windows of a task, without their events. Times are in microseconds."""

    family: ClassVar[str]
    """The tag of the family in the manifest."""

    @classmethod
    def in_queue(cls) -> bool:
        """True if the events of a task are a queue with positions; false if each event has flags
        (``RetainedEvents``)."""
        return bool(cls.fields_of(FieldKind.POSITION))

    @classmethod
    @cache
    def waiting_fields(cls) -> tuple[str, ...]:
        """Returns the names of the fields of waiting end edges."""
        return cls.fields_of(FieldKind.EVENTS)


@dataclass
class QueueState(WindowsState):
    """The state of windows that are runs of a queue. Positions count from the first event of the queue.

    If queues are merged, ``StoredQueue`` computes the positions anew.
    """

    family: ClassVar[str] = "queue"

    base: int = value_field(0)
    """Number of events that have left the queue."""
    settled_count: int = declared_field(FieldKind.POSITION, 0)
    """Number of events of the queue in final order."""
    accounted: int = declared_field(FieldKind.POSITION, 0)
    """Number of leading events that are accounted: they were in a window, or can no longer be in one."""
    previous: list[int] | None = declared_field(FieldKind.POSITION)
    """The [start, stop) positions of the last window fired."""
    previous_frontier: int | None = value_field(merge=max, from_all_tasks=True)
    """The frontier of the last evaluation; None before the first."""
    last_reference: int | None = value_field(merge=max, from_all_tasks=True, shown_name="last_end")
    """The end of the last window fired."""


@dataclass(frozen=True)
class AssignedState(WindowsState):
    """State of windows that assigners form."""

    family: ClassVar[str] = "assigned"

    next_end: int | None = value_field(merge=min, shown_name="next_due")
    """Time of the next window after the last evaluation; None if no window was open."""
    last_end: int | None = value_field(merge=max, from_all_tasks=True, shown_name="last_end")
    """The latest end of a window that has fired."""
    evaluations: int = value_field(0, max, from_all_tasks=True)
    """Number of evaluations so far; a later evaluation has a greater number."""
    floor: int | None = value_field()
    """Lower bound on the watermarks of all keys at the last evaluation; None if keys have no watermarks."""
    open_ends: tuple[int, ...] = value_field((), _union)
    """The ends of the windows with events, if an idle timeout may close windows."""
    keys: Ref | None = declared_field(
        FieldKind.KEYS,
        key_column=KEY_COLUMN,
        floor="floor",
        floor_columns=(TIME_COLUMN, CLOSED_COLUMN),
        shown_name="marks",
    )
    """The watermarks of keys."""
    known: Ref | None = declared_field(FieldKind.KEYS, key_column=KEY_COLUMN, shown_name="known")
    """The keys with recent events, if windows without events fire."""
    panes: Ref | None = declared_field(FieldKind.CODES, key_column="key")
    """The firings of open windows."""
    fired_at_limit: Ref | None = declared_field(FieldKind.CODES, key_column="key")
    """The windows that fired at exactly the limit of the last evaluation."""
    end_edges: Ref | None = declared_field(FieldKind.EVENTS)
    """The end edges that wait for their start edges."""
    listed: str | None = value_field()
    """Digest of the list of keys of the last evaluation (``ListedKeys.digest``); None if no keys were listed."""
    codes: Ref | None = declared_field(FieldKind.CODES, key_column=CODE_COLUMN)
    """The codes of keys that share a hash."""


@dataclass(frozen=True)
class StatefulState(WindowsState):
    """State of a stateful bolt without windows. ``keys``: the states of keys."""

    family: ClassVar[str] = "stateful"

    keys: Ref | None = declared_field(FieldKind.KEYS, key_column=KEY_COLUMN, shown_name="states")
    codes: Ref | None = declared_field(FieldKind.CODES, key_column=CODE_COLUMN)
    """The codes of keys that share a hash."""


@dataclass(frozen=True)
class KeyedState(WindowsState):
    """State of windows whose ends are not known before they fire; a task without keys is treated as one key."""

    next_due: int | None = value_field(merge=min, shown_name="next_due")
    """The clock or frontier at which the next window is due; None if only an event can make a window due."""
    open_windows: int = value_field(0, counts=KEYS_WITH_EVENTS, shown_name="open_windows")
    """Number of windows with events."""
    keys: Ref | None = declared_field(FieldKind.KEYS, key_column=KEY_COLUMN)
    """The records of keys."""
    codes: Ref | None = declared_field(FieldKind.CODES, key_column=CODE_COLUMN)
    """The codes of keys that share a hash."""


@dataclass(frozen=True)
class TriggeredState(KeyedState):
    """State of windows that a key trigger fires."""

    family: ClassVar[str] = "triggered"

    keys: Ref | None = declared_field(FieldKind.KEYS, key_column=KEY_COLUMN, shown_name="records")


@dataclass(frozen=True)
class PolicyState(KeyedState):
    """State of windows that a user's policies make."""

    family: ClassVar[str] = "policies"

    keys: Ref | None = declared_field(FieldKind.KEYS, key_column=KEY_COLUMN, shown_name="units")
    last_end: int | None = value_field(merge=max, from_all_tasks=True, shown_name="last_end")
    """The greatest time of all units."""


Windows = TypeVar("Windows", bound=WindowsState)

_FAMILIES: dict[str, type[WindowsState]] = {
    state.family: state for state in (QueueState, AssignedState, TriggeredState, PolicyState, StatefulState)
}
"""The families of windows by their tags."""


@dataclass(frozen=True)
class BoltTaskState(DeclaredState):
    """State of the bolt itself in one task."""

    fired: int = value_field(0, sum, from_all_tasks=True)
    """Number of windows fired so far."""
    suppressed: int = value_field(0, sum, from_all_tasks=True)
    """Number of windows so far for which the bolt was not called, because they end before the first output."""
    emitted: Mapping[str, int] = value_field({}, _total, from_all_tasks=True)
    """Rows emitted so far on each output stream."""
    counters: Mapping[str, int] = value_field({}, _positive, from_all_tasks=True)
    """The counters of the bolt, and of the rule of a trigger, by name."""
    user: Mapping[str, Ref] = declared_field(FieldKind.OWN, {}, shown_name="user")
    """The state of a stateful bolt: tables by name, and JSON values under ""."""
    retractable: Mapping[str, Ref] = declared_field(
        FieldKind.CODES, {}, key_column=WINDOW_KEY_COLUMN, shown_name="retractable"
    )
    """For each output stream, the emitted rows that a later firing may retract."""
    needed_until: int | None = value_field()
    """Time in microseconds from which ``user`` is not needed unless another event comes; None if always needed."""

    def add_counts(self, *further: BoltTaskState) -> BoltTaskState:
        """Returns this state with the counts of further states added."""
        return replace(self, **self.merged([self, *further], ()))

    def add_counters(self, further: Mapping[str, int]) -> BoltTaskState:
        """Returns the state with these counts added."""
        return self.add_counts(BoltTaskState(counters=further)) if further else self


def is_no_longer_needed(needed_until: int | None, frontier: int | None) -> bool:
    """True if the frontier has reached ``needed_until``. A frontier of FOREVER does not count, because a run may
    continue after the end of the streams."""
    return needed_until is not None and frontier is not None and needed_until <= frontier < FOREVER


@dataclass
class TaskState:
    """The state of one task: references to its events, and the states of its windows and of its bolt."""

    windows: WindowsState
    refs: Refs = field(default_factory=Refs)
    accounted_by_stream: list[int] = field(default_factory=list)
    """For each input, the number of events that are accounted and kept only for ``expired``; empty for none."""
    bolt: BoltTaskState = field(default_factory=BoltTaskState)

    def windows_as(self, kind: type[Windows]) -> Windows:
        """Returns ``windows``, whose class must be ``kind``."""
        assert isinstance(self.windows, kind)
        return self.windows

    def pending(self, streams: int) -> list[int]:
        """Returns, for each stream, the number of events that have been in no window and can still be in one."""
        accounted = self.accounted_by_stream or [0] * streams
        needed_refs = self.refs.by_stream(streams)
        pending = [needed_refs[code] - accounted[code] for code in range(streams)]
        for ref in self.waiting:
            pending = [count + more for count, more in zip(pending, ref.by_stream, strict=True)]
        return pending

    @property
    def waiting(self) -> list[Ref]:
        """References to the end edges that wait for their start edges."""
        values = (getattr(self.windows, name) for name in self.windows.waiting_fields())
        return [ref for ref in values if ref is not None]

    @property
    def key_floor(self) -> int:
        """Lower bound on the watermarks of all keys, in microseconds; NONE without a bound."""
        floor: int = self.windows.get("floor", NONE)
        return floor

    def with_key_floor(self, floor: int) -> TaskState:
        """Returns the state with this lower bound on the watermarks of all keys."""
        return replace(self, windows=self.windows.with_values(floor=floor))

    @property
    def last_end(self) -> int | None:
        """The end in microseconds of the last window that fired in time order; None before the first."""
        end: int | None = self.windows.get("last_end")
        return end

    @property
    def next_due(self) -> int | None:
        """The time in microseconds at which the next window may be due; None if only an event can make a window due."""
        due: int | None = self.windows.get("next_due")
        return due

    def all_refs(self) -> Iterator[Ref]:
        """Yields the references to all sections that the task still needs."""
        yield from self.refs
        yield from (each.ref for state in (self.windows, self.bolt) for each in state.rows())

    def segment_names(self) -> set[str]:
        """Returns the names of the segments that the task still needs."""
        others = (each.ref for state in (self.windows, self.bolt) for each in state.rows())
        return self.refs.segment_names().union(*(ref.segment_names() for ref in others))

    def with_rows(self, change: Callable[[Ref], Ref], *kinds: FieldKind) -> TaskState:
        """Returns the state with changed references: those to its events, and those in fields of these kinds; without
        kinds, in all fields."""
        return replace(
            self,
            windows=self.windows.with_rows(change, *kinds),
            refs=Refs.packed(map(change, self.refs)),
            bolt=self.bolt.with_rows(change, *kinds),
        )

    def with_segments(self, names: Mapping[str, str]) -> TaskState:
        """Returns the state with renamed segments. ``names``: the new names by the old."""
        return self.with_rows(lambda ref: ref.with_segments(names))

    def to_json(self) -> dict[str, Any]:
        """Returns the state as plain JSON values, with the family of its windows."""
        return {
            "family": self.windows.family,
            "windows": self.windows.to_json(),
            "events": [ref.to_json() for ref in self.refs],
            "accounted": self.accounted_by_stream,
            "bolt": self.bolt.to_json(),
        }

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> TaskState:
        """Returns the state from the values of ``to_json``. Raises KeyError for an unknown family."""
        return TaskState(
            _FAMILIES[values["family"]].from_json(values["windows"]),
            Refs(map(Ref.from_json, values["events"])),
            values["accounted"],
            BoltTaskState.from_json(values["bolt"]),
        )
