"""The plan of a micro-batch, and what its tasks are given and return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from manager.storage.segments import Ref, SegmentStore
from manager.storage.task_state import TaskState
from policies.marks import NONE
from topologies.engine.batch.forks import in_this_process
from topologies.engine.batch.input_progress import InputProgress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topologies.engine.time.first_output import FirstOutput
    from topologies.graph.model import Topology


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
class Origins:
    """The partition of each of several rows."""

    names: tuple[str, ...]
    codes: NDArray[np.int32]
    """Per row, the index of its partition in ``names``."""

    def take(self, indices: NDArray[np.int64]) -> Origins:
        """The partitions of the rows at these indices."""
        return replace(self, codes=self.codes[indices])

    def of_spout(self, spout: str) -> Origins:
        """The same partitions under the names that bolts see (see ``partition_name``)."""
        return replace(self, names=tuple(partition_name(spout, name) for name in self.names))


@dataclass(frozen=True)
class SourceBatch:
    """Events of one split of a source, in order of arrival."""

    component: str
    stream: str
    table: pa.Table
    positions: NDArray[np.int64]
    """The position of each row in its source, from 0."""
    bad: pa.Table | None = None
    """Unreadable rows, as a table of row, reason and data; None where there are none."""
    source: str = ""
    """Where the rows are from, for messages: a path."""
    clock: int | None = None
    """The clock at arrival in microseconds; None where it is the batch's."""
    turn: int | NDArray[np.int64] = 0
    """Offset of the first row in a shuffle grouping, or one per row where they are from several sources. It keeps the
    first rows of many small files from all going to one task."""
    keys: NDArray[np.int64] | None = None
    """Merge keys, one per row, of a source that is merged with others; ``NONE`` where a row has no key."""
    bad_keys: NDArray[np.int64] | None = None
    """Merge keys of the unreadable rows, where they are known."""
    partition: str | Origins = ""
    """The partition of the source (``orders/3``): one for all rows, or one per row; "" where the source has none."""


def partition_name(spout: str, partition: str) -> str:
    """The name of a source's partition as bolts see it: prefixed with its spout; "" for a source that has none."""
    return f"{spout}\t{partition}" if partition else ""


class SourceSplit(Protocol):
    """A part of a source that one task reads."""

    def read(self, topology: Topology) -> Iterable[SourceBatch]: ...


@dataclass(frozen=True)
class MergedSplits:
    """Splits of one spout whose rows are merged by their keys into one order of arrival."""

    splits: Sequence[SourceSplit]


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
    def step(self) -> int:
        """A unique, increasing number: twice the batch number, plus one for a closing batch."""
        return 2 * self.batch + self.closing

    def advance_of(self, bolt: str) -> TimeAdvance:
        """The time advance of one bolt."""
        return self.advances.get(bolt, self.advance)


@dataclass(frozen=True)
class Context:
    """What every task of a batch receives."""

    topology: Topology
    store: SegmentStore
    folder: str
    """Folder of the batch's segments, within the store."""
    key: str
    """Name of the batch, used in the names of sink files."""
    batch: int
    clock: int
    watermarks: Mapping[str, int | None]
    """Per windowed bolt, the watermark in microseconds at the start of the batch, which decides who is late; None
    before the first."""
    traced: bool = False
    """Whether tracing is on: windows and late events are then recorded with the ids of their events."""
    first: FirstOutput | None = None
    """The first output of the run; None for a run that starts with its input."""
    run: str = ""
    """Id of the run, new after each start."""
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per spout, the partitions of its source."""


@dataclass(frozen=True)
class Arrived:
    """Events of one segment that arrived for a task and are not admitted yet."""

    ref: Ref
    base: int
    """Number, within the batch, of the segment's first event."""


