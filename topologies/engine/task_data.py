"""The work of the tasks of a batch: their rows, and their results for the driver."""

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


# Events of one split of a source, in columns, and their partitions.


@dataclass(frozen=True)
class RowPartitions:
    """The partition of each of several rows."""

    names: tuple[str, ...]
    codes: NDArray[np.int32]
    """For each row, the index of its partition in ``names``."""

    def take(self, indices: NDArray[np.int64]) -> RowPartitions:
        """Returns the partitions of the rows at these indices."""
        return replace(self, codes=self.codes[indices])

    def of_spout(self, spout: str) -> RowPartitions:
        """Returns the partitions with the names that bolts see (see ``partition_name``)."""
        return replace(self, names=tuple(partition_name(spout, name) for name in self.names))


def partition_name(spout: str, partition: str) -> str:
    """Returns the name by which bolts see a source's partition, with its spout in front; "" for a source without
    partitions."""
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
    """Unreadable rows, with the columns row, reason and data; None without such rows."""
    source: str = ""
    """Path of the rows' file, for messages."""
    clock: int | None = None
    """The clock at arrival in microseconds; None for the clock of the batch."""
    shuffle_offset: int | NDArray[np.int64] = 0
    """Offset of the first row in a shuffle grouping, or one for each row if they are from several sources. It keeps the
    first rows of many small files from all going to one task."""
    merge_keys: NDArray[np.int64] | None = None
    """Merge key of each row, for a source that is merged with others; ``NONE`` for a row without a key."""
    bad_merge_keys: NDArray[np.int64] | None = None
    """Merge keys of the unreadable rows, if known."""
    truncated: NDArray[np.bool_] | None = None
    """True for rows with a time finer than microseconds, which was cut; None without such rows."""
    partition: str | RowPartitions = ""
    """The partition of the source (``orders/3``): one for all rows, or one for each row; "" for a source without
    partitions."""
    tombstones: int = 0
    """Records without a value that were skipped by a rule of the spout."""


# Rows of a stream, while a task routes them.


@dataclass(frozen=True)
class Rows:
    """Rows of a stream, with their times in microseconds (None if the stream has no times) and their positions in the
    source."""

    table: pa.Table
    times: NDArray[np.int64] | None
    positions: NDArray[np.int64]
    clock: int
    """The clock at arrival in microseconds."""
    has_positions: bool = True
    """True for positions in the source; False if they only number the rows of a BatchBolt."""
    shuffle_offsets: NDArray[np.int64] | int = 0
    """Offset in a shuffle grouping for the source of the rows, or one for each row."""
    partition: str | RowPartitions = ""
    """The partition of all rows, or the partition of each row; with the name of the spout. "" if unknown."""
    file: str = ""
    """The file of the positions; "" if the rows are not from a user's file."""
    truncated: NDArray[np.bool_] | None = None
    """True for rows with a time that reading cut to microseconds; None without such rows."""
    is_read: bool = False
    """True for rows of a source and rows that plain bolts made of them; False for rows that windows emitted."""

    @staticmethod
    def without_source(table: pa.Table, clock: int, times: NDArray[np.int64] | None = None) -> Rows:
        """Returns rows that windbolt made, which have no position in a source."""
        return Rows(table, times, np.arange(table.num_rows), clock)

    def take(self, indices: NDArray[np.int64]) -> Rows:
        """Returns the rows at these indices."""
        times = None if self.times is None else self.times[indices]
        return self.with_content(take_rows(self.table, indices), times, indices)

    def with_content(self, table: pa.Table, times: NDArray[np.int64] | None, indices: NDArray[np.int64]) -> Rows:
        """Returns other rows, each derived from the row at its index here."""
        offsets = self.shuffle_offsets if isinstance(self.shuffle_offsets, int) else self.shuffle_offsets[indices]
        partition = self.partition if isinstance(self.partition, str) else self.partition.take(indices)
        truncated = None if self.truncated is None else self.truncated[indices]
        return Rows(
            table,
            times,
            self.positions[indices],
            self.clock,
            self.has_positions,
            offsets,
            partition,
            self.file,
            truncated,
            self.is_read,
        )

    def shifted(self, micros: int) -> Rows:
        """Returns the rows with their times moved later by ``micros`` microseconds; FOREVER stays (SI-25)."""
        if self.times is None:
            return self
        times = np.where(self.times == FOREVER, FOREVER, self.times + micros)
        return replace(self, times=times)


