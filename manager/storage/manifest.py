"""The manifest: with the segments that it refers to, the complete state after a micro-batch."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias, TypedDict

from manager.accounts import Accounts
from manager.event_queue import QueueState
from manager.storage.segments import Ref, Refs
from manager.watermarks import WatermarkState
from policies.watermarks import NONE
from windowing.timestamps import FOREVER

# The keys of batches: how batches are named in files, to users, and in sentences.


def batch_key(batch: int, closing: bool) -> str:
    """The key of a batch. Keys sort in order of time; that of a closing before any batch (number -1) is first."""
    return f"{batch:010d}{'-close' if closing else ''}"


def batch_name(key: str) -> str:
    """A batch key as users write it: ``7``, or ``7-close`` for the closing after batch 7."""
    number, closing, _ = key.partition("-close")
    return f"{int(number)}{closing}"


def batch_in_words(key: str) -> str:
    """A batch in a sentence: ``batch 7``, or ``the closing after batch 7``."""
    return f"the closing after batch {batch_of(key)}" if key.endswith("-close") else f"batch {batch_of(key)}"


def key_of(name: str) -> str | None:
    """The key of a batch that is written as ``batch_name`` writes it; None for any other text."""
    found = re.fullmatch(r"(-?\d{1,10})(-close)?", name.strip())
    return None if found is None else batch_key(int(found[1]), found[2] is not None)


def batch_of(key: str) -> int:
    """The batch number in a key; for a closing, that of the batch before it."""
    return int(key.removesuffix("-close"))


# What a task of a windowed bolt saves between two batches and restores after a crash, by the family of its windows.


@dataclass(frozen=True)
class AssignedState:
    """State of windows that assigners form, apart from their events; times in microseconds."""

    next_end: int | None = None
    """When the next window was due after the last evaluation; None where none was open."""
    last_end: int | None = None
    """The latest end of a window that has fired."""
    evaluations: int = 0
    """Number of evaluations so far."""
    floor: int | None = None
    """Lower bound on the marks of all keys at the last evaluation, where each key has a watermark of its own."""
    open_ends: tuple[int, ...] = ()
    """The ends of the windows that hold events, where an idle timeout may close them."""
    waiting_by_stream: tuple[int, ...] = ()
    """Per input, the end edges that wait for their starts (SI-3); empty where there are none."""
    keys: Ref | None = None
    """The watermarks of keys."""
    known: Ref | None = None
    """The keys that have had events lately, where windows without events fire."""
    panes: Ref | None = None
    """The firings of open windows."""
    released: Ref | None = None
    """The windows that were released exactly at the last limit."""
    end_edges: Ref | None = None
    """The end edges that wait for their starts."""
    listed: str | None = None
    """With which list of keys the task was evaluated last (``ListedKeys.digest``); None where none was listed."""
    codes: Ref | None = None
    """The codes of keys that share a hash."""


@dataclass(frozen=True)
class TriggeredState:
    """State of windows that a key trigger fires, apart from their events."""

    next_due: int | None = None
    """The clock in microseconds at which the next window is due; None where only events can make one due."""
    open_windows: int = 0
    """Number of windows that hold events."""
    keys: Ref | None = None
    """The records of keys."""
    codes: Ref | None = None
    """The codes of keys that share a hash."""


@dataclass(frozen=True)
class PolicyState(TriggeredState):
    """State of windows that policies of a user's own decide about, apart from their events.

    ``next_due`` is the frontier at which the next event or moment is told, ``open_windows`` the number of units (the
    task, or its keys) with events that are in no window yet, and ``keys`` are the records of the units.
    """

    last_end: int | None = None
    """How far time has come in any unit, in microseconds."""


@dataclass(frozen=True)
class EventState(TriggeredState):
    """State of a bolt without windows that keeps state: with a key, ``keys`` are its states, a row for each key."""


WindowsState: TypeAlias = QueueState | AssignedState | TriggeredState | PolicyState | EventState

_FAMILIES: dict[str, type[WindowsState]] = {
    "queue": QueueState,
    "assigned": AssignedState,
    "triggered": TriggeredState,
    "policies": PolicyState,
    "events": EventState,
}
"""The families of windows by the tag that their states have in the manifest."""


@dataclass(frozen=True)
class BoltTaskState:
    """State of the bolt itself in one task."""

    fired: int = 0
    """Number of windows fired so far."""
    suppressed: int = 0
    """Number of windows so far that the bolt was not called for, because they end before the first output."""
    emitted: Mapping[str, int] = field(default_factory=dict)
    """Rows emitted so far on each output stream."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """Counts of the bolt, and of the rule of a trigger, so far, by name."""
    user: Mapping[str, Ref] = field(default_factory=dict)
    """The state of a stateful bolt: its JSON part under "", its tables by name."""
    shown: Mapping[str, Ref] = field(default_factory=dict)
    """Per output stream, the rows that a later firing of their windows may retract."""
    needed_until: int | None = None
    """Time in microseconds at which ``user`` is needed no more, unless another event comes; None where it is kept."""

    def plus(self, further: BoltTaskState) -> BoltTaskState:
        """The state after further calls of the bolt; ``user`` and ``shown`` are unchanged."""
        emitted = dict(self.emitted)
        for stream, rows in further.emitted.items():
            emitted[stream] = emitted.get(stream, 0) + rows
        return replace(
            self,
            fired=self.fired + further.fired,
            suppressed=self.suppressed + further.suppressed,
            emitted=emitted,
        ).counted(further.counters)

    def counted(self, further: Mapping[str, int]) -> BoltTaskState:
        """The state with these counts added."""
        return replace(self, counters=dict(sorted((Counter(self.counters) + Counter(further)).items())))


def is_over(needed_until: int | None, frontier: int | None) -> bool:
    """True if time has passed all that a bolt keeps. The end of the streams passes nothing: a run may go on."""
    return needed_until is not None and frontier is not None and needed_until <= frontier < FOREVER


@dataclass
class TaskState:
    """The state of one task: its events, by reference, and the states of its windows and of its bolt."""

    windows: WindowsState
    refs: Refs = field(default_factory=Refs)
    accounted_by_stream: list[int] = field(default_factory=list)
    """Per input, the events kept for ``expired`` that are already in an account; empty for none."""
    bolt: BoltTaskState = field(default_factory=BoltTaskState)

    def pending(self, streams: int) -> list[int]:
        """Per stream, the events that are in no window yet and may still be in one."""
        accounted = self.accounted_by_stream or [0] * streams
        waiting = self.waiting_edges or [0] * streams
        held = self.refs.by_stream(streams)
        return [held[code] - accounted[code] + waiting[code] for code in range(streams)]

    @property
    def waiting_edges(self) -> list[int]:
        """Per stream, the end edges that wait for their starts; empty where there are none."""
        return list(self.windows.waiting_by_stream) if isinstance(self.windows, AssignedState) else []

    @property
    def key_floor(self) -> int:
        """Lower bound on the watermarks of all keys, in microseconds; NONE where there is none."""
        floor = self.windows.floor if isinstance(self.windows, AssignedState) else None
        return NONE if floor is None else floor

    def with_key_floor(self, floor: int) -> TaskState:
        """The same state with this lower bound on the watermarks of all keys."""
        assert isinstance(self.windows, AssignedState)
        return replace(self, windows=replace(self.windows, floor=floor))

    @property
    def last_end(self) -> int | None:
        """The end in microseconds of the last window that fired in time order; None before the first."""
        match self.windows:
            case QueueState(last_reference=end) | AssignedState(last_end=end) | PolicyState(last_end=end):
                return end
            case TriggeredState():
                return None

    @property
    def tables(self) -> list[Ref]:
        """The stored tables of its windows, apart from their events."""
        return [value for value in _values(self.windows).values() if isinstance(value, Ref)]

    def all_refs(self) -> Iterator[Ref]:
        """The references to all sections that the task still needs."""
        yield from (*self.refs, *self.tables, *self.bolt.user.values(), *self.bolt.shown.values())

    def segment_names(self) -> set[str]:
        """The names of the segments in which these are."""
        others = (*self.tables, *self.bolt.user.values(), *self.bolt.shown.values())
        return self.refs.segment_names().union(*(ref.segment_names() for ref in others))

    def with_segments(self, names: Mapping[str, str]) -> TaskState:
        """The same state in segments of other names."""
        windows = self.windows
        if not isinstance(windows, QueueState):
            stored: dict[str, Any] = {
                name: value.named(names) for name, value in _values(windows).items() if isinstance(value, Ref)
            }
            windows = replace(windows, **stored)
        user = {name: ref.named(names) for name, ref in self.bolt.user.items()}
        shown = {name: ref.named(names) for name, ref in self.bolt.shown.items()}
        bolt = replace(self.bolt, user=user, shown=shown)
        refs = Refs.packed(ref.named(names) for ref in self.refs)
        return TaskState(windows, refs, self.accounted_by_stream, bolt)

    def to_json(self) -> dict[str, Any]:
        """The state in plain JSON, tagged with the family of its windows."""
        (family,) = (tag for tag, state in _FAMILIES.items() if type(self.windows) is state)
        return {
            "family": family,
            "windows": {name: _to_json(value) for name, value in _values(self.windows).items()},
            "events": [ref.to_json() for ref in self.refs],
            "accounted": self.accounted_by_stream,
            "bolt": {name: _to_json(value) for name, value in _values(self.bolt).items()},
        }

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> TaskState:
        """The state from what ``to_json`` returns. Raises KeyError for an unknown family."""
        return TaskState(
            _windows(_FAMILIES[values["family"]], values["windows"]),
            Refs(map(Ref.from_json, values["events"])),
            values["accounted"],
            _bolt(values["bolt"]),
        )


def _windows(state: type[WindowsState], values: Mapping[str, Any]) -> WindowsState:
    if state is QueueState:
        return QueueState(**values)
    if issubclass(state, TriggeredState):
        return state(**{**values, "keys": _ref(values["keys"]), "codes": _ref(values["codes"])})
    refs = {name: _ref(values[name]) for name in ("keys", "known", "panes", "released", "end_edges", "codes")}
    lists = {name: tuple(values[name]) for name in ("open_ends", "waiting_by_stream")}
    return AssignedState(**{**values, **refs, **lists})


def _bolt(values: Mapping[str, Any]) -> BoltTaskState:
    refs = {name: {key: Ref.from_json(ref) for key, ref in values[name].items()} for name in ("user", "shown")}
    return BoltTaskState(**{**values, **refs})


def _values(state: WindowsState | BoltTaskState) -> dict[str, Any]:
    return {column.name: getattr(state, column.name) for column in fields(state)}


def _to_json(value: Any) -> Any:
    if isinstance(value, Ref):
        return value.to_json()
    return {key: _to_json(each) for key, each in value.items()} if isinstance(value, Mapping) else value


def _ref(value: Any) -> Ref | None:
    return None if value is None else Ref.from_json(value)


# The manifest: with the segments that it refers to, the complete state after a micro-batch.


@dataclass
class BoltState:
    """State of a windowed bolt: its watermark, its accounts, and the states of its tasks."""

    accounts: Accounts
    tasks: list[TaskState]
    watermark: WatermarkState = field(default_factory=WatermarkState)
    frontier: int | None = None
    """Frontier of the last evaluation of its windows, in microseconds; None before the first."""
    anchor: int | None = None
    """Time in microseconds from which aligned windows are counted, where that is the first clock of the run."""

    @property
    def pending(self) -> list[int]:
        """Per stream, the events that are in no window yet and may still be in one."""
        streams = len(self.accounts.streams)
        rows = [task.pending(streams) for task in self.tasks]
        return [sum(column) for column in zip(*rows, strict=True)]

    @property
    def assigned(self) -> list[AssignedState]:
        """The states of its windows, where assigners form them; else empty."""
        return [task.windows for task in self.tasks if isinstance(task.windows, AssignedState)]

    @property
    def fired(self) -> int:
        """Windows fired so far, by all tasks."""
        return sum(task.bolt.fired for task in self.tasks)

    @property
    def suppressed(self) -> int:
        """Windows so far that end before the first output."""
        return sum(task.bolt.suppressed for task in self.tasks)

    @property
    def counters(self) -> dict[str, int]:
        """Counters of the bolt and of the rule of its trigger so far, sorted by name."""
        total: Counter[str] = Counter()
        for task in self.tasks:
            total.update(task.bolt.counters)
        return dict(sorted(total.items()))

    @property
    def emitted(self) -> dict[str, int]:
        """Rows that its windows have emitted so far, by output stream."""
        total: dict[str, int] = {}
        for task in self.tasks:
            for stream, rows in task.bolt.emitted.items():
                total[stream] = total.get(stream, 0) + rows
        return total


class SinkFiles(TypedDict):
    """The files of one batch for a sink."""

    folder: str
    """As the sink names it: a path or a URI."""
    drafts: list[str]
    """Their hidden names in that folder; the order is that of the numbers that they get."""


@dataclass(kw_only=True)
class Manifest:
    """The state of a topology after a batch."""

    batch: int = -1
    closing: bool = False
    """True for the end of a run, after the batch: a closing tick, and no events."""
    clock: int | None = None
    query: str | None = None
    """Id of the Spark query that runs on the checkpoint; None without Spark."""
    origin: str = ""
    """Identifies this checkpoint, also after going back: the id in the plan of its first batch."""
    bolts: dict[str, BoltState] = field(default_factory=dict)
    spouts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Per spout: rows read, rows it could not read, files it could not read."""
    files: dict[str, SinkFiles] = field(default_factory=dict)
    """Per file sink, the files of this batch, which get their names once it is committed."""

    def segments(self) -> set[str]:
        """The names of all segments that are still needed."""
        return {name for bolt in self.bolts.values() for task in bolt.tasks for name in task.segment_names()}

    def refs(self) -> Iterator[Ref]:
        """The references to all sections that are still needed."""
        for bolt in self.bolts.values():
            for task in bolt.tasks:
                for ref in task.all_refs():
                    yield ref
                    flags = ref.to_flags()
                    if flags is not None:
                        yield flags

    def renamed(self, names: Mapping[str, str]) -> Manifest:
        """A manifest of the same state, whose segments have other names."""
        bolts = {
            name: replace(bolt, tasks=[task.with_segments(names) for task in bolt.tasks])
            for name, bolt in self.bolts.items()
        }
        return replace(self, bolts=bolts)

    def to_values(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "batch": self.batch,
            "closing": self.closing,
            "clock": self.clock,
            "query": self.query,
            "origin": self.origin,
            "spouts": self.spouts,
            "files": self.files,
            "bolts": {name: _bolt_to_json(bolt) for name, bolt in self.bolts.items()},
        }

    def to_json(self) -> str:
        """As text."""
        return json.dumps(self.to_values())

    @staticmethod
    def from_json(text: str) -> Manifest:
        """From the text of ``to_json``."""
        return Manifest.from_values(json.loads(text))

    @staticmethod
    def from_values(values: dict[str, Any]) -> Manifest:
        """From what ``to_values`` gives."""
        bolts = {name: _bolt_from_json(bolt) for name, bolt in values["bolts"].items()}
        return Manifest(
            batch=values["batch"],
            closing=values["closing"],
            clock=values["clock"],
            query=values["query"],
            origin=values["origin"],
            bolts=bolts,
            spouts=values["spouts"],
            files=values["files"],
        )


def _bolt_to_json(bolt: BoltState) -> dict[str, Any]:
    return {
        "streams": list(bolt.accounts.streams),
        "accounts": bolt.accounts.to_json(),
        "watermark": bolt.watermark.to_json(),
        "frontier": bolt.frontier,
        "anchor": bolt.anchor,
        "tasks": [task.to_json() for task in bolt.tasks],
    }


def _bolt_from_json(values: dict[str, Any]) -> BoltState:
    return BoltState(
        Accounts(values["streams"], values["accounts"]),
        [TaskState.from_json(task) for task in values["tasks"]],
        WatermarkState.from_json(values["watermark"]),
        values["frontier"],
        values["anchor"],
    )
