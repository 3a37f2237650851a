"""A topology that has been built: what its parts are, who reads from whom, and what follows from that."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.slices.slicing import Slicing
from policies.admission import Admission, LastEnd
from policies.assigners import AlignedWindows, CalendarWindows, SessionWindows, WindowAssigner
from policies.choose import closes_after_end
from policies.eviction import EvictionPolicy, TimeEvictionPolicy
from policies.last_windows import last_window_end
from policies.slices import SliceGrid
from policies.trigger import CountTriggerPolicy, TimeTriggerPolicy, TriggerPolicy, fires_on_columns
from topologies.graph.groupings import AllGrouping, Grouping
from windowing.aggregates.accumulators import Accumulator
from windowing.aggregates.lists import Gathered
from windowing.bolts.aggregate_bolt import AggregateBolt
from windowing.bolts.plain_bolts import BatchBolt, Bolt
from windowing.bolts.temporal_join import TemporalJoin
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.calls.checked import checked
from windowing.data.reprs import one_line
from windowing.data.rows import DEFAULT_STREAM
from windowing.data.schema import TIMESTAMP
from windowing.settings.bounds import Bounds
from windowing.settings.panes import PaneMode
from windowing.settings.rules import OutputTime
from windowing.time.durations import Duration
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topologies.engine.batch.report import BatchReport
    from topologies.io.sinks import Sink
    from topologies.io.spouts import Spout
    from topologies.run.options import Summary
    from topologies.spark.metrics import TimeMetrics
    from topologies.starting.run import Run
    from topologies.starting.start import EngineName
    from windowing.window import TupleWindow

ERRORS = "errors"
"""The output stream, of every spout and bolt, of what could not be read."""

ERROR_SCHEMA = pa.schema(
    [
        ("_component", pa.string()),
        ("_source", pa.string()),
        ("_row", pa.int64()),
        ("_reason", pa.string()),
        ("_data", pa.string()),
    ]
)

LATE_COLUMNS = (
    pa.field("_stream", pa.string()),
    pa.field("_event_time", TIMESTAMP),
    pa.field("_reason", pa.string()),
    pa.field("_late_by_us", pa.int64()),
    pa.field("_watermark", TIMESTAMP),
    pa.field("_window_start", TIMESTAMP),
    pa.field("_window_end", TIMESTAMP),
)
"""What a late stream carries behind the event's own columns. The window is the last that could have held the event;
where sessions decide which events are late (``by_session``), it is the session that the event would have opened."""

ID = "id"
"""Traces name events by this column, where their stream has it."""

REASON = "_reason"
"""What a refused stream carries behind the event's own columns: why the rule of the trigger failed."""

Stream = tuple[str, str]
"""A component and one of its output streams."""


def stream_label(stream: Stream) -> str:
    """How a stream is called by people, and by ``window.stream(...)``: the component alone for its default stream."""
    return stream[0] if stream[1] == DEFAULT_STREAM else f"{stream[0]}.{stream[1]}"


@dataclass(frozen=True)
class Input:
    """A stream that a bolt reads, and how its events are shared out to the tasks."""

    stream: Stream
    grouping: Grouping


@dataclass(frozen=True, order=True)
class Origin:
    """A windowed bolt whose watermark a stream carries, and by how much it is shifted on the way (SI-25)."""

    bolt: str
    shift: int = 0
    """Microseconds."""


def shifted(time: int, shift: int) -> int:
    """A time so many microseconds later; the end of time stays where it is."""
    return time if time == FOREVER else time + shift


@dataclass(frozen=True)
class SpoutNode:
    """A spout under its name."""

    name: str
    spout: Spout
    outputs: Mapping[str, pa.Schema]
    needed: frozenset[str] | None = None
    """Those of its columns that are asked for; None: all."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that its rows have in a run."""
        declared = self.outputs[DEFAULT_STREAM]
        needed = self.needed
        return declared if needed is None else pa.schema([field for field in declared if field.name in needed])


@dataclass(frozen=True)
class PlainNode:
    """A bolt without windows; it runs where its input is, in the same task."""

    name: str
    bolt: Bolt | BatchBolt
    parallelism: int
    inputs: tuple[Input, ...]
    outputs: Mapping[str, pa.Schema]
    carries_time: bool
    """Whether its events have event times and a watermark, from a windowed bolt before it."""
    shift: int = 0
    """Microseconds by which it moves these times (SI-25)."""
    clocked: bool = False
    """Whether some of its events come with a moment of the clock: that at which windows fired before it."""


