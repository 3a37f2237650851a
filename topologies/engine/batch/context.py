"""What every task of a batch receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from manager.storage.segments.segments import SegmentStore

if TYPE_CHECKING:
    from topologies.engine.time.first_output import FirstOutput
    from topologies.topology import Topology


@dataclass(frozen=True)
class Context:
    """What every task of a batch receives."""

    topology: Topology
    store: SegmentStore
    key: str
    """Name of the batch: of the folder of its segments in the store, and in the names of sink files."""
    batch: int
    clock: int
    watermarks: Mapping[str, int | None]
    """Per windowed bolt, the watermark in microseconds at the start of the batch, which decides which events are late;
    None before the first."""
    traced: bool = False
    """Whether tracing is on: windows and late events are then recorded with the ids of their events."""
    notes_window_ends: bool = False
    """Whether the ends of the windows that fire are recorded, for metrics."""
    samples_traces: bool = False
    """Whether trace contexts of events in windows that fire are recorded, for spans."""
    samples_turned_away: bool = False
    """Whether some of the rejected events are recorded with their reasons, for observers of the run."""
    first: FirstOutput | None = None
    """The first output of the run; None for a run that starts with its input."""
    run: str = ""
    """Id of the run, new after each start."""
    epoch: int = 0
    """The number of the owner's claim on the checkpoint (decision 67); 0 where a lock keeps others off."""
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per spout, the partitions of its source."""
