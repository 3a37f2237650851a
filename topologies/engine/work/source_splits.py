"""Parts of a source, each to be read by one task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from topologies.engine.rows.source_batch import SourceBatch

if TYPE_CHECKING:
    from topologies.topology import Topology


class SourceSplit(Protocol):
    """A part of a source that one task reads."""

    def read(self, topology: Topology) -> Iterable[SourceBatch]: ...


@dataclass(frozen=True)
class MergedSplits:
    """Splits of one spout whose rows are merged by their keys into one order of arrival."""

    splits: Sequence[SourceSplit]
