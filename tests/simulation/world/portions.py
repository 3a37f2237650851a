"""The input of a topology: files that come in portions, each before a run begins."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from tests.simulation.world.steps import SAID


@dataclass(frozen=True)
class Portion:
    """What has come when a run begins, beside what had come before."""

    files: Mapping[str, Sequence[str]]
    """The lines of each file, by its place below the folder of the world: ``in/0-00.jsonl``."""
    flush: bool = False
    """Whether the run closes the streams."""
    triggers: int = 0
    """A run that is stopped after so many of its batches at intervals; 0 for a run to the end of what there is."""

    def deliver(self, folder: str, before: int) -> None:
        """Put its files into a folder; ``before``: how many files had come before."""
        for number, (name, lines) in enumerate(self.files.items(), before):
            path = f"{folder}/{name}"
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
            moment = 1_600_000_000 + number // 2  # some of them at one time
            os.utime(path, (moment, moment))

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """From plain values."""
        return cls(**values)

    def named(self, spout: str) -> list[str]:
        """The names of the files of one spout, in order."""
        return [os.path.basename(name) for name in self.files if os.path.dirname(name) == spout]


class Size(NamedTuple):
    """From how many portions, files in one, and lines in a file it is drawn."""

    portions: Sequence[int]
    files: Sequence[int]
    lines: Sequence[int]


SMALL = Size([1, 1, 2], [0, 1, 1, 2, 3], [0, 1, 3, 6, 9])
"""Most are: what faults find in larger ones, they find in these, and sooner."""
SEVERAL = Size([1, 1, 2], [2, 3, 4], [0, 1, 3, 4])
"""There are several batches to go back to."""
TO_BE_MOVED = Size([1, 2], [2, 3], [3, 6, 9])
"""Most tasks hold events when they are moved."""
LARGE = Size([1, 2, 3], [3, 5, 8, 12], [0, 1, 4, 12, 12])


def portions(
    chance: random.Random, spouts: Sequence[str], what: Literal["files", "partitions", "messages"], size: Size
) -> list[Portion]:
    """Some portions for some spouts, and one without events when all faults are over; ``messages`` are for a step."""
    kinds = {"files": Input, "partitions": _Partitions, "messages": _Messages}
    return kinds[what](chance, spouts, size).made()


class Input:
    """Draws portions; time and the numbers of events continue from one call to the next."""

    def __init__(self, chance: random.Random, spouts: Sequence[str], size: Size = SMALL) -> None:
        self.chance, self.spouts, self.size = chance, spouts, size
        self.now, self.users, self.events = chance.choice([0, 5_000, 1_700_000_000_000]), chance.randint(1, 5), 0

    def made(self) -> list[Portion]:
        """Some portions, and one without events."""
        chance = self.chance
        count = chance.choice(self.size.portions)
        found = []
        for number in range(count):
            files = self._files(number)
            if number < count - 1 and chance.random() < 0.3:
                found.append(Portion(files, flush=False, triggers=len(files) + chance.randint(1, 3)))
            else:
                found.append(Portion(files, flush=number == count - 1 and chance.random() < 0.8))
        return [*found, Portion(self._last(), flush=True)]

    def _last(self) -> dict[str, list[str]]:
        """What makes one more batch, and brings no event."""
        return {f"{self.spouts[0]}/last.jsonl": []}

    def _files(self, portion: int) -> dict[str, list[str]]:
        chance = self.chance
        files: dict[str, list[str]] = {}
        for number in range(chance.choice(self.size.files)):
            lines = []
            for _ in range(chance.choice(self.size.lines)):
                self.now += self._move()
                lines.append(self._line())
                self.events += 1
            name = f"{chance.choice(self.spouts)}/{portion}-{number:02d}.jsonl"
            files[name] = lines
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
                row["until"] = None  # it lasts forever, or until the end edge
        return json.dumps(row)


class _Partitions(Input):
    """Records of a topic: unevenly in its partitions, some of which pause or are new, and some sent twice."""

    def _last(self) -> dict[str, list[str]]:
        return {f"{self.spouts[0]}/0": ["{not json"]}

    def _files(self, portion: int) -> dict[str, list[str]]:
        chance = self.chance
        there = chance.sample(range(4), chance.choice([1, 2, 3, 3]))
        found: dict[str, list[str]] = {}
        for lines in super()._files(portion).values():
            mine = found.setdefault(f"{self.spouts[0]}/{chance.choice(there)}", [])
            for line in lines:
                mine += [line] * chance.choice([1] * 14 + [2])
        return found


class _Messages(Input):
    """Messages of an aggregation step, each in its envelope."""

    def _line(self) -> str:
        chance, user = self.chance, f"user{self.chance.randrange(self.users)}"
        value: Any = {"id": self.events, "user": user, "say": chance.choice(SAID)}
        envelope = {"key": user, "value": value, "timestamp": self.now}
        match chance.randrange(40):
            case 0:
                return "{not json"
            case 1:
                envelope["value"] = "not json"
            case 2:
                del value["user"]
            case 3:
                del envelope["key"]
        return json.dumps(envelope)
