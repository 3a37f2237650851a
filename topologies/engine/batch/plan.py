"""The plan of a micro-batch: its number, its time and its input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from topologies.engine.batch.context import Context
from topologies.engine.work.output import Output
from topologies.engine.work.source_splits import MergedSplits, SourceSplit


@dataclass(frozen=True)
class TimeAdvance:
    """How time advances at the end of a batch."""

    clock: int
    """The clock in microseconds since the epoch; journaled, so that a re-run has the same."""
    tick: bool = True
    """Whether the watermark interval has passed."""
    close: bool = False
    """Whether the streams end here: all open windows fire."""


@dataclass(frozen=True)
class BatchPlan:
    """The plan of a micro-batch: its number, its time and its input."""

    batch: int
    advance: TimeAdvance
    splits: Sequence[SourceSplit | MergedSplits] = ()
    """In order of arrival."""
    ingest: Callable[[Context], list[Output]] | None = None
    """Reads input that does not come in splits, such as a streaming DataFrame; its events arrive after those of the
    splits."""
    closing: bool = False
    """Whether this is the end of a run, after the batch of this number."""
    advances: Mapping[str, TimeAdvance] = field(default_factory=dict)
    """Per bolt, its own time advance, where scenarios run side by side; other bolts take ``advance``."""
    run: str = ""
    """Id of the run that planned the batch, also when another run repeats it."""
    slots: int = 1
    """Number of splits to cut divisible input into; the same when the batch is repeated."""
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per spout, all partitions of its source, also those without input in this batch, by the names of
    ``SourceBatch.partition``; journaled, so that a re-run has the same."""

    @property
    def serial(self) -> int:
        """A unique, increasing number: twice the batch number, plus one for a closing batch."""
        return 2 * self.batch + self.closing

    def advance_of(self, bolt: str) -> TimeAdvance:
        """The time advance of one bolt."""
        return self.advances.get(bolt, self.advance)
