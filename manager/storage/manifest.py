"""The manifest: with the segments that it refers to, the complete state after a micro-batch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from manager.accounts import Accounts
from manager.storage.segments import Ref
from manager.storage.task_state import BoltTaskState, TaskState
from manager.watermarks import WatermarkState

# The keys of batches: how batches are named in files, to users, and in sentences.


def batch_key(batch: int, closing: bool) -> str:
    """Returns the key of a batch. Keys sort in order of time; the closing before any batch (number -1) comes first."""
    return f"{batch:010d}{'-close' if closing else ''}"


def serial_of(batch: int, closing: bool) -> int:
    """Returns the number by which sinks know a batch: twice its own, plus one for a closing."""
    return 2 * batch + closing


def batch_name(key: str) -> str:
    """Returns a batch key as users write it: ``7``, or ``7-close`` for the closing after batch 7."""
    number, closing, _ = key.partition("-close")
    return f"{int(number)}{closing}"


def batch_in_words(key: str) -> str:
    """Returns a batch in a sentence: ``batch 7``, or ``the closing after batch 7``."""
    return f"the closing after batch {batch_of(key)}" if key.endswith("-close") else f"batch {batch_of(key)}"


def key_of(name: str) -> str | None:
    """Returns the key of a batch that is written as ``batch_name`` writes it; None for any other text."""
    found = re.fullmatch(r"(-?\d{1,10})(-close)?", name.strip())
    return None if found is None else batch_key(int(found[1]), found[2] is not None)


def batch_of(key: str) -> int:
    """Returns the batch number in a key; for a closing, the number of the batch before it."""
    return int(key.removesuffix("-close"))


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
    """Time in microseconds from which aligned windows are counted, if that is the first clock of the run."""

    @property
    def pending(self) -> list[int]:
        """Per stream, the events that are in no window yet and may still be in one."""
        streams = len(self.accounts.streams)
        rows = [task.pending(streams) for task in self.tasks]
        return [sum(column) for column in zip(*rows, strict=True)]

    @property
    def done(self) -> BoltTaskState:
        """The sums over all its tasks so far: windows, rows and counters."""
        return BoltTaskState().add_counts(*(task.bolt for task in self.tasks))


class SinkFiles(TypedDict):
    """The files of one batch for a sink."""

    folder: str
    """Folder as the sink names it: a path or a URI."""
    drafts: list[str]
    """Hidden names of the files in that folder, in the order of the numbers that they get."""


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
    """Per spout: rows read, unreadable rows, unreadable files."""
    files: dict[str, SinkFiles] = field(default_factory=dict)
    """Per file sink, the files of this batch, which get their names once it is committed."""

    def segments(self) -> set[str]:
        """Returns the names of all segments that are still needed."""
        return {name for bolt in self.bolts.values() for task in bolt.tasks for name in task.segment_names()}

    def refs(self) -> Iterator[Ref]:
        """Yields the references to all sections that are still needed."""
        for bolt in self.bolts.values():
            for task in bolt.tasks:
                for ref in task.all_refs():
                    yield ref
                    flags = ref.to_flags()
                    if flags is not None:
                        yield flags

    def renamed(self, names: Mapping[str, str]) -> Manifest:
        """Returns a manifest of the same state, whose segments have other names."""
        bolts = {
            name: replace(bolt, tasks=[task.with_segments(names) for task in bolt.tasks])
            for name, bolt in self.bolts.items()
        }
        return replace(self, bolts=bolts)

    def to_values(self) -> dict[str, Any]:
        """Returns the manifest as plain JSON values."""
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
        """Returns the manifest as JSON text."""
        return json.dumps(self.to_values())

    @staticmethod
    def from_json(text: str) -> Manifest:
        """Reads a manifest from the text of ``to_json``."""
        return Manifest.from_values(json.loads(text))

    @staticmethod
    def from_values(values: dict[str, Any]) -> Manifest:
        """Reads a manifest from the values of ``to_values``."""
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
