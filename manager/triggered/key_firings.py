"""What one evaluation of key triggers decided: the windows that fire, what is purged, and which keys are forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from policies.firing import FULL, FiredRuns

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Forgotten:
    """A key that was silent for so long that its record is deleted (UH-22)."""

    key: Any


@dataclass
class KeyFirings:
    """The firings of an evaluation, in any order. A window holds the events from ``lows`` to ``highs``; the first five
    fields are lists of equal length."""

    lows: list[int] = field(default_factory=list)
    highs: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    causes: list[int] = field(default_factory=list)
    purges: list[bool] = field(default_factory=list)
    forgotten: list[tuple[int, int]] = field(default_factory=list)
    """(time in microseconds, hash) of the keys that are forgotten."""
    cleared: list[tuple[int, int]] = field(default_factory=list)
    """Runs of events that a rule purged without firing."""
    waiting: list[int] = field(default_factory=list)
    """Clocks, in microseconds, at which something is due."""
    unknown_answers: int = 0
    """Number of invalid answers of the rule; such an answer fires and purges (UH-18)."""

    @property
    def full(self) -> int:
        """Number of windows that fired because they reached their capacity."""
        return self.causes.count(FULL)

    def fire(self, low: int, high: int, end: int, cause: int, *, purge: bool = True) -> None:
        """Record the firing of one window."""
        self.lows.append(low)
        self.highs.append(high)
        self.ends.append(end)
        self.causes.append(cause)
        self.purges.append(purge)

    def take(self, fired: FiredRuns) -> None:
        """Record the firings of several windows."""
        self.lows += fired.lows.tolist()
        self.highs += fired.highs.tolist()
        self.ends += fired.ends.tolist()
        self.causes += fired.causes.tolist()
        self.purges += [True] * len(fired.lows)
        if fired.next_due is not None:
            self.waiting.append(fired.next_due)

    def cleared_of(self, count: int) -> NDArray[np.bool_]:
        """Which of all events were purged without a firing."""
        cleared = np.zeros(count, np.bool_)
        for low, high in self.cleared:
            cleared[low:high] = True
        return cleared

    def purged_of(self, count: int) -> NDArray[np.bool_]:
        """Which of all events were purged, by a firing or without one."""
        purges = np.array(self.purges, np.bool_)
        fired = zip(np.array(self.lows)[purges].tolist(), np.array(self.highs)[purges].tolist(), strict=True)
        steps = np.zeros(count + 1, np.int64)
        for low, high in (*fired, *self.cleared):
            steps[low] += 1
            steps[high] -= 1
        purged: NDArray[np.bool_] = np.cumsum(steps[:-1]) > 0
        return purged
