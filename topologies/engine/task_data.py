"""The work of the tasks of a batch: the rows that they are given, and their results for the driver."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from manager.storage.segments import Ref, RefColumns, Refs
from manager.storage.task_state import BoltTaskState, TaskState
from policies.watermarks import NONE
from windowing.columns import take_rows
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topologies.graph.graph import Graph


# Events of one split of a source, in columns, and the partitions that they come from.


@dataclass(frozen=True)
class RowPartitions:
    """The partition of each of several rows."""

    names: tuple[str, ...]
    codes: NDArray[np.int32]
    """Per row, the index of its partition in ``names``."""

    def take(self, indices: NDArray[np.int64]) -> RowPartitions:
        """Returns the partitions of the rows at these indices."""
        return replace(self, codes=self.codes[indices])

    def of_spout(self, spout: str) -> RowPartitions:
        """Returns the partitions under the names that bolts see (see ``partition_name``)."""
        return replace(self, names=tuple(partition_name(spout, name) for name in self.names))


def partition_name(spout: str, partition: str) -> str:
    """Returns the name of a source's partition as bolts see it: prefixed with its spout; "" for a source that has
    none."""
    return f"{spout}\t{partition}" if partition else ""


@dataclass(frozen=True)
class SourceBatch:
    """Events of one split of a source, in order of arrival."""

    component: str
    stream: str
    table: pa.Table
    positions: NDArray[np.int64]
    """The position of each row in its source, from 0."""
    bad: pa.Table | None = None
    """Unreadable rows, as a table of row, reason and data; None if there is none."""
    source: str = ""
    """Path that the rows come from, for messages."""
    clock: int | None = None
    """The clock at arrival in microseconds; None for the clock of the batch."""
    shuffle_offset: int | NDArray[np.int64] = 0
    """Offset of the first row in a shuffle grouping, or one per row if they are from several sources. It keeps the
    first rows of many small files from all going to one task."""
    merge_keys: NDArray[np.int64] | None = None
    """Merge keys, one per row, of a source that is merged with others; ``NONE`` if a row has no key."""
    bad_merge_keys: NDArray[np.int64] | None = None
    """Merge keys of the unreadable rows, if known."""
    truncated: NDArray[np.bool_] | None = None
    """True for rows with a time that was finer than microseconds and was cut; None if there is none."""
    partition: str | RowPartitions = ""
    """The partition of the source (``orders/3``): one for all rows, or one per row; "" if the source has none."""
    tombstones: int = 0
    """Records without a value that were left out, as their spout says."""


# Rows on a stream, while one task routes them.


@dataclass(frozen=True)
class Rows:
    """Rows on a stream, with their times in microseconds (None if the stream has none) and their positions in the
    source."""

    table: pa.Table
    times: NDArray[np.int64] | None
    positions: NDArray[np.int64]
    clock: int
    """The clock at arrival in microseconds."""
    placed: bool = True
    """True if the positions are those in the source; False if they only number the rows of a BatchBolt."""
    shuffle_offsets: NDArray[np.int64] | int = 0
    """Offset of a shuffle grouping for the source of the rows, or one per row."""
    partition: str | RowPartitions = ""
    """The partition of the rows with the name of its spout, or one per row; "" if unknown."""
    file: str = ""
    """The file to which the positions refer; "" if the rows are from no file of a user's."""
    truncated: NDArray[np.bool_] | None = None
    """True for rows with a time that was cut to microseconds in reading; None if there is none."""

    @staticmethod
    def made(table: pa.Table, clock: int, times: NDArray[np.int64] | None = None) -> Rows:
        """Returns rows that windbolt made, which have no position in a source."""
        return Rows(table, times, np.arange(table.num_rows), clock)

    def take(self, indices: NDArray[np.int64]) -> Rows:
        """Returns the rows at these indices."""
        times = None if self.times is None else self.times[indices]
        return self.become(take_rows(self.table, indices), times, indices)

    def become(self, table: pa.Table, times: NDArray[np.int64] | None, indices: NDArray[np.int64]) -> Rows:
        """Other rows, each derived from the row at its index here."""
        offsets = self.shuffle_offsets if isinstance(self.shuffle_offsets, int) else self.shuffle_offsets[indices]
        partition = self.partition if isinstance(self.partition, str) else self.partition.take(indices)
        truncated = None if self.truncated is None else self.truncated[indices]
        return Rows(
            table, times, self.positions[indices], self.clock, self.placed, offsets, partition, self.file, truncated
        )

    def shifted(self, micros: int) -> Rows:
        """Returns the rows with their times shifted by some microseconds; FOREVER stays (SI-25)."""
        if self.times is None:
            return self
        times = np.where(self.times == FOREVER, FOREVER, self.times + micros)
        return replace(self, times=times)


