"""What a task hands to the driver: references to what it wrote, and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from manager.storage.segments.ref import Ref
from topologies.engine.work.bolt_work import BoltWork
from topologies.engine.work.deferred_events import DeferredEvents
from topologies.engine.work.input_progress import InputProgress
from topologies.engine.work.sections import Sections


@dataclass(frozen=True)
class Staged:
    """What a task wrote for others."""

    queued: Mapping[str, Sections] = field(default_factory=dict)
    """Per windowed bolt: admitted events for the queues of its tasks."""
    deferred: Mapping[str, DeferredEvents] = field(default_factory=dict)
    """Per windowed bolt whose tasks admit events: those events."""
    for_sinks: Sequence[tuple[str, Ref]] = ()
    """(sink, rows): rows for sinks that the driver serves."""
    files: Sequence[tuple[str, str]] = ()
    """(sink, hidden path): files written by this task; they get their names after the commit."""


@dataclass(frozen=True)
class TurnedAway:
    """An event that a bolt did not admit; times in microseconds."""

    bolt: str
    stream: str
    account: str
    """``late``, ``dropped`` or ``early``."""
    time: int
    watermark: int | None
    """The watermark that it was compared with; None where there was none."""
    reason: str
    content: str
    """Its columns as text, cut."""


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
    trace_contexts: Mapping[str, Mapping[int, Sequence[str]]] = field(default_factory=dict)
    """Per windowed bolt and end of windows (microseconds), where the batch asks for it: samples of the trace contexts
    that their events carry."""
    complaints: Sequence[str] = ()
    """Messages about some of the unreadable input, for the log."""
    turned_away: Sequence[TurnedAway] = ()
    """Where the batch asks for it: the last few events that were not admitted."""


@dataclass(frozen=True)
class Output:
    """What a task wrote and counted; the driver merges it into the progress of the batch."""

    staged: Staged
    recorded: Recorded
    spouts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Per spout: counts of rows, invalid rows and unreadable files."""
    work: Mapping[str, BoltWork] = field(default_factory=dict)
    """Per bolt, and for ``INPUT``: what it cost."""
