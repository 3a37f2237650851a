"""Runs micro-batches in this process with the checkpoint in memory, and simulates crashes. For scenarios and tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from manager.storage.checkpoint import MemoryCheckpoint
from topologies.engine.batch.plan import BatchPlan, InProcess
from topologies.engine.batch.report import BatchReport
from topologies.engine.step import MicroBatch
from topologies.graph.model import Topology

Phase = Literal["ingest", "tick", "fire", "compact", "sinks", "commit", "committed"]
"""The phases of a micro-batch, in order. From ``committed`` on, the batch survives a crash."""

PHASES: tuple[str, ...] = get_args(Phase)


class Crash(Exception):
    """A simulated crash: everything in memory is lost."""


class Rehearsal:
    """Runs micro-batches of a topology. Committed batches survive a simulated crash, as they would in a folder."""

    def __init__(self, topology: Topology, watch: Callable[[MicroBatch], object] = lambda step: None) -> None:
        """``watch`` is called with the ``MicroBatch`` at the start, and with the new one after each crash."""
        self.topology, self.checkpoint, self._watch = topology, MemoryCheckpoint(), watch
        self.step = self._begin()

    def run(
        self,
        plan: BatchPlan,
        *,
        crash_at: Phase | None = None,
        before: Callable[[MicroBatch], object] = lambda step: None,
    ) -> BatchReport | None:
        """Run a batch. With ``crash_at``, everything in memory is lost as that phase begins, and the batch is run
        again.

        ``before`` is called before each attempt. Returns None where the batch had been committed before the crash, so
        that nothing is left to run. After an exception the state is that before the batch.
        """
        try:
            if crash_at is not None:
                before(self.step)
                self._crash(plan, crash_at)
                self.step = self._begin()
                if self.step.done(plan.batch):
                    return None
            before(self.step)
            return self.step.run(plan)
        except BaseException:
            self.step = self._begin()
            raise

    def _begin(self) -> MicroBatch:
        step = MicroBatch(self.topology, self.checkpoint, InProcess())
        self._watch(step)
        return step

    def _crash(self, plan: BatchPlan, crash_at: Phase) -> None:
        def fail(phase: str) -> None:
            if phase == crash_at:
                raise Crash

        self.step.hook = fail
        try:
            self.step.run(plan)
        except Crash:
            return
        raise AssertionError(f"the crash did not happen: no phase {crash_at!r}")
