"""Calls a bolt for what is due in one task, and routes what it emits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.triggered import Forgotten
from manager.storage.segments import Ref, SegmentStore, SegmentWriter
from manager.storage.task_state import BoltTaskState
from topologies.engine.batch.failures import bolt_failure, failed
from topologies.engine.batch.plan import FireItem
from topologies.engine.batch.rows import Rows
from topologies.engine.batch.trace import joined_rows, window_row
from topologies.engine.batch.whereabouts import worker_position
from topologies.engine.fire.retracting import Retractions
from topologies.engine.fire.task_windows import Firing, Snapshot, SummedWindows
from topologies.engine.ingest.router import Router
from topologies.graph.model import WindowedNode
from windowing.bolts.bolt import StatefulWindowedBolt, TaskContext, WindowedBolt
from windowing.bolts.state import pack_state
from windowing.data.rows import DEFAULT_STREAM, Loose, emissions, from_rows
from windowing.errors import BoltError, SchemaError
from windowing.time.timestamps import show
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


class BoltCalls:
    """The calls of a bolt in one task and batch."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        self.node, self.task, self.router, self.context = node, item.task, router, router.context
        self.before = item.state.bolt
        self.windows = 0
        """Number of windows so far."""
        self._suppressed = 0
        self._forgot = False
        self._emitted = dict(self.before.emitted)
        self._counters: Counter[str] = Counter()
        self._bolt: WindowedBolt | None = None
        self._retractions = Retractions(node, self.before.shown, self.context.store) if node.retracts else None

    def make(self, firings: Iterable[Firing]) -> None:
        """Call the bolt for each window, in order. The bolt is prepared before its first window."""
        node, context, outputs, position = self.node, self.context, _Emissions(self.node), worker_position()
        for window in firings:
            if isinstance(window, SummedWindows):
                self._join(window)
                continue
            if isinstance(window, Forgotten):
                self._forget(window.key)
                continue
            if self._is_suppressed(window):
                continue
            bolt = self._ready()
            self.windows += 1
            if context.traced:
                self.router.ledger.trace("windows", window_row(node.name, window))
            if position is not None:
                position.enter(window)
            try:  # a context manager would cost as much as all the rest
                if self._retractions is None:
                    outputs.add(emissions(bolt.execute(window), node.outputs), window)
                else:
                    emitted = emissions(bolt.execute(window), self._retractions.schemas)
                    outputs.add(self._retractions.rows(window, emitted), window)
            except BoltError:
                raise
            except (Exception, SystemExit) as error:
                raise failed(node.name, context.batch, _place(window), error, task=self.task) from error
        if position is not None:
            position.leave()
        for stream, table, times in outputs.tables(context.batch):
            self._emit(stream, table, times)

    def snapshot(self, fired: Snapshot, writer: SegmentWriter) -> BoltTaskState:
        """Write what the bolt needs later; return what it has left behind. ``fired`` are the windows after the
        calls."""
        before, bolt = self.before, self._bolt
        user = before.user
        if (self.windows or self._forgot) and isinstance(bolt, StatefulWindowedBolt):
            user = self._save_state(bolt, writer)
        return (
            BoltTaskState(
                fired=before.fired + self.windows,
                suppressed=before.suppressed + self._suppressed,
                emitted=self._emitted,
                counters=before.counters,
                user=user,
                shown=before.shown if self._retractions is None else self._retractions.save(writer, fired.closed),
            )
            .counted(fired.counters)
            .counted({name: int(count) for name, count in self._counters.items()})
        )

    def _join(self, summed: SummedWindows) -> None:
        """Emit the results of windows that are joined from partial sums."""
        node = self.node
        due = [window for window in summed.windows if not self._is_suppressed(window)]
        if not due:
            return
        self.windows += len(due)
        times = np.array([node.emit_time(window) for window in due], np.int64)
        with bolt_failure(node.name, self.context.batch, f"in task {self.task} in joining windows", task=self.task):
            for joined in summed.slicing.joined(due):
                for row in joined_rows(node.name, due, joined) if self.context.traced else ():
                    self.router.ledger.trace("windows", row)
                self._emit(DEFAULT_STREAM, joined.rows, times[joined.windows])

    def _is_suppressed(self, window: TupleWindow) -> bool:
        """Whether a window ends before the first output of the run; such windows are counted."""
        first = self.context.first
        if first is None or not first.is_after(self.node.name, window.end_timestamp):
            return False
        self._suppressed += 1
        return True

    def _emit(self, stream: str, table: pa.Table, times: NDArray[np.int64]) -> None:
        first = self._emitted.get(stream, 0)
        self._emitted[stream] = first + table.num_rows
        positions = np.arange(first, first + table.num_rows)
        self.router.emit((self.node.name, stream), Rows(table, times, positions, self.context.clock))

    def _forget(self, key: Any) -> None:
        bolt, self._forgot = self._ready(), True
        where = f"in task {self.task} in forgetting {key!r}"
        with bolt_failure(self.node.name, self.context.batch, where, task=self.task):
            bolt.forget(key)

    def _ready(self) -> WindowedBolt:
        """The bolt of this task; prepared at the first call."""
        if self._bolt is None:
            self._bolt = self._prepared()
        return self._bolt

    def _prepared(self) -> WindowedBolt:
        node, context = self.node, self.context
        bolt = deepcopy(node.bolt)
        saved = load_state(context.store, self.before.user) if self.before.user else None
        with bolt_failure(node.name, context.batch, f"in task {self.task} in prepare", task=self.task):
            if isinstance(bolt, StatefulWindowedBolt):
                bolt.state = bolt.initial_state() if saved is None else saved
            bolt.prepare(TaskContext(node.name, self.task, node.parallelism, context.run, self._counters))
        return bolt

    def _save_state(self, bolt: StatefulWindowedBolt, writer: SegmentWriter) -> dict[str, Ref]:
        with bolt_failure(self.node.name, self.context.batch, "in keeping its state"):
            text, tables = pack_state(bolt.state, bolt.state_types)
        return {"": writer.add(pa.table({"json": [text]}))} | {
            name: writer.add(table) for name, table in tables.items()
        }


