"""The graph of a topology: its streams, its nodes, and the readers of each stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.key_states import RECORD_COLUMNS
from manager.keyed.retained_events import INTERNAL_COLUMNS
from manager.keyed.run_sums import RunSums
from manager.slices import PartialSums, SliceSums
from manager.storage.segments import WEIGHT_COLUMN, WINDOW_KEY_COLUMN
from policies.assigners import (
    CountedWindows,
    GridsTogether,
    GridWindows,
    LullWindows,
    SessionWindows,
    SlidingLogWindows,
    WindowAssigner,
)
from policies.choose_policies import closes_after_end, uses_policy_windows
from policies.protocol import EvictionPolicy, TriggerPolicy
from policies.storm import (
    ColumnarTriggerPolicy,
    CountTriggerPolicy,
    SliceGrid,
    TimeEvictionPolicy,
    TimeTriggerPolicy,
    last_window_end,
)
from policies.watermarks import Admission, LastEnd
from topologies.graph.groupings import AllGrouping, FieldsGrouping, Grouping, ListedRows
from topologies.io.spout_columns import Defaults
from windowing.aggregates.accumulators import Accumulator, Gathered
from windowing.bolts.aggregate_bolt import AggregateBolt
from windowing.bolts.bolt import BatchBolt, StatefulBolt, TaskBolt
from windowing.bolts.joins import TemporalJoin
from windowing.durations import Duration
from windowing.reprs import one_line
from windowing.schema import DEFAULT_STREAM, TIMESTAMP
from windowing.settings import WindowSettings
from windowing.settings.panes import PaneMode
from windowing.settings.rules import Bounds, OutputTime
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topologies.io.sinks import Sink
    from topologies.io.spouts import AnySpout
    from windowing.bolts.bolt import Bolt
    from windowing.window import TupleWindow


# Names of the columns that windbolt adds to users' columns while it works. The builder refuses users' columns with
# these names. Each name is defined once: here, or in ``manager`` if the column is stored from batch to batch.


SEQ_COLUMN, DECISION_COLUMN, END_EDGE_COLUMN = "_seq", "_decision", "_end_edge"
"""Columns that are added to an event on its way to the task of its bolt."""

MERGE_KEY_COLUMN, MERGE_PLACE_COLUMN, TRUNCATED_COLUMN = "_merge_key", "_merge_place", "_truncated"
"""Columns of a row of a merged range: its key and place, and a mark if one of its times was cut."""

MERGE_COLUMNS = (MERGE_KEY_COLUMN, MERGE_PLACE_COLUMN, TRUNCATED_COLUMN)
"""Columns of a merged range in addition to the spout's columns."""

EVENT_COLUMNS = (*INTERNAL_COLUMNS, SEQ_COLUMN, DECISION_COLUMN, END_EDGE_COLUMN)
"""Columns of an event in addition to the columns that a windowed bolt reads; also all names that begin with
``WEIGHT_COLUMN``."""

KEY_RECORD_COLUMNS = RECORD_COLUMNS
"""Columns beside the key in the stored records of keys, of a bolt with a key trigger or users' policies."""

STATE_COLUMN = "_state"
"""Column beside the key, of a bolt without windows: the state of the key. Names that begin with it and a period are
those of ``state_column``."""

RETRACTION_COLUMNS = ("_window_kind", WINDOW_KEY_COLUMN, "_window_start", "_window_end")
"""Columns in addition to the retractable output of a bolt: the window that emitted the row."""


def state_column(name: str) -> str:
    """Returns the column of a state, in tables of the states of keys."""
    return f"{STATE_COLUMN}.{name}"


def reserved_columns(columns: Iterable[str]) -> list[str]:
    """Returns the input columns of a windowed bolt whose names windbolt reserves."""
    return [column for column in columns if column in EVENT_COLUMNS or column.startswith(WEIGHT_COLUMN)]


# The origin of a stream's watermark, and the shift of its times on the way (SI-25).


@dataclass(frozen=True, order=True)
class Origin:
    """A windowed bolt whose watermark a stream carries, with the shift of times between them (SI-25)."""

    bolt: str
    shift: int = 0
    """Microseconds of the shift."""


def shift_time(time: int, shift: int) -> int:
    """Returns a time moved later by ``shift`` microseconds; FOREVER stays FOREVER."""
    return time if time == FOREVER else time + shift


