"""What a micro-batch is, before it runs, and what its tasks are given and give back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from manager.storage.manifest import TaskState
from manager.storage.segments import Ref, SegmentStore
from policies.marks import NONE
from topologies.engine.batch.forks import in_this_process

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topologies.engine.time.first_output import FirstOutput
    from topologies.graph.model import Topology


@dataclass(frozen=True)
class TimeAdvance:
    """What time does at the end of a batch."""

    clock: int
    """The clock, in microseconds; journaled, so that a re-run has the same."""
    tick: bool = True
    """Whether the watermark interval has passed."""
    close: bool = False
    """Whether the streams end here: all open windows fire."""


@dataclass(frozen=True)
class Origins:
    """Of several rows, which partition each is from."""

    names: tuple[str, ...]
    codes: NDArray[np.int32]
    """Of each row the place of its partition among the names."""

    def take(self, indices: NDArray[np.int64]) -> Origins:
        """Those of the rows at these places."""
        return replace(self, codes=self.codes[indices])

    def of_spout(self, spout: str) -> Origins:
        """The same by the names that bolts know."""
        return replace(self, names=tuple(partition_name(spout, name) for name in self.names))


@dataclass(frozen=True)
class SourceBatch:
    """Events that a split of a source holds, in their order of arrival."""

    component: str
    stream: str
    table: pa.Table
    positions: NDArray[np.int64]
    """The place of each row in its source."""
    bad: pa.Table | None = None
    """Rows that could not be read: row, reason, data."""
    source: str = ""
    """Where the rows are from, for people: a path."""
    clock: int | None = None
    """The clock at arrival in microseconds, where it is not the batch's."""
    turn: int | NDArray[np.int64] = 0
    """Where a shuffle begins in this source, so that the first rows of many small ones do not all go to one task; or
    of each row, where they are from several."""
    keys: NDArray[np.int64] | None = None
    """Of a source that is merged with others: by what each row is, ``NONE`` where it has nothing to be merged by."""
    bad_keys: NDArray[np.int64] | None = None
    """The same of the rows that could not be read, where something is known of them."""
    partition: str | Origins = ""
    """The source's own partition that all rows are from (``orders/3``), or each is; "" where the source has none."""


def partition_name(spout: str, partition: str) -> str:
    """A partition of a source's own, as bolts know it: with its spout; "" for a source that has none."""
    return f"{spout}\t{partition}" if partition else ""


class SourceSplit(Protocol):
    """A part of a source that one task reads."""

    def read(self, topology: Topology) -> Iterable[SourceBatch]: ...


@dataclass(frozen=True)
class MergedSplits:
    """Splits of one spout whose rows arrive in one order, merged by their keys."""

    splits: Sequence[SourceSplit]


@dataclass(frozen=True)
class BatchPlan:
    """A micro-batch: its number, its time and its input."""

    batch: int
    advance: TimeAdvance
    splits: Sequence[SourceSplit | MergedSplits] = ()
    """In order of arrival."""
    ingest: Callable[[Context], list[Output]] | None = None
    """Reads input that does not come in splits; its events arrive after those of the splits."""
    closing: bool = False
    """Whether this is the end of a run, after the batch of this number."""
    advances: Mapping[str, TimeAdvance] = field(default_factory=dict)
    """Bolts whose time is another, where scenarios run side by side."""
    run: str = ""
    """The run that planned it, also where another one runs it again."""
    slots: int = 1
    """Into so many splits input is cut that could be cut anywhere; the same when the batch runs again."""
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per spout, the partitions that its source has, also those that bring nothing, by the names of
    ``SourceBatch.partition``; journaled, so that a re-run has the same."""

    @property
    def step(self) -> int:
        """A number that no other step has, and that grows: twice the batch's, and one more for a closing."""
        return 2 * self.batch + self.closing

    def advance_of(self, bolt: str) -> TimeAdvance:
        """The time of one bolt."""
        return self.advances.get(bolt, self.advance)


