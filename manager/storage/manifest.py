"""The manifest, which with its segments is the complete state after a micro-batch."""

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

# The names of batches in files and in texts.


def batch_key(batch: int, closing: bool) -> str:
    """Returns the key of a batch. Keys sort in order of time; the closing before any batch (number -1) comes first."""
    return f"{batch:010d}{'-close' if closing else ''}"


def serial_of(batch: int, closing: bool) -> int:
    """Returns the number of a batch for sinks: twice the batch number, plus one for a closing."""
    return 2 * batch + closing


def batch_name(key: str) -> str:
    """Returns the name of a batch for users: ``7``, or ``7-close`` for the closing after batch 7."""
    number, closing, _ = key.partition("-close")
    return f"{int(number)}{closing}"


def batch_in_words(key: str) -> str:
    """Returns the name of a batch in a sentence: ``batch 7``, or ``the closing after batch 7``."""
    return f"the closing after batch {batch_number(key)}" if key.endswith("-close") else f"batch {batch_number(key)}"


def key_of_batch_name(name: str) -> str | None:
    """Returns the key of the batch with this ``batch_name``; None for any other text."""
    match = re.fullmatch(r"(-?\d{1,10})(-close)?", name.strip())
    return None if match is None else batch_key(int(match[1]), match[2] is not None)


def batch_number(key: str) -> int:
    """Returns the batch number in a key; for a closing, the number of the batch before it."""
    return int(key.removesuffix("-close"))


# The manifest.


@dataclass
class BoltState:
    """State of a windowed bolt: its watermark, its accounts, and the states of its tasks."""

    accounts: Accounts
    tasks: list[TaskState]
    watermark: WatermarkState = field(default_factory=WatermarkState)
    frontier: int | None = None
    """The frontier of the last evaluation of windows, in microseconds; None before the first."""
    anchor: int | None = None
    """The first clock of the run in microseconds, if aligned windows are counted from it; else None."""

    @property
    def pending(self) -> list[int]:
        """The number of events per stream that have been in no window and can still be in one."""
        streams = len(self.accounts.streams)
        rows = [task.pending(streams) for task in self.tasks]
        return [sum(column) for column in zip(*rows, strict=True)]

    @property
    def totals(self) -> BoltTaskState:
        """The sums over all tasks: windows, rows and counters."""
        return BoltTaskState().add_counts(*(task.bolt for task in self.tasks))


class SinkFiles(TypedDict):
    """The files of one batch for a sink."""

    folder: str
    """The folder, as a path or a URI."""
    drafts: list[str]
    """The hidden names of the files, in order of their final numbers."""


@dataclass(kw_only=True)
class Manifest:
    """The state of a topology after a batch."""

    batch: int = -1
    closing: bool = False
    """True for the state after the closing, which is a tick without events after the last batch of a run."""
    clock: int | None = None
    query: str | None = None
    """The id of the Spark query; None without Spark."""
    origin: str = ""
    """The id of the checkpoint: the run id in the plan of its first batch. Going back does not change it."""
    bolts: dict[str, BoltState] = field(default_factory=dict)
    spouts: dict[str, dict[str, int]] = field(default_factory=dict)
    """For each spout: rows read, unreadable rows, unreadable files."""
    files: dict[str, SinkFiles] = field(default_factory=dict)
    """For each file sink, the files of this batch, which get their final names after the commit."""

    def segments(self) -> set[str]:
        """Returns the names of all segments that are still needed."""
        return {name for bolt in self.bolts.values() for task in bolt.tasks for name in task.segment_names()}

    def refs(self) -> Iterator[Ref]:
        """Yields the references to all sections that are still needed."""
        for bolt in self.bolts.values():
            for task in bolt.tasks:
                for ref in task.all_refs():
                    yield ref
                    flags = ref.ref_of_flags()
                    if flags is not None:
                        yield flags

    def with_segments(self, names: Mapping[str, str]) -> Manifest:
        """Returns the manifest with renamed segments. ``names``: the new names by the old."""
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
        """Returns the manifest from the text of ``to_json``."""
        return Manifest.from_values(json.loads(text))

    @staticmethod
    def from_values(values: dict[str, Any]) -> Manifest:
        """Returns the manifest from the result of ``to_values``."""
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
