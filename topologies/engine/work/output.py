"""What a task hands to the driver: references to what it wrote, and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from manager.storage.ref import Ref
from topologies.engine.work.deferred_events import DeferredEvents
from topologies.engine.work.input_progress import InputProgress


@dataclass(frozen=True)
class Staged:
    """What a task wrote for others."""

    queued: Sequence[tuple[str, int, Ref]] = ()
    """(bolt, task, rows): admitted events for the queues of windowed bolts."""
    deferred: Mapping[str, DeferredEvents] = field(default_factory=dict)
    """Per windowed bolt whose tasks admit events: those events."""
    for_sinks: Sequence[tuple[str, Ref]] = ()
    """(sink, rows): rows for sinks that the driver serves."""
    files: Sequence[tuple[str, str]] = ()
    """(sink, hidden path): files written by this task; published in the phase ``sinks``, before the commit."""


@dataclass(frozen=True)
class Recorded:
    """What a task counted and saw."""

    counts: Mapping[str, Mapping[str, list[int]]] = field(default_factory=dict)
    """Per windowed bolt and account: counts by input stream."""
    inputs: Mapping[str, Mapping[str, InputProgress]] = field(default_factory=dict)
    """Per windowed bolt and input stream: what its events have shown."""
    traced: Sequence[tuple[str, Ref]] = ()
    """(kind, rows): traces, by their kind in ``TRACES``."""
    window_ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Per windowed bolt, where the batch asks for it: how many windows with each end (microseconds) have fired."""
    complaints: Sequence[str] = ()
    """Messages about some of the unreadable input, for the log."""


@dataclass(frozen=True)
class Output:
    """What a task wrote and counted; the driver merges it into the progress of the batch."""

    staged: Staged
    recorded: Recorded
    spouts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Per spout: counts of rows, invalid rows and unreadable files."""