# Rows for a sink that the driver serves, and the batch that they belong to.


_RUN_DIGITS = 8
"""Number of hexadecimal digits, the last ones, that name a run in the ids of records."""


@dataclass(frozen=True)
class SinkRows:
    """Rows for a sink, and values that identify them among all rows of the batch."""

    ref: Ref
    origin: str
    """The bolt and task that emitted them, such as ``revenue.2``; ``input`` for rows that came with the input."""
    first: int
    """Number of the first row among the rows of this origin, in order of arrival."""


@dataclass(frozen=True)
class SinkBatch:
    """The batch whose rows a sink receives."""

    topology: str
    origin: str
    """Id of the checkpoint: serial numbers start again with a new one."""
    key: str
    serial: int
    """The unique number of the batch (see ``BatchPlan.serial``)."""
    after: int
    """The number of the last batch that is committed."""
    run: str
    """Id of the run that planned the batch: the same when the batch runs again, another one after going back, and where
    the state was changed meanwhile."""
    planned_at: int
    """The clock in microseconds when the batch was planned."""
    again: bool
    """True if it was planned by an earlier run, which may have got as far as this sink."""

    def record_name(self, sink: str, sink_rows: SinkRows) -> str:
        """Prefix of the ids of records, without their number; the same when the batch runs again as it was planned."""
        return f"{self.topology}/{self.run[-_RUN_DIGITS:]}/{sink}/{sink_rows.origin}/{self.serial}"


# Parts of a source, each to be read by one task.


class SourceSplit(Protocol):
    """A part of a source that one task reads."""

    def read(self, topology: Graph) -> Iterable[SourceBatch]: ...


@dataclass(frozen=True)
class MergedSplits:
    """Splits of one spout whose rows are merged by their keys into one order of arrival."""

    splits: Sequence[SourceSplit]


# Sections written for the tasks of one bolt, each for one task.


