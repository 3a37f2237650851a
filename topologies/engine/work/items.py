"""The work of one task in a batch: what it is given, and what happens to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from manager.storage.segments.ref import Ref
from manager.storage.segments.refs import Refs
from manager.storage.task_state import BoltTaskState, TaskState
from policies.marks import NONE
from topologies.engine.work.deferred_events import DeferredSections
from topologies.engine.work.output import Output

Due = TypeVar("Due")


@dataclass(frozen=True)
class Frontiers:
    """Which windows of a task are to be evaluated: those that end after one frontier and up to the other."""

    previous: int | None
    """Frontier of the last evaluation, in microseconds; None before the first."""
    current: int | None
    """Frontier of this one; None where no window is to be evaluated."""


@dataclass(frozen=True)
class ToAdmit:
    """The events that a task has yet to admit, and the watermarks at which it does."""

    sections: DeferredSections | None = None
    """None where there are none."""
    marks: Ref | None = None
    """Segment of the watermarks before each event of the batch; None where ``watermark`` applies to all."""
    watermark: int = NONE
    """The watermark in microseconds before all events, where there are no ``marks``."""
    closed_until: int = NONE
    """End, in microseconds, of the last window that the idle timeout closed before the batch."""


@dataclass(frozen=True)
class BatchEnd:
    """How far time is at the end of the batch."""

    clock: int = 0
    watermark: int | None = None
    """The watermark of the bolt in microseconds; None before the first."""
    floor: int = NONE
    """Lower bound, in microseconds, on the event times still admitted for every key (AZ-16)."""
    latest: int = NONE
    """At the end of the streams: the latest time that the bolt has seen, in microseconds."""


@dataclass(frozen=True)
class Share:
    """Which of the windows that are due in a task a work item fires, where several items share them."""

    index: int = 0
    count: int = 1

    def of(self, firings: Iterable[Due]) -> Iterable[Due]:
        """Its part of what is due, in order; the parts of all shares, one after another, are the whole."""
        if self.count == 1:
            return firings
        due = list(firings)
        first, end = (len(due) * index // self.count for index in (self.index, self.index + 1))
        return due[first:end]


@dataclass(frozen=True)
class FireItem:
    """Work item: one task of a windowed bolt that may have windows due, or a share of these."""

    bolt: str
    task: int
    state: TaskState
    frontiers: Frontiers
    admit: ToAdmit = ToAdmit()
    end: BatchEnd = BatchEnd()
    anchor: int | None = None
    """Time in microseconds from which aligned windows are counted, where that is the first clock of the run."""
    share: Share = Share()

    def needed_refs(self) -> Iterator[Ref]:
        """The sections that the task will read: of its state, and of the events that it has yet to admit."""
        for ref in self.state.all_refs():
            if ref.needed:
                flags = ref.to_flags()
                yield from [ref] if flags is None else [ref, flags]
        if self.admit.sections is not None:
            yield from self.admit.sections.refs
        if self.admit.marks is not None:
            yield self.admit.marks


@dataclass(frozen=True)
class FireOutcome:
    """What a task of a windowed bolt wrote and counted, and its new state."""

    output: Output
    state: TaskState | None
    """None from all shares of a task but the first."""
    done: BoltTaskState
    """What the calls of the bolt add to its state."""


@dataclass(frozen=True)
class CompactItem:
    """Work item: segments of one task, adjacent in arrival, to be compacted into one."""

    bolt: str
    task: int
    refs: Refs
    previous_frontier: int | None = None
    """Frontier of the last evaluation in microseconds: the order and positions of events up to it are final."""
