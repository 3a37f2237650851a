"""Calls a bolt for the due windows of one task, within the bolt's limits, and routes the rows that it emits."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pyarrow as pa

from manager.keyed.fired_windows import PaneStates
from manager.keyed.key_states import ForgottenKey
from manager.keyed.run_sums import FiredSums
from manager.storage.segments import Ref, SegmentStore, SegmentWriter
from manager.storage.task_state import BoltTaskState, is_no_longer_needed
from policies.protocol import forget_after
from topologies.engine.batch import Context
from topologies.engine.failures import TooLong, bolt_failure, call, failed, line_of, worker_position
from topologies.engine.fire.task_windows import EventFiring, Firing, StillOpen, SummedWindows, TaskSnapshot
from topologies.engine.ingest import Router
from topologies.engine.ledger import (
    Ledger,
    TraceContexts,
    carries_contexts,
    fired_rows,
    joined_rows,
    window_row,
)
from topologies.engine.task_data import BoltWork, FireItem, Rows, memory_of_process
from topologies.graph.graph import RETRACTION_COLUMNS, WindowedNode
from windowing.bolts.bolt import StatefulTaskBolt, TaskBolt, TaskContext, own_initial_state, pack_state
from windowing.bolts.windowed_bolt import BatchWindowedBolt, numbered_rows
from windowing.errors import USER_EXCEPTIONS, BoltError, SchemaError
from windowing.schema import DEFAULT_STREAM, LooseRows, emissions, from_rows
from windowing.settings.panes import RETRACT
from windowing.settings.triggers import FiredBy
from windowing.timestamps import show, show_end
from windowing.window import ColumnReads, Ident, TupleWindow, WindowBatch, table_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from windowing.bolts.windowed_bolt import WindowedBolt


# The rows that a bolt emits in one task and batch, combined by stream.


@dataclass(frozen=True, slots=True)
class _EmittedRows:
    """Rows of one window or of several."""

    rows: pa.Table | LooseRows
    times: int | NDArray[np.int64]
    """The time of all rows, or of each row."""
    window: TupleWindow
    """The window, or the first window."""


class Emissions:
    """The rows that the windows of a task emit, in order. Consecutive rows of a stream are combined."""

    def __init__(self, node: WindowedNode, watermark: int | None = None) -> None:
        """``watermark``: the bolt's, at the end of the batch; None before the first."""
        self.node, self._watermark = node, watermark
        self._by_stream: list[tuple[str, list[_EmittedRows]]] = []

    def add(self, emitted: Iterable[tuple[str, pa.Table | LooseRows]], window: TupleWindow) -> None:
        """Adds the rows that a window has emitted."""
        for stream, rows in emitted:
            self._add(stream, _EmittedRows(rows, self._time(window), window))

    def add_all(self, stream: str, table: pa.Table, index: NDArray[np.int64], windows: Sequence[TupleWindow]) -> None:
        """Adds the rows that several windows have emitted; ``index``: the window of each row."""
        times = np.array([self._time(window) for window in windows], np.int64)[index]
        self._add(stream, _EmittedRows(table, times, windows[0]))

    def _time(self, window: TupleWindow) -> int:
        """Returns the time of a window's rows. If ``on_end`` fires a window before the watermark when the streams end,
        its rows get the time of a window that ends at the watermark, because no row may be before the watermark."""
        time = self.node.output_time(window)
        if window.fired_by is FiredBy.CLOSE and self._watermark is not None and not self._forgets:
            time += max(0, self._watermark - window.end_timestamp)
        return time

    @cached_property
    def _forgets(self) -> bool:
        """True if ``on_end`` is called at the end of a key instead, which no watermark has passed."""
        return forget_after(self.node.trigger, self.node.eviction) is not None

    def _add(self, stream: str, emitted: _EmittedRows) -> None:
        if not self._by_stream or self._by_stream[-1][0] != stream:
            self._by_stream.append((stream, []))
        self._by_stream[-1][1].append(emitted)

    def tables(self, batch: int) -> Iterator[tuple[str, pa.Table, NDArray[np.int64]]]:
        """Yields (stream, rows, times in microseconds) in order of emission."""
        for stream, emitted in self._by_stream:
            yield stream, self._join_rows(self.node.outputs[stream], emitted, batch), _times(emitted)

    def _join_rows(self, schema: pa.Schema, emitted: list[_EmittedRows], batch: int) -> pa.Table:
        """Returns the rows as one table. Consecutive single rows are converted together, which is much cheaper."""
        tables: list[pa.Table] = []
        for loose, group in groupby(emitted, key=lambda emission: isinstance(emission.rows, list)):
            members = list(group)
            if not loose:
                tables.extend(each.rows for each in members)
                continue
            try:
                tables.append(from_rows([row for each in members for row in each.rows], schema))
            except SchemaError:
                for each in members:  # again, one by one, to find the window that failed
                    with bolt_failure(self.node.name, batch, window_in_words(each.window), task=each.window.task):
                        from_rows(each.rows, schema)
                raise
        return pa.concat_tables(tables)


