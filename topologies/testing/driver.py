"""A whole topology, driven step by step by a test: push rows, move time, read results, in memory and without Java."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from types import MethodType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from topologies.engine.batch import BatchPlan, TimeAdvance
from topologies.engine.event_times import can_promise, promise
from topologies.engine.micro_batch import PHASES, MicroBatch, Phase, Rehearsal
from topologies.engine.source_splits import TableSource
from topologies.engine.tasks import pending_events
from topologies.graph.graph import (
    ERRORS,
    LATE_COLUMNS,
    Graph,
    PlainNode,
    SinkNode,
    SpoutNode,
    Stream,
    WindowedNode,
    stream_label,
)
from topologies.io.sinks import MemorySink
from topologies.run.clock import system_clock
from topologies.run.options import check_built
from topologies.testing.given_rows import GivenRows, Moment, as_table, given_moment
from windowing.bolts.aggregate_bolt import AggregateBolt, BoundAggregates
from windowing.bolts.read_code import rebind_to_copy
from windowing.bolts.windowed_bolt import BatchWindowedBolt, numbered_rows
from windowing.calls import checked_value
from windowing.durations import Duration, as_duration
from windowing.errors import ConfigError, SchemaError, did_you_mean
from windowing.schema import DEFAULT_STREAM, Emit, LooseRows, emissions, from_rows
from windowing.settings.rules import LateAction
from windowing.timestamps import FOREVER, show, show_end, to_datetime
from windowing.window import TupleWindow, WindowBatch

if TYPE_CHECKING:
    from windowing.aggregates.accumulators import State
    from windowing.aggregates.declared import RowWindows
    from windowing.bolts.windowed_bolt import WindowedBolt


# The windows in a bolt's calls, and the rows that it emitted for each, recorded while a topology runs in a test.


NamedRows = list[dict[str, Any]]

_SHOWN = 3
"""Most rows of each stream in the repr of a window."""


@dataclass(frozen=True, repr=False)
class FiredWindow:
    """A window that has fired, and the rows that the bolt emitted for it."""

    bolt: str
    """The name of the bolt."""
    start_timestamp: int | None
    """Start in microseconds, as in ``TupleWindow``; None if the length is a count."""
    end_timestamp: int
    """End in microseconds."""
    size: int
    """Number of its events."""
    emitted: dict[str, NamedRows]
    """Rows that the bolt emitted for it, by stream."""
    called_with: TupleWindow | None = None
    """The window itself; None for an AggregateBolt that keeps partial results instead of events."""

    def __repr__(self) -> str:
        start = "" if self.start_timestamp is None else f"{show(self.start_timestamp)} .. "
        end = show_end(self.end_timestamp)
        emitted = {stream: rows for stream, rows in self.emitted.items() if rows}
        parts = [
            f"{'' if stream == DEFAULT_STREAM else f'{stream}: '}{', '.join(map(str, rows[:_SHOWN]))}"
            f"{f', and {len(rows) - _SHOWN} more' if len(rows) > _SHOWN else ''}"
            for stream, rows in emitted.items()
        ]
        emits = f"emitted {'; '.join(parts) or 'nothing'}"
        return f"<FiredWindow of {self.bolt} {start}{end}: {_count_in_words(self.size, 'event')}, {emits}>"

    @property
    def window(self) -> TupleWindow:
        """The window in the bolt's call. Raises ConfigError for an AggregateBolt that is not called with windows."""
        if self.called_with is None:
            raise ConfigError(
                f"the events of a window of {self.bolt!r} are not available",
                why="an AggregateBolt over such windows adds up events as they arrive, and keeps none",
                do="look at its rows, start, end and size",
            )
        return self.called_with

    @property
    def start(self) -> datetime | None:
        """The start in UTC; None if the length is a count."""
        return None if self.start_timestamp is None else to_datetime(self.start_timestamp)

    @property
    def end(self) -> datetime | None:
        """The end in UTC; None if the window has no end."""
        return None if self.end_timestamp == FOREVER else to_datetime(self.end_timestamp)

    @property
    def rows(self) -> NamedRows:
        """The rows that the bolt emitted for the window on its default stream."""
        return self.emitted.get(DEFAULT_STREAM, [])

    @property
    def events(self) -> NamedRows:
        """The events of the window, as dicts. Raises ConfigError if the window keeps no events."""
        return list(self.window.table.to_pylist())

    @property
    def new(self) -> NamedRows:
        """The events that were not in the previous window."""
        return list(self.window.new.to_pylist())

    @property
    def expired(self) -> NamedRows:
        """The events that were only in the previous window. Raises ConfigError if expired events are unknown."""
        return list(self.window.expired.to_pylist())


