"""A histogram: how many values there were up to each of some bounds, for each set of labels."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from topologies.metrics.instruments import Instrument


@dataclass
class Distribution:
    """The values of one set of labels."""

    counts: list[int]
    """By bucket, the last of which has no upper bound; not cumulated."""
    total: float = 0.0


@dataclass
class Distributions:
    """The values of an instrument that is a histogram."""

    instrument: Instrument
    of_labels: dict[tuple[str, ...], Distribution] = field(default_factory=dict)

    def begin(self, labels: tuple[str, ...]) -> None:
        """Have labels from now on, so that their first values are seen as a rise from zero."""
        if labels not in self.of_labels:
            self.of_labels[labels] = Distribution([0] * (len(self.instrument.buckets) + 1))

    def observe(self, labels: tuple[str, ...], value: float, times: int = 1) -> None:
        """Add a value, so many times."""
        self.begin(labels)
        distribution = self.of_labels[labels]
        distribution.counts[bisect_left(self.instrument.buckets, value)] += times
        distribution.total += value * times

    def copied(self) -> Iterator[tuple[tuple[str, ...], Distribution]]:
        """What it holds, by labels, which later values do not change."""
        for labels, each in self.of_labels.items():
            yield labels, Distribution(list(each.counts), each.total)
