"""Changes of names that have not reached the disk yet: what takes them back, and which of them a power cut loses."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Order = Literal["kept", "free"]
"""``kept``: the changes that survive are those before some moment (ext4, XFS). ``free``: each survives or not, unless
it needs another one, and only those in folders that were synced are safe (POSIX promises no more)."""


@dataclass(frozen=True)
class NameChange:
    """A file or folder got a name, or lost it."""

    words: str
    """What is lost if it is lost."""
    paths: tuple[str, ...]
    undo: Callable[[], None]


class NameChanges:
    """The changes since the last sync, the newest last."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._pending: list[NameChange] = []

    def add(self, words: str, undo: Callable[[], None], *paths: str) -> None:
        """Note a change that was made."""
        self._pending.append(NameChange(words, paths, undo))

    def clear(self) -> None:
        """All have reached the disk."""
        self._pending.clear()

    def synced(self, path: str) -> None:
        """A file or folder was synced."""
        if self.order == "kept":
            self._pending.clear()
        elif os.path.isdir(path):
            self._sync_folder(path)

    def lose(self, chance: random.Random) -> list[str]:
        """Take back what a power cut loses; it in words."""
        lost = self._newest(chance) if self.order == "kept" else self._any(chance)
        for change in reversed(lost):
            change.undo()
        self._pending.clear()
        return [change.words for change in reversed(lost)]

    def _newest(self, chance: random.Random) -> list[NameChange]:
        return self._pending[len(self._pending) - chance.randint(0, len(self._pending)) :]

    def _any(self, chance: random.Random) -> list[NameChange]:
        share, lost = chance.choice([0.1, 0.3, 0.6, 1]), []
        gone: set[str] = set()
        for change in self._pending:
            if chance.random() < share or any(_needs(path, gone) for path in change.paths):
                lost.append(change)
                gone.update(change.paths)
        return lost

    def _sync_folder(self, folder: str) -> None:
        """Make the changes in a folder safe, with what they need themselves."""
        left: list[NameChange] = []
        safe: set[str] = set()
        for change in reversed(self._pending):
            inside = any(os.path.dirname(path) == folder for path in change.paths)
            if inside or any(path in safe or _is_below(path, safe) for path in change.paths):
                safe.update(change.paths)
            else:
                left.append(change)
        self._pending = left[::-1]


def _needs(path: str, gone: set[str]) -> bool:
    """Whether a change at a path needs one of these: at the path itself, at a folder above it, or in it."""
    return path in gone or _is_below(path, gone) or any(each.startswith(f"{path}/") for each in gone)


def _is_below(path: str, folders: set[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)
