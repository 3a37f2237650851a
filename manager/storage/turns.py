"""Whose a checkpoint is where no lock can say so: a sequence of claims and commits, each made by a conditional write.

The documents ``turns/0000000001``, ``turns/0000000002`` and so on are one sequence. A run that opens the checkpoint
writes the next one, its claim; each commit is the next one, too. A document is only ever created where there is none,
so of two runs that want the same turn one gets it, and a claim takes the turn that the run before it needs for its next
commit: that run finds a document of somebody else there, and stops (decision 67).

Each holds what is committed, so the last one says what counts. Elsewhere there are copies of it, which somebody who has
lost the checkpoint may still write (decision 87).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from manager.storage.sealed_folder import SealedFolder
from windowing.errors import CheckpointError, TakenOver
from windowing.time.timestamps import show

_FOLDER = "turns"
_ATTEMPTS = 1000
"""How often somebody else may be faster with a claim until it is given up; each time that one commits a batch."""

Turn = dict[str, Any]
"""A document of the sequence: what is ``Committed``; ``owner``, ``since``, ``run``, ``command``, ``epoch`` of whoever
wrote it; and ``id``, which no other document has."""


@dataclass(frozen=True)
class Committed:
    """What is committed, as of one turn."""

    batch: str | None = None
    """The key of the batch committed last; None before the first one."""
    manifest: Any = None
    """Its manifest; None where only ``manifests/`` has it, as in a checkpoint that was copied without its turns."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Per name, the notes that were replaced together with the state, as they are now."""
    first: str | None = None
    """The key of the first batch that can be gone back to; None for any that is kept."""

    @staticmethod
    def in_turn(turn: Turn) -> Committed:
        """That of a document."""
        return Committed(**{each.name: turn[each.name] for each in fields(Committed) if each.name in turn})


@dataclass(frozen=True)
class Owner:
    """Who claims a checkpoint, for those that lose it."""

    name: str
    """Such as ``process 4711 on host``."""
    since: int
    """When it claims it, in microseconds."""
    run: str = ""
    """The id of the run, which stays the same where it is started again by itself."""
    command: str = ""
    """The command that claims it, which ends when it has changed the checkpoint; empty for a run."""


class Turns:
    """The sequence of claims and commits of one checkpoint, as one run goes along it."""

    def __init__(self, files: SealedFolder) -> None:
        self._files = files
        self.epoch = 0
        """The number of this run's claim; 0 before it."""
        self._last = 0
        """The number of the last document that this run has written."""
        self._owner: Owner | None = None

    def claim(self, owner: Owner, settle: Callable[[Committed | None], Committed], *, again: bool = False) -> Committed:
        """Take the checkpoint over: from now on no run that claimed it before can commit.

        ``again``: the same run had it before, and takes it from nobody else: TakenOver where another run has claimed it
        since.

        ``settle`` is called with what is committed, perhaps several times; it sees to it that all copies of that are
        there, and returns what is to be committed with the claim. Returns that.
        """
        for _ in range(_ATTEMPTS):
            number = max(_numbers(self._files), default=0)
            before = self._files.read(_name(number)) if number else None
            if number and before is None:
                continue  # its owner has moved on, and deleted it
            if again and before is not None and before["run"] != owner.run:
                raise self._lost()
            committed = settle(None if before is None else Committed.in_turn(before))
            if not self._take(number + 1, _turn(owner, number + 1, committed)):
                continue
            later = self._after(number + 1)
            if later is None:
                self.epoch, self._owner = number + 1, owner
                return committed
            if later["epoch"] > number + 1:
                raise self._lost()
            # the run before had used that number, moved on and deleted it: what is there now says nothing
        raise CheckpointError(
            f"checkpoint {self._files.place.removesuffix('/windbolt')} cannot be claimed",
            why=f"another run has committed a batch each of the {_ATTEMPTS} times that this one tried",
            do="stop that run first",
        )

    def commit(self, committed: Committed) -> None:
        """Make this the state of the checkpoint. TakenOver where somebody else has it by now; whether
        this is committed is then for the new owner to say."""
        assert self._owner is not None, "claim() comes before the first commit"
        if not self._take(self._last + 1, _turn(self._owner, self.epoch, committed)):
            raise self._lost()
        self.check()

    def check(self) -> None:
        """Raise TakenOver where somebody else has claimed the checkpoint since this run did."""
        if max(_numbers(self._files), default=0) > self._last:
            raise self._lost()

    def clean(self) -> None:
        """Delete the documents before this run's last one. A run that lost the checkpoint may then create a document
        whose number was used before; it finds the later ones, and knows by them that it has lost."""
        self._files.delete(*(_name(number) for number in _numbers(self._files) if number < self._last))

    def _take(self, number: int, turn: Turn) -> bool:
        """Write a document where there is none; False where there is one. Where there are later ones the number had
        been used, or somebody else has taken over at once."""
        if not self._files.create(_name(number), {**turn, "id": uuid.uuid4().hex}):
            return False
        self._last = number
        return True

    def _after(self, number: int) -> Turn | None:
        """The last document, if it is a later one."""
        while (last := max(_numbers(self._files), default=0)) > number:
            found: Turn | None = self._files.read(_name(last))
            if found is not None:  # else its owner has moved on, and deleted it
                return found
        return None

    def _lost(self) -> TakenOver:
        unknown: Turn = {"owner": "another run", "since": None}
        latest = self._files.read(_name(max(_numbers(self._files), default=0))) or unknown
        since = f" at {show(latest['since'])}" if latest["since"] is not None else ""
        command = latest.get("command", "")
        owner = latest["owner"] + (f" ({command})" if command else "")
        of_run = "let that run continue; or stop it, and start this one again"
        of_command = "start again: a run goes on with what the command has changed, such as other numbers of tasks"
        return TakenOver(
            f"checkpoint {self._files.place.removesuffix('/windbolt')} has been taken over by {owner}{since}",
            why="a checkpoint belongs to whoever took it last; nothing more is committed here",
            do=of_command if command else of_run,
        )


def last_turn(files: SealedFolder) -> Turn | None:
    """The last document; None where there is none. Nothing is claimed: a run may be in progress."""
    while True:
        number = max(_numbers(files), default=0)
        found: Turn | None = files.read(_name(number)) if number else None
        if found is not None or not number:
            return found  # else its owner has moved on, and deleted it


def _numbers(files: SealedFolder) -> list[int]:
    return [int(name) for name in files.names(_FOLDER) if name.isdigit()]


def _name(number: int) -> str:
    return f"{_FOLDER}/{number:010d}"


def _turn(owner: Owner, epoch: int, committed: Committed) -> Turn:
    about = {"owner": owner.name, "since": owner.since, "run": owner.run, "command": owner.command, "epoch": epoch}
    return about | asdict(committed)