@dataclass
class Notes:
    """The windows of each batch; if a batch runs again, its earlier windows are replaced."""

    batch: int = -1
    fired: dict[int, list[FiredWindow]] = field(default_factory=dict)

    def begin(self, batch: int) -> None:
        """Called when a batch begins, perhaps again."""
        self.batch = batch
        self.fired[batch] = []

    def forget(self) -> None:
        """Called when the batch has failed."""
        self.fired.pop(self.batch, None)

    def note(self, fired: FiredWindow) -> None:
        """Records a window of the batch."""
        self.fired[self.batch].append(fired)


def recording_node(node: WindowedNode, notes: Notes) -> WindowedNode:
    """Returns a bolt that also records its windows, which are made as in any run."""
    if node.without_windows:
        return node
    bolt, note_window = rebind_to_copy(copy(node.bolt), node.bolt), notes.note
    if node.slicing(traced=False) is not None and isinstance(bolt, AggregateBolt):
        assert bolt.bound_aggregates is not None
        bolt.bound_aggregates = RecordingAggregates.of(bolt.bound_aggregates, node.name, note_window)
    elif isinstance(bolt, BatchWindowedBolt) and type(bolt).execute is BatchWindowedBolt.execute:
        bolt.__dict__["execute_all"] = MethodType(_recording_execute_all(node.name, note_window), bolt)
    else:
        # Bound to this copy, so that copies made by tasks call themselves, not this one.
        bolt.__dict__["execute"] = MethodType(_recording_execute(node.name, note_window), bolt)
    return replace(node, bolt=bolt)


def _recording_execute(
    name: str, note_window: Callable[[FiredWindow], None]
) -> Callable[[WindowedBolt, TupleWindow], Any]:
    def execute(self: WindowedBolt, window: TupleWindow) -> Iterator[Emit]:
        schemas = self.output_schemas()
        returned: list[tuple[str, pa.Table | LooseRows]] = []
        for stream, rows in emissions(type(self).execute(self, window), schemas):
            returned.append((stream, rows))
            yield Emit(rows, stream)
        emitted: dict[str, NamedRows] = {}
        try:
            for stream, rows in returned:
                table = from_rows(rows, schemas[stream]) if isinstance(rows, list) else rows
                emitted.setdefault(stream, []).extend(table.to_pylist())
        except SchemaError:
            return  # the engine reports it, with the place
        start, end = window.start_timestamp, window.end_timestamp
        note_window(FiredWindow(name, start, end, len(window), emitted, window))

    return execute


def _recording_execute_all(
    name: str, note_window: Callable[[FiredWindow], None]
) -> Callable[[BatchWindowedBolt, WindowBatch], Any]:
    def execute_all(self: BatchWindowedBolt, windows: WindowBatch) -> Any:
        returned = type(self).execute_all(self, windows)
        try:
            emitted = numbered_rows(returned, len(windows), self.output_schemas())
        except SchemaError:
            return returned  # the engine reports it, with the place
        by_window: list[dict[str, list[dict[str, Any]]]] = [{DEFAULT_STREAM: []} for _ in windows]
        for stream, table, index in emitted:
            for row, number in zip(table.to_pylist(), index.tolist(), strict=True):
                by_window[number].setdefault(stream, []).append(row)
        for window, rows in zip(windows, by_window, strict=True):
            note_window(FiredWindow(name, window.start_timestamp, window.end_timestamp, len(window), rows, window))
        return returned

    return execute_all