@dataclass(frozen=True)
class WindowedNode:
    """A windowed bolt, with the policies that its settings come to."""

    name: str
    bolt: WindowedBolt
    parallelism: int
    inputs: tuple[Input, ...]
    outputs: Mapping[str, pa.Schema]
    schema: pa.Schema
    """The columns of its windows: those of all input streams; a stream that lacks one has nulls there."""
    event_time: bool
    carries_time: tuple[bool, ...]
    """Per input: whether its events bring their time along, and the watermark of the bolt they come from."""
    origins: tuple[tuple[Origin, ...], ...]
    """Per input: the windowed bolts whose watermark it carries; empty where the times seen decide."""
    eviction: EvictionPolicy
    trigger: TriggerPolicy
    level: int
    """0 where it depends on no windowed bolt, else one more than those it depends on."""
    assigners: tuple[WindowAssigner, ...] = ()
    """What forms its windows, where they are not the runs of a queue that eviction and trigger decide about."""
    clocked: tuple[bool, ...] = ()
    """Per input: whether its events bring along the clock at which the windows before them fired. Only for key
    triggers."""
    remembers: bool = False
    """Whether its tasks keep the last window of each key, to say what has expired since; queues know it anyway."""
    idle: frozenset[str] = frozenset()
    """The settings that change nothing on this bolt: a preset has brought them along."""

    @property
    def holds(self) -> bool:
        """Whether its tasks hold events until no window needs them, and not a queue that is in order of time."""
        return bool(self.assigners) or self.bolt.settings.key_trigger is not None

    @property
    def can_share_windows(self) -> bool:
        """Whether windows of one of its tasks can be fired at the same time: they are independent, runs of a queue of
        events, and what came in has been admitted by those who read it."""
        return self.bolt.parallel_windows and not self.holds and not self.deferred and self.slicing is None

    @cached_property
    def slicing(self) -> Slicing | None:
        """How its events are added up as they come; None where windows need the events themselves."""
        return self._slicing(None)

    @cached_property
    def traced_slicing(self) -> Slicing | None:
        """The same for a traced run: the ids of the events of each window are kept too, where events have ids."""
        kind = self.schema.field(ID).type if ID in self.schema.names else None
        return self.slicing if kind is None else self._slicing((ID, Gathered(ID, kind)))

    def summed(self, traced: bool) -> Slicing | None:
        """How its events are added up in a run, if they are."""
        return self.traced_slicing if traced else self.slicing

    def _slicing(self, watched: tuple[str, Accumulator] | None) -> Slicing | None:
        bolt, slices = self.bolt, None if self.holds else SliceGrid.of(self.eviction, self.trigger)
        if bolt.settings.message_id_field is not None:
            return None  # sums do not know which ids are in them
        if slices is None or not isinstance(bolt, AggregateBolt) or not bolt.is_as_declared:
            return None
        assert bolt.bound_aggregates is not None
        return Slicing(bolt.bound_aggregates, slices, len(self.inputs), watched)

    @property
    def takes_events_at_the_watermark(self) -> bool:
        """Whether an event at the very watermark is always in time, and all its windows are still to come."""
        if self.bolt.settings.bounds is not Bounds.START:
            return False
        if not self.assigners:
            return isinstance(self.eviction, TimeEvictionPolicy) and isinstance(self.trigger, TimeTriggerPolicy)
        return all(each.takes_events_at_the_watermark for each in self.assigners)

    @cached_property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """Per input: the columns of the key (``with_key``), which a join may name otherwise on either side."""
        bolt = self.bolt
        if isinstance(bolt, TemporalJoin):
            return tuple(bolt.keys_by_stream[name] for name in self.streams)
        return (bolt.settings.key,) * len(self.inputs)

    @property
    def streams(self) -> list[str]:
        """The names of its input streams."""
        return [stream_label(each.stream) for each in self.inputs]

    @property
    def follows_clock(self) -> bool:
        """Whether its windows may fire when no event comes, because the clock moves on."""
        settings = self.bolt.settings
        if not self.event_time:
            by_count = isinstance(self.trigger, CountTriggerPolicy) and self.eviction.reach is None
            return self.holds or not by_count
        timeouts = settings.idle_timeout or settings.partition_idle_timeout
        early = settings.panes is not None and settings.panes.uses_clock
        return timeouts is not None or settings.estimate_arrival or early

    @cached_property
    def deferred(self) -> bool:
        """Whether its tasks decide which events are admitted, not the task that reads: the last tick is not enough.

        Tasks that hold events do; else it follows from the declarations of the settings (``Admits``).
        """
        return self.holds or self.bolt.settings.admitted_by_tasks(event_time=self.event_time)

    @cached_property
    def sequenced(self) -> bool:
        """Whether its watermark follows its events in their order of arrival, and not only the ticks: as the
        declarations of the settings say (``Admits.FOLLOWING_EVENTS``), but for watermarks per key."""
        settings = self.bolt.settings
        return self.event_time and settings.follows_events and not settings.watermark_per_key

    @property
    def admission(self) -> Admission:
        """Which events are admitted, and with which time."""
        settings = self.bolt.settings
        ends_known = self.deferred or fires_on_columns(self.trigger)  # not so with a trigger of the user's
        return Admission(
            late_by=settings.late_by,
            late_action=settings.late_action,
            per_input=settings.late_per_input or settings.watermark_per_key,
            allowed=settings.allowed_lateness.micros if self.event_time else 0,
            closes_after_end=self.closes_after_end,
            last_end=self.last_end if ends_known else None,
            holds_start=settings.bounds is Bounds.START,
            overtakes=self.overtakes,
        )

    @property
    def overtakes(self) -> bool:
        """Whether it takes events behind its watermark that are in order on their own input or partition (AZ-4).

        Only in windows of which it is known which have closed: others would change with an event that comes so late.
        """
        settings = self.bolt.settings
        if not self.event_time or not settings.overtakes or settings.lifetime is not None:
            return False
        if self.assigners:
            return all(isinstance(each, AlignedWindows | CalendarWindows) for each in self.assigners)
        eviction, trigger = self.eviction, self.trigger
        if not isinstance(eviction, TimeEvictionPolicy) or not isinstance(trigger, TimeTriggerPolicy):
            return False
        return trigger.slide.micros >= eviction.length.micros

    def output_time(self, window: TupleWindow) -> int:
        """The time of the rows that a window emits, in microseconds (SI-31)."""
        match self.bolt.settings.output_time:
            case OutputTime.START if window.start_timestamp is not None:
                return window.start_timestamp
            case OutputTime.LAST:
                return window.end_timestamp - 1
        return window.end_timestamp

    @property
    def retracts(self) -> bool:
        """Whether its windows, when they fire again, take back what they emitted."""
        panes = self.bolt.settings.panes
        return panes is not None and panes.mode is PaneMode.RETRACTING

    @property
    def session(self) -> SessionWindows | None:
        """The first of its kinds of window that is sessions."""
        return next((each for each in self.assigners if isinstance(each, SessionWindows)), None)

    @property
    def closes_after_end(self) -> bool:
        """Whether its windows close only when time is past their end."""
        return closes_after_end(self.bolt.settings, event_time=self.event_time)

    def closed_until(self, marks: NDArray[np.int64]) -> NDArray[np.int64]:
        """At each watermark, or mark of a key, in microseconds: windows that end up to here have closed."""
        return self.admission.closed_until(marks)

    @property
    def last_end(self) -> LastEnd | None:
        """The end of the last window that can hold an event; None where that does not follow from the event alone."""
        if self.assigners:
            found = [assigner.last_end for assigner in self.assigners]
            known = [each for each in found if each is not None]
            if len(known) < len(found):
                return None
            return lambda starts, ends: np.maximum.reduce([each(starts, ends) for each in known])
        return last_window_end(self.eviction, self.trigger)

    @property
    def lag(self) -> Duration:
        """How far its watermark stays behind."""
        return self.bolt.settings.lag or Duration(0)


