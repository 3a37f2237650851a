"""The questions that every arm is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks import answers
from benchmarks.events import Columns, Events

Kind = Literal["statistics", "middles", "medians"]


@dataclass(frozen=True)
class Workload:
    """What is asked of the windows of each second."""

    name: str
    title: str
    kind: Kind
    length: int
    """Of the windows, in seconds; they slide by one."""

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
