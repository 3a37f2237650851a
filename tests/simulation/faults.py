"""The faults of a seed: what happens in which life of the process, and when."""

from __future__ import annotations

import errno
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.disk import Crash, Disk

WRITES = ("create", "write", "sync", "rename", "delete", "delete folder", "make folder")
READS = ("read", "list")
STORE_WRITES = ("put", "create object", "upload", "copy", "delete objects")
STORE_READS = ("get", "list objects", "look")
TASKS = ("a task dies", "a task runs twice", "a task comes late")
KINDS = {
    "the process dies": WRITES,
    "power cut": WRITES,
    "a read fails": READS,
    "disk full": ("create", "write", "make folder"),
    "a write fails": ("write", "sync"),
    "an answer is lost": ("sync", "rename", "delete", "delete folder", "make folder"),
    "a task dies": ("task",),
    "a task runs twice": ("task",),
    "a task comes late": ("task",),
    "a sink fails": ("call",),
    "a second driver": WRITES,
    "a bit flips": ("pause",),
    "it goes back": ("pause",),
    "it is rescaled": ("pause",),
}
"""By kind of fault, the operations that it may meet."""
STORE_KINDS = {
    "the process dies": STORE_WRITES,
    "a read fails": STORE_READS,
    "a write fails": STORE_WRITES,
    "an answer is lost": STORE_WRITES,
    "a request comes again": STORE_WRITES,
    "a request arrives late": STORE_WRITES,
    "the store is down": (*STORE_WRITES, *STORE_READS),
    "another run takes over": (*STORE_WRITES, *STORE_READS),
    "a task dies": ("task",),
    "a task runs twice": ("task",),
    "a task comes late": ("task",),
    "a sink fails": ("call",),
}
"""The same for worlds in an object store."""
NEW_CODE = "the bolts have new code"
ALL_KINDS = {kind: (*KINDS.get(kind, ()), *STORE_KINDS.get(kind, ())) for kind in {**KINDS, **STORE_KINDS}}
ALL_KINDS[NEW_CODE] = ("start",)
OLD_LISTINGS = "listings are as they were before"
ALL_KINDS[OLD_LISTINGS] = ("mount",)
ENDS_THE_RUN = (
    "a read fails",
    "disk full",
    "a write fails",
    "an answer is lost",
    "a sink fails",
    "a bit flips",
    "a request arrives late",
    "the store is down",
)
"""Faults after which a run may end with an error."""
WHERE = ("", "manifests", "plans", "segments", "/offsets", "/commits", "/sources", "windbolt/.", "-close", "out/")
"""Parts of paths at which faults are aimed."""
STORE_WHERE = ("", "", "claims", "manifests", "plans", "segments", "/offsets", "/commits", "/sources", "-close", "out/")
TAKEN_OVER_AT = (
    ("list objects", "out/"),
    ("list objects", "out/"),
    ("list objects", "/offsets"),
    ("list objects", "/sources"),
    ("list objects", "segments"),
    ("get", "segments"),
    ("get", "manifests"),
    ("get", "manifests"),
    ("put", "manifests"),
    ("look", "plans"),
    ("create object", "/sources"),
)
"""Where it matters most that another run comes: before what both read and then write, or delete."""
MOST_LIVES = 6
CANNOT_READ = (errno.EIO, errno.EIO, errno.ETIMEDOUT, errno.ESTALE)
"""What a disk says that cannot read, or one in the network that does not answer."""


class TaskDied(BaseException):
    """The process of a task dies; that of the driver does not."""


class SinkFailed(Exception):
    """What the function of a sink raises."""


@dataclass(frozen=True)
class Fault:
    """One fault of a schedule."""

    life: int
    """How many processes have ended before, 0 for the first."""
    kind: str
    at: int
    """It meets the operation of this number among those that it may meet, in that life."""
    operation: str = ""
    """Only such operations; "" for all that a fault of its kind may meet."""
    where: str = ""
    """Only where this is a part of the path."""

    def meets(self, operation: str, path: str) -> bool:
        """Whether an operation is one of those."""
        return operation in ALL_KINDS[self.kind] and self.operation in ("", operation) and self.where in path


def schedule(seed: int) -> list[Fault]:
    """The faults of a seed; some seeds have one kind, others several."""
    chance = random.Random(f"faults {seed}")
    faults = _of_a_store(chance) if in_a_store(seed) else _of_a_disk(chance)
    faults += _beside_drafts(random.Random(f"taken over {seed}")) if in_a_store(seed) else ()
    faults += _at_starts(NEW_CODE, random.Random(f"code {seed}"))
    return faults + _at_starts(OLD_LISTINGS, random.Random(f"mount {seed}"))