@dataclass(frozen=True)
class SinkNode:
    """A sink under its name, and the streams it takes."""

    name: str
    sink: Sink
    streams: tuple[Stream, ...]
    schema: pa.Schema


@dataclass(frozen=True)
class Topology:
    """A topology that ``TopologyBuilder.build`` found no fault with. Immutable, and sent to the workers as it is."""

    name: str
    spouts: Mapping[str, SpoutNode]
    plain: Mapping[str, PlainNode]
    windowed: Mapping[str, WindowedNode]
    """In an order in which each comes after those it depends on."""
    sinks: Mapping[str, SinkNode]
    stop_on_invalid: bool = False
    readers: Mapping[Stream, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """Per stream: the bolts that read it, and which of their inputs it is."""
    takers: Mapping[Stream, tuple[str, ...]] = field(default_factory=dict)
    """Per stream: the sinks that take it."""

    @checked
    def start(
        self,
        checkpoint: str | os.PathLike[str] | None = None,
        *,
        engine: EngineName = "spark",
        spark: Any = None,
        every: Duration | timedelta | str | None = None,
        flush: bool = True,
        first_output: datetime | str | None = None,
        keep_batches: int | None = None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        metrics: TimeMetrics | None = None,
        on_report: Callable[[BatchReport], None] | None = None,
        show: bool = True,
    ) -> Run:
        """Start it in the background, and return at once; in a notebook the run shows itself, unless ``show`` is False.

        ``engine``: ``"spark"``, or ``"local"`` for this process, without Java. ``spark``: a session of your own;
        without one the active session, or else a new one (``master``, ``conf``) that is stopped with the last run that
        uses it. The other arguments are those of ``RunOptions``, and ``metrics`` that of ``run_on_spark``.

        Raises ConfigError where the arguments cannot be used together. Every other error is raised by ``run.wait()``.
        """
        from topologies.starting.start import options_of, start

        options = options_of(checkpoint, every, flush, first_output, keep_batches, on_report)
        return start(self, options, engine=engine, spark=spark, master=master, conf=conf, metrics=metrics, show=show)

    @checked
    def run(
        self,
        checkpoint: str | os.PathLike[str] | None = None,
        *,
        engine: EngineName = "spark",
        spark: Any = None,
        every: Duration | timedelta | str | None = None,
        flush: bool = True,
        first_output: datetime | str | None = None,
        keep_batches: int | None = None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        metrics: TimeMetrics | None = None,
        on_report: Callable[[BatchReport], None] | None = None,
    ) -> Summary:
        """Run it to the end of its input, or until it is interrupted; ``start`` and ``wait`` in one.

        The arguments are those of ``start``. An interrupt (Ctrl-C) stops it after the current batch.
        """
        from topologies.starting.start import options_of, run_to_the_end, start

        options = options_of(checkpoint, every, flush, first_output, keep_batches, on_report)
        return run_to_the_end(
            start(self, options, engine=engine, spark=spark, master=master, conf=conf, metrics=metrics)
        )

    def __repr__(self) -> str:
        kinds = {"spouts": self.spouts, "bolts": {**self.plain, **self.windowed}, "sinks": self.sinks}
        parts = "; ".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items() if names)
        return one_line(f"<Topology {self.name!r}: {parts}>")

    def _repr_html_(self) -> str:
        """Called by notebooks: its graph."""
        from topologies.graph.picture import topology_html

        return topology_html(self)

    def columns_of(self, stream: Stream) -> list[str]:
        """The names of the columns of a stream."""
        component, name = stream
        for parts in (self.spouts, self.plain, self.windowed):
            if component in parts:
                return list(parts[component].outputs[name].names)
        return []

    def spouts_before(self, node: WindowedNode) -> list[list[str]]:
        """Per input of a windowed bolt, the spouts whose events come to it one by one, through plain bolts alone.

        Which rows of a ``BatchBolt`` came of which is not known, so behind one there is nothing to tell partitions by.
        """
        return [sorted(self._spouts_of(each.stream)) for each in node.inputs]

    def _spouts_of(self, stream: Stream) -> set[str]:
        component, name = stream
        if name == ERRORS or component in self.windowed:
            return set()
        if component in self.spouts:
            return {component}
        node = self.plain.get(component)
        inputs = () if node is None or isinstance(node.bolt, BatchBolt) else node.inputs
        return {spout for each in inputs for spout in self._spouts_of(each.stream)}

    @property
    def levels(self) -> list[list[WindowedNode]]:
        """The windowed bolts, those that depend on no other first."""
        depth = 1 + max((node.level for node in self.windowed.values()), default=-1)
        return [[node for node in self.windowed.values() if node.level == level] for level in range(depth)]

    @property
    def needs_clock(self) -> bool:
        """Whether time must move on a quiet stream: a window follows the clock."""
        return any(node.follows_clock for node in self.windowed.values())

    @property
    def needs_heartbeat(self) -> bool:
        """Whether there are batches without input too: windows follow the clock, or a watermark waits for its
        interval."""
        waits = any(node.bolt.settings.watermark_interval.micros for node in self.windowed.values())
        return waits or self.needs_clock


def copies(node: WindowedNode | PlainNode, at: int) -> int:
    """How many tasks of a bolt an event of input ``at`` goes to."""
    return node.parallelism if isinstance(node.inputs[at].grouping, AllGrouping) else 1
