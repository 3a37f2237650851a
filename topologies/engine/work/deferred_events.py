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
    firsts: list[int | NDArray[np.int64]] = field(default_factory=list)
    """Of each of these, how many events came before those that it numbers from 0: one number for all of a reader, or
    one for each section."""
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

    def as_parts(self) -> list[Sections]:
        """All sections, and then those with the order of arrival, which are for the driver."""
        order = [Sections.of([(_DRIVER, ref) for ref in self.order])] if self.order else []
        return [*([Sections.concat(self.sections)] if self.sections else []), *order]

    def elsewhere(self, parts: Sequence[Sections]) -> DeferredEvents:
        """The same events where the sections that ``as_parts`` gives lie elsewhere."""
        whole, order = (parts[:1], parts[1:]) if self.sections else ((), parts)
        firsts = [self._first_of_each()] if self.sections else []
        return DeferredEvents([*whole], [*firsts], [ref for part in order for ref in part.refs], self.count)

    def by_task(self) -> dict[int, DeferredSections]:
        """Per task that has some to admit, their sections."""
        if not self.sections:
            return {}
        whole = Sections.concat(self.sections)
        firsts = self._first_of_each()
        return {
            task: DeferredSections(whole.refs.take(places), firsts[places]) for task, places in whole.places_by_task()
        }

    def _first_of_each(self) -> NDArray[np.int64]:
        return np.concatenate(
            [np.broadcast_to(first, len(part.tasks)) for first, part in zip(self.firsts, self.sections, strict=True)]
        )