def _at_starts(kind: str, chance: random.Random) -> list[Fault]:
    """What is so from the start of a process on: in one of five seeds, in some of its lives."""
    some = range(1, MOST_LIVES) if chance.random() < 0.2 else ()
    return [Fault(life, kind, 1) for life in some if chance.random() < 0.5]


def _beside_drafts(chance: random.Random) -> Iterator[Fault]:
    """In half of the seeds in a store another run comes while one looks for drafts beside the files of its sinks: it
    must not delete those of the other."""
    if chance.random() < 0.5:
        yield Fault(1, "another run takes over", chance.randint(1, 5), "list objects", "out/")


def _of_a_disk(chance: random.Random) -> list[Fault]:
    kinds = chance.sample(sorted(KINDS), chance.choice([1, 1, 2, 3]))
    if chance.random() < 0.5:  # what tasks and sinks leave is met again after a death
        kinds.append(chance.choice(["the process dies", "power cut"]))
    faults = []
    pauses = {kind for kind in kinds if KINDS[kind] == ("pause",)}
    if pauses:  # there must be a checkpoint, and something left to do
        faults.append(Fault(0, "the process dies", int(2 ** chance.uniform(5, 8))))
    for life in range(chance.randint(1, MOST_LIVES)):
        for _ in range(chance.choice([1, 1, 2])):
            kind = chance.choice(kinds)
            operation, where, most = "", "", 8
            if KINDS[kind] == ("pause",):
                most = 0
            elif len(KINDS[kind]) == 1:
                most = 5
            elif chance.random() < 0.6:  # what is rare comes up, too
                operation = chance.choice(["", *KINDS[kind]])
                where, most = chance.choice(WHERE), 4
            fault = Fault(life + (kind in pauses), kind, int(2 ** chance.uniform(0, most)), operation, where)
            if fault not in faults:
                faults.append(fault)
    return faults + [
        each for fault in faults if fault.kind == "it is rescaled" for each in _while_it_moves(fault.life, chance)
    ]


def in_a_store(seed: int) -> bool:
    """Whether the checkpoint of a seed is in an object store."""
    return random.Random(f"place {seed}").random() < 0.2


def _of_a_store(chance: random.Random) -> list[Fault]:
    kinds = chance.sample(sorted(STORE_KINDS), chance.choice([1, 1, 2, 3]))
    if chance.random() < 0.6:
        kinds.append(chance.choice(["the process dies", "another run takes over", "another run takes over"]))
    faults = []
    for life in range(chance.randint(1, MOST_LIVES)):
        for _ in range(chance.choice([1, 1, 2])):
            kind = chance.choice(kinds)
            operation, where, most = "", "", 8.0
            if len(STORE_KINDS[kind]) == 1:
                most = 5
            elif kind == "another run takes over" and chance.random() < 0.7:
                (operation, where), most = chance.choice(TAKEN_OVER_AT), 3
            elif chance.random() < 0.6:
                operation, where, most = chance.choice(["", *STORE_KINDS[kind]]), chance.choice(STORE_WHERE), 4
            fault = Fault(life, kind, int(2 ** chance.uniform(0, most)), operation, where)
            if fault not in faults:
                faults.append(fault)
    return faults


def _while_it_moves(life: int, chance: random.Random) -> list[Fault]:
    """Faults of a process that begins with a move to other tasks, and of the one after it, which may do so again."""
    found = []
    for number in range(chance.choice([0, 1, 1, 2])):
        kind = chance.choice(["the process dies", "the process dies", "power cut", "disk full", "an answer is lost"])
        found.append(Fault(life + number, kind, int(2 ** chance.uniform(0, 5.5))))
    return found


