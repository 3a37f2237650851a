"""The questions that every arm is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from benchmarks import answers
from benchmarks.events import Columns, Events


class Question(Protocol):
    """What arms are asked."""

    @property
    def name(self) -> str:
        """Short, for the table."""

    @property
    def title(self) -> str:
        """In words."""

    @property
    def order(self) -> tuple[str, ...]:
        """Columns that no two rows of the answer share; it is in their order."""

    @property
    def due_only(self) -> bool:
        """Whether arms may emit rows of windows after ``last_end``; they are not compared."""

    def answer(self, events: Events) -> Columns:
        """What the rows must be, as something else than an arm says."""


Kind = Literal["statistics", "middles", "medians"]


@dataclass(frozen=True)
class Workload:
    """What is asked of the windows of each second."""

    name: str
    title: str
    kind: Kind
    length: int
    """Of the windows, in seconds; they slide by one."""

    due_only: bool = False

    @property
    def order(self) -> tuple[str, ...]:
        """As ``Question`` has it."""
        return ("until", "key") if self.keyed else ("until",)

    @property
    def keyed(self) -> bool:
        """Whether the answer is one for each key."""
        return self.kind != "medians"

    def answer(self, events: Events) -> Columns:
        """What NumPy says."""
        match self.kind:
            case "statistics":
                return answers.statistics(events, self.length)
            case "middles":
                return answers.middles(events)
            case "medians":
                return answers.medians(events, self.length)


W1 = Workload("W1", "keyed tumbling 1 s: count, sum, mean", "statistics", 1)
W2 = Workload("W2", "keyed sliding 10 s / 1 s: count, sum, mean", "statistics", 10)
W3 = Workload("W3", "keyed tumbling 1 s: a Python function per key", "middles", 1)
W4 = Workload("W4", "un-keyed sliding 10 s / 1 s: a Python function", "medians", 10)
WORKLOADS = (W1, W2, W3, W4)


def middle(values: Sequence[float]) -> float:
    """The Python function of W3: nothing that an engine could know."""
    return sorted(values)[len(values) // 2]
