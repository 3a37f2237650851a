"""What a simulation has met, and what it never met."""

from __future__ import annotations

from collections import Counter

from tests.simulation.faults import ALL_KINDS as FAULTS
from tests.simulation.playing import Played
from tests.simulation.world.kinds import BOLTS, JOINS, KINDS, MEETING, PASSING
from tests.simulation.world.world import KAFKA, STEP, STORE, parts_of

PARTS = sorted({STEP, KAFKA, STORE, *KINDS, *JOINS, *PASSING, *MEETING, *(name for name, _ in BOLTS)})
"""All that a topology can be drawn from."""


class Coverage:
    """Counts over many seeds."""

    def __init__(self) -> None:
        self.seeds = self.lives = self.steps = 0
        self.met: Counter[tuple[str, str, str]] = Counter()
        self.operations: Counter[tuple[str, str]] = Counter()
        self.refusals: Counter[str] = Counter()
        self.parts: Counter[str] = Counter()

    def add(self, played: Played) -> None:
        """Count a seed."""
        self.seeds += 1
        self.lives += played.lives
        self.steps += played.steps
        self.met += played.met
        self.operations += played.operations
        self.refusals += played.refusals
        self.parts.update(parts_of(played.case.world))

    def join(self, other: Coverage) -> None:
        """Count what another has counted."""
        for name, counts in vars(other).items():
            setattr(self, name, getattr(self, name) + counts)

    @property
    def faults(self) -> Counter[str]:
        """By kind of fault, how many happened."""
        found: Counter[str] = Counter()
        for (kind, _, _), times in self.met.items():
            found[kind] += times
        return found

    @property
    def never(self) -> list[str]:
        """What was never met: faults, windows and bolts that did not come up, operations that no fault met."""
        found = [f"fault: {kind}" for kind in FAULTS if not self.faults[kind]]
        found += [f"drawn: {part}" for part in PARTS if not self.parts[part]]
        for operation, where in sorted(self.operations):
            for kind in ("the process dies", "power cut", "a read fails", "disk full"):
                if operation in FAULTS[kind] and not self.met[kind, operation, where]:
                    found.append(f"{kind}, at: {operation} {where}")
        return found

    def __str__(self) -> str:
        met = f"{self.faults.total()} faults, of {len(self.met)} kinds by operation and place"
        lines = [f"{self.lives} lives, {self.steps} steps, {met}"]
        lines += [f"  {times:>7} {kind}" for kind, times in self.faults.most_common()]
        lines += ["errors that ended a run:"]
        lines += [f"  {times:>7} {name}" for name, times in self.refusals.most_common()]
        lines += [f"never met: {len(self.never)}", *(f"  {each}" for each in self.never)]
        return "\n".join(lines)