@dataclass
class Weather:
    """Makes the faults of a schedule happen, and notes what happened."""

    faults: Sequence[Fault]
    disk: Disk
    chance: random.Random
    life: int = 0
    happened: list[str] = field(default_factory=list)
    """In words, in order."""
    met: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """(fault, operation, place), and how often."""
    operations: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(operation, place), and how often."""
    phase: Callable[[], str] = lambda: ""
    counts: Counter[Fault] = field(default_factory=Counter)
    justified: bool = False
    """Whether something happened in this life after which a run may end with an error."""
    cut: bool = False
    """Whether this life ended with a power cut."""
    dying_in: int | None = None
    """After so many operations the task that is running dies."""
    full: bool = False
    calm: bool = False
    """Whether all faults are over."""
    down: bool = False
    """Whether the store answers nothing any more."""
    driver: Callable[[], Any] = lambda: None
    """Which of several drivers makes the request."""
    second: Callable[[], None] = lambda: None
    """Starts another driver on the same checkpoint."""

    def begin(self) -> None:
        """A new process."""
        self.counts.clear()
        self.justified = self.cut = self.full = self.down = False
        self.dying_in = None

    def end(self) -> None:
        """That process has ended."""
        self.life += 1

    def of_task(self) -> str | None:
        """What happens to a task that begins."""
        if self.calm:
            return None
        return self._kind("task", "a task")

    def of_start(self, kind: str) -> bool:
        """Whether this is so from the start of the process on: its code is newer than that of the process before, or it
        is on another machine."""
        (operation,) = ALL_KINDS[kind]
        return self._kind(operation, "the process") is not None

    def of_pause(self) -> str | None:
        """What happens before a process starts."""
        return self._kind("pause", "while nothing runs")

    def of_sink(self) -> None:
        """Before the function of a sink is called."""
        if self._kind("call", "a sink's function"):
            raise SinkFailed("out of order")

    def of_request(self, operation: str, path: str) -> str:
        """What happens to a request to a store; Crash where its process dies."""
        self.operations[operation, place(path)] += 1
        self._dies_in_a_task(operation, path)
        if self.down:
            self._justify()
            return "it is lost"
        match self._kind(operation, path):
            case "the process dies":
                raise Crash
            case "a read fails" | "a write fails":
                return "it is lost"
            case "an answer is lost":
                return "its answer is lost"
            case "a request comes again":
                return "it comes again"
            case "a request arrives late":
                return "it arrives late"
            case "the store is down":
                self.down = True
                return "it is lost"
            case "another run takes over":
                self.second()
        return ""

    def _dies_in_a_task(self, operation: str, path: str) -> None:
        if self.dying_in is not None and operation in (*WRITES, *STORE_WRITES):
            self.dying_in -= 1
            if self.dying_in < 0:
                self.dying_in = None
                self._note("a task dies", operation, place(self.disk.short(path)), path)
                raise TaskDied

    def _justify(self) -> None:
        self.justified, driver = True, self.driver()
        if driver is not None:
            driver.justified = True

    def before(self, operation: str, path: str) -> None:
        """Before an operation on the disk."""
        where = place(self.disk.short(path))
        self.operations[operation, where] += 1
        self._dies_in_a_task(operation, path)
        if self.full and operation in KINDS["disk full"]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        match self._kind(operation, path):
            case "the process dies":
                self.disk.dead = True
                raise Crash
            case "power cut":
                self.disk.dead = self.cut = True
                raise Crash
            case "a read fails":
                number = self.chance.choice(CANNOT_READ)
                raise OSError(number, os.strerror(number), path)
            case "a write fails":
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            case "an answer is lost":
                number = self.chance.choice(CANNOT_READ)
                self.disk.lost_answer = OSError(number, os.strerror(number), path)
            case "a second driver":
                self.second()
            case "disk full":
                self.full = self.chance.random() < 0.5  # or some room is found again
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def _kind(self, operation: str, path: str) -> str | None:
        """The fault that an operation meets."""
        hit = None
        for fault in self.faults:
            if fault.life == self.life and fault.meets(operation, path):
                self.counts[fault] += 1
                if self.counts[fault] == fault.at:
                    hit = hit or fault.kind
        if hit is not None and hit != "a task dies":
            self._note(hit, operation, place(self.disk.short(path)), path)
        return hit

    def _note(self, kind: str, operation: str, where: str, path: str) -> None:
        if kind in ENDS_THE_RUN:
            self._justify()
        self.met[kind, operation, where] += 1
        phase = self.phase()
        during = f", in {phase}" if phase else ""
        self.happened.append(f"life {self.life}: {kind}, at: {operation} {self.disk.short(path)}{during}")


_OF_A_SINK = re.compile(r"^out/[^/]+(.*?)(?:\.(?:jsonl|csv|parquet|arrow))?$")
_CHANGING = re.compile(r"-?[0-9a-f]{32}|-?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|-?\d+")


def place(path: str) -> str:
    """A path without what is different each time."""
    if path.startswith("out/"):
        path = _OF_A_SINK.sub(r"out/*\1", path)
    return _CHANGING.sub(lambda found: "*" if len(found[0]) >= 32 else "N", path)