def _times(emitted: Sequence[_EmittedRows]) -> NDArray[np.int64]:
    """Returns the time of each row."""
    if all(isinstance(each.times, int) for each in emitted):
        times = np.array([each.times for each in emitted], np.int64)
        return np.repeat(times, [len(each.rows) for each in emitted])
    return np.concatenate([np.broadcast_to(each.times, len(each.rows)) for each in emitted])


def windows_in_words(windows: Sequence[TupleWindow]) -> str:
    """Returns the task and the windows of a call with several windows, for error messages."""
    if len(windows) == 1:
        return window_in_words(windows[0])
    task, last = windows[0].task, max(window.end_timestamp for window in windows)
    starts = [window.start_timestamp for window in windows if window.start_timestamp is not None]
    return (
        f"in task {task} on {len(windows)} windows {f'from {show(min(starts))} ' if starts else ''}to {show_end(last)}"
    )


def window_in_words(window: TupleWindow) -> str:
    """Returns the task and the window of a call, for error messages."""
    count = f"{len(window)} event{'s' if len(window) != 1 else ''}"
    if window.start_timestamp is None:
        return f"in task {window.task} on the window of {count} at {show_end(window.end_timestamp)}"
    span = f"from {show(window.start_timestamp)} to {show_end(window.end_timestamp)}"
    return f"in task {window.task} on the window {span} of {count}"


# The limits of a bolt: the bytes of a window, and the duration of a call.


class CallLimits:
    """Limits on the calls of one bolt, in one task and batch: the size of a window, and the duration of a call."""

    def __init__(self, node: WindowedNode, task: int, batch: int) -> None:
        settings = node.bolt.settings
        self._node, self._task, self._batch = node, task, batch
        self._bytes, self._time = settings.window_bytes, settings.call_time

    @classmethod
    def of(cls, node: WindowedNode, task: int, batch: int) -> Self | None:
        """Returns the limits of a bolt; None if it has none."""
        settings = node.bolt.settings
        return None if settings.window_bytes is None and settings.call_time is None else cls(node, task, batch)

    def check(self, window: TupleWindow) -> None:
        """Raises BoltError for a window with more bytes than the limit."""
        if self._bytes is not None and (size := window.table.nbytes) > self._bytes:
            raise self._error(
                f"was to be called with {size:,} bytes {window_in_words(window)}",
                f"with_limits(window_bytes={self._bytes}) allows no more",
                "shorten the window, give it a key, name the columns that it needs (reads), or raise the limit",
            )

    def within(self, function: Callable[..., Any], arguments: tuple[Any, ...], where: Callable[[], str]) -> Any:
        """Calls a function, and returns its result. Raises BoltError if the call takes too long; ``where`` returns the
        task and the window."""
        if self._time is None:
            return function(*arguments)
        try:
            return call(function, arguments, self._time.micros / 1_000_000)
        except TooLong as error:
            raise self._error(
                f"took more than {self._time} {where()}",
                f"with_limits(call_time='{self._time}') allows no more; it was{line_of(error) or ' in a library'}",
                "make it faster, or raise the limit",
            ) from error

    def _error(self, what: str, why: str, do: str) -> BoltError:
        name, batch = self._node.name, self._batch
        return BoltError(
            f"bolt {name!r} {what}, in batch {batch}",
            why=why,
            do=f"{do}: batch {batch} was not committed, and runs again",
            bolt=name,
            task=self._task,
        )


