"""Where emitted rows go: through plain bolts, to the queues of windowed bolts, into sinks.

One fanout belongs to one task. It writes one segment, with a section for every task that it has rows for.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from manager.held import Held
from manager.segments import SegmentWriter, write_events
from manager.taking import taken
from policies.admission import Action, timely
from policies.lateness import BEHIND, WINDOW_OVER
from topologies.engine.admission import admit, conform_input, late_rows
from topologies.engine.arriving import Arriving, note, timed
from topologies.engine.arriving import write as write_arriving
from topologies.engine.failures import bolt_failure
from topologies.engine.plan import Context, Output
from topologies.engine.trace import TRACES, event_ids
from topologies.formats import write_table
from topologies.formats.bad import python_columns, row_as_json
from topologies.groupings import AllGrouping
from topologies.model import ERROR_SCHEMA, ERRORS, REASON, PlainPart, Stream, WindowedPart, stream_label
from topologies.places import locate
from topologies.sinks import DiscardSink, FileSink
from windowing.bolt import BatchBolt, Bolt, TaskContext
from windowing.errors import DataError
from windowing.events import Events
from windowing.order import is_sorted, stable_order
from windowing.rows import tables
from windowing.timestamps import FOREVER
from windowing.tuples import Tuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COMPLAINTS = 5
"""So many of the rows that cannot be read are shown in the log, per task and batch; all are on the error streams."""

Out = TypeVar("Out", bound=Output)


@dataclass(frozen=True)
class Rows:
    """Rows on a stream: their times in microseconds where the stream has them, and their places in the source."""

    table: pa.Table
    times: NDArray[np.int64] | None
    positions: NDArray[np.int64]
    placed: bool = True
    """Whether the places are known, and not only counted since a BatchBolt."""

    def take(self, at: NDArray[np.int64]) -> Rows:
        """The rows at these places."""
        times = None if self.times is None else self.times[at]
        return Rows(taken(self.table, at), times, self.positions[at], self.placed)

    def shifted(self, by: int) -> Rows:
        """The rows so many microseconds later; the end of time stays where it is (SI-25)."""
        if self.times is None:
            return self
        times = np.where(self.times == FOREVER, FOREVER, self.times + by)
        return Rows(self.table, times, self.positions, self.placed)


@dataclass
class _Arrivals:
    """What has come for one windowed bolt, part by part, in order of arrival."""

    tables: list[pa.Table]
    times: list[NDArray[np.int64]]
    codes: list[NDArray[np.int8]]
    tasks: list[NDArray[np.int64]]
    """Of no events, where these are added up first: the task then follows from the key."""


class Fanout:
    """Takes what one task emits and brings it to whoever reads it."""

    def __init__(self, context: Context) -> None:
        self.context, self.topology = context, context.topology
        self._clock = context.clock
        self._arriving: dict[str, Arriving] = {}
        self._arrivals_at: dict[str, int] = {}
        self._heard: dict[str, int] = {}
        self._began: dict[str, int] = {}
        self.turn = 0
        """Where a shuffle begins, for the rows that are being emitted."""
        self._arrivals: dict[str, _Arrivals] = {}
        self._for_sinks: dict[str, list[pa.Table]] = {}
        self._bolts: dict[tuple[str, int], Bolt | BatchBolt] = {}
        self._counts: dict[str, dict[str, NDArray[np.int64]]] = {}
        self._latest: dict[str, dict[str, int]] = {}
        self._skew: dict[str, dict[str, int]] = {}
        self._traced: dict[str, list[dict[str, Any]]] = {}
        self._complaints: list[str] = []

    def trace(self, kind: str, row: dict[str, Any]) -> None:
        """Note something for whoever watches the run, if somebody does."""
        if self.context.traced:
            self._traced.setdefault(kind, []).append(row)

    def emit(self, stream: Stream, rows: Rows, clock: int | None = None) -> None:
        """Bring rows of a stream to its sinks and bolts; the clock at their arrival if it is not the batch's."""
        if not rows.table.num_rows:
            return
        if clock is not None:
            self._clock = clock
        for sink in self.topology.takers.get(stream, ()):
            self._for_sinks.setdefault(sink, []).append(rows.table)
        for name, at in self.topology.readers.get(stream, ()):
            if name in self.topology.windowed:
                self._arrive(self.topology.windowed[name], at, rows)
            else:
                self._run(self.topology.plain[name], at, rows)

    def refuse(self, component: str, source: str, bad: pa.Table) -> None:
        """Account for rows that could not be read, at every bolt that they would have reached."""
        if not len(bad):
            return
        self._complain(component, source, bad.column("_reason")[0].as_py())
        self._error_rows(component, bad)
        for name, at in sorted(self._reached(component)):
            bolt = self.topology.windowed.get(name)
            if bolt is not None:
                copies = self._copies(bolt, at)
                self._count(bolt, at, "received", len(bad) * copies)
                self._count(bolt, at, "invalid", len(bad) * copies)
            self._error_rows(name, bad)

    def finish(self, output: Out) -> Out:
        """Write everything that has come, and say where it lies."""
        writer = self.context.store.writer(self.context.folder)
        try:
            for name, arrivals in self._arrivals.items():
                part = self.topology.windowed[name]
                for task, events in self._shared_out(part, arrivals):
                    output.queued.append((name, task, write_events(writer, events, len(part.inputs))))
            for name, arriving in self._arriving.items():
                sections, door = write_arriving(arriving, self.topology.windowed[name], writer)
                output.arrived.extend((name, task, ref) for task, ref in sections)
                output.doors[name] = (arriving.count, door)
            output.arrivals, output.heard, output.began = self._arrivals_at, self._heard, self._began
            for name, parts in self._for_sinks.items():
                self._serve(name, pa.concat_tables(parts), writer, output)
            for name, rows in self._traced.items():
                output.traced.append((name, writer.add(pa.Table.from_pylist(rows, schema=TRACES[name]))))
        finally:
            writer.close()
        output.counts = {
            bolt: {account: counts.tolist() for account, counts in accounts.items()}
            for bolt, accounts in self._counts.items()
        }
        output.latest, output.skew, output.complaints = self._latest, self._skew, self._complaints
        return output

    def _shared_out(self, part: WindowedPart, arrivals: _Arrivals) -> Iterator[tuple[int, Events]]:
        """The events of each task, in order of time, those of equal time in order of arrival."""
        events = _in_one(arrivals, len(part.inputs))
        slicing = part.summed(self.context.traced)
        if slicing is None:
            yield from _by_task(events, arrivals.tasks, part.parallelism)
            return
        with bolt_failure(part.name, self.context.batch, "in adding up events"):
            folded = slicing.fold(events)
        grouping = part.inputs[0].grouping
        tasks = np.zeros(len(folded), np.int64)
        if part.parallelism > 1 and not isinstance(grouping, AllGrouping):
            tasks = grouping.tasks(slicing.keys_of(folded), None, part.parallelism)
        yield from _by_task(folded, [tasks], part.parallelism)

    def _serve(self, name: str, table: pa.Table, writer: SegmentWriter, output: Output) -> None:
        match self.topology.sinks[name].sink:
            case DiscardSink():
                pass
            case FileSink() as sink:
                output.files.append((name, self._write_file(sink, table)))
            case _:
                output.for_sinks.append((name, writer.add(table)))

    def _write_file(self, sink: FileSink, table: pa.Table) -> str:
        filesystem, folder, _ = locate(sink.path)
        path = f"{folder}/.{self.context.key}-{uuid.uuid4().hex}.{sink.format.name}"
        write_table(filesystem, path, table, sink.format)
        return path

    def count_all(self, part: WindowedPart, account: str, inputs: NDArray[np.int8], which: NDArray[np.bool_]) -> None:
        """Put those of some events that are chosen into an account."""
        if which.any():
            self._counter(part, account)[:] += np.bincount(inputs[which], minlength=len(part.inputs))

    def refuse_events(self, part: WindowedPart, events: Held, refused: list[tuple[int, str]]) -> None:
        """Account for events on which the rule of a trigger failed; they are in no window."""
        places = np.array([place for place, _ in refused], np.int64)
        inputs = np.zeros(len(events), np.int8) if events.streams is None else events.streams
        self.count_all(part, "invalid", inputs, np.isin(np.arange(len(events)), places))
        reasons = [reason for _, reason in refused]
        stream = part.bolt.settings.refused_stream
        if stream is not None:
            rows = taken(events.payload, places).append_column(REASON, pa.array(reasons, pa.string()))
            self._complain(part.name, stream, reasons[0])
            self.emit((part.name, stream), Rows(rows, None, np.arange(len(places))))
            return
        for at in np.unique(inputs[places]).tolist():
            mine = inputs[places] == at
            label, why = part.streams[at], [reason for reason, here in zip(reasons, mine, strict=True) if here]
            self._complain(part.name, label, why[0])
            table = taken(events.payload, places[mine])
            self._error_rows(part.name, _bad(part.name, label, table, None, why))

    def refuse_edges(self, part: WindowedPart, rows: pa.Table, inputs: NDArray[np.int8]) -> None:
        """Account for ends of edges that fit no start."""
        reason = "the end of an edge, and no open start edge has its start and key (SI-3)"
        for at in np.unique(inputs).tolist():
            mine = Rows(rows, None, np.arange(rows.num_rows))
            places = np.flatnonzero(inputs == at)
            self._invalid(part, at, mine, places, np.full(rows.num_rows, reason, dtype=object), 1)

    def emit_late(self, part: WindowedPart, table: pa.Table, positions: NDArray[np.int64]) -> None:
        """Bring events that were turned away to the late stream."""
        assert part.bolt.settings.late_stream is not None
        self.emit((part.name, part.bolt.settings.late_stream), Rows(table, None, positions))

    def _defer(self, part: WindowedPart, at: int, rows: Rows) -> None:
        """Events on their way to tasks that decide themselves who is let in."""
        copies = self._copies(part, at)
        with bolt_failure(part.name, self.context.batch, "in giving events their times"):
            found = timed(part, at, rows.table, rows.times, self._clock)
        wrong = np.flatnonzero(found.reasons != "")
        if len(wrong):
            self._count(part, at, "received", len(wrong) * copies)
            self._invalid(part, at, rows, wrong, found.reasons, copies)
            found.actions[wrong] = Action.INVALID
        self._heard[part.name] = self._clock
        self._began.setdefault(part.name, self._clock)
        if found.arrived is not None:
            self._arrivals_at[part.name] = max(found.arrived, self._arrivals_at.get(part.name, found.arrived))
        if part.event_time and not part.origins[at]:
            seen = found.times[timely(found.actions)]
            if len(seen):
                _raise(self._latest, part, at, int(seen.max()))
        elif part.event_time and not part.carried[at] and rows.times is not None:
            good = found.actions != Action.INVALID
            if good.any():
                _raise(self._skew, part, at, int((rows.times - found.times)[good].max()))
        arriving = self._arriving.setdefault(part.name, Arriving())
        note(arriving, part, at, rows.table, found, self._tasks(part, at, rows))

    def _arrive(self, part: WindowedPart, at: int, rows: Rows) -> None:
        """Events at the door of a windowed bolt."""
        rows = self._needed(part, at, rows)
        if not rows.table.num_rows:
            return
        if part.deferred:
            self._defer(part, at, rows)
        else:
            self._admit(part, at, rows)

    def _admit(self, part: WindowedPart, at: int, rows: Rows) -> None:
        """Events whose fate is known at once: they are let in, or turned away."""
        copies = self._copies(part, at)
        watermark = self.context.watermarks[part.name]
        with bolt_failure(part.name, self.context.batch, "in giving events their times"):
            admitted = admit(part, at, rows.table, rows.times, self._clock, watermark)
        self._count(part, at, "received", rows.table.num_rows * copies)
        if admitted.latest is not None and not part.origins[at]:
            _raise(self._latest, part, at, admitted.latest)
        elif admitted.latest is not None and not part.carried[at] and rows.times is not None:
            good = slice(None) if admitted.reasons is None else admitted.reasons == ""
            _raise(self._skew, part, at, int((rows.times - admitted.times)[good].max()))
        if admitted.reasons is not None:
            self._invalid(part, at, rows, admitted.invalid, admitted.reasons, copies)
        if len(admitted.late):
            self._late(part, at, rows, admitted, copies)
        if len(admitted.gap):
            self._count(part, at, "unwindowed", len(admitted.gap) * copies)
        queued = Rows(rows.table, admitted.times, rows.positions, rows.placed)
        if admitted.queued is not None:
            queued = queued.take(admitted.queued)
        if not queued.table.num_rows:
            return
        assert queued.times is not None
        table = conform_input(queued.table, part.schema)
        if part.slicing is not None:
            self._queue(part, at, table, queued.times, np.zeros(0, np.int64))
            return
        tasks = self._tasks(part, at, queued)
        if tasks is not None:
            self._queue(part, at, table, queued.times, tasks)
            return
        for task in range(copies):
            self._queue(part, at, table, queued.times, np.full(len(queued.times), task, np.int64))

    def _tasks(self, part: WindowedPart, at: int, rows: Rows) -> NDArray[np.int64] | None:
        """The task that each row goes to; None: every row goes to every task."""
        grouping = part.inputs[at].grouping
        if isinstance(grouping, AllGrouping):
            return None
        if part.parallelism == 1:
            return np.zeros(rows.table.num_rows, np.int64)
        places = rows.positions + self.turn if rows.placed else None
        return grouping.tasks(rows.table, places, part.parallelism)

    def _needed(self, part: WindowedPart, at: int, rows: Rows) -> Rows:
        """Without the events that are older than what the first output needs; that they were skipped is counted."""
        first = self.context.first
        if first is None:
            return rows
        with bolt_failure(part.name, self.context.batch, "in giving events their times"):
            older = first.older(part, at, rows.table, self._clock)
        if not older.any():
            return rows
        self._count(part, at, "skipped", int(np.count_nonzero(older)) * self._copies(part, at))
        return rows.take(np.flatnonzero(~older))

    def _queue(
        self, part: WindowedPart, at: int, table: pa.Table, times: NDArray[np.int64], tasks: NDArray[np.int64]
    ) -> None:
        arrivals = self._arrivals.setdefault(part.name, _Arrivals([], [], [], []))
        arrivals.tables.append(table)
        arrivals.times.append(times)
        arrivals.codes.append(np.full(len(times), at, np.int8))
        arrivals.tasks.append(tasks)

    def _late(self, part: WindowedPart, at: int, rows: Rows, admitted: Any, copies: int) -> None:
        self._count(part, at, "late", len(admitted.late) * copies)
        self._count(part, at, "out_of_order", len(admitted.late) * copies)
        if self.context.traced:
            for name in event_ids(taken(rows.table, admitted.late)):
                self.trace("late", {"bolt": part.name, "event": name})
        stream = part.bolt.settings.late_stream
        if stream is None:
            return
        watermark = self.context.watermarks[part.name]
        assert watermark is not None
        times = admitted.times[admitted.late]
        reasons = np.where(times < watermark, BEHIND, WINDOW_OVER).tolist()
        inputs, marks = np.full(len(times), at, np.int8), np.full(len(times), watermark, np.int64)
        turned = taken(rows.table, admitted.late)
        table = late_rows(part, turned, inputs, times, reasons, watermark - times, marks)
        late = Rows(table, None, rows.positions[admitted.late], rows.placed)
        for _ in range(copies):
            self.emit((part.name, stream), late)

    def _invalid(
        self, part: WindowedPart, at: int, rows: Rows, places: NDArray[np.int64], reasons: Any, copies: int
    ) -> None:
        self._count(part, at, "invalid", len(places) * copies)
        label = part.streams[at]
        self._complain(part.name, label, f"row {rows.positions[places[0]]}: {reasons[places[0]]}")
        wrong = taken(rows.table, places)
        bad = _bad(part.name, label, wrong, rows.positions[places], reasons[places].tolist())
        for _ in range(copies):
            self._error_rows(part.name, bad)

    def _complain(self, component: str, source: str, reason: str) -> None:
        text = f"{component}: {source}: {reason}"
        if self.topology.stop_on_invalid:
            raise DataError(
                text,
                why="the topology stops on input that cannot be read (on_invalid='stop')",
                do="mend the input, or let it go to the error stream (on_invalid='divert')",
            )
        if len(self._complaints) < _COMPLAINTS:
            self._complaints.append(text)

    def _error_rows(self, component: str, bad: pa.Table) -> None:
        named = bad.set_column(0, ERROR_SCHEMA.field(0), pa.array([component] * len(bad), pa.string()))
        self.emit((component, ERRORS), Rows(named, None, np.arange(len(bad))))

    def _reached(self, component: str, besides: str | None = None) -> set[tuple[str, int]]:
        """The bolts, and their inputs, that rows of a spout or plain bolt reach before any window.

        ``besides``: a stream of it that is passed over.
        """
        reached: set[tuple[str, int]] = set()
        waiting = [component]
        while waiting:
            source = waiting.pop()
            for (name, stream), readers in self.topology.readers.items():
                if name != source or stream == ERRORS or (source == component and stream == besides):
                    continue
                for reader in readers:
                    if reader not in reached:
                        reached.add(reader)
                        waiting.extend([reader[0]] if reader[0] in self.topology.plain else [])
        return reached

    def _run(self, part: PlainPart, at: int, rows: Rows) -> None:
        """Give rows to a plain bolt, and what it emits to those who read it."""
        copies = part.parallelism if isinstance(part.inputs[at].grouping, AllGrouping) else 1
        for task in range(copies):
            bolt = self._bolt(part, task)
            emitted = (
                self._tuple_by_tuple(part, bolt, at, rows)
                if isinstance(bolt, Bolt)
                else self._batch_by_batch(part, bolt, rows)
            )
            for stream, out in emitted:
                if stream == bolt.refused_stream:
                    self._count_refused(part, out.table.num_rows)
                self.emit((part.name, stream), out.shifted(part.shift) if part.shift else out)

    def _count_refused(self, part: PlainPart, rows: int) -> None:
        """Rows that a plain bolt could not read are invalid at the windowed bolts that they would have reached."""
        for name, at in self._reached(part.name, besides=part.bolt.refused_stream):
            bolt = self.topology.windowed.get(name)
            if bolt is not None:
                copies = self._copies(bolt, at)
                self._count(bolt, at, "received", rows * copies)
                self._count(bolt, at, "invalid", rows * copies)

    def _tuple_by_tuple(self, part: PlainPart, bolt: Bolt, at: int, rows: Rows) -> Iterator[tuple[str, Rows]]:
        label = stream_label(part.inputs[at].stream)
        gathered: dict[str, tuple[list[pa.Table], list[int]]] = {}
        times = np.full(len(rows.positions), self._clock) if rows.times is None else rows.times
        for place, row in enumerate(rows.table.to_pylist()):
            with bolt_failure(part.name, self.context.batch, f"on row {rows.positions[place]} of {label!r}"):
                for stream, table in tables(bolt.execute(Tuple(row, int(times[place]), label)), part.outputs):
                    found = gathered.setdefault(stream, ([], []))
                    found[0].append(table)
                    found[1].extend([place] * table.num_rows)
        for stream, (found_tables, places) in gathered.items():
            where = np.array(places, np.int64)
            kept = None if rows.times is None or not part.carries_time else rows.times[where]
            yield stream, Rows(pa.concat_tables(found_tables), kept, rows.positions[where], rows.placed)

    def _batch_by_batch(self, part: PlainPart, bolt: BatchBolt, rows: Rows) -> Iterator[tuple[str, Rows]]:
        """Rows of one time at a time, where they have one, so that what is emitted has it too."""
        edges = [0, rows.table.num_rows]
        if rows.times is not None and part.carries_time:
            edges = [0, *(np.flatnonzero(np.diff(rows.times)) + 1).tolist(), rows.table.num_rows]
        for start, stop in pairwise(edges):
            with bolt_failure(part.name, self.context.batch, f"on rows {start} to {stop}"):
                emitted = list(tables(bolt.execute(rows.table.slice(start, stop - start)), part.outputs))
            for stream, table in emitted:
                times = None
                if rows.times is not None and part.carries_time:
                    times = np.full(table.num_rows, rows.times[start], np.int64)
                places = rows.positions[start] + np.arange(table.num_rows)
                yield stream, Rows(table, times, places, placed=False)

    def _bolt(self, part: PlainPart, task: int) -> Bolt | BatchBolt:
        if (part.name, task) not in self._bolts:
            bolt = deepcopy(part.bolt)
            with bolt_failure(part.name, self.context.batch, "in prepare"):
                bolt.prepare(TaskContext(part.name, task, part.parallelism, self.context.run))
            self._bolts[part.name, task] = bolt
        return self._bolts[part.name, task]

    def _count(self, part: WindowedPart, at: int, account: str, rows: int) -> None:
        self._counter(part, account)[at] += rows

    def _counter(self, part: WindowedPart, account: str) -> NDArray[np.int64]:
        """The counts of an account, one for each input."""
        return self._counts.setdefault(part.name, {}).setdefault(account, np.zeros(len(part.inputs), np.int64))

    @staticmethod
    def _copies(part: WindowedPart, at: int) -> int:
        return part.parallelism if isinstance(part.inputs[at].grouping, AllGrouping) else 1