@dataclass(frozen=True)
class FireItem:
    """Work item: one task of a windowed bolt that may have windows due."""

    bolt: str
    task: int
    state: TaskState
    frontier: int | None
    """Frontier in microseconds; None where no window is to be evaluated."""
    passed: int | None
    arrived: tuple[Arrived, ...] = ()
    """Events that the task has yet to admit, in order of arrival."""
    marks: Ref | None = None
    """Segment of the watermarks before each event of the batch; None where ``watermark`` applies to all."""
    watermark: int = NONE
    """The watermark in microseconds before all events, where there are no ``marks``."""
    forced: int | None = None
    """End, in microseconds, of the last window that the idle timeout closed; None where it closed none."""
    floor: int = NONE
    """Lower bound, in microseconds, on the event times still admitted for every key (AZ-16)."""
    anchor: int | None = None
    """Time in microseconds from which aligned windows are counted, where that is the first clock of the run."""
    clock: int = 0
    now: int | None = None
    """The watermark in microseconds after the batch; None before the first."""


@dataclass(frozen=True)
class CompactItem:
    """Work item: segments of one task, adjacent in arrival, to be compacted into one."""

    bolt: str
    task: int
    refs: Sequence[Ref]
    passed: int | None = None
    """Frontier of the last evaluation in microseconds: the order and positions of events up to it are final."""


@dataclass(frozen=True)
class StagedArrivals:
    """Events that one task wrote for a bolt whose tasks admit them."""

    sections: Sequence[tuple[int, Ref]]
    """(task, rows)."""
    count: int
    """Number of events, in all sections."""
    order: Ref | None
    """The order of arrival of all events; None where the watermark does not follow it."""


@dataclass(frozen=True)
class Staged:
    """What a task wrote for others."""

    queued: Sequence[tuple[str, int, Ref]] = ()
    """(bolt, task, rows): admitted events for the queues of windowed bolts."""
    arrived: Mapping[str, StagedArrivals] = field(default_factory=dict)
    """Per windowed bolt whose tasks admit events: those events."""
    for_sinks: Sequence[tuple[str, Ref]] = ()
    """(sink, rows): rows for sinks that the driver serves."""
    files: Sequence[tuple[str, str]] = ()
    """(sink, hidden path): files written by this task, to be published at the commit."""


@dataclass(frozen=True)
class Recorded:
    """What a task counted and saw."""

    counts: Mapping[str, Mapping[str, list[int]]] = field(default_factory=dict)
    """Per windowed bolt and account: counts by input stream."""
    inputs: Mapping[str, Mapping[str, InputProgress]] = field(default_factory=dict)
    """Per windowed bolt and input stream: what its events have shown."""
    traced: Sequence[tuple[str, Ref]] = ()
    """(kind, rows): traces, by their kind in ``TRACES``."""
    complaints: Sequence[str] = ()
    """Messages about some of the unreadable input, for the log."""


@dataclass(frozen=True)
class Output:
    """What a task wrote and counted; the driver merges it into the progress of the batch."""

    staged: Staged
    recorded: Recorded
    spouts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Per spout: counts of rows, invalid rows and unreadable files."""


@dataclass(frozen=True)
class SinkRows:
    """Rows for a sink, and what identifies them among all rows of the batch."""

    ref: Ref
    origin: str
    """The bolt and task that emitted them, such as ``revenue.2``; ``input`` for rows that came with the input."""
    first: int
    """Number of the first row among those of this origin, in order of arrival."""


@dataclass(frozen=True)
class FireOutcome:
    """What a task of a windowed bolt wrote and counted, and its new state."""

    output: Output
    state: TaskState
    windows: int
    """Number of windows."""


class Executor(Protocol):
    """Runs the tasks of a batch, in this process or on Spark's workers. Results come in the order of the items."""

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]: ...


class RunExecutor(Executor, Protocol):
    """Runs the tasks of a run; ``close`` frees its resources."""

    slots: int
    """Number of tasks that run concurrently."""

    def load(self, topology: Topology) -> None: ...
    def close(self) -> None: ...


class InProcess:
    """Runs tasks one after another in this process."""

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        return [in_this_process(partial(function, item, context)) for item in items]