# Records of fired windows, for observers of the run.


class FiredWindows:
    """Records the windows that fire in one task and batch."""

    def __init__(self, node: WindowedNode, context: Context, ledger: Ledger) -> None:
        self._node, self._batch, self._ledger, self._tracing = node, context.batch, ledger, context.tracing
        self._ends: list[int] | None = [] if context.notes_window_ends else None
        sampled = context.samples_traces and carries_contexts(node.schema)
        self._contexts = TraceContexts() if sampled else None
        self.wanted = context.notes_window_ends or context.tracing or sampled
        """True if records are wanted."""

    def note(self, window: TupleWindow) -> None:
        """Record a window."""
        if self._ends is not None:
            self._ends.append(window.end_timestamp)
        if self._contexts is not None:
            self._contexts.sample_window(window)
        if self._tracing:
            self._ledger.trace("windows", window_row(self._node, self._batch, window))

    def record(self) -> None:
        """Adds the records to the ledger."""
        if self._ends:
            self._ledger.note_window_ends(self._node, self._ends)
        if self._contexts is not None:
            self._ledger.note_trace_contexts(self._node, self._contexts.by_window_end)


# Retractions: a window that fires again first emits the rows of its last firing, marked as retracted.


Span = tuple[int, int]
"""Start and end of a window."""


class Retractions:
    """Remembers the rows that each open window of a task last emitted."""

    def __init__(self, node: WindowedNode, stored: Mapping[str, Ref], store: SegmentStore) -> None:
        """``stored``: the rows of earlier batches, by output stream, as ``save`` wrote them."""
        self.schemas = node.bolt.output_schemas()
        self._merging = [assigner.merges for assigner in node.assigners]
        self._last_rows = defaultdict[tuple[int, int], dict[Span, dict[str, pa.Table]]](dict)
        """By kind and key, and by window: the rows of the last firing, by output stream."""
        for stream, ref in stored.items():
            self._load(stream, store.read(ref))

    def rows(
        self, window: TupleWindow, emitted: Iterable[tuple[str, pa.Table | LooseRows]]
    ) -> Iterator[tuple[str, pa.Table]]:
        """Yields (stream, rows) of a firing: first the retracted rows, then the new rows of the window."""
        assert window.ident is not None
        kind, key, start, end = window.ident
        rows_by_window = self._last_rows[kind, key]
        for superseded in self._superseded(kind, rows_by_window, start, end):
            for stream, table in rows_by_window.pop(superseded).items():
                yield stream, _with_retract_flag(table, retract=True)
        emitted_now: dict[str, list[pa.Table]] = {}
        for stream, emission in emitted:
            table = from_rows(emission, self.schemas[stream]) if isinstance(emission, list) else emission
            emitted_now.setdefault(stream, []).append(table)
            yield stream, _with_retract_flag(table, retract=False)
        if window.pane is not None and not window.pane.last and emitted_now:
            rows_by_window[start, end] = {stream: pa.concat_tables(parts) for stream, parts in emitted_now.items()}

    def keep(self, windows: PaneStates) -> None:
        """Forgets the rows that no later firing can retract: those of closed windows. ``windows``: the windows that are
        open after an evaluation.

        Must be called after each evaluation. A window that has fired and is still open may have another extent by then:
        it is one of these windows, a part of one, or was cut into several; its rows are kept in all three cases.
        """
        before, self._last_rows = self._last_rows, defaultdict(dict)
        keys = np.array(list({key for _, key in before}), np.int64)
        columns = np.stack([windows.kind, windows.key, windows.start, windows.end], axis=1)
        for kind, key, start, end in columns[np.isin(windows.key, keys)].tolist():
            if (kind, key) in before:
                rows_by_window = before[kind, key]
                for span in self._superseded(kind, rows_by_window, start, end):
                    self._last_rows[kind, key][span] = rows_by_window[span]

    def save(self, writer: SegmentWriter) -> dict[str, Ref]:
        """Writes the rows; returns their references by output stream."""
        parts: dict[str, list[pa.Table]] = {}
        for (kind, key), windows in self._last_rows.items():
            for (start, end), rows in windows.items():
                for stream, table in rows.items():
                    parts.setdefault(stream, []).append(_with_ident(table, (kind, key, start, end)))
        return {stream: writer.add(pa.concat_tables(tables)) for stream, tables in parts.items()}

    def _superseded(self, kind: int, rows_by_window: Mapping[Span, object], start: int, end: int) -> list[Span]:
        """Returns the windows of a key that this window replaces: itself; of sessions, all that it shares a time with,
        since it was merged from them or cut from them."""
        if not self._merging[kind]:
            return [(start, end)] if (start, end) in rows_by_window else []
        return [span for span in rows_by_window if span[0] < end and start < span[1]]

    def _load(self, stream: str, table: pa.Table) -> None:
        idents = np.stack([table.column(name).to_numpy() for name in RETRACTION_COLUMNS], axis=1)
        rows = table.drop_columns(list(RETRACTION_COLUMNS))
        steps = np.flatnonzero((idents[1:] != idents[:-1]).any(axis=1)) + 1
        for low, high in pairwise([0, *steps.tolist(), table.num_rows]):
            if low < high:
                kind, key, start, end = idents[low].tolist()
                self._last_rows[kind, key].setdefault((start, end), {})[stream] = rows.slice(low, high - low)