# Streams beside the output of a component: unreadable rows, late events, and events that a rule refused.


ERRORS = "errors"
"""The output stream, of every spout and bolt, for rows that could not be read."""

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
"""Columns that a late stream has after the event's own columns. The window is the last that could have held the event.
If sessions (``by_session``) or sliding logs decide which events are late, it is the window that the event would have
opened."""

REASON = "_reason"
"""Column of a refused stream after the event's own: the reason why the rule of the trigger failed."""


# Streams between components, and how a bolt reads one.


Stream = tuple[str, str]
"""A component and one of its output streams."""

ID = "id"
"""The column by which traces name events, in streams that have it."""


def stream_label(stream: Stream) -> str:
    """Returns the name of a stream for people and for ``window.stream(...)``: only the component for its default
    stream."""
    return stream[0] if stream[1] == DEFAULT_STREAM else f"{stream[0]}.{stream[1]}"


@dataclass(frozen=True)
class Input:
    """A stream that a bolt reads, and how its events are distributed to the tasks."""

    stream: Stream
    grouping: Grouping

    def copies(self, parallelism: int) -> int:
        """Returns the number of tasks to which each event goes; ``parallelism``: the number of all tasks."""
        return parallelism if isinstance(self.grouping, AllGrouping) else 1


# A bolt without windows in a topology.


@dataclass(frozen=True)
class PlainNode:
    """A bolt without windows; it runs where its input is, in the same task."""

    name: str
    bolt: Bolt | BatchBolt
    parallelism: int
    inputs: tuple[Input, ...]
    outputs: Mapping[str, pa.Schema]
    brings_time: bool
    """True if its events have event times and a watermark, from a windowed bolt before it."""
    shift: int = 0
    """Microseconds by which it moves times (SI-25)."""
    brings_clock: bool = False
    """True if some of its events have clock times, the firing times of windows before."""

    def copies(self, input_index: int) -> int:
        """Returns the number of tasks to which each event of an input goes."""
        return self.inputs[input_index].copies(self.parallelism)


# A sink in a topology.


@dataclass(frozen=True)
class SinkNode:
    """A sink with its name, and the streams that it takes."""

    name: str
    sink: Sink
    streams: tuple[Stream, ...]
    schema: pa.Schema


# A spout in a topology.


@dataclass(frozen=True)
class SpoutNode:
    """A spout with its name."""

    name: str
    spout: AnySpout
    outputs: Mapping[str, pa.Schema]
    needed: frozenset[str] | None = None
    """The columns that are needed; None means all."""
    defaults: Defaults = field(default_factory=Defaults)
    """Default values for columns."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows in a run."""
        declared = self.outputs[DEFAULT_STREAM]
        needed = self.needed
        return declared if needed is None else pa.schema([field for field in declared if field.name in needed])


# Columns that decide to which task and window an event of a windowed bolt belongs, and when.


def decisive_columns(node: WindowedNode) -> list[list[str]]:
    """Returns, for each input, the columns of its key and of its grouping, and the columns that time rules name.

    Columns that only functions read, for times or for a trigger's rule, are unknown and left out.
    """
    named_by_rules = set(_columns_of_rules(node.bolt.settings))
    columns_by_input = []
    for each, key in zip(node.inputs, node.keys, strict=True):
        grouping_columns = each.grouping.fields if isinstance(each.grouping, FieldsGrouping) else ()
        columns_by_input.append(sorted({*named_by_rules, *key, *grouping_columns} & set(node.schema.names)))
    return columns_by_input


def _columns_of_rules(settings: WindowSettings) -> Iterator[str]:
    lifetime, arrival = settings.lifetime, settings.arrival
    names = [settings.timestamp_field, settings.message_id_field, settings.watermark_field]
    names += [None if arrival is None else arrival.field]
    names += [name for kind in settings.kinds for name in kind.by_columns]
    if lifetime is not None:
        names += [lifetime.end_field, lifetime.shape_field, *lifetime.edge_key]
    if isinstance(settings.watermark_partition, str):
        names.append(settings.watermark_partition)
    yield from (name for name in names if name is not None)


# Whether the windows of a queue hold events by their times alone.


