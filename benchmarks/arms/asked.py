"""windbolt, asked a query of ``benchmarks.queries``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.arms.arm import Job, Taken
from benchmarks.arms.spark import configured
from benchmarks.arms.windbolt import in_process, on_spark
from benchmarks.session import Session
from topologies.spark.workers.pool import TASKS

if TYPE_CHECKING:
    from topologies.topology import Topology

AS_TASKS = {TASKS: "spark"}
"""The setting under which Spark runs the tasks, as it does on a cluster."""


@dataclass
class Asked:
    """A topology on Spark."""

    name: str
    session: Session
    topology: Callable[[Job], Topology]
    conf: Mapping[str, str] = field(default_factory=dict)
    ours: bool = True
    batched: bool = True
    most: int | None = None

    def missing(self) -> str | None:
        """It is always there."""
        return None

    def run(self, job: Job) -> Taken:
        """Run to the end of the files; windows that the watermark has not passed stay open."""
        spark = self.session.settle()
        with configured(spark, self.conf):
            return on_spark(spark, self.topology(job), job)


@dataclass
class AskedLocally:
    """The same in this process, without Spark."""

    topology: Callable[[Job], Topology]
    name: str = "windbolt, in-process"
    ours: bool = True
    batched: bool = True
    most: int | None = None

    def missing(self) -> str | None:
        """It is always there."""
        return None

    def run(self, job: Job) -> Taken:
        """Run to the end of the files; windows that the watermark has not passed stay open."""
        return in_process(lambda: self.topology(job), job)
