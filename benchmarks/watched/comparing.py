"""The figures of two runs side by side: what the one that was watched used beyond the other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.table import aligned
from benchmarks.watched.watching import Look, Watching

MOST_CPU, MOST_MIB = 1.0, 50.0
"""What watching may cost: percent of a processor core, and memory."""
SLOWER = 2.0
"""Standard errors by which batches have to differ to be called slower."""


@dataclass(frozen=True)
class Stretch:
    """What a run used in one stretch of time, from its first look to its last."""

    seconds: float
    cpu: float
    """Seconds of processor time, of all processes."""
    driver_cpu: float
    batch_ms: float
    """The median of its batches; NaN where there were none."""
    slow_batch_ms: float
    """The 95th percentile of its batches."""
    rows: int
    driver_mib: float
    """At the end."""
    own_mib: float
    """The mean."""


def stretches(run: Watching, begin: float, end: float, length: float) -> list[Stretch]:
    """Whole stretches of so many seconds between two moments of the monotonic clock."""
    found = []
    for number in range(int((end - begin) / length + 0.01)):
        first, last = begin + number * length, begin + (number + 1) * length
        looks = [each for each in run.looks if first <= each.at <= last]
        if len(looks) >= 2:
            found.append(_stretch(run, looks))
    return found


def _stretch(run: Watching, looks: Sequence[Look]) -> Stretch:
    first, last = looks[0], looks[-1]
    batches = [batch for batch in run.batches if first.at <= batch.at <= last.at]
    taken = sorted(1000 * batch.seconds for batch in batches)
    return Stretch(
        seconds=last.at - first.at,
        cpu=last.cpu - first.cpu,
        driver_cpu=last.driver_cpu - first.driver_cpu,
        batch_ms=statistics.median(taken) if taken else math.nan,
        slow_batch_ms=taken[int(0.95 * (len(taken) - 1))] if taken else math.nan,
        rows=sum(batch.rows for batch in batches),
        driver_mib=last.driver_mib,
        own_mib=statistics.fmean(each.own_mib for each in looks),
    )


@dataclass(frozen=True)
class Difference:
    """A figure of both, over stretches that belong together."""

    name: str
    watched: float
    alone: float
    error: float
    """The standard error of the difference; infinite where there is one stretch."""

    @property
    def more(self) -> float:
        """What the run that was watched has more."""
        return self.watched - self.alone

    @property
    def part(self) -> float:
        """The same as a part of the run alone."""
        return self.more / self.alone if self.alone else math.nan

    @property
    def is_clear(self) -> bool:
        """Whether it is more than chance."""
        return self.more > SLOWER * self.error


_FIGURES: tuple[tuple[str, Callable[[Stretch], float]], ...] = (
    ("CPU, % of a core", lambda each: 100 * each.cpu / each.seconds),
    ("CPU of the driver, % of a core", lambda each: 100 * each.driver_cpu / each.seconds),
    ("batch, median, ms", lambda each: each.batch_ms),
    ("batch, 95 %, ms", lambda each: each.slow_batch_ms),
    ("rows a second", lambda each: each.rows / each.seconds),
    ("memory of the driver, MiB", lambda each: each.driver_mib),
    ("memory of all processes, MiB", lambda each: each.own_mib),
)


def differences(watched: Sequence[Stretch], alone: Sequence[Stretch]) -> list[Difference]:
    """The means of each figure, and how sure their difference is, by pairs of stretches."""
    pairs = list(zip(watched, alone, strict=False))
    return [_difference(name, [(figure(one), figure(other)) for one, other in pairs]) for name, figure in _FIGURES]


def _difference(name: str, pairs: Sequence[tuple[float, float]]) -> Difference:
    sure = [(one, other) for one, other in pairs if not math.isnan(one) and not math.isnan(other)]
    if not sure:
        return Difference(name, math.nan, math.nan, math.inf)
    apart = [one - other for one, other in sure]
    error = statistics.stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else math.inf
    one, other = (statistics.fmean(each) for each in zip(*sure, strict=True))
    return Difference(name, one, other, error)


def table(found: Sequence[Difference]) -> str:
    """The figures, for people."""
    head = ["", "watched", "alone", "more", "± (standard error)", "in %"]
    rows = [
        [each.name, f"{each.watched:.2f}", f"{each.alone:.2f}", f"{each.more:+.2f}", f"{each.error:.2f}",
         f"{100 * each.part:+.2f}"]
        for each in found
    ]  # fmt: skip
    return aligned(head, rows)


def growth(stretches: Sequence[Stretch]) -> str:
    """The memory of the driver at the end of the first and of the last stretch, in words."""
    return f"from {stretches[0].driver_mib:.1f} to {stretches[-1].driver_mib:.1f} MiB"


def verdicts(found: Sequence[Difference]) -> list[tuple[bool, str]]:
    """Whether watching costs no more than it may, and in words."""
    by_name = {each.name: each for each in found}
    cpu, slow = by_name["CPU, % of a core"], by_name["batch, median, ms"]
    memory = by_name["memory of the driver, MiB"]
    return [
        (cpu.more < MOST_CPU, f"processor time: {cpu.more:+.2f} % of a core (less than {MOST_CPU:g} %)"),
        (memory.more < MOST_MIB, f"memory of the driver: {memory.more:+.1f} MiB (less than {MOST_MIB:g} MiB)"),
        (not slow.is_clear, f"batches: {slow.more:+.1f} ms ± {slow.error:.1f} (none slower beyond chance)"),
    ]