class RecordingAggregates(BoundAggregates):
    """Aggregates of an AggregateBolt that also record their windows."""

    @staticmethod
    def of(aggregates: BoundAggregates, name: str, note: Callable[[FiredWindow], None]) -> RecordingAggregates:
        """Returns aggregates that record their results."""
        recording = RecordingAggregates(aggregates.by, aggregates.aggregates, aggregates.schema)
        recording.__dict__.update(name=name, note=note)
        return recording

    def result(self, keys: Any, states: list[State], windows: RowWindows) -> pa.Table:  # type: ignore[override]
        """Returns the rows of the result, window by window."""
        found = super().result(keys, states, windows)
        spans = np.stack([windows.starts, windows.ends], axis=1)
        edges = np.flatnonzero((spans[1:] != spans[:-1]).any(axis=1)) + 1
        bounds = [0, *edges.tolist(), len(spans)] if len(spans) else []
        for low, high in pairwise(bounds):
            rows = found.slice(low, high - low).to_pylist()
            start, end = spans[low].tolist()
            size = int(windows.events[low:high].sum())
            self.__dict__["note"](FiredWindow(self.__dict__["name"], start, end, size, {DEFAULT_STREAM: rows}))
        return found


def _count_in_words(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# A topology under observation by a test, with sinks in memory, including one for each stream.


LATE = "late"
"""Stream for the late events of a bolt without a late stream of its own."""
WATCHER = "stream "
"""Prefix of the names of observing sinks; no part of a topology may have a space in its name."""


def with_memory_sinks(topology: Graph, notes: Notes, streams: dict[str, MemorySink]) -> Graph:
    """Returns the topology with sinks in memory for all its sinks and streams; it records its windows."""
    windowed = {name: recording_node(_with_late(node), notes) for name, node in topology.windowed.items()}
    parts: dict[str, SpoutNode | PlainNode | WindowedNode] = {**topology.spouts, **topology.plain, **windowed}
    sinks, sinks_reading = {}, {stream: list(names) for stream, names in topology.sinks_reading.items()}
    for name, node in topology.sinks.items():
        streams[name] = MemorySink()
        sinks[name] = replace(node, sink=streams[name])
    for component, each in parts.items():
        for stream, schema in each.outputs.items():
            component_stream: Stream = (component, stream)
            label = stream_label(component_stream)
            streams.setdefault(label, MemorySink())
            sinks[WATCHER + label] = SinkNode(WATCHER + label, streams[label], (component_stream,), schema)
            sinks_reading.setdefault(component_stream, []).append(WATCHER + label)
    return replace(
        topology,
        windowed=windowed,
        sinks=sinks,
        sinks_reading={stream: tuple(names) for stream, names in sinks_reading.items()},
    )


def _with_late(node: WindowedNode) -> WindowedNode:
    """Returns the bolt with a stream of late events, if it would otherwise lose them."""
    settings = node.bolt.settings
    if not node.event_time or settings.late_stream is not None or settings.late_action is not LateAction.DIVERT:
        return node
    stream = LATE if LATE not in node.outputs else f"_{LATE}"
    added = [field.name for field in LATE_COLUMNS]
    columns = [field for field in node.schema if field.name not in added]
    outputs = {**node.outputs, stream: pa.schema([*columns, *LATE_COLUMNS])}
    return replace(node, bolt=node.bolt.configured(replace(settings, late_stream=stream)), outputs=outputs)


# A whole topology, driven step by step by a test, in memory and without Java.


class TopologyDriver:
    """Runs a topology in a test: pushed rows go through the engine's micro-batches at once.

    Its sinks are replaced by memory, and its spouts by pushed rows; nothing is read or written elsewhere, and no
    function of a sink is called. Each call of ``push``, ``advance_clock``, ``advance_watermark`` and ``close`` is one
    micro-batch: rows come in, watermarks move, due windows fire. The call raises the error of a bolt, and then the
    batch has no effect.

    ``clock``: the start of the clock, which then only the test moves. Without it, the time is the machine's (or
    freezegun's, if it is active) when a batch begins, plus the time by which the test has advanced the clock.
    """

    __test__ = False

    @checked_value
    def __init__(self, topology: Graph, *, clock: Moment | None = None) -> None:
        check_built("TopologyDriver", topology)
        self._notes = Notes()
        self._streams: dict[str, MemorySink] = {}
        self.topology = with_memory_sinks(topology, self._notes, self._streams)
        """The topology that runs, with sinks in memory."""
        self._run = Rehearsal(self.topology)
        self._test_clock = None if clock is None else given_moment("clock", clock)
        """The clock, if only the test moves it."""
        self._clock_advance = 0
        """Microseconds by which the test has advanced the machine's clock."""
        self._last_clock: int | None = None
        """The clock of the last batch."""
        self._pushed = dict.fromkeys(topology.spouts, 0)
        self._rows_read: dict[str, int] = {}
        self._windows_read: dict[str, int] = {}
        self._crash_at: Phase | None = None
        self._closed = False

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<TopologyDriver of {self.topology.name!r}: {self._batch} micro-batches, {show(self._now())}{state}>"

    # -- inputs

    @checked_value
    def push(self, spout: str, rows: GivenRows, *, clock: Moment | None = None) -> None:
        """Pushes rows into a spout, in a micro-batch of their own; ``clock``: moves the clock there first.

        Rows are dicts or tuples, a DataFrame or an Arrow table, with the columns of the spout; a row without a time is
        ``invalid``, as in any run. Raises ConfigError for an unknown spout, a clock that goes back and rows after the
        end; raises SchemaError for columns and values that do not fit.
        """
        self.push_together({spout: rows}, clock=clock)

    @checked_value
    def push_together(self, rows: Mapping[str, GivenRows], *, clock: Moment | None = None) -> None:
        """Pushes rows into several spouts in one micro-batch, in the order in which the spouts were declared."""
        if not isinstance(rows, Mapping):
            raise ConfigError(
                f"push_together({rows!r:.60})", do="give the rows of each spout by its name: {name: rows}"
            )
        self._check_open("rows")
        found: dict[str, pa.Table] = {}
        for name, each in rows.items():
            if name not in self.topology.spouts:
                _unknown("spout", name, self.topology.spouts)
            schema = self.topology.spouts[name].outputs[DEFAULT_STREAM]
            found[name] = as_table(f"rows for spout {name!r}", each, schema)
        order = [name for name in self.topology.spouts if name in found]
        sources = [TableSource(name, found[name], self._pushed[name]) for name in order]
        self._run_batch(sources, self._new_clock("clock", clock), clock_given=clock is not None)
        for name in order:
            self._pushed[name] += found[name].num_rows

    @checked_value
    def advance_clock(self, by: Duration | timedelta | str | None = None, *, to: Moment | None = None) -> None:
        """Advances the clock by a duration (``"5s"``) or to a time, in a micro-batch without rows."""
        self._check_open("the clock")
        if (by is None) == (to is None):
            raise ConfigError(
                "advance_clock takes either a duration or to=", do="write advance_clock('5s'), or advance_clock(to=...)"
            )
        if by is not None:
            self._run_batch([], self._now() + as_duration(by).micros)
        else:
            self._run_batch([], self._new_clock("to", to), clock_given=True)

    @checked_value
    def advance_watermark(self, to: Moment, *, bolt: str | None = None) -> None:
        """Makes the spouts promise that no event before this time will come, in a micro-batch without rows.

        The watermarks of all bolts that read spouts move there, or only that of ``bolt``; those of the bolts behind
        follow. Raises ConfigError if there is no such watermark: in processing time, for a bolt with a watermark for
        each key, and for a bolt that only reads other windowed bolts. Also raises ConfigError if the watermark is
        already there.
        """
        self._check_open("the watermark")
        moment = given_moment("to", to)
        movable = [name for name, node in self.topology.windowed.items() if can_promise(node)]
        if bolt is not None:
            self._node(bolt)
        chosen = movable if bolt is None else [bolt]
        if not movable or not set(chosen) <= set(movable):
            raise ConfigError(
                f"the watermark of {bolt!r} cannot be moved" if bolt else "there is no watermark to move",
                why="a bolt in processing time has none, with per_key=True each key has its own, and a bolt behind "
                "windowed bolts inherits theirs",
                do=f"name one of {', '.join(movable)}" if movable else "push rows, or advance the clock",
            )
        bolts = self._run.micro_batch.manifest.bolts
        current = [bolts[name].watermark.current for name in chosen]
        if all(each is not None and each >= moment for each in current):
            is_there = all(each == moment for each in current)
            raise ConfigError(
                f"the watermark is at {show(moment)} already"
                if is_there
                else f"the watermark goes back to {show(moment)}",
                why=f"it is at {', '.join(show(each) for each in current)}, and time only moves forward",
                do="give a later time",
            )
        self._run_batch([], self._now(), promised=(chosen, moment))

    @checked_value
    def crash(self, at: Phase = "commit") -> None:
        """Makes the next micro-batch crash as this phase begins: everything in memory is lost, and the batch runs again
        unchanged.

        The phases are, in order, ``ingest``, ``tick``, ``fire``, ``compact``, ``sinks``, ``commit`` and ``committed``
        (``windbolt.testing.PHASES``; their type is ``Phase``). The output must not change: that is the meaning of
        exactly once.
        """
        self._check_open("a crash")
        if at not in PHASES:
            _unknown("phase", at, PHASES)
        if at in ("tick", "fire") and not self.topology.windowed:
            raise ConfigError(
                f"crash({at!r})", why="without windowed bolts there is no such phase", do="name another phase"
            )
        self._crash_at = at

    @checked_value
    def close(self) -> None:
        """Ends the streams: open windows fire, and no more rows can be pushed."""
        self._check_open("the end")
        self._run_batch([], self._now(), close=True)
        self._closed = True

    # -- results

    @checked_value
    def read(self, name: str) -> list[dict[str, Any]]:
        """Returns the rows that a sink got, or that came on a stream, since the last ``read``, as dicts.

        A stream has the name of its spout or bolt, ``"revenue"``, or that name with its own, ``"revenue.late"``.
        Unreadable rows are on ``"orders.errors"``, and again on the errors of each bolt that would have received them.
        """
        found = self.table(name)
        before = self._rows_read.get(name, 0)
        self._rows_read[name] = found.num_rows
        return list(found.slice(before).to_pylist())

    @checked_value
    def table(self, name: str) -> pa.Table:
        """Returns all rows that a sink got, or that came on a stream, from the beginning."""
        if name not in self._streams:
            _unknown("sink or stream", name, self._streams)
        found = self._streams[name].table
        sinks = self.topology.sinks
        return sinks[name if name in sinks else WATCHER + name].schema.empty_table() if found is None else found

    @checked_value
    def late(self, bolt: str) -> list[dict[str, Any]]:
        """Returns the late events of a bolt since the last call, with ``_reason``, ``_watermark`` and further
        columns."""
        node = self._node(bolt)
        stream = node.bolt.settings.late_stream
        return [] if stream is None else self.read(f"{bolt}.{stream}")

    @checked_value
    def windows(self, bolt: str) -> list[FiredWindow]:
        """Returns the windows of a bolt that have fired since the last call, with the emitted rows of each."""
        self._node(bolt)
        fired = [each for batch in sorted(self._notes.fired) for each in self._notes.fired[batch] if each.bolt == bolt]
        before = self._windows_read.get(bolt, 0)
        self._windows_read[bolt] = len(fired)
        return fired[before:]

    @checked_value
    def accounts(self, bolt: str) -> dict[str, int]:
        """Returns the accounts of a bolt's events: ``received`` is the sum of the others, except for ``adjusted`` and
        ``truncated``, which are separate counts."""
        self._node(bolt)
        state = self._run.micro_batch.manifest.bolts[bolt]
        return state.accounts.totals(sum(state.pending))

    @checked_value
    def counters(self, bolt: str) -> dict[str, int]:
        """Returns a bolt's own counts (``context.counters``)."""
        self._node(bolt)
        return dict(self._run.micro_batch.manifest.bolts[bolt].totals.counters)

    @checked_value
    def pending(self, bolt: str) -> list[dict[str, Any]]:
        """Returns the events of a bolt that are in no window yet, and may still be in one.

        Raises ConfigError for an AggregateBolt that keeps partial results instead of events.
        """
        node = self._node(bolt)
        if node.partial_sums is not None:
            raise ConfigError(
                f"the pending events of {bolt!r} are not available",
                why="an AggregateBolt over such windows adds up events as they arrive, and keeps none",
                do=f"accounts({bolt!r})['pending'] says how many there are",
            )
        found: list[dict[str, Any]] = []
        for task, state in enumerate(self._run.micro_batch.manifest.bolts[bolt].tasks):
            for events in pending_events(self._run.checkpoint.segments, node, task, state):
                found.extend(events.select(node.schema.names).to_pylist())
        return found

    @checked_value
    def watermark(self, bolt: str) -> datetime | None:
        """Returns the watermark of a bolt in UTC; None before the first, and in processing time."""
        node = self._node(bolt)
        at = self._run.micro_batch.manifest.bolts[bolt].watermark.current if node.event_time else None
        return None if at is None else to_datetime(at)

    @property
    def clock(self) -> datetime:
        """The clock in UTC."""
        return to_datetime(self._now())

    @checked_value
    def story(self) -> str:
        """Describes the present state in a few lines, for a failed test."""
        lines = [repr(self)]
        for name in self.topology.windowed:
            accounts = {account: number for account, number in self.accounts(name).items() if number}
            shown = ", ".join(f"{number} {account}" for account, number in accounts.items()) or "nothing received"
            at = self.watermark(name)
            mark = (
                ""
                if at is None
                else f", watermark {show(self._run.micro_batch.manifest.bolts[name].watermark.current)}"
            )
            lines.append(f"{name}: {shown}{mark}")
            fired = [each for batch in self._notes.fired.values() for each in batch if each.bolt == name]
            lines += [f"  {each!r}" for each in fired[-_MOST:]]
        for name in (name for name in self.topology.sinks if not name.startswith(WATCHER)):
            rows = self.table(name)
            lines.append(f"{name}: {rows.num_rows} row{'' if rows.num_rows == 1 else 's'}")
            lines += [f"  {row}" for row in rows.slice(max(rows.num_rows - _MOST, 0)).to_pylist()]
        return "\n".join(lines)

    # -- internals

    @property
    def _batch(self) -> int:
        """The number of the next batch."""
        return self._run.micro_batch.manifest.batch + 1

    def _now(self) -> int:
        now = system_clock() + self._clock_advance if self._test_clock is None else self._test_clock
        return now if self._last_clock is None else max(now, self._last_clock)

    def _new_clock(self, what: str, to: Moment | None) -> int:
        """Returns the time to which the clock moves; before the first batch its start may still be changed."""
        now = self._now()
        if to is None:
            return now
        moment = given_moment(what, to)
        if moment < now and (self._test_clock is not None or self._last_clock is not None):
            raise ConfigError(
                f"{what}={to!r}: the clock goes back, from {show(now)} to {show(moment)}",
                why="time only moves forward",
                do="give a later time; the clock's start is set by TopologyDriver(topology, clock=...)",
            )
        return moment

    def _run_batch(
        self,
        sources: Sequence[TableSource],
        clock: int,
        *,
        clock_given: bool = False,
        close: bool = False,
        promised: tuple[list[str], int] | None = None,
    ) -> None:
        number, crash_at, self._crash_at = self._batch, self._crash_at, None

        def begin(micro_batch: MicroBatch) -> None:
            self._notes.begin(number)
            if promised is not None:
                promise(self.topology, micro_batch.manifest, *promised)

        plan = BatchPlan(number, TimeAdvance(clock, close=close), sources, run=self._run.micro_batch.run_id)
        try:
            self._run.run(plan, crash_at=crash_at, before=begin)
        except BaseException:
            self._notes.forget()
            raise
        if self._test_clock is not None or (self._last_clock is None and clock_given):
            self._test_clock = clock  # once set, the clock is the test's
        else:
            self._clock_advance += max(clock - self._now(), 0)
        self._last_clock = clock

    def _check_open(self, what: str) -> None:
        if self._closed:
            raise ConfigError(
                f"{what} after the end of the streams",
                why="close() ended them, and their last windows have fired",
                do="call close() last, or make another driver",
            )

    def _node(self, bolt: str) -> WindowedNode:
        if bolt not in self.topology.windowed:
            if bolt in self.topology.plain:
                raise ConfigError(
                    f"bolt {bolt!r} has no windows",
                    why="it processes rows as they arrive",
                    do=f"look at what it emits: read({bolt!r})",
                )
            _unknown("windowed bolt", bolt, self.topology.windowed)
        return self.topology.windowed[bolt]


_MOST = 5
"""Most windows, and most rows of each sink, in the description for a failed test; the last are shown."""


def _unknown(what: str, name: object, names: Any) -> NoReturn:
    known = [each for each in names if not str(each).endswith(f".{ERRORS}")]
    raise ConfigError(
        f"there is no {what} {name!r}",
        why=f"there are {', '.join(known) or 'none'}{did_you_mean(str(name), names)}",
        do="correct the name",
    )