@dataclass(frozen=True)
class Context:
    """What every task of a batch is given."""

    topology: Topology
    store: SegmentStore
    folder: str
    """Where the batch's segments go."""
    key: str
    """The name of the batch, for files of sinks."""
    batch: int
    clock: int
    watermarks: Mapping[str, int | None]
    """Per windowed bolt, the watermark at the start of the batch, which decides who is late."""
    traced: bool = False
    """Whether somebody watches: windows and late events are then noted with the ids of their events."""
    first: FirstOutput | None = None
    """Where the run starts, if that is at the time of an output."""
    run: str = ""
    """Which run this is: another one after each start."""
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per spout, the partitions that its source has."""


@dataclass(frozen=True)
class Arrived:
    """The events of one segment that have arrived for a task, and are not let in yet."""

    ref: Ref
    base: int
    """The number in the batch of the first event of that segment."""


@dataclass(frozen=True)
class FireItem:
    """A task of a windowed bolt that may have windows due."""

    bolt: str
    task: int
    state: TaskState
    frontier: int | None
    """Up to where time has come, in microseconds; None where nothing is to be evaluated."""
    passed: int | None
    arrived: tuple[Arrived, ...] = ()
    """Events that the task has yet to let in, in order of arrival."""
    marks: Ref | None = None
    """The watermarks before each event of the batch."""
    watermark: int = NONE
    """The watermark before all of them, where there are no ``marks``."""
    forced: int | None = None
    """The end of the last window that the idle timeout has closed."""
    floor: int = NONE
    """What the arrivals guarantee for every key (AZ-16)."""
    anchor: int | None = None
    """From where aligned windows are counted, if that is the first clock of the run."""
    clock: int = 0
    now: int | None = None
    """The watermark after the batch."""


@dataclass(frozen=True)
class CompactItem:
    """Segments of one task, adjacent in arrival, that are to become one."""

    bolt: str
    task: int
    refs: Sequence[Ref]
    passed: int | None = None
    """Up to which time, in microseconds, the order of the events is settled, and their places are known."""


@dataclass
class Output:
    """What a task wrote and counted."""

    queued: list[tuple[str, int, Ref]] = field(default_factory=list)
    """(bolt, task, rows), for the windowed bolts that come next."""
    arrived: list[tuple[str, int, Ref]] = field(default_factory=list)
    """(bolt, task, rows), for the windowed bolts whose tasks decide themselves who is let in."""
    doors: dict[str, tuple[int, Ref | None]] = field(default_factory=dict)
    """Per such bolt: how many rows, and in which order they arrived."""
    arrivals: dict[str, int] = field(default_factory=dict)
    """Per such bolt: the latest time of arrival, in microseconds."""
    heard: dict[str, int] = field(default_factory=dict)
    """Per such bolt: the clock when the last of its events came, in microseconds."""
    began: dict[str, int] = field(default_factory=dict)
    """Per such bolt: the clock when the first of them came."""
    for_sinks: list[tuple[str, Ref]] = field(default_factory=list)
    """(sink, rows), for sinks that the driver serves."""
    traced: list[tuple[str, Ref]] = field(default_factory=list)
    """(kind, rows), for whoever watches the run."""
    files: list[tuple[str, str]] = field(default_factory=list)
    """(sink, hidden path), written by this task and to be published."""
    counts: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    """Per windowed bolt: account, and count by input stream."""
    latest: dict[str, dict[str, int]] = field(default_factory=dict)
    """Per windowed bolt and input stream: the latest time seen, in microseconds."""
    skew: dict[str, dict[str, int]] = field(default_factory=dict)
    """Per windowed bolt and input stream: how far, at most, a time given there was behind the one it came with."""
    spouts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Per spout: rows, invalid rows, unreadable files."""
    complaints: list[str] = field(default_factory=list)
    """Some of what could not be read, for the log."""


@dataclass(frozen=True)
class Handed:
    """Rows for a sink, and how they are told from all others of the batch."""

    ref: Ref
    origin: str
    """The bolt and task that emitted them, ``revenue.2``; ``input`` where they came with the input."""
    first: int
    """The number of the first of them among those of this origin, in order of arrival."""


@dataclass
class FireOutcome(Output):
    """What a task of a windowed bolt did."""

    state: TaskState = field(default_factory=TaskState)
    windows: int = 0


class Executor(Protocol):
    """Runs the tasks of a batch: here, or on Spark's workers. Results come in the order of the items."""

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]: ...


class RunExecutor(Executor, Protocol):
    """Runs the tasks of a run, and frees in the end what it takes for that."""

    slots: int
    """So many tasks run at once."""

    def load(self, topology: Topology) -> None: ...
    def close(self) -> None: ...


class InProcess:
    """Runs tasks one after the other in this process."""

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        return [in_this_process(partial(function, item, context)) for item in items]
