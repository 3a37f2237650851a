"""What was written for the tasks of one bolt: sections, each for one task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from manager.storage.segments.ref import Ref
from manager.storage.segments.ref_columns import RefColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Sections:
    """References to sections, and the task that each is for; in columns, since there is a section for each task and
    each piece of input."""

    tasks: NDArray[np.int64]
    refs: RefColumns

    @staticmethod
    def of(sections: Sequence[tuple[int, Ref]]) -> Sections:
        """Of (task, reference); at least one."""
        return Sections(np.array([task for task, _ in sections], np.int64), RefColumns.of([ref for _, ref in sections]))

    @staticmethod
    def concat(parts: Sequence[Sections]) -> Sections:
        """All of them, one part after another; at least one."""
        return Sections(
            np.concatenate([part.tasks for part in parts]), RefColumns.concat([part.refs for part in parts])
        )

    def places_by_task(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Per task that has sections, their places, in order."""
        order = np.argsort(self.tasks, kind="stable")
        edges = np.flatnonzero(np.diff(self.tasks[order])) + 1
        for places in np.split(order, edges):
            yield int(self.tasks[places[0]]), places