def load_state(store: SegmentStore, user: Mapping[str, Ref]) -> dict[str, Any]:
    """The saved state of a stateful bolt."""
    state: dict[str, Any] = json.loads(store.read(user[""]).column("json")[0].as_py())
    return state | {name: store.read(ref) for name, ref in user.items() if name}


class _Emissions:
    """The rows that the windows of a task emit, in order. Consecutive rows of one stream are combined."""

    def __init__(self, node: WindowedNode) -> None:
        self.node = node
        self._by_stream: list[tuple[str, list[tuple[pa.Table | Loose, TupleWindow]]]] = []

    def add(self, emitted: Iterable[tuple[str, pa.Table | Loose]], window: TupleWindow) -> None:
        """Add what a window emitted."""
        for stream, rows in emitted:
            if not self._by_stream or self._by_stream[-1][0] != stream:
                self._by_stream.append((stream, []))
            self._by_stream[-1][1].append((rows, window))

    def tables(self, batch: int) -> Iterator[tuple[str, pa.Table, NDArray[np.int64]]]:
        """Yield (stream, rows, times in microseconds) in order of emission."""
        for stream, emitted in self._by_stream:
            sizes = [len(rows) for rows, _ in emitted]
            times = np.repeat(np.array([self.node.emit_time(window) for _, window in emitted], np.int64), sizes)
            yield stream, self._joined(self.node.outputs[stream], emitted, batch), times

    def _joined(self, schema: pa.Schema, emitted: list[tuple[pa.Table | Loose, TupleWindow]], batch: int) -> pa.Table:
        """The rows as one table. Consecutive loose rows are converted together, which is much cheaper."""
        tables: list[pa.Table] = []
        for loose, group in groupby(emitted, key=lambda emission: isinstance(emission[0], list)):
            members = list(group)
            if not loose:
                tables.extend(table for table, _ in members)
                continue
            try:
                tables.append(from_rows([row for rows, _ in members for row in rows], schema))
            except SchemaError:
                for rows, window in members:  # again, one by one, to find the window that failed
                    with bolt_failure(self.node.name, batch, _place(window), task=window.task):
                        from_rows(rows, schema)
                raise
        return pa.concat_tables(tables)


def _place(window: TupleWindow) -> str:
    """The task and the window at which a bolt failed, for error messages."""
    count = f"{len(window)} event{'s' if len(window) != 1 else ''}"
    if window.start_timestamp is None:
        return f"in task {window.task} on the window of {count} at {show(window.end_timestamp)}"
    span = f"from {show(window.start_timestamp)} to {show(window.end_timestamp)}"
    return f"in task {window.task} on the window {span} of {count}"