def _bad(
    component: str, label: str, rows: pa.Table, positions: NDArray[np.int64] | None, reasons: list[str]
) -> pa.Table:
    """Rows of the error stream; without ``positions`` their places in the source are not known any more."""
    wrong = python_columns(rows)
    return pa.table(
        [
            pa.array([component] * rows.num_rows, pa.string()),
            pa.array([label] * rows.num_rows, pa.string()),
            pa.nulls(rows.num_rows, pa.int64()) if positions is None else pa.array(positions),
            pa.array(reasons, pa.string()),
            pa.array([row_as_json(wrong, place) for place in range(rows.num_rows)], pa.string()),
        ],
        schema=ERROR_SCHEMA,
    )


def _in_one(arrivals: _Arrivals, streams: int) -> Events:
    """All events in order of arrival."""
    times = _joined(arrivals.times)
    table = arrivals.tables[0] if len(arrivals.tables) == 1 else pa.concat_tables(arrivals.tables)
    batches = table.combine_chunks().to_batches()
    if len(batches) != 1:
        raise DataError(
            f"a micro-batch holds {table.nbytes / 2**30:.1f} GiB for one bolt in one task",
            why="an Arrow column holds at most 2 GiB of text",
            do="read less a batch (bytes_per_batch or files_per_batch), or smaller files",
        )
    return Events(times, batches[0], _joined(arrivals.codes) if streams > 1 else None)


def _by_task(events: Events, tasks_of: list[NDArray[np.int64]], parallelism: int) -> Iterator[tuple[int, Events]]:
    """The events of each task, in order of time, those of equal time in order of arrival."""
    if parallelism == 1:
        yield 0, events.sorted()
        return
    tasks, times = _joined(tasks_of), events.timestamps
    low, span = int(times.min()), int(times.max()) - int(times.min()) + 1
    if span < (1 << 62) // parallelism:
        keys = tasks * span + (times - low)
        order = None if is_sorted(keys) else stable_order(keys)
    else:
        by_time = stable_order(times)
        order = by_time[np.argsort(tasks[by_time], kind="stable")]
    if order is not None:
        events, tasks = events.take(order), tasks[order]
    edges = np.searchsorted(tasks, np.arange(parallelism + 1))
    for task in range(parallelism):
        start, stop = int(edges[task]), int(edges[task + 1])
        if stop > start:
            yield task, events.slice(start, stop)


def _raise(greatest: dict[str, dict[str, int]], part: WindowedPart, at: int, value: int) -> None:
    """Keep the greatest value of a stream."""
    label, seen = part.streams[at], greatest.setdefault(part.name, {})
    seen[label] = max(value, seen.get(label, value))


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
