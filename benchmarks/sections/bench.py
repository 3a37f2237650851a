"""What the sections share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.arms.absent import FLINK, Absent
from benchmarks.arms.arm import Arm
from benchmarks.arms.bytewax import Bytewax
from benchmarks.arms.spark import SparkArm, spark_own, spark_stateful
from benchmarks.arms.windbolt import WindboltOnSpark
from benchmarks.contest import Arena
from benchmarks.events import Events
from benchmarks.figures import Figure, Results, Verdict, ratio
from benchmarks.session import Session
from benchmarks.sizes import Sizes
from benchmarks.workloads import WORKLOADS, Workload

MAIN = "windbolt"
"""The arm that the goals are about."""


@dataclass
class Bench:
    """One run of the benchmark."""

    data: Path
    sizes: Sizes
    results: Results
    workloads: Sequence[Workload] = WORKLOADS
    session: Session = field(default_factory=Session)
    arena: Arena = field(init=False)

    def __post_init__(self) -> None:
        self.arena = Arena(self.data, self.sizes.runs, self.sizes.check, check_once=self.sizes.main_arms_only)
        self.use(self.session)

    def use(self, session: Session) -> None:
        """Have all arms run in a session."""
        self.session = session
        self.windbolt = WindboltOnSpark(self.session)
        self.general = WindboltOnSpark(self.session, "general")
        self.framed = WindboltOnSpark(self.session, reads="frame")
        self.spark: SparkArm = spark_own(self.session)

    def arms(self, workload: Workload) -> list[Arm]:
        """All that answer a workload, windbolt first."""
        if self.sizes.main_arms_only:
            return [self.windbolt, self.spark]
        general: list[Arm] = [self.general] if workload.kind == "statistics" else []
        stateful: list[Arm] = (
            [spark_stateful(self.session, self.sizes.slow_spark)] if workload.kind == "medians" else []
        )
        return [
            self.windbolt, *general, self.spark, *stateful, Bytewax(self.sizes.slow), Absent("Flink", FLINK)
        ]  # fmt: skip

    def chosen(self, *workloads: Workload) -> list[Workload]:
        """Those of a section that were asked for."""
        return [workload for workload in workloads if workload in self.workloads]

    def events(self, count: int, keys: int = 1_000, per_second: int = 10_000) -> Events:
        """So many events."""
        return Events(count, keys, per_second, self.sizes.file_rows)

    def check_of(self, events: Events) -> int:
        """How many of them the checked run has at most."""
        return self.sizes.check_many_keys if events.keys > 10_000 else self.sizes.check

    def add(self, figures: Sequence[Figure]) -> None:
        """Take figures over."""
        self.results.figures += figures

    def judge(self, figures: Sequence[Figure], goal: float, text: str = "the best peer") -> None:
        """The main arm is to be so many times as fast as the best of the peers."""
        main = next(figure for figure in figures if figure.arm == MAIN)
        peers = [figure for figure in figures if not figure.ours]
        verdict = Verdict(main.section, main.workload, f"at least {goal:g} x {text}", goal, ratio(main, peers))
        self.results.verdicts.append(verdict)