def has_windows_of_time(node: WindowedNode) -> bool:
    """True if both policies of a bolt are windbolt's policies of time, so that only the time of an event decides which
    windows hold it."""
    are_windbolts = all(type(each).__module__.startswith("policies.") for each in (node.eviction, node.trigger))
    return (
        are_windbolts and isinstance(node.eviction, TimeEvictionPolicy) and isinstance(node.trigger, TimeTriggerPolicy)
    )


# A windowed bolt in a topology: its policies, and facts that follow from its settings and its inputs.


@dataclass(frozen=True)
class WindowedNode:
    """A windowed bolt, with the policies that follow from its settings."""

    name: str
    bolt: TaskBolt
    parallelism: int
    inputs: tuple[Input, ...]
    outputs: Mapping[str, pa.Schema]
    schema: pa.Schema
    """The columns of its windows: the columns of all input streams, with nulls for streams that lack a column."""
    event_time: bool
    brings_time: tuple[bool, ...]
    """For each input, True if its events have times and a watermark from a windowed bolt before."""
    origins: tuple[tuple[Origin, ...], ...]
    """For each input, the windowed bolts whose watermark it carries; empty if the watermark follows the event times."""
    eviction: EvictionPolicy
    trigger: TriggerPolicy
    level: int
    """Depth of the bolt: 0 if it depends on no windowed bolt, else one more than the greatest depth of the bolts before
    it."""
    assigners: tuple[WindowAssigner, ...] = ()
    """Assigners that form its windows; empty if the windows are runs of a queue, by eviction and trigger."""
    brings_clock: tuple[bool, ...] = ()
    """For each input, True if its events come with a time that stands for the clock. For a bolt with a key trigger
    these are the times at which the windows before it fired; for a bolt without windows, all times of events."""
    keeps_last_window: bool = False
    """True if its tasks keep the last window of each key, to find expired events. Queues do not need it."""
    ineffective: frozenset[str] = frozenset()
    """Settings without effect on this bolt, all of which a preset has set."""
    passes_time: bool = False
    """For a bolt without windows: True if the rows for an event have the event's time."""

    def copies(self, input_index: int) -> int:
        """Returns the number of tasks to which each event of an input goes."""
        return self.inputs[input_index].copies(self.parallelism)

    @property
    def without_windows(self) -> bool:
        """True if the bolt processes events as they come (decision 114)."""
        return isinstance(self.bolt, StatefulBolt)

    def clock_is_due(self, previous: int | None, current: int | None) -> bool:
        """True if the clock has passed a multiple of the interval of a bolt without windows, which must then be called.
        ``previous`` and ``current``: clocks in microseconds, of the batch before and of this batch; None if there is
        none."""
        every = self.bolt.clock_every if isinstance(self.bolt, StatefulBolt) else None
        if every is None or previous is None or current is None:
            return False
        return current // every.micros > previous // every.micros

    @cached_property
    def by_policies(self) -> bool:
        """True if policies of a user decide about its windows (decision 96)."""
        settings = self.bolt.settings
        if self.assigners or settings.key_trigger is not None:
            return False
        return uses_policy_windows(settings, self.eviction, self.trigger)

    def due_at(self, reference: int) -> int:
        """Returns the earliest frontier at which a window with this end can be due; both in microseconds."""
        if self.assigners:
            return reference
        if self.by_policies or not isinstance(self.trigger, ColumnarTriggerPolicy):
            return shift_time(reference, 1)
        return self.trigger.due_at(reference)

    @cached_property
    def without_queue(self) -> bool:
        """True if its tasks hold events until no window needs them, instead of a queue in order of time."""
        is_held_by_rule = self.bolt.settings.key_trigger is not None or self.by_policies
        return bool(self.assigners) or is_held_by_rule or self.without_windows

    @property
    def can_share_windows(self) -> bool:
        """True if windows of one task can fire at the same time: they are independent runs of a queue of events, and
        the reading tasks have admitted the events."""
        return (
            self.bolt.parallel_windows
            and not self.without_queue
            and not self.admitted_by_tasks
            and self.partial_sums is None
        )

    @cached_property
    def partial_sums(self) -> PartialSums | None:
        """How its events are folded into partial results as they come; None if its windows need the events."""
        return self._partial_sums_with(None)

    @cached_property
    def traced_partial_sums(self) -> PartialSums | None:
        """``partial_sums`` for a traced run: it also keeps the ids of the events of each window, if events have ids."""
        kind = self.schema.field(ID).type if ID in self.schema.names else None
        return self.partial_sums if kind is None else self._partial_sums_with((ID, Gathered(ID, kind)))

    def sums_in_run(self, traced: bool) -> PartialSums | None:
        """Returns the folding of its events in a run; None if events are not folded."""
        return self.traced_partial_sums if traced else self.partial_sums

    def slicing(self, traced: bool) -> SliceSums | None:
        """Returns the folding of its events by slices of time; None if it uses another one."""
        sums = self.sums_in_run(traced)
        return sums if isinstance(sums, SliceSums) else None

    def run_sums(self, traced: bool) -> RunSums | None:
        """Returns the folding of its events by windows of assigners; None if it uses another one."""
        sums = self.sums_in_run(traced)
        return sums if isinstance(sums, RunSums) else None

    def _partial_sums_with(self, extra_aggregate: tuple[str, Accumulator] | None) -> PartialSums | None:
        bolt, streams = self.bolt, len(self.inputs)
        if bolt.settings.message_id_field is not None:
            return None  # sums do not record the ids of events
        if not isinstance(bolt, AggregateBolt) or not bolt.rows_are_declared:
            return None
        assert bolt.bound_aggregates is not None
        if not self.without_queue:
            slices = SliceGrid.of(self.eviction, self.trigger)
            return None if slices is None else SliceSums(bolt.bound_aggregates, slices, streams, extra_aggregate)
        assigner = self._assigner_of_sums
        if assigner is None:
            return None
        return RunSums(bolt.bound_aggregates, assigner, bolt.settings.key, streams, extra_aggregate)

    @property
    def _assigner_of_sums(self) -> SessionWindows | GridWindows | GridsTogether | CountedWindows | None:
        """The assigner whose windows can be joined from partial results; None if its windows need the events."""
        settings = self.bolt.settings
        if self.keeps_last_window:
            return None
        assigner = self.assigners[0] if len(self.assigners) == 1 else None
        if isinstance(assigner, SessionWindows):
            return assigner
        if isinstance(assigner, CountedWindows):
            return assigner if assigner.divides_into_runs else None
        grids = tuple(each for each in self.assigners if isinstance(each, GridWindows))
        if not grids or len(grids) < len(self.assigners) or settings.lifetime is not None:
            return None
        if settings.empty_windows_until is not None:
            return None
        assigner_of_grids = grids[0] if len(grids) == 1 else GridsTogether(grids)
        # A stored row has one flag for having been in a window, not one for each window.
        return assigner_of_grids if settings.panes is None or assigner_of_grids.windows_per_event == 1 else None

    @property
    def takes_events_at_the_watermark(self) -> bool:
        """True if an event exactly at the watermark is always in time, and in windows that have yet to fire."""
        if self.bolt.settings.bounds is not Bounds.START:
            return False
        if not self.assigners:
            if self.by_policies:
                return False
            return isinstance(self.eviction, TimeEvictionPolicy) and isinstance(self.trigger, TimeTriggerPolicy)
        return all(each.takes_events_at_the_watermark for each in self.assigners)

    @cached_property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """For each input, the columns of the key (``with_key``); their names may differ between the sides of a join."""
        bolt = self.bolt
        if isinstance(bolt, TemporalJoin):
            return tuple(bolt.keys_by_stream[name] for name in self.streams)
        return (bolt.settings.key,) * len(self.inputs)

    @property
    def versions_input(self) -> int | None:
        """The input whose events are versions: each ends when the next version of its key begins. None without such an
        input."""
        bolt = self.bolt
        if not isinstance(bolt, TemporalJoin) or not bolt.versions:
            return None
        return self.streams.index(bolt.right)

    @cached_property
    def listed(self) -> tuple[ListedRows, ...] | None:
        """For each task, the keys that the user lists, whose windows fire without events (``with_empty_windows``)."""
        listed = self.bolt.settings.listed_keys
        if listed is None:
            return None
        rows = ListedRows.of(listed, self.bolt.settings.key, self.schema)
        return rows.by_task(self.inputs[0].grouping, self.parallelism)

    @property
    def list_of_keys(self) -> str | None:
        """Digest of the user's list of keys; None if there is no list."""
        listed = self.bolt.settings.listed_keys
        return None if listed is None else listed.digest

    @cached_property
    def streams(self) -> list[str]:
        """The names of its input streams."""
        return [stream_label(each.stream) for each in self.inputs]

    @property
    def follows_clock(self) -> bool:
        """True if its windows may fire as the clock advances, without a new event."""
        settings = self.bolt.settings
        if isinstance(self.bolt, StatefulBolt):
            return self.bolt.clock_every is not None
        if not self.event_time:
            if self.assigners:
                return any(each.ends_by_time for each in self.assigners)
            fires_by_count = isinstance(self.trigger, CountTriggerPolicy) and self.eviction.reach is None
            return self.without_queue or not fires_by_count
        timeouts = settings.idle_timeout or settings.partition_idle_timeout
        fires_early = settings.panes is not None and settings.panes.uses_clock
        return timeouts is not None or settings.estimate_arrival or fires_early

    @cached_property
    def admitted_by_tasks(self) -> bool:
        """True if the bolt's own tasks decide which events are admitted. The reading task cannot decide, because it
        knows only the watermark of the last tick.

        Tasks that hold events always decide; for other tasks, the declarations of the settings (``AdmittedBy``) tell
        who does.
        """
        return self.without_queue or self.bolt.settings.admitted_by_tasks(event_time=self.event_time)

    @cached_property
    def follows_events(self) -> bool:
        """True if its watermark follows events in order of arrival, not only ticks.

        The declarations of the settings tell (``AdmittedBy.FOLLOWING_EVENTS``). Watermarks per key never follow events
        in this sense.
        """
        settings = self.bolt.settings
        return self.event_time and settings.follows_events and not settings.watermark_per_key

    @property
    def admission(self) -> Admission:
        """Rules that decide which events are admitted, and their time.

        Made at each access, since it holds functions, which must not be sent to workers with the node.
        """
        settings = self.bolt.settings
        return Admission(
            late_by=settings.late_by,
            late_action=settings.late_action,
            by_own_mark=settings.late_per_input or settings.watermark_per_key,
            allowed=settings.allowed_lateness.micros if self.event_time else 0,
            closes_after_end=self.closes_after_end,
            last_end=self.last_end,
            holds_start=settings.bounds is Bounds.START and self.sliding_log is None,
            admits_behind_watermark=self.admits_behind_watermark,
        )

    @property
    def admits_behind_watermark(self) -> bool:
        """True if it admits events behind its watermark that are in order on their own input or partition (AZ-4).

        Only for windows that close at times which are known without events. Other windows, such as sessions, would
        change by an event behind the watermark.
        """
        settings = self.bolt.settings
        if not self.event_time or not settings.admits_behind_watermark or settings.lifetime is not None:
            return False
        if self.assigners:
            return all(isinstance(each, GridWindows) for each in self.assigners)
        if self.by_policies:
            return False
        eviction, trigger = self.eviction, self.trigger
        if not isinstance(eviction, TimeEvictionPolicy) or not isinstance(trigger, TimeTriggerPolicy):
            return False
        return trigger.slide.micros >= eviction.length.micros

    def output_time(self, window: TupleWindow) -> int:
        """Returns the time of the rows that a window emits, in microseconds (SI-31)."""
        match self.bolt.settings.output_time:
            case OutputTime.START if window.start_timestamp is not None:
                return window.start_timestamp
            case OutputTime.LAST:
                return window.end_timestamp - 1
        return window.end_timestamp

    def output_times(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns ``output_time`` for several windows with a start and an end."""
        match self.bolt.settings.output_time:
            case OutputTime.START:
                return starts
            case OutputTime.LAST:
                return ends - 1
        return ends

    @property
    def retracts(self) -> bool:
        """True if its windows retract their earlier rows when they fire again."""
        panes = self.bolt.settings.panes
        return panes is not None and panes.mode is PaneMode.RETRACTING

    @property
    def session(self) -> SessionWindows | None:
        """The first of its window kinds that is a session; None without sessions."""
        return next((each for each in self.assigners if isinstance(each, SessionWindows)), None)

    @property
    def sliding_log(self) -> SlidingLogWindows | None:
        """The sliding log, if that is its only kind of window; it includes its end, whatever the bounds. Else None."""
        only = self.assigners[0] if len(self.assigners) == 1 else None
        return only if isinstance(only, SlidingLogWindows) else None

    @cached_property
    def may_get_rows_at_no_time(self) -> bool:
        """True if rows of windows without an end (SI-29) may come to windows of time, which hold none of them."""
        kinds = self.bolt.settings.kinds
        of_time = any(not kind.counts and not kind.of_temporal_join for kind in kinds)
        return self.event_time and of_time and any(self.origins)

    @property
    def reports_silences(self) -> bool:
        """True if it reports silences of keys. An event that comes when a silence is over does not undo it."""
        return any(isinstance(each, LullWindows) for each in self.assigners)

    @cached_property
    def closes_after_end(self) -> bool:
        """True if its windows close only once time is past their end."""
        return closes_after_end(self.bolt.settings, event_time=self.event_time)

    def closed_until_at(self, marks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns, for each watermark or mark of a key, the time up to which windows have closed; in microseconds."""
        return self.admission.closed_until_at(marks)

    @property
    def last_end(self) -> LastEnd | None:
        """The end of the last window that can hold an event; None if that depends on other events."""
        if self.assigners:
            return _latest_end([assigner.last_end for assigner in self.assigners])
        return None if self.by_policies else last_window_end(self.eviction, self.trigger)

    @property
    def needed_until(self) -> LastEnd | None:
        """The time from which no window needs an event; None if that depends on other events."""
        if self.assigners:
            return _latest_end([assigner.needed_until for assigner in self.assigners])
        return self.last_end

    @property
    def lag(self) -> Duration:
        """How far its watermark stays behind the latest event. ``settings.delay`` may also be negative, for a watermark
        ahead of the latest event."""
        return self.bolt.settings.lag or Duration(0)


def _latest_end(ends: Sequence[LastEnd | None]) -> LastEnd | None:
    """Returns the last of several ends; None if one is unknown."""
    known_ends = [each for each in ends if each is not None]
    if len(known_ends) < len(ends):
        return None
    return lambda starts, lasting: np.maximum.reduce([each(starts, lasting) for each in known_ends])


# The graph of a topology: its nodes, and the readers of each stream.


@dataclass(frozen=True, repr=False)
class Graph:
    """Compiled topology: its spouts, bolts and sinks. Immutable, and sent to the workers unchanged."""

    name: str
    spouts: Mapping[str, SpoutNode]
    plain: Mapping[str, PlainNode]
    windowed: Mapping[str, WindowedNode]
    """The windowed bolts; each comes after those it depends on."""
    sinks: Mapping[str, SinkNode]
    stop_on_invalid: bool = False
    readers: Mapping[Stream, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """For each stream, the bolts that read it, with the number of their input."""
    sinks_reading: Mapping[Stream, tuple[str, ...]] = field(default_factory=dict)
    """For each stream, the sinks that take it."""

    def __repr__(self) -> str:
        kinds = {"spouts": self.spouts, "bolts": {**self.plain, **self.windowed}, "sinks": self.sinks}
        parts = "; ".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items() if names)
        return one_line(f"<{type(self).__name__} {self.name!r}: {parts}>")

    def columns_of(self, stream: Stream) -> list[str]:
        """Returns the names of the columns of a stream."""
        component, name = stream
        for parts in (self.spouts, self.plain, self.windowed):
            if component in parts:
                return list(parts[component].outputs[name].names)
        return []

    def spouts_before(self, node: WindowedNode) -> list[list[str]]:
        """Returns, for each input of a windowed bolt, the spouts whose events come to it one by one, through plain
        bolts alone.

        The rows of a ``BatchBolt`` have no known source rows, so partitions are unknown behind it.
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

    @cached_property
    def levels(self) -> list[list[WindowedNode]]:
        """The windowed bolts by level; the first level depends on no other bolt."""
        depth = 1 + max((node.level for node in self.windowed.values()), default=-1)
        return [[node for node in self.windowed.values() if node.level == level] for level in range(depth)]

    @property
    def needs_clock(self) -> bool:
        """True if time must advance on a quiet stream, because a window follows the clock."""
        return any(node.follows_clock for node in self.windowed.values())

    @property
    def needs_heartbeat(self) -> bool:
        """True if batches are needed even without input: windows follow the clock, or a watermark waits for its
        interval."""
        waits = any(node.bolt.settings.watermark_interval.micros for node in self.windowed.values())
        return waits or self.needs_clock
