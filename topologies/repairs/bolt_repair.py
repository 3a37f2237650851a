"""The repair of one bolt: looked at whole before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from manager.accounts import Accounts, AccountsError
from manager.storage.manifest import BoltState
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from topologies.checkpoints.notes.timing_note import BoltTiming
from topologies.repairs.given_events import GivenEvents
from topologies.repairs.rewritten_task import rewrite_task
from topologies.repairs.taking_out import check_taken_out
from topologies.repairs.task_correction import TaskCorrection, TaskRows
from topologies.state_tables.task_reader import TaskReader


@dataclass(frozen=True)
class BoltRepair:
    """What is to be different of one bolt."""

    name: str
    state: BoltState
    corrections: tuple[tuple[TaskReader, TaskCorrection], ...]
    """Of each task in which something is."""

    @staticmethod
    def of(
        name: str,
        state: BoltState,
        timing: BoltTiming,
        store: SegmentStore,
        columns: pa.Schema,
        given: tuple[GivenEvents | None, GivenEvents | None],
    ) -> BoltRepair:
        """``given``: the rows with their values, and those to be taken out. DataError for what cannot be."""
        tasks = [TaskReader(state, number, store, timing) for number in range(len(state.tasks))]
        stored = {task.number: sum(map(len, task.rows)) for task in tasks}
        for each in given:
            if each is not None:
                each.check_there(stored)
        return BoltRepair(name, state, tuple(_corrections(name, tasks, columns, *given)))

    def written(self, writer: SegmentWriter) -> BoltState:
        """Write what is different; returns the state of the bolt with it. What was in no window yet is purged."""
        tasks = list(self.state.tasks)
        for task, correction in self.corrections:
            tasks[task.number] = rewrite_task(task, correction, writer)
        accounts = Accounts(self.state.accounts.streams, self.state.accounts.to_json())
        after = replace(self.state, accounts=accounts, tasks=tasks)
        accounts.add("purged", [was - is_ for was, is_ in zip(self.state.pending, after.pending, strict=True)])
        self._check(after)
        return after

    def _check(self, after: BoltState) -> None:
        """Raise AccountsError where another event has been lost, or one is counted wrongly: a defect of windbolt."""
        after.accounts.check(after.pending, self.name)
        out, waiting = 0, 0
        for task, correction in self.corrections:
            first = 0
            for rows in task.rows:
                gone = ~correction.kept[first : first + len(rows)]
                out, waiting = out + int(gone.sum()), waiting + int(rows.pending[gone].sum())
                first += len(rows)
        stored = [
            sum(task.refs.needed + sum(task.waiting_edges) for task in each.tasks) for each in (self.state, after)
        ]
        purged = sum(self.state.pending) - sum(after.pending)
        if stored[0] - stored[1] != out or purged != waiting:
            raise AccountsError(
                f"bolt {self.name!r} would have {stored[1]:,} stored events, of {stored[0]:,} without {out:,}, and "
                f"{purged:,} purged, of {waiting:,} that were in no window",
                why="a repair leaves all other events as they are",
                do="this is a defect in windbolt: please report it; the checkpoint is as it was",
            )


def _corrections(
    name: str, tasks: list[TaskReader], columns: pa.Schema, given: GivenEvents | None, without: GivenEvents | None
) -> Iterator[tuple[TaskReader, TaskCorrection]]:
    for task in tasks:
        of_task = [None if each is None else each.of_task(task.number) for each in (given, without)]
        if not any(each is not None and len(each.rows) for each in of_task):
            continue
        correction = TaskRows(name, task, columns).corrected(*of_task)
        check_taken_out(name, task, correction.kept)
        if not correction.changes_nothing:
            yield task, correction