@dataclass(frozen=True)
class Sections:
    """References to sections, and the task that each is for; in columns, since there is a section for each task and
    each piece of input."""

    tasks: NDArray[np.int64]
    refs: RefColumns

    @staticmethod
    def of(sections: Sequence[tuple[int, Ref]]) -> Sections:
        """Makes sections from pairs (task, reference); at least one."""
        return Sections(np.array([task for task, _ in sections], np.int64), RefColumns.of([ref for _, ref in sections]))

    @staticmethod
    def concat(parts: Sequence[Sections]) -> Sections:
        """Joins sections, one part after another; at least one."""
        return Sections(
            np.concatenate([part.tasks for part in parts]), RefColumns.concat([part.refs for part in parts])
        )

    def places_by_task(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yields, for each task with sections, their places, in order."""
        order = np.argsort(self.tasks, kind="stable")
        edges = np.flatnonzero(np.diff(self.tasks[order])) + 1
        for places in np.split(order, edges):
            yield int(self.tasks[places[0]]), places


# Progress of time that the events of one input have shown.


@dataclass(frozen=True)
class InputProgress:
    """Progress that some events of a bolt's input have shown; times in microseconds, None if no event has shown it."""

    latest: int | None = None
    """The latest event time."""
    skew: int | None = None
    """The largest difference by which an event's time here lies behind the time it came with."""
    arrived: int | None = None
    """The latest arrival time."""
    first_clock: int | None = None
    """The clock when the first event came."""
    last_clock: int | None = None
    """The clock when the last event came."""

    def merge(self, other: InputProgress) -> InputProgress:
        """Combines the progress of both."""
        return InputProgress(
            latest=_chosen(max, self.latest, other.latest),
            skew=_chosen(max, self.skew, other.skew),
            arrived=_chosen(max, self.arrived, other.arrived),
            first_clock=_chosen(min, self.first_clock, other.first_clock),
            last_clock=_chosen(max, self.last_clock, other.last_clock),
        )


def _chosen(choose: Callable[[Iterable[int]], int], *values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


# Events of a batch that the tasks of a bolt have yet to admit.


_DRIVER = -1
"""Stands for a task: the driver reads the order of arrival."""


@dataclass(frozen=True)
class UnadmittedSections:
    """The sections with the events that one task has yet to admit, in order of arrival."""

    refs: RefColumns
    firsts: NDArray[np.int64]
    """Per section, the number of its first event among those that ``UnadmittedEvents`` counts."""

    def __len__(self) -> int:
        return len(self.refs)

    def __iter__(self) -> Iterator[tuple[Ref, int]]:
        """Yield (section, number of its first event)."""
        return zip(self.refs, self.firsts.tolist(), strict=True)


@dataclass
class UnadmittedEvents:
    """Events that the tasks of one bolt have yet to admit, in order of arrival: the events that one task has read, or
    all events of a batch."""

    sections: list[Sections] = field(default_factory=list)
    """Sections of one reader after another."""
    firsts: list[int | NDArray[np.int64]] = field(default_factory=list)
    """For each of ``sections``, how many events of the batch came before its own, which are numbered from 0: one number
    for the whole reader, or one for each section."""
    order: list[Ref] = field(default_factory=list)
    """Sections with the order of arrival, where the watermark follows it."""
    count: int = 0
    """Number of events; an event that goes to every task counts once."""

    def add(self, later: UnadmittedEvents) -> None:
        """Add the events that a further task has read."""
        self.sections += later.sections
        self.firsts += [self.count + first for first in later.firsts]
        self.order += later.order
        self.count += later.count

    def as_parts(self) -> list[Sections]:
        """Returns all sections, and then those with the order of arrival, which are for the driver."""
        order = [Sections.of([(_DRIVER, ref) for ref in self.order])] if self.order else []
        return [*([Sections.concat(self.sections)] if self.sections else []), *order]

    def elsewhere(self, parts: Sequence[Sections]) -> UnadmittedEvents:
        """Returns these events, after the sections of ``as_parts`` have moved."""
        whole, order = (parts[:1], parts[1:]) if self.sections else ((), parts)
        firsts = [self._first_of_each()] if self.sections else []
        return UnadmittedEvents([*whole], [*firsts], [ref for part in order for ref in part.refs], self.count)

    def by_task(self) -> dict[int, UnadmittedSections]:
        """Returns, for each task with events to admit, their sections."""
        if not self.sections:
            return {}
        whole = Sections.concat(self.sections)
        firsts = self._first_of_each()
        return {
            task: UnadmittedSections(whole.refs.take(places), firsts[places]) for task, places in whole.places_by_task()
        }

    def _first_of_each(self) -> NDArray[np.int64]:
        return np.concatenate(
            [np.broadcast_to(first, len(part.tasks)) for first, part in zip(self.firsts, self.sections, strict=True)]
        )


# What a bolt costs: the time of its tasks, the columns that it asks for, and the bytes that are kept for it.


Item = TypeVar("Item")
INPUT = ""
"""Stands for the reading of input, in place of a bolt: its time is noted too, without the time of bolts."""
_MOST_NAMES = 64
"""Most columns that a bolt's report names: a bolt that asks for more is reported to ask for all, so that a task's
report stays small."""


@dataclass(frozen=True)
class BoltWork:
    """Cost of a bolt, in one task or in several together."""

    seconds: float = 0.0
    """Wall time of its tasks. For a windowed bolt: admitting, reading, firing, and writing its output, without the
    plain bolts behind it; for aggregates also the folding of events."""
    columns: frozenset[str] | None = frozenset()
    """The columns that a windowed bolt has asked its windows for; None for all."""
    called: int = 0
    """Number of windows that it was called with."""
    column_bytes: tuple[int, ...] = ()
    """Bytes of the events kept for a windowed bolt of a user's class, by column of its windows, in the order of the
    schema; empty without such events."""
    large_window: tuple[int, int] | None = None
    """Bytes of the largest window that a windowed bolt was called with, and bytes of memory of that process, if the
    window was more than an eighth of the memory; else None."""

    def plus(self, other: BoltWork) -> BoltWork:
        """Returns the sum of both."""
        columns = None if self.columns is None or other.columns is None else self.columns | other.columns
        if columns is not None and len(columns) > _MOST_NAMES:
            columns = None
        return BoltWork(
            self.seconds + other.seconds,
            columns,
            self.called + other.called,
            _added(self.column_bytes, other.column_bytes),
            max(filter(None, (self.large_window, other.large_window)), default=None),
        )


class WorkNotes:
    """The work of the bolts in one task."""

    def __init__(self) -> None:
        self._of: dict[str, BoltWork] = {}
        self._began = perf_counter()

    def add(self, bolt: str, work: BoltWork) -> None:
        """Adds to the work of a bolt."""
        self._of[bolt] = self._of.get(bolt, _NOTHING).plus(work)

    def timed(self, bolt: str, items: Iterator[Item]) -> Iterator[Item]:
        """Yields the items; the time in which they are made, without the time of their user, is added to a bolt."""
        seconds = 0.0
        try:
            while True:
                began = perf_counter()
                try:
                    item = next(items)
                except StopIteration:
                    return
                finally:
                    seconds += perf_counter() - began
                yield item
        finally:
            self.add(bolt, BoltWork(seconds))

    def end(self, owner: str) -> Mapping[str, BoltWork]:
        """Called at the end of the task, with its bolt, or ``INPUT``: time that no other bolt has is given to that
        bolt."""
        spent = sum(work.seconds for work in self._of.values())
        self.add(owner, BoltWork(max(perf_counter() - self._began - spent, 0.0)))
        return self._of


def merge_work(into: dict[str, BoltWork], work: Mapping[str, BoltWork]) -> None:
    """Adds the work of bolts to the known work."""
    for bolt, of_bolt in work.items():
        into[bolt] = into.get(bolt, _NOTHING).plus(of_bolt)


@cache
def memory_of_process() -> int | None:
    """Returns the bytes of memory that this process can have: the memory of the machine, or the limit of a container;
    None if unknown."""
    try:
        known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, OSError, ValueError):  # not on every system
        return None
    for path in _LIMITS:
        with suppress(OSError, ValueError):
            known.append(int(Path(path).read_text(encoding="ascii")))
    return min(known)


def _added(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    if not one or not other:
        return one or other
    return tuple(map(int.__add__, one, other))


_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with a container's memory limit: a number, or ``max``."""
_NOTHING = BoltWork()


# The results of a task for the driver: references to written data, and counts.


@dataclass(frozen=True)
class Staged:
    """Data that a task wrote for others."""

    queued: Mapping[str, Sections] = field(default_factory=dict)
    """Per windowed bolt: admitted events for the queues of its tasks."""
    unadmitted: Mapping[str, UnadmittedEvents] = field(default_factory=dict)
    """Per windowed bolt whose tasks admit events: those events."""
    for_sinks: Sequence[tuple[str, Ref]] = ()
    """(sink, rows): rows for sinks that the driver serves."""
    files: Sequence[tuple[str, str]] = ()
    """(sink, hidden path): files written by this task; they get their names after the commit."""


@dataclass(frozen=True)
class RejectedEvent:
    """An event that a bolt did not admit; times in microseconds."""

    bolt: str
    stream: str
    account: str
    """Name of the account: ``late``, ``dropped`` or ``early``."""
    time: int
    watermark: int | None
    """The watermark that it was compared with; None if there is none."""
    reason: str
    content: str
    """Columns of the event as text, cut."""


@dataclass(frozen=True)
class Recorded:
    """Counts and observations of a task."""

    counts: Mapping[str, Mapping[str, list[int]]] = field(default_factory=dict)
    """For each windowed bolt and account, counts by input stream."""
    inputs: Mapping[str, Mapping[str, InputProgress]] = field(default_factory=dict)
    """For each windowed bolt and input stream, the progress of its events."""
    traced: Sequence[tuple[str, Ref]] = ()
    """(kind, rows): traces, by their kind in ``TRACES``."""
    window_ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """For each windowed bolt, where the batch asks for it, the number of fired windows by their end in microseconds."""
    trace_contexts: Mapping[str, Mapping[int, Sequence[str]]] = field(default_factory=dict)
    """Per windowed bolt and end of windows (microseconds), where the batch asks for it: samples of the trace contexts
    that their events carry."""
    complaints: Sequence[str] = ()
    """Messages about some of the unreadable input, for the log."""
    rejected_events: Sequence[RejectedEvent] = ()
    """The last few events that were not admitted, where the batch asks for them."""


@dataclass(frozen=True)
class Output:
    """Written data and counts of a task; the driver merges them into the progress of the batch."""

    staged: Staged
    recorded: Recorded
    spouts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """For each spout, counts of rows, invalid rows and unreadable files."""
    work: Mapping[str, BoltWork] = field(default_factory=dict)
    """For each bolt, and for ``INPUT``, the cost."""


# The work of one task in a batch: its input, and its results.


Due = TypeVar("Due")


@dataclass(frozen=True)
class Frontiers:
    """Bounds of the windows of a task to evaluate: those that end after one frontier and up to the other."""

    previous: int | None
    """Frontier of the last evaluation, in microseconds; None before the first."""
    current: int | None
    """Frontier of this evaluation; None if no window is to be evaluated."""


@dataclass(frozen=True)
class ToAdmit:
    """The events that a task has yet to admit, and the watermarks with which it admits them."""

    sections: UnadmittedSections | None = None
    """Sections with these events; None without events."""
    marks: Ref | None = None
    """Segment of the watermarks before each event of the batch; None if ``watermark`` applies to all."""
    watermark: int = NONE
    """The watermark in microseconds before all events, if there are no ``marks``."""
    closed_until: int = NONE
    """End, in microseconds, of the last window that the idle timeout closed before the batch."""


@dataclass(frozen=True)
class BatchEnd:
    """Times that have been reached at the end of the batch."""

    clock: int = 0
    watermark: int | None = None
    """The watermark of the bolt in microseconds; None before the first."""
    floor: int = NONE
    """Lower bound, in microseconds, on the event times still admitted for every key (AZ-16)."""
    latest: int = NONE
    """At the end of the streams, the latest time that the bolt has seen, in microseconds."""


@dataclass(frozen=True)
class Share:
    """The part of a task's due windows that a work item fires, if several items share them."""

    index: int = 0
    count: int = 1

    def of(self, firings: Iterable[Due]) -> Iterable[Due]:
        """Returns its part of the due windows, in order; the parts of all shares, one after another, are the whole."""
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
    """Time in microseconds from which aligned windows are counted, if that is the first clock of the run."""
    share: Share = Share()

    def needed_refs(self) -> Iterator[Ref]:
        """Yields the sections that the task will read: of its state, and of the events that it has yet to admit."""
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
    """Written data and counts of a windowed bolt's task, and its new state."""

    output: Output
    state: TaskState | None
    """New state of the task; None from all shares of a task but the first."""
    done: BoltTaskState
    """Effect of the bolt's calls on its state."""


@dataclass(frozen=True)
class CompactItem:
    """Work item: segments of one task, adjacent in arrival, to be compacted into one."""

    bolt: str
    task: int
    refs: Refs
    previous_frontier: int | None = None
    """Frontier of the last evaluation in microseconds: the order and positions of events up to it are final."""
    anchor: int | None = None
    """As for ``FireItem``."""
