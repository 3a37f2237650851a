"""The manifest: with the segments that it refers to, the complete state after a micro-batch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from manager.accounts import Accounts
from manager.storage.segments.ref import Ref
from manager.storage.task_state import AssignedState, TaskState
from manager.watermarks.watermark import WatermarkState


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
    """Whether this is the end of a run, after the batch: a closing tick, and no events."""
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
