"""Runs micro-batches in this process with the checkpoint in memory, and simulates crashes. For scenarios and tests."""

from __future__ import annotations

from collections.abc import Callable

from manager.storage.checkpoint import MemoryCheckpoint
from topologies.engine.batch.executor import InProcess
from topologies.engine.batch.plan import BatchPlan
from topologies.engine.batch.report import BatchReport
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.phases import Phase
from topologies.topology import Topology


class Crash(Exception):
    """A simulated crash: everything in memory is lost."""


class Rehearsal:
    """Runs micro-batches of a topology. Committed batches survive a simulated crash, as they would in a folder."""

    def __init__(self, topology: Topology, watch: Callable[[MicroBatch], object] = lambda batch: None) -> None:
        """``watch`` is called with the ``MicroBatch`` at the start, and with the new one after each crash."""
        self.topology, self.checkpoint, self._watch = topology, MemoryCheckpoint(), watch
        self.micro_batch = self._begin()

    def run(
        self,
        plan: BatchPlan,
        *,
        crash_at: Phase | None = None,
        before: Callable[[MicroBatch], object] = lambda batch: None,
    ) -> BatchReport | None:
        """Run a batch. With ``crash_at``, everything in memory is lost as that phase begins, and the batch is run
        again.

        ``before`` is called before each attempt. Returns None where the batch had been committed before the crash, so
        that nothing is left to run. After an exception the state is that before the batch.
        """
        try:
            if crash_at is not None:
                before(self.micro_batch)
                self._crash(plan, crash_at)
                self.micro_batch = self._begin()
                if self.micro_batch.done(plan.batch):
                    return None
            before(self.micro_batch)
            return self.micro_batch.run(plan)
        except BaseException:
            self.micro_batch = self._begin()
            raise

    def _begin(self) -> MicroBatch:
        micro_batch = MicroBatch(self.topology, self.checkpoint, InProcess())
        self._watch(micro_batch)
        return micro_batch

    def _crash(self, plan: BatchPlan, crash_at: Phase) -> None:
        def fail(phase: str) -> None:
            if phase == crash_at:
                raise Crash

        self.micro_batch.hook = fail
        try:
            self.micro_batch.run(plan)
        except Crash:
            return
        raise AssertionError(f"the crash did not happen: no phase {crash_at!r}")
