"""Somebody gives the bolts of a checkpoint other numbers of tasks between two runs, and may die of it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.simulation.layouts import Layouts, Tasks
from tests.simulation.world.plan import BoltPlan
from tests.simulation.world.world import World
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.rescale import move_tasks
from topologies.graph.bolt_rules import TopologyRules
from windowing.errors import CheckpointError, TopologyError

BY_KEY = {
    "tumbling by key", "sessions", "sessions, late by themselves", "sliding logs, late by themselves", "several kinds",
    "tumbling", "sliding", "hours", "late by window", "once an id", "azure sessions", "atlas sessions",
    "a count of a key",
}  # fmt: skip
"""Kinds of windows that are those of keys, or the same for all events of a task: surely such a bolt can be moved, if
what is done with its windows is kept by key or not at all."""
KEEPS_BY_KEY = {"Plain", "Few", "PerUser", "ByMethod"}
REFUSED = "cannot be given other numbers of tasks"


class Misplaced(Exception):
    """A move, or a refusal, that should not have been."""


class Rescaling:
    """The moves of one case."""

    def __init__(self, world: World, layouts: Layouts, chance: random.Random, tell: Callable[[str], None]) -> None:
        self.world, self.layouts, self.chance, self.tell = world, layouts, chance, tell
        self.wanted: Tasks | None = None
        """Numbers of tasks that were asked for, until it is known that the checkpoint has them."""

    def begin(self, *, asked: bool) -> bool:
        """Before a run: the topology has the tasks that the checkpoint has or, where somebody has asked for others now
        or died of it, perhaps those. Returns whether the run is to move what is kept."""
        now = self.layouts.now
        if now is not None:
            self.world.tasks = {name: now.get(name, number) for name, number in self.world.tasks.items()}
        if asked:
            self.wanted = self._drawn()
        elif self.wanted is not None and self.chance.random() < 0.3:
            self.wanted = None  # it continues with what is there
        if self.wanted is None:
            return False
        how = self.chance.choice(["the run", "the run", "a command", "a command without code"])
        self.tell(f"from {self.world.tasks} to {self.wanted} tasks, by {how}")
        if how == "the run":
            return True
        if now is not None:
            self._by_command(self.wanted, code=how == "a command")
        return False

    @contextmanager
    def by_the_run(self) -> Iterator[None]:
        """What a run does that is to move what is kept: its start, up to its first batch, happens in this block."""
        assert self.wanted is not None
        before, files = self.world.tasks, self._files()
        self.world.tasks = dict(self.wanted)
        try:
            with self._judged(before, self.wanted, files):
                yield
        except BaseException:
            self.world.tasks = before
            raise

    def _drawn(self) -> Tasks:
        tasks = dict(self.world.tasks)
        for name in self.chance.sample(sorted(tasks), self.chance.randint(1, len(tasks))):
            tasks[name] = self.chance.choice([1, 2, 2, 3, 4, 5])
        try:
            self.world.with_tasks(tasks)
        except TopologyError:  # a bolt that looks at all events together has one task
            return dict(self.world.tasks)
        return tasks

    def _by_command(self, wanted: Tasks, *, code: bool) -> None:
        topology = self.world.with_tasks(wanted) if code or self._has_method() else None
        halves = PairedCheckpoint(f"{self.world.folder}/ck")
        halves.lock.take()
        try:
            with self._judged(self.world.tasks, wanted, self._files()):
                move_tasks(halves, wanted, topology)
        except CheckpointError as error:
            if REFUSED not in error.what:
                raise
        else:
            self.moved(wanted)
            self.world.tasks = dict(wanted)
        finally:
            halves.lock.release()

    def moved(self, wanted: Tasks) -> None:
        """What is kept has been moved."""
        self.layouts.note()
        now = self.layouts.now or wanted
        if any(now[name] != number for name, number in wanted.items()):
            raise Misplaced(f"it should have been moved to {wanted}, and is at {now}")
        self.wanted = None
        self.tell("it has been moved")

    def _has_method(self) -> bool:
        return any(bolt.does == "ByMethod" for bolt in self.world.plan.bolts)

    @contextmanager
    def _judged(self, before: Tasks, wanted: Tasks, files: dict[str, bytes]) -> Iterator[None]:
        """That it is refused where the state cannot be moved, only there, and that nothing was changed then."""
        fixed = self._fixed(before, wanted)
        try:
            yield
        except CheckpointError as error:
            if REFUSED not in error.what:
                raise
            if not fixed:
                raise Misplaced(f"from {before} to {wanted} it can be moved, and is refused: {error}") from error
            if self._files() != files:
                raise Misplaced("a refused move has changed the checkpoint") from error
            self.wanted = None
            self.tell("that is refused")
            raise
        if fixed and self.layouts.now is not None:
            raise Misplaced(f"from {before} to {wanted} it cannot be moved, and was: {fixed}")

    def _fixed(self, before: Tasks, wanted: Tasks) -> list[str]:
        found = []
        if self.layouts.now is None:
            return []
        rules = TopologyRules.of(self.world.with_tasks(wanted)).bolts
        for bolt in self.world.plan.bolts:
            number = wanted[bolt.name]
            if number == before[bolt.name]:
                continue
            own = rules[bolt.name]
            reasons = [*own.reasons_not_to_move, *(own.reasons_not_to_divide if before[bolt.name] % number else [])]
            if reasons and (not bolt.keyed or _surely_moves(bolt)):
                raise Misplaced(f"{bolt.name} should be movable, and is not: {reasons}")
            found += reasons
        return found

    def _files(self) -> dict[str, bytes]:
        found = {}
        for folder, _, names in os.walk(f"{self.world.folder}/ck"):
            for name in names:
                if name != ".lock":
                    with open(f"{folder}/{name}", "rb") as file:
                        found[f"{folder}/{name}"] = file.read()
        return found


def _surely_moves(bolt: BoltPlan) -> bool:
    return bolt.rules in BY_KEY and bolt.does in KEEPS_BY_KEY and len(bolt.inputs) == 1
