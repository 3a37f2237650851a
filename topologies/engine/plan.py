"""What a micro-batch is, before it runs, and what its tasks are given and give back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from manager.manifest import TaskState
from manager.segments import Ref, SegmentStore
from policies.marks import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topologies.engine.first_output import FirstOutput
    from topologies.model import Topology


@dataclass(frozen=True)
class Beat:
    """What time does at the end of a batch."""

    clock: int
    """The clock, in microseconds; journaled, so that a re-run has the same."""
    tick: bool = True
    """Whether the watermark interval has passed."""
    close: bool = False
    """Whether the streams end here: all open windows fire."""


@dataclass(frozen=True)
class Delivery:
    """Events that a piece of a source holds, in their order of arrival."""

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
    turn: int = 0
    """Where a shuffle begins in this source, so that the first rows of many small ones do not all go to one task."""


class Piece(Protocol):
    """A part of a source that one task reads."""

    def read(self, topology: Topology) -> Iterable[Delivery]: ...


@dataclass(frozen=True)
class BatchPlan:
    """A micro-batch: its number, its time and its input."""

    batch: int
    beat: Beat
    pieces: Sequence[Piece] = ()
    """In order of arrival."""
    ingest: Callable[[Context], list[Output]] | None = None
    """Reads input that does not come in pieces; its events arrive after those of the pieces."""
    closing: bool = False
    """Whether this is the end of a run, after the batch of this number."""
    beats: Mapping[str, Beat] = field(default_factory=dict)
    """Bolts whose time is another, where scenarios run side by side."""
    run: str = ""
    """The run that planned it, also where another one runs it again."""

    @property
    def step(self) -> int:
        """A number that no other step has, and that grows: twice the batch's, and one more for a closing."""
        return 2 * self.batch + self.closing

    def beat_of(self, bolt: str) -> Beat:
        """The time of one bolt."""
        return self.beats.get(bolt, self.beat)


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
class Fired(Output):
    """What a task of a windowed bolt did."""

    state: TaskState = field(default_factory=TaskState)
    windows: int = 0


class Executor(Protocol):
    """Runs the tasks of a batch: here, or on Spark's workers. Results come in the order of the items."""

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]: ...


class InProcess:
    """Runs tasks one after the other in this process."""

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        return [function(item, context) for item in items]