def _with_retract_flag(table: pa.Table, *, retract: bool) -> pa.Table:
    return table.append_column(RETRACT, pa.array(np.full(table.num_rows, retract)))


def _with_ident(table: pa.Table, ident: Ident) -> pa.Table:
    for name, value in zip(RETRACTION_COLUMNS, ident, strict=True):
        table = table.append_column(name, pa.array(np.full(table.num_rows, value, np.int64)))
    return table


# Calls a bolt for the due firings of one task, and routes the rows that it emits.


_EVENTS_AT_ONCE, _WINDOWS_AT_ONCE = 1 << 20, 1 << 16
_MANY_EVENTS = 1 << 14
"""Windows with at most this many events are not measured in bytes."""
_PART_OF_MEMORY = 8
"""A window is large if it takes more than this part of the memory."""


class BoltCalls:
    """The calls of a bolt in one task and batch."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        self.node, self.task, self.router, self.context = node, item.task, router, router.context
        self.before, self._frontier = item.state.bolt, item.frontiers.current
        self._watermark = item.end.watermark if node.event_time else None
        self._fired = self._joined_windows = self._suppressed = 0
        self._forgot = False
        self._emitted: dict[str, int] = {}
        self._counters: Counter[str] = Counter()
        self._bolt: TaskBolt | None = None
        self._position = worker_position()
        self._reads, self._largest_events = ColumnReads(), _MANY_EVENTS
        self._large_window: tuple[int, int] | None = None
        self._limits = CallLimits.of(node, item.task, self.context.batch)
        self._retractions = Retractions(node, self.before.retractable, self.context.store) if node.retracts else None

    def make(self, firings: Iterable[Firing | EventFiring]) -> None:
        """Calls the bolt for each window in order, or for many at once. The bolt is prepared before its first call."""
        node, context, outputs, gathered = (
            self.node,
            self.context,
            Emissions(self.node, self._watermark),
            _GatheredWindows(),
        )
        fired_windows = FiredWindows(node, context, self.router.ledger)
        note = fired_windows.note if fired_windows.wanted else None
        for window in cast("Iterable[Firing]", firings):  # bolts without windows use EventCalls
            if isinstance(window, SummedWindows | FiredSums):
                self._join(window, outputs)
                continue
            if isinstance(window, ForgottenKey):
                self._call_all(gathered, outputs)
                self._forget(window.key)
                continue
            if isinstance(window, StillOpen):
                if self._retractions is not None:
                    self._retractions.keep(window.windows)
                continue
            if self._is_suppressed(window):
                continue
            bolt = cast("WindowedBolt", self._prepared_bolt())
            self._fired += 1
            if note is not None:
                note(window)
            if self._limits is not None:
                self._limits.check(window)
            if not self._takes_many_windows:
                self._call(bolt, window, outputs)
            elif gathered.add(window):
                self._call_all(gathered, outputs)
        self._call_all(gathered, outputs)
        if self._position is not None:
            self._position.leave()
        fired_windows.record()
        self._note_work()
        for stream, table, times in outputs.tables(context.batch):
            self._emit(stream, table, times)

    def _call(self, bolt: WindowedBolt, window: TupleWindow, outputs: Emissions) -> None:
        node = self.node
        window.reads = self._reads
        if self._position is not None:
            self._position.enter(window)
        try:  # a context manager would cost as much as the rest of the call
            if self._limits is None:
                self._execute(bolt, window, outputs)
            else:
                self._limits.within(self._execute, (bolt, window, outputs), lambda: window_in_words(window))
        except BoltError:
            raise
        except USER_EXCEPTIONS as error:
            columns = node.schema.names
            raise failed(
                node.name,
                self.context.batch,
                window_in_words(window),
                error,
                task=self.task,
                columns=columns,
                of_window=True,
            ) from error
        if len(window) > self._largest_events:
            self._note_large(window)

    def _note_large(self, window: TupleWindow) -> None:
        """Records the bytes of a window if it is the largest so far and takes much of the memory."""
        self._largest_events = len(window)
        size, memory = table_bytes(window), memory_of_process()
        if memory is not None and size * _PART_OF_MEMORY > memory:
            self._large_window = max(self._large_window or (0, 0), (size, memory))

    def _execute(self, bolt: WindowedBolt, window: TupleWindow, outputs: Emissions) -> None:
        if self._retractions is None:
            outputs.add(emissions(bolt.execute(window), self.node.outputs), window)
        else:
            emitted = emissions(bolt.execute(window), self._retractions.schemas)
            outputs.add(self._retractions.rows(window, emitted), window)

    def _call_all(self, gathered: _GatheredWindows, outputs: Emissions) -> None:
        """Calls the bolt for all gathered windows at once."""
        windows, events = gathered.take()
        if not windows:
            return
        bolt, node = self._prepared_bolt(), self.node
        assert isinstance(bolt, BatchWindowedBolt)
        if self._position is not None:
            self._position.enter(windows[0], len(windows), events)
        columns = node.schema.names
        with bolt_failure(
            node.name, self.context.batch, lambda: windows_in_words(windows), task=self.task, columns=columns
        ):
            try:
                results = self._execute_all(bolt, windows)
            except BoltError:
                raise  # no retry window by window: each may take as long
            except Exception:
                if len(windows) > 1:
                    for window in windows:  # again, one by one, to find the window that failed
                        self._call(bolt, window, Emissions(node))
                raise
            emitted = numbered_rows(results, len(windows), node.outputs)
        for stream, table, index in emitted:
            outputs.add_all(stream, table, index, windows)

    def _execute_all(self, bolt: BatchWindowedBolt, windows: list[TupleWindow]) -> Any:
        batch = WindowBatch(windows, self._reads)
        if self._limits is None:
            return bolt.execute_all(batch)
        return self._limits.within(bolt.execute_all, (batch,), lambda: windows_in_words(windows))

    def snapshot(self, windows: TaskSnapshot, writer: SegmentWriter) -> BoltTaskState:
        """Writes the state of the bolt; returns it with the counts so far. ``windows``: the snapshot of the windows
        after the calls."""
        before, bolt = self.before, self._bolt
        called_bolt = bolt if isinstance(bolt, StatefulTaskBolt) and (self._fired or self._forgot) else None
        user, needed_until = before.user, before.needed_until if called_bolt is None else called_bolt.needed_until
        if is_no_longer_needed(needed_until, self._frontier):  # old memories are dropped even without events
            user, needed_until = {}, None
        elif called_bolt is not None:
            user = self._save_state(called_bolt, writer)
        retractable = before.retractable if self._retractions is None else self._retractions.save(writer)
        after = replace(before.add_counts(self.done), user=user, retractable=retractable, needed_until=needed_until)
        return after.add_counters(windows.counters)

    @property
    def done(self) -> BoltTaskState:
        """Returns the effects of the calls on the state: windows, rows, counts."""
        counters = {name: int(count) for name, count in self._counters.items()}
        return BoltTaskState(self._fired, self._suppressed, dict(self._emitted), counters)

    def _note_work(self) -> None:
        reads = self._reads
        columns = None if reads.reads_all else frozenset(reads.names)
        self.router.work.add(
            self.node.name,
            BoltWork(columns=columns, called=self._fired - self._joined_windows, large_window=self._large_window),
        )

    def _join(self, fired: SummedWindows | FiredSums, outputs: Emissions) -> None:
        """Emits the results of windows that are joined from partial sums. If windows retract, the results go to
        ``outputs`` instead."""
        if isinstance(fired, SummedWindows):
            self._join_slices(fired)
        else:
            self._join_runs(fired, outputs)

    def _join_slices(self, summed: SummedWindows) -> None:
        node = self.node
        due = [window for window in summed.windows if not self._is_suppressed(window)]
        if not due:
            return
        self._fired += len(due)
        self._joined_windows += len(due)
        if self.context.notes_window_ends:
            self.router.ledger.note_window_ends(node, [window.end_timestamp for window in due])
        times = np.array([node.output_time(window) for window in due], np.int64)
        with bolt_failure(node.name, self.context.batch, f"in task {self.task} in joining windows", task=self.task):
            for joined in summed.slicing.results(due):
                for row in joined_rows(node, self.context.batch, due, joined) if self.context.tracing else ():
                    self.router.ledger.trace("windows", row)
                self._emit(DEFAULT_STREAM, joined.rows, times[joined.windows])

    def _join_runs(self, fired: FiredSums, outputs: Emissions) -> None:
        node, first_output = self.node, self.context.first_output
        ends = fired.windows.ends.tolist()
        if first_output is not None:
            due = np.array([not first_output.is_after(node.name, end) for end in ends], np.bool_)
            self._suppressed += int(np.count_nonzero(~due))
            fired = fired.filter(due)
            ends = fired.windows.ends.tolist()
        if not len(fired):
            return
        self._fired += len(fired)
        self._joined_windows += len(fired)
        if self.context.notes_window_ends:
            self.router.ledger.note_window_ends(node, ends)
        with bolt_failure(node.name, self.context.batch, f"in task {self.task} in joining windows", task=self.task):
            for row in fired_rows(node, self.context.batch, fired) if self.context.tracing else ():
                self.router.ledger.trace("windows", row)
            joined = fired.results()
        if self._retractions is None:
            times = node.output_times(fired.windows.starts, fired.windows.ends)
            self._emit(DEFAULT_STREAM, joined.rows, times[joined.windows])
            return
        assert fired.tuple_windows is not None
        edges = np.searchsorted(joined.windows, np.arange(len(fired) + 1)).tolist()
        for window, low, high in zip(fired.tuple_windows, edges, edges[1:], strict=False):
            rows = [(DEFAULT_STREAM, joined.rows.slice(low, high - low))] if high > low else []
            outputs.add(self._retractions.rows(window, rows), window)

    def _is_suppressed(self, window: TupleWindow) -> bool:
        """True if a window ends before the first output of the run; counts such windows."""
        first_output = self.context.first_output
        if first_output is None or not first_output.is_after(self.node.name, window.end_timestamp):
            return False
        self._suppressed += 1
        return True

    def _emit(self, stream: str, table: pa.Table, times: NDArray[np.int64] | None) -> None:
        emitted_before = self._emitted.get(stream, 0)
        self._emitted[stream] = emitted_before + table.num_rows
        first_position = self.before.emitted.get(stream, 0) + emitted_before
        positions = np.arange(first_position, first_position + table.num_rows)
        # With concurrent calls, none knows how many rows the others emit.
        has_positions = not self.node.bolt.parallel_windows
        self.router.emit((self.node.name, stream), Rows(table, times, positions, self.context.clock, has_positions))

    def _forget(self, key: Any) -> None:
        bolt, self._forgot = self._prepared_bolt(), True
        where = f"in task {self.task} in forgetting {key!r}"
        with bolt_failure(self.node.name, self.context.batch, where, task=self.task):
            bolt.forget(key)

    def _prepared_bolt(self) -> TaskBolt:
        """Returns the bolt of this task, which is prepared at the first call."""
        if self._bolt is None:
            self._bolt = self._prepare()
        return self._bolt

    @cached_property
    def _takes_many_windows(self) -> bool:
        """True if the bolt is called for many windows at once, and has no ``execute`` of its own."""
        execute = getattr(cast("WindowedBolt", self._prepared_bolt()).execute, "__func__", None)
        return self._retractions is None and execute is BatchWindowedBolt.execute

    def _prepare(self) -> TaskBolt:
        node, context = self.node, self.context
        settings = node.bolt.settings  # settings never change, and copying them costs more than the rest
        bolt = deepcopy(node.bolt, {id(settings): settings})
        saved = load_state(context.store, self.before.user) if self.before.user else None
        with bolt_failure(node.name, context.batch, f"in task {self.task} in prepare", task=self.task):
            by_key = node.without_windows and bool(node.keys[0])  # states per key instead of a state of the task
            if isinstance(bolt, StatefulTaskBolt) and not by_key:
                bolt.state = own_initial_state(bolt) if saved is None else saved
            bolt.prepare(TaskContext(node.name, self.task, node.parallelism, context.run, self._counters))
        return bolt

    def _save_state(self, bolt: StatefulTaskBolt, writer: SegmentWriter) -> dict[str, Ref]:
        where = f"in task {self.task} in keeping its state"
        with bolt_failure(self.node.name, self.context.batch, where, task=self.task):
            text, tables = pack_state(bolt.state, bolt.state_types)
        return {"": writer.add(pa.table({"json": [text]}))} | {
            name: writer.add(table) for name, table in tables.items()
        }


def load_state(store: SegmentStore, user: Mapping[str, Ref]) -> dict[str, Any]:
    """Returns the stored state of a stateful bolt."""
    state: dict[str, Any] = json.loads(store.read(user[""]).column("json")[0].as_py())
    return state | {name: store.read(ref) for name, ref in user.items() if name}


class _GatheredWindows:
    """Windows for which a bolt will be called at once."""

    def __init__(self) -> None:
        self._windows: list[TupleWindow] = []
        self._events = 0

    def add(self, window: TupleWindow) -> bool:
        """Adds a window; returns True if there are now enough for a call."""
        self._windows.append(window)
        self._events += len(window)
        return self._events >= _EVENTS_AT_ONCE or len(self._windows) >= _WINDOWS_AT_ONCE

    def take(self) -> tuple[list[TupleWindow], int]:
        """Removes and returns the windows, with their number of events."""
        taken = self._windows, self._events
        self._windows, self._events = [], 0
        return taken
