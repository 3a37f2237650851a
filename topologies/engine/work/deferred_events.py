"""Events of a batch that the tasks of a bolt have yet to admit."""

from __future__ import annotations

from dataclasses import dataclass, field

from manager.storage.ref import Ref


@dataclass(frozen=True)
class DeferredSegment:
    """Events of one segment that a task has yet to admit."""

    ref: Ref
    first: int
    """Number of its first event among those that ``DeferredEvents`` counts."""


@dataclass
class DeferredEvents:
    """Events that the tasks of one bolt have yet to admit, in order of arrival: what one task has read, or all that
    the tasks of a batch have."""

    by_task: dict[int, list[DeferredSegment]] = field(default_factory=dict)
    order: list[Ref] = field(default_factory=list)
    """Segments with the order of arrival, where the watermark follows it."""
    count: int = 0
    """Number of events; one that goes to every task counts once."""

    def add(self, later: DeferredEvents) -> None:
        """Add the events that a further task has read."""
        for task, segments in later.by_task.items():
            renumbered = [DeferredSegment(segment.ref, self.count + segment.first) for segment in segments]
            self.by_task.setdefault(task, []).extend(renumbered)
        self.order += later.order
        self.count += later.count
