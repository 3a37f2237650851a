"""Calls a bolt for what is due in one task, and routes what it emits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.key_states import Forgotten
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from manager.storage.task_state import BoltTaskState, is_over
from topologies.engine.failures.user_code import bolt_failure, failed
from topologies.engine.failures.whereabouts import worker_position
from topologies.engine.fire.call_limits import CallLimits
from topologies.engine.fire.emissions import Emissions, place, places
from topologies.engine.fire.noting import FiredWindows
from topologies.engine.fire.retracting import Retractions
from topologies.engine.fire.task_windows import Firing, StillOpen, SummedWindows, TaskSnapshot
from topologies.engine.ingest.router import Router
from topologies.engine.ledger.trace import joined_rows
from topologies.engine.rows.routed_rows import Rows
from topologies.engine.work.bolt_work import BoltWork, memory_of_process
from topologies.engine.work.items import FireItem
from topologies.graph.nodes.windowed import WindowedNode
from windowing.bolts.batch_windowed_bolt import BatchWindowedBolt, numbered_rows
from windowing.bolts.bolt_state import pack_state
from windowing.bolts.component import TaskContext
from windowing.bolts.windowed_bolt import StatefulWindowedBolt, WindowedBolt
from windowing.data.returned_rows import DEFAULT_STREAM, emissions
from windowing.errors import BoltError
from windowing.window import ColumnReads, TupleWindow, held_bytes
from windowing.window_batch import WindowBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray


_EVENTS_AT_ONCE, _WINDOWS_AT_ONCE = 1 << 20, 1 << 16
_MANY_EVENTS = 1 << 14
"""Windows of fewer events are not looked at for their bytes."""
_OF_MEMORY = 8
"""A window is large that takes more than this part of the memory."""


class BoltCalls:
    """The calls of a bolt in one task and batch."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        self.node, self.task, self.router, self.context = node, item.task, router, router.context
        self.before, self._frontier = item.state.bolt, item.frontiers.current
        self._fired = self._joined = self._suppressed = 0
        self._forgot = False
        self._emitted: dict[str, int] = {}
        self._counters: Counter[str] = Counter()
        self._bolt: WindowedBolt | None = None
        self._position = worker_position()
        self._reads, self._many = ColumnReads(), _MANY_EVENTS
        self._large_window: tuple[int, int] | None = None
        self._limits = CallLimits.of(node, item.task, self.context.batch)
        self._retractions = Retractions(node, self.before.shown, self.context.store) if node.retracts else None

    def make(self, firings: Iterable[Firing]) -> None:
        """Call the bolt for each window, in order, or for many at once. It is prepared before its first call."""
        node, context, outputs, gathered = self.node, self.context, Emissions(self.node), _Gathered()
        watched = FiredWindows(node, context, self.router.ledger)
        note = watched.note if watched.wanted else None
        for window in firings:
            if isinstance(window, SummedWindows):
                self._join(window)
                continue
            if isinstance(window, Forgotten):
                self._call_all(gathered, outputs)
                self._forget(window.key)
                continue
            if isinstance(window, StillOpen):
                if self._retractions is not None:
                    self._retractions.keep(window.windows)
                continue
            if self._is_suppressed(window):
                continue
            bolt = self._ready()
            self._fired += 1
            if note is not None:
                note(window)
            if self._limits is not None:
                self._limits.check(window)
            if not self._at_once:
                self._call(bolt, window, outputs)
            elif gathered.add(window):
                self._call_all(gathered, outputs)
        self._call_all(gathered, outputs)
        if self._position is not None:
            self._position.leave()
        watched.hand_over()
        self._note_work()
        for stream, table, times in outputs.tables(context.batch):
            self._emit(stream, table, times)

    def _call(self, bolt: WindowedBolt, window: TupleWindow, outputs: Emissions) -> None:
        node = self.node
        window.reads = self._reads
        if self._position is not None:
            self._position.enter(window)
        try:  # a context manager would cost as much as all the rest
            if self._limits is None:
                self._execute(bolt, window, outputs)
            else:
                self._limits.within(self._execute, (bolt, window, outputs), lambda: place(window))
        except BoltError:
            raise
        except (Exception, SystemExit) as error:
            columns = node.schema.names
            raise failed(
                node.name, self.context.batch, place(window), error, task=self.task, columns=columns, of_window=True
            ) from error
        if len(window) > self._many:
            self._see_large(window)

    def _see_large(self, window: TupleWindow) -> None:
        """Note the bytes of a window that has more events than those before, where they are much of the memory."""
        self._many = len(window)
        size, memory = held_bytes(window), memory_of_process()
        if memory is not None and size * _OF_MEMORY > memory:
            self._large_window = max(self._large_window or (0, 0), (size, memory))

    def _execute(self, bolt: WindowedBolt, window: TupleWindow, outputs: Emissions) -> None:
        if self._retractions is None:
            outputs.add(emissions(bolt.execute(window), self.node.outputs), window)
        else:
            emitted = emissions(bolt.execute(window), self._retractions.schemas)
            outputs.add(self._retractions.rows(window, emitted), window)

    def _call_all(self, gathered: _Gathered, outputs: Emissions) -> None:
        """Call the bolt for all gathered windows at once."""
        windows, events = gathered.take()
        if not windows:
            return
        bolt, node = self._ready(), self.node
        assert isinstance(bolt, BatchWindowedBolt)
        if self._position is not None:
            self._position.enter(windows[0], len(windows), events)
        columns = node.schema.names
        with bolt_failure(node.name, self.context.batch, lambda: places(windows), task=self.task, columns=columns):
            try:
                given = self._execute_all(bolt, windows)
            except BoltError:
                raise  # not for the windows one by one: each may take as long again
            except Exception:
                if len(windows) > 1:
                    for window in windows:  # again, one by one, to find the window that failed
                        self._call(bolt, window, Emissions(node))
                raise
            emitted = numbered_rows(given, len(windows), node.outputs)
        for stream, table, index in emitted:
            outputs.add_all(stream, table, index, windows)

    def _execute_all(self, bolt: BatchWindowedBolt, windows: list[TupleWindow]) -> Any:
        given = WindowBatch(windows, self._reads)
        if self._limits is None:
            return bolt.execute_all(given)
        return self._limits.within(bolt.execute_all, (given,), lambda: places(windows))

    def snapshot(self, fired: TaskSnapshot, writer: SegmentWriter) -> BoltTaskState:
        """Write the state of the bolt; return it with the counts so far. ``fired`` is the snapshot of the windows after
        the calls."""
        before, bolt = self.before, self._bolt
        called = bolt if isinstance(bolt, StatefulWindowedBolt) and (self._fired or self._forgot) else None
        user, needed_until = before.user, before.needed_until if called is None else called.needed_until
        if is_over(needed_until, self._frontier):  # what is remembered goes with time, also where no event comes
            user, needed_until = {}, None
        elif called is not None:
            user = self._save_state(called, writer)
        shown = before.shown if self._retractions is None else self._retractions.save(writer)
        after = replace(before.plus(self.done), user=user, shown=shown, needed_until=needed_until)
        return after.counted(fired.counters)

    @property
    def done(self) -> BoltTaskState:
        """What the calls add: windows, rows, counts."""
        counters = {name: int(count) for name, count in self._counters.items()}
        return BoltTaskState(self._fired, self._suppressed, dict(self._emitted), counters)

    def _note_work(self) -> None:
        reads = self._reads
        columns = None if reads.whole else frozenset(reads.names)
        self.router.work.add(
            self.node.name,
            BoltWork(columns=columns, called=self._fired - self._joined, large_window=self._large_window),
        )

    def _join(self, summed: SummedWindows) -> None:
        """Emit the results of windows that are joined from partial sums."""
        node = self.node
        due = [window for window in summed.windows if not self._is_suppressed(window)]
        if not due:
            return
        self._fired += len(due)
        self._joined += len(due)
        if self.context.notes_window_ends:
            self.router.ledger.note_window_ends(node, [window.end_timestamp for window in due])
        times = np.array([node.output_time(window) for window in due], np.int64)
        with bolt_failure(node.name, self.context.batch, f"in task {self.task} in joining windows", task=self.task):
            for joined in summed.slicing.joined(due):
                for row in joined_rows(node, self.context.batch, due, joined) if self.context.traced else ():
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
        here = self._emitted.get(stream, 0)
        self._emitted[stream] = here + table.num_rows
        first = self.before.emitted.get(stream, 0) + here
        positions = np.arange(first, first + table.num_rows)
        # Calls at the same time do not know how many rows the others emit.
        placed = not self.node.bolt.parallel_windows
        self.router.emit((self.node.name, stream), Rows(table, times, positions, self.context.clock, placed))

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

    @cached_property
    def _at_once(self) -> bool:
        """Whether the bolt is called for many windows at once, and has no ``execute`` of its own."""
        execute = getattr(self._ready().execute, "__func__", None)
        return self._retractions is None and execute is BatchWindowedBolt.execute

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


class _Gathered:
    """Windows for which a bolt is to be called at once."""

    def __init__(self) -> None:
        self._windows: list[TupleWindow] = []
        self._events = 0

    def add(self, window: TupleWindow) -> bool:
        """Add a window; returns whether these are enough."""
        self._windows.append(window)
        self._events += len(window)
        return self._events >= _EVENTS_AT_ONCE or len(self._windows) >= _WINDOWS_AT_ONCE

    def take(self) -> tuple[list[TupleWindow], int]:
        """Remove and return the windows, with their number of events."""
        taken = self._windows, self._events
        self._windows, self._events = [], 0
        return taken
