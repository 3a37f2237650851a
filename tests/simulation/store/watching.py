"""Watches a checkpoint in a store: who has it, what has been committed, and that nothing of that is deleted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from manager.storage.manifest import Manifest
from tests.simulation.store.objects import BUCKET

_TURNS = f"{BUCKET}/ck/windbolt/claims/"
_MANIFESTS = f"{BUCKET}/ck/windbolt/manifests/"
_SEGMENTS = f"{BUCKET}/ck/windbolt/segments/"


class Watch:
    """The sequence of claims and commits, as the store has seen it."""

    def __init__(self, keep: int, claimed: Callable[[], None], committed: Callable[[str], None]) -> None:
        self.keep, self._claimed, self._committed = keep, claimed, committed
        """Called when the driver that makes the request has claimed the checkpoint, or committed a batch."""
        self.problems: list[str] = []
        self.batches: list[str] = []
        self._last = self._epoch = 0
        self._named: list[set[str]] = []
        """The segments of the manifests that are kept, the last one last."""

    def made(self, path: str, data: bytes) -> None:
        """An object was written."""
        if not path.startswith(_TURNS):
            if path.startswith(_SEGMENTS) and any(path in names for names in self._named):
                self.problems.append(f"{path}, which a manifest names, is written once more")
            return
        number, turn = int(path.removeprefix(_TURNS).removesuffix(".json")), _document(data)
        if number <= self._last:
            return  # by a run that has lost: it looks for later ones, and finds them
        self._last = number
        if turn["epoch"] == number:  # a claim
            self._epoch = turn["epoch"]
            self._claimed()
            return
        if turn["epoch"] != self._epoch:
            self.problems.append(f"batch {turn['batch']} is committed by run {turn['epoch']}; {self._epoch} has it")
        if self.batches and turn["batch"] <= self.batches[-1]:
            self.problems.append(f"batch {turn['batch']} is committed after {self.batches[-1]}")
        self.batches.append(turn["batch"])
        manifest = Manifest.from_values(turn["manifest"])
        self._named = [*self._named, {f"{_SEGMENTS}{name}" for name in manifest.segments()}][-self.keep :]
        self._committed(turn["batch"])

    def deleted(self, path: str) -> None:
        """An object was deleted."""
        if path == f"{_TURNS}{self._last:010d}.json":
            self.problems.append(f"the last turn {path} is deleted")
        if any(path in names for names in self._named):
            self.problems.append(f"{path}, which a manifest names, is deleted")
        if path in {f"{_MANIFESTS}{key}.json" for key in self.batches[-self.keep :]}:
            self.problems.append(f"{path}, which is kept, is deleted")


def _document(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data.decode().split("\n", 1)[1])
    return found
