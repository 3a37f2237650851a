"""Events of a batch that the tasks of a bolt have yet to admit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from manager.storage.segments.ref import Ref
from manager.storage.segments.ref_columns import RefColumns
from topologies.engine.work.sections import Sections

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DRIVER = -1
"""In place of a task: the driver reads the order of arrival."""


@dataclass(frozen=True)
class DeferredSections:
    """The sections with the events that one task has yet to admit, in order of arrival."""

    refs: RefColumns
    firsts: NDArray[np.int64]
    """Per section, the number of its first event among those that ``DeferredEvents`` counts."""

    def __len__(self) -> int:
        return len(self.refs)

    def __iter__(self) -> Iterator[tuple[Ref, int]]:
        """Yield (section, number of its first event)."""
        return zip(self.refs, self.firsts.tolist(), strict=True)


@dataclass
class DeferredEvents:
    """Events that the tasks of one bolt have yet to admit, in order of arrival: what one task has read, or all that
    the tasks of a batch have."""

    sections: list[Sections] = field(default_factory=list)
    """Those of one reader after another."""
    firsts: list[int] = field(default_factory=list)
    """Per reader, how many events those before it have read."""
    order: list[Ref] = field(default_factory=list)
    """Sections with the order of arrival, where the watermark follows it."""
    count: int = 0
    """Number of events; one that goes to every task counts once."""

    def add(self, later: DeferredEvents) -> None:
        """Add the events that a further task has read."""
        self.sections += later.sections
        self.firsts += [self.count + first for first in later.firsts]
        self.order += later.order
        self.count += later.count

    def all_sections(self) -> list[Sections]:
        """All of them, and those with the order of arrival, as of a task -1."""
        return [*self.sections, *([Sections.of([(_DRIVER, ref) for ref in self.order])] if self.order else [])]

    def elsewhere(self, sections: Sequence[Sections]) -> DeferredEvents:
        """The same events where their sections, as ``all_sections`` gives them, lie elsewhere."""
        many = len(self.sections)
        order = [ref for part in sections[many:] for ref in part.refs]
        return DeferredEvents(list(sections[:many]), self.firsts, order, self.count)

    def by_task(self) -> dict[int, DeferredSections]:
        """Per task that has some to admit, their sections."""
        if not self.sections:
            return {}
        whole = Sections.concat(self.sections)
        firsts = np.repeat(np.array(self.firsts, np.int64), [len(part.tasks) for part in self.sections])
        return {
            task: DeferredSections(whole.refs.take(places), firsts[places]) for task, places in whole.places_by_task()
        }