# Rows for a sink that the driver writes to, and their batch.


_RUN_DIGITS = 8
"""Number of a run's last hexadecimal digits that name the run in the ids of records."""


@dataclass(frozen=True)
class SinkRows:
    """Rows for a sink, and values that identify them within the batch."""

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
    """Id of the checkpoint, since serial numbers start anew in another checkpoint."""
    key: str
    serial: int
    """The unique number of the batch (see ``BatchPlan.serial``)."""
    after: int
    """The number of the last committed batch."""
    run: str
    """Id of the run that planned the batch. It stays the same when the batch runs again, and differs after going back
    or a change of the state."""
    planned_at: int
    """The clock in microseconds when the batch was planned."""
    again: bool
    """True if an earlier run planned the batch and may already have reached this sink."""

    def record_name(self, sink: str, sink_rows: SinkRows) -> str:
        """Returns the prefix of the ids of records, before their number; the same when the batch runs again as
        planned."""
        return f"{self.topology}/{self.run[-_RUN_DIGITS:]}/{sink}/{sink_rows.origin}/{self.serial}"


# Parts of a source, each read by one task.


class SourceSplit(Protocol):
    """A part of a source that one task reads."""

    def read(self, topology: Graph) -> Iterable[SourceBatch]: ...


@dataclass(frozen=True)
class MergedSplits:
    """Splits of one spout whose rows are merged by key into one order of arrival."""

    splits: Sequence[SourceSplit]


# Sections for the tasks of one bolt, each for one task.


