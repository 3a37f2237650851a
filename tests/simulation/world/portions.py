"""The input of a topology: files that come in portions, each before a run begins."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Portion:
    """What has come when a run begins, beside what had come before."""

    files: dict[str, str]
    """The lines of each file, by its place below the folder of the world: ``in/0-00.jsonl``."""
    flush: bool
    """Whether the run closes the streams."""
    triggers: int = 0
    """A run that is stopped after so many of its batches at intervals; 0 for a run to the end of what there is."""

    def deliver(self, folder: str, before: int) -> None:
        """Put its files into a folder; ``before``: how many files had come before."""
        for number, (name, text) in enumerate(self.files.items(), before):
            path = f"{folder}/{name}"
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            moment = 1_600_000_000 + number // 2  # some of them at one time
            os.utime(path, (moment, moment))

    def of(self, spout: str) -> list[str]:
        """The names of the files of one spout, in order."""
        return [os.path.basename(name) for name in self.files if os.path.dirname(name) == spout]


def portions(chance: random.Random, spouts: Sequence[str]) -> list[Portion]:
    """Some portions for some spouts, and one without events when all faults are over."""
    return _Portions(chance, spouts).made()


class _Portions:
    def __init__(self, chance: random.Random, spouts: Sequence[str]) -> None:
        self.chance, self.spouts = chance, spouts
        self.now, self.users, self.events = chance.choice([0, 5_000, 1_700_000_000_000]), chance.randint(1, 5), 0

    def made(self) -> list[Portion]:
        chance = self.chance
        count = chance.choice([1, 1, 2, 3])
        found = []
        for number in range(count):
            files = self._files(number)
            if number < count - 1 and chance.random() < 0.3:
                found.append(Portion(files, flush=False, triggers=len(files) + chance.randint(1, 3)))
            else:
                found.append(Portion(files, flush=number == count - 1 and chance.random() < 0.8))
        return [*found, Portion({f"{self.spouts[0]}/last.jsonl": ""}, flush=True)]

    def _files(self, portion: int) -> dict[str, str]:
        chance = self.chance
        files: dict[str, str] = {}
        for number in range(chance.choice([0, 1, 2, 3, 5, 8])):
            lines = []
            for _ in range(chance.choice([0, 1, 4, 12, 12])):
                self.now += self._move()
                lines.append(self._line())
                self.events += 1
            name = f"{chance.choice(self.spouts)}/{portion}-{number:02d}.jsonl"
            files[name] = "".join(f"{line}\n" for line in lines)
        return files

    def _move(self) -> int:
        return self.chance.choice([0, 0, 50, 100, 300, 300, 700, 2_000, self.chance.choice([0, 5_000, 60_000])])

    def _line(self) -> str:
        """An event; ties, disorder, the late, the early, and what cannot be read."""
        chance, now = self.chance, self.now
        moment = now - chance.choice([0, 0, 0, 0, 300, 1_000, 2_500, 5_000, 20_000])
        moment += chance.choice([0] * 12 + [6_000])
        row = {
            "id": self.events, "user": f"user{chance.randrange(self.users)}", "ts": moment, "at": now,
            "until": moment + chance.choice([1, 500, 4_000]), "amount": float(chance.randrange(100)),
        }  # fmt: skip
        match chance.randrange(50):
            case 0:
                return "{not json"
            case 1:
                row["ts"] = None
            case 2:
                row["amount"] = "much"
            case 3:
                row["user"] = None
            case 4:
                row["until"] = None  # it lasts for ever, or until the end edge
        return json.dumps(row)
