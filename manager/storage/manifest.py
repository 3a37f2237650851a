"""The manifest: all that is known after a micro-batch; with the segments that it names, the whole state."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from manager.accounts import Accounts
from manager.queue.manager_state import ManagerState
from manager.storage.segments import Ref
from manager.watermarks.watermark import WatermarkState
from policies.marks import MarkState


@dataclass
class TaskState:
    """What one task of a windowed bolt has: its events, by reference, and what its manager remembers."""

    manager: ManagerState = field(default_factory=ManagerState)
    refs: list[Ref] = field(default_factory=list)
    decided_by_stream: list[int] = field(default_factory=list)
    """Events still kept, for ``expired``, that are already in an account."""
    emitted: dict[str, int] = field(default_factory=dict)
    """Rows emitted so far on each output stream."""
    user: dict[str, Ref] = field(default_factory=dict)
    """The state of a stateful bolt: its JSON part under "", its tables by name."""
    fired: int = 0
    """Windows fired so far."""
    suppressed: int = 0
    """Windows so far that the bolt was not called for: they end before the first output."""
    next_end: int | None = None
    """Of assigned windows: when the next was due, in microseconds, as things stood after the last evaluation."""
    open_ends: list[int] = field(default_factory=list)
    """Of assigned windows that an idle timeout may close: the ends of those that hold events, in microseconds."""
    evaluations: int = 0
    """Of assigned windows: how often they have been evaluated."""
    floor: int | None = None
    """Of substreams: what was guaranteed for every key at the last evaluation, in microseconds."""
    open_windows: int = 0
    """Of windows that a trigger fires: how many hold events."""
    tables: dict[str, Ref] = field(default_factory=dict)
    """Of assigned windows: what else is kept, in columns: the marks of keys, the panes of windows."""
    counters: dict[str, int] = field(default_factory=dict)
    """What the bolt, and the rule of a trigger, have counted so far, by name."""
    waiting_by_stream: list[int] = field(default_factory=list)
    """Of edges: the ends that wait for their starts (SI-3)."""

    def counted(self, further: Mapping[str, int]) -> TaskState:
        """The state with so much more counted."""
        return replace(self, counters=dict(sorted((Counter(self.counters) + Counter(further)).items())))

    def pending(self, streams: int) -> list[int]:
        """Per stream, the events that are in no window yet and may still be in one."""
        decided = self.decided_by_stream or [0] * streams
        waiting = self.waiting_by_stream or [0] * streams
        held = [sum(ref.by_stream[code] for ref in self.refs) for code in range(streams)]
        return [held[code] - decided[code] + waiting[code] for code in range(streams)]


@dataclass
class BoltState:
    """What a windowed bolt has: its watermark, its accounts, its tasks."""

    accounts: Accounts
    tasks: list[TaskState]
    watermark: WatermarkState = field(default_factory=WatermarkState)
    frontier: int | None = None
    """Up to where its windows have been evaluated, in microseconds."""
    anchor: int | None = None
    """From where aligned windows are counted, if that is the first clock of the run; microseconds."""

    @property
    def pending(self) -> list[int]:
        """Per stream, the events that are in no window yet and may still be in one."""
        streams = len(self.accounts.streams)
        rows = [task.pending(streams) for task in self.tasks]
        return [sum(column) for column in zip(*rows, strict=True)]

    @property
    def fired(self) -> int:
        """Windows fired so far, by all tasks."""
        return sum(task.fired for task in self.tasks)

    @property
    def suppressed(self) -> int:
        """Windows so far that end before the first output."""
        return sum(task.suppressed for task in self.tasks)

    @property
    def counters(self) -> dict[str, int]:
        """What the bolt, and the rule of its trigger, have counted so far, in order of the names."""
        total: Counter[str] = Counter()
        for task in self.tasks:
            total.update(task.counters)
        return dict(sorted(total.items()))

    @property
    def emitted(self) -> dict[str, int]:
        """Rows that its windows have emitted so far, by output stream."""
        total: dict[str, int] = {}
        for task in self.tasks:
            for stream, rows in task.emitted.items():
                total[stream] = total.get(stream, 0) + rows
        return total


@dataclass
class Manifest:
    """The state of a topology after a batch."""

    batch: int = -1
    closing: bool = False
    """Whether this is the end of a run, after the batch: a closing tick, and no events."""
    clock: int | None = None
    query: str | None = None
    """Which of Spark's queries it belongs to."""
    origin: str = ""
    """What tells this checkpoint from all others, also after a way back: it comes from the plan of its first batch."""
    bolts: dict[str, BoltState] = field(default_factory=dict)
    spouts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Per spout: rows read, rows it could not read, files it could not read."""

    def segments(self) -> set[str]:
        """The names of all segments that are still needed."""
        return {ref.segment for ref in self.refs()}

    def refs(self) -> Iterator[Ref]:
        """The references to all sections that are still needed."""
        for bolt in self.bolts.values():
            for task in bolt.tasks:
                for ref in (*task.refs, *task.user.values(), *task.tables.values()):
                    yield ref
                    flags = ref.to_flags()
                    if flags is not None:
                        yield flags

    def to_values(self) -> dict[str, Any]:
        """As what JSON can say."""
        return {
            "batch": self.batch,
            "closing": self.closing,
            "clock": self.clock,
            "query": self.query,
            "origin": self.origin,
            "spouts": self.spouts,
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
            values["batch"],
            values["closing"],
            values["clock"],
            values["query"],
            values["origin"],
            bolts,
            values["spouts"],
        )


def _bolt_to_json(bolt: BoltState) -> dict[str, Any]:
    return {
        "streams": list(bolt.accounts.streams),
        "accounts": bolt.accounts.to_json(),
        "watermark": asdict(bolt.watermark),
        "frontier": bolt.frontier,
        "anchor": bolt.anchor,
        "tasks": [_task_to_json(task) for task in bolt.tasks],
    }


def _bolt_from_json(values: dict[str, Any]) -> BoltState:
    return BoltState(
        Accounts(values["streams"], values["accounts"]),
        [_task_from_json(task) for task in values["tasks"]],
        _watermark_from_json(values["watermark"]),
        values["frontier"],
        values["anchor"],
    )


def _task_to_json(task: TaskState) -> dict[str, Any]:
    return {
        "manager": asdict(task.manager),
        "refs": [ref.to_json() for ref in task.refs],
        "decided": task.decided_by_stream,
        "emitted": task.emitted,
        "user": {name: ref.to_json() for name, ref in task.user.items()},
        "fired": task.fired,
        "suppressed": task.suppressed,
        "next_end": task.next_end,
        "open_ends": task.open_ends,
        "evaluations": task.evaluations,
        "floor": task.floor,
        "open_windows": task.open_windows,
        "tables": {name: ref.to_json() for name, ref in task.tables.items()},
        "counters": task.counters,
        "waiting": task.waiting_by_stream,
    }


def _task_from_json(values: dict[str, Any]) -> TaskState:
    return TaskState(
        ManagerState(**values["manager"]),
        [Ref.from_json(ref) for ref in values["refs"]],
        values["decided"],
        values["emitted"],
        {name: Ref.from_json(ref) for name, ref in values["user"].items()},
        values["fired"],
        values.get("suppressed", 0),
        values["next_end"],
        values["open_ends"],
        values["evaluations"],
        values["floor"],
        values.get("open_windows", 0),
        {name: Ref.from_json(ref) for name, ref in values["tables"].items()},
        values["counters"],
        values["waiting"],
    )


def _watermark_from_json(values: dict[str, Any]) -> WatermarkState:
    sources = {name: MarkState(**mark) for name, mark in values.get("sources", {}).items()}
    return WatermarkState(**{**values, "sources": sources})