@dataclass(frozen=True)
class Sections:
    """References to sections, and the task of each; in columns, since there is a section for each task and each piece
    of input."""

    tasks: NDArray[np.int64]
    refs: RefColumns

    @staticmethod
    def of(sections: Sequence[tuple[int, Ref]]) -> Sections:
        """Returns sections from pairs (task, reference); at least one."""
        return Sections(np.array([task for task, _ in sections], np.int64), RefColumns.of([ref for _, ref in sections]))

    @staticmethod
    def concat(parts: Sequence[Sections]) -> Sections:
        """Returns the sections of all parts, one part after another; at least one."""
        return Sections(
            np.concatenate([part.tasks for part in parts]), RefColumns.concat([part.refs for part in parts])
        )

    def indices_by_task(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yields, for each task with sections, their indices, in order."""
        order = np.argsort(self.tasks, kind="stable")
        edges = np.flatnonzero(np.diff(self.tasks[order])) + 1
        for indices in np.split(order, edges):
            yield int(self.tasks[indices[0]]), indices


# How far the events of an input have advanced time.


@dataclass(frozen=True)
class InputProgress:
    """How far some events of a bolt's input have advanced time; times in microseconds, None if no event has."""

    latest: int | None = None
    """The latest event time."""
    greatest_shift_back: int | None = None
    """The largest difference by which an event's time is behind its original time."""
    latest_arrival: int | None = None
    """The latest arrival time."""
    first_clock: int | None = None
    """The clock when the first event came."""
    last_clock: int | None = None
    """The clock when the last event came."""
    arrival_clock: int | None = None
    """The clock when the last event with an arrival time came."""

    def merge(self, other: InputProgress) -> InputProgress:
        """Returns the combined progress."""
        return InputProgress(
            latest=_choose(max, self.latest, other.latest),
            greatest_shift_back=_choose(max, self.greatest_shift_back, other.greatest_shift_back),
            latest_arrival=_choose(max, self.latest_arrival, other.latest_arrival),
            first_clock=_choose(min, self.first_clock, other.first_clock),
            last_clock=_choose(max, self.last_clock, other.last_clock),
            arrival_clock=_choose(max, self.arrival_clock, other.arrival_clock),
        )


def _choose(choose: Callable[[Iterable[int]], int], *values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


# Events of a batch that the tasks of a bolt have yet to admit.


_DRIVER_TASK = -1
"""Task number for the driver, which reads the order of arrival."""


@dataclass(frozen=True)
class UnadmittedSections:
    """The sections of events that a task has yet to admit, in order of arrival."""

    refs: RefColumns
    firsts: NDArray[np.int64]
    """For each section, the number of its first event in ``UnadmittedEvents``."""

    def __len__(self) -> int:
        return len(self.refs)

    def __iter__(self) -> Iterator[tuple[Ref, int]]:
        """Yields (section, number of its first event)."""
        return zip(self.refs, self.firsts.tolist(), strict=True)


@dataclass
class UnadmittedEvents:
    """Events that the tasks of a bolt have yet to admit, in order of arrival: those that one task has read, or all of a
    batch."""

    sections: list[Sections] = field(default_factory=list)
    """The sections of one reader after another."""
    firsts: list[int | NDArray[np.int64]] = field(default_factory=list)
    """For each of ``sections``, the number of events of the batch before it: one number for the whole reader, or one
    for each section. Events within a section are numbered from 0."""
    order: list[Ref] = field(default_factory=list)
    """Sections with the order of arrival, if the watermark follows it."""
    count: int = 0
    """Number of events; an event that goes to every task counts once."""

    def add(self, later: UnadmittedEvents) -> None:
        """Adds the events that another task has read."""
        self.sections += later.sections
        self.firsts += [self.count + first for first in later.firsts]
        self.order += later.order
        self.count += later.count

    def as_parts(self) -> list[Sections]:
        """Returns all sections, then the sections with the order of arrival, which are for the driver."""
        order = [Sections.of([(_DRIVER_TASK, ref) for ref in self.order])] if self.order else []
        return [*([Sections.concat(self.sections)] if self.sections else []), *order]

    def with_moved_sections(self, parts: Sequence[Sections]) -> UnadmittedEvents:
        """Returns these events, after the sections of ``as_parts`` have moved."""
        section_parts, order = (parts[:1], parts[1:]) if self.sections else ((), parts)
        firsts = [self._first_numbers()] if self.sections else []
        return UnadmittedEvents([*section_parts], [*firsts], [ref for part in order for ref in part.refs], self.count)

    def by_task(self) -> dict[int, UnadmittedSections]:
        """Returns the sections of each task that has events to admit."""
        if not self.sections:
            return {}
        all_sections = Sections.concat(self.sections)
        firsts = self._first_numbers()
        return {
            task: UnadmittedSections(all_sections.refs.take(indices), firsts[indices])
            for task, indices in all_sections.indices_by_task()
        }

    def _first_numbers(self) -> NDArray[np.int64]:
        return np.concatenate(
            [np.broadcast_to(first, len(part.tasks)) for first, part in zip(self.firsts, self.sections, strict=True)]
        )


# The cost of a bolt: the time of its tasks, the columns that it uses, and the bytes that are kept for it.


Item = TypeVar("Item")
INPUT = ""
"""Name that stands for reading the input: its time is recorded too, without the time of bolts."""
_MOST_NAMES = 64
"""Most columns that a bolt's report names. A bolt that uses more is reported to use all, so that a task's report stays
small."""


@dataclass(frozen=True)
class BoltWork:
    """The cost of a bolt, in one task or in several."""

    seconds: float = 0.0
    """Wall time of its tasks. For a windowed bolt: admitting, reading, firing, and writing its output, without the
    plain bolts behind it; for aggregates also folding events."""
    columns: frozenset[str] | None = frozenset()
    """The columns that a windowed bolt has read from its windows; None for all."""
    called: int = 0
    """Number of windows in its calls."""
    column_bytes: tuple[int, ...] = ()
    """Bytes of the events kept for a user's windowed bolt, by column of its windows, in the order of the schema; empty
    without such events."""
    large_window: tuple[int, int] | None = None
    """Bytes of the largest window in a call, and bytes of memory of the process with this window, if the window took
    more than an eighth of the memory; else None."""

    def plus(self, other: BoltWork) -> BoltWork:
        """Returns the sum of both costs."""
        columns = None if self.columns is None or other.columns is None else self.columns | other.columns
        if columns is not None and len(columns) > _MOST_NAMES:
            columns = None
        return BoltWork(
            self.seconds + other.seconds,
            columns,
            self.called + other.called,
            _add_each(self.column_bytes, other.column_bytes),
            max(filter(None, (self.large_window, other.large_window)), default=None),
        )


class WorkNotes:
    """The costs of the bolts in one task."""

    def __init__(self) -> None:
        self._by_bolt: dict[str, BoltWork] = {}
        self._began = perf_counter()

    def add(self, bolt: str, work: BoltWork) -> None:
        """Adds to the cost of a bolt."""
        self._by_bolt[bolt] = self._by_bolt.get(bolt, _NO_WORK).plus(work)

    def measure(self, bolt: str, items: Iterator[Item]) -> Iterator[Item]:
        """Yields the items; adds the time of making them to a bolt, without the time between."""
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
        """Called at the end of the task with its bolt, or ``INPUT``, which gets the time that no other bolt has."""
        spent = sum(work.seconds for work in self._by_bolt.values())
        self.add(owner, BoltWork(max(perf_counter() - self._began - spent, 0.0)))
        return self._by_bolt


def merge_work(into: dict[str, BoltWork], work: Mapping[str, BoltWork]) -> None:
    """Adds the costs of bolts to ``into``."""
    for bolt, bolt_work in work.items():
        into[bolt] = into.get(bolt, _NO_WORK).plus(bolt_work)


@cache
def memory_of_process() -> int | None:
    """Returns the bytes of memory that this process may use: the memory of the machine, or the limit of a container;
    None if unknown."""
    try:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, OSError, ValueError):  # not every system has it
        return None
    for path in _LIMITS:
        with suppress(OSError, ValueError):
            limits.append(int(Path(path).read_text(encoding="ascii")))
    return min(limits)


def _add_each(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    if not one or not other:
        return one or other
    return tuple(map(int.__add__, one, other))


_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with a container's memory limit: a number, or ``max``."""
_NO_WORK = BoltWork()


# Results of a task for the driver: references to written data, and counts.


@dataclass(frozen=True)
class Staged:
    """Data that a task wrote for other tasks."""

    queued: Mapping[str, Sections] = field(default_factory=dict)
    """For each windowed bolt: admitted events for the queues of its tasks."""
    unadmitted: Mapping[str, UnadmittedEvents] = field(default_factory=dict)
    """For each windowed bolt whose tasks admit events: those events."""
    for_sinks: Sequence[tuple[str, Ref]] = ()
    """(sink, rows): rows for sinks that the driver writes to."""
    files: Sequence[tuple[str, str]] = ()
    """(sink, hidden path): files written by this task; they are renamed after the commit."""


@dataclass(frozen=True)
class RejectedEvent:
    """An event that a bolt rejected; times in microseconds."""

    bolt: str
    stream: str
    account: str
    """Name of the account: ``late``, ``dropped`` or ``early``."""
    time: int
    watermark: int | None
    """The watermark that it was compared with; None if there was none."""
    reason: str
    content: str
    """The event's columns as text, cut."""


@dataclass(frozen=True)
class Recorded:
    """Counts and observations of a task."""

    counts: Mapping[str, Mapping[str, list[int]]] = field(default_factory=dict)
    """For each windowed bolt and account, counts by input stream."""
    inputs: Mapping[str, Mapping[str, InputProgress]] = field(default_factory=dict)
    """For each windowed bolt and input stream, how far its events have advanced time."""
    trace_refs: Sequence[tuple[str, Ref]] = ()
    """(kind, rows): traces, by their kind in ``TRACES``."""
    window_ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """For each windowed bolt, the number of fired windows by end in microseconds, if the batch records them."""
    trace_contexts: Mapping[str, Mapping[int, Sequence[str]]] = field(default_factory=dict)
    """For each windowed bolt and window end (microseconds), samples of trace contexts of events, if the batch records
    them."""
    complaints: Sequence[str] = ()
    """Messages about some of the unreadable input, for the log."""
    rejected_events: Sequence[RejectedEvent] = ()
    """The last few rejected events, if the batch records them."""


@dataclass(frozen=True)
class TaskOutput:
    """Written data and counts of a task; the driver adds them to the progress of the batch."""

    staged: Staged
    recorded: Recorded
    spouts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """For each spout, counts of rows, invalid rows and unreadable files."""
    work: Mapping[str, BoltWork] = field(default_factory=dict)
    """The cost of each bolt, and of ``INPUT``."""


# The work of a task in a batch: its input, and its results.


Due = TypeVar("Due")


@dataclass(frozen=True)
class Frontiers:
    """Range of window ends to evaluate: after one frontier, and up to the other."""

    previous: int | None
    """Frontier of the last evaluation, in microseconds; None before the first."""
    current: int | None
    """Frontier of this evaluation; None if no window will be evaluated."""


@dataclass(frozen=True)
class ToAdmit:
    """The events that a task has yet to admit, and the watermarks for admitting them."""

    sections: UnadmittedSections | None = None
    """Sections with these events; None without events."""
    marks: Ref | None = None
    """Segment of the watermarks before each event of the batch; None if ``watermark`` applies to all."""
    watermark: int = NONE
    """The watermark in microseconds before all events, without ``marks``."""
    idle_closed_until: int = NONE
    """End, in microseconds, of the last window that the idle timeout closed before the batch."""


@dataclass(frozen=True)
class BatchEnd:
    """Times reached at the end of the batch."""

    clock: int = 0
    watermark: int | None = None
    """The watermark of the bolt in microseconds; None before the first."""
    floor: int = NONE
    """Lower bound, in microseconds, on the event times still admitted for every key (AZ-16)."""
    latest: int = NONE
    """At the end of the streams, the latest time that the bolt has seen, in microseconds."""
    closed_until: int = -FOREVER
    """At the end of the streams, the time up to which the watermark or the clock had closed windows."""


@dataclass(frozen=True)
class Share:
    """The part of a task's due windows that a work item fires, if several items share them."""

    index: int = 0
    count: int = 1

    def of(self, firings: Iterable[Due]) -> Iterable[Due]:
        """Returns this share's part of the due windows, in order; the parts of all shares, one after another, are all
        windows."""
        if self.count == 1:
            return firings
        due = list(firings)
        start, stop = (len(due) * index // self.count for index in (self.index, self.index + 1))
        return due[start:stop]


@dataclass(frozen=True)
class FireItem:
    """Work item: one task of a windowed bolt that may have windows due, or a share of its windows."""

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
        """Yields the sections that the task will read: of its state, and of events that it has yet to admit."""
        for ref in self.state.all_refs():
            if ref.needed:
                flags = ref.ref_of_flags()
                yield from [ref] if flags is None else [ref, flags]
        if self.admit.sections is not None:
            yield from self.admit.sections.refs
        if self.admit.marks is not None:
            yield self.admit.marks


@dataclass(frozen=True)
class FireOutcome:
    """Written data and counts of a windowed bolt's task, and its new state."""

    output: TaskOutput
    state: TaskState | None
    """New state of the task; None from all its shares except the first."""
    done: BoltTaskState
    """Effects of the bolt's calls on its state."""


@dataclass(frozen=True)
class CompactItem:
    """Work item: segments of a task, adjacent in arrival, that are compacted into one."""

    bolt: str
    task: int
    refs: Refs
    previous_frontier: int | None = None
    """Frontier of the last evaluation in microseconds; the order and positions of events up to it are final."""
    anchor: int | None = None
    """See ``FireItem``."""
