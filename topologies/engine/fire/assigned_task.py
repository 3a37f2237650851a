"""The task of a bolt whose windows are formed by assigners: admits events, evaluates due windows, keeps live events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from manager.keyed.assigned import AssignedWindows, Span
from manager.keyed.held import GONE, SEEN, Held, read_held, write_held
from manager.keyed.last_windows import LastWindows
from manager.keyed.panes import Moment, PaneDecisions, WindowStates
from manager.keyed.released import ReleasedEnds
from manager.storage.manifest import TaskState
from manager.watermarks.substreams import Substreams
from policies.marks import NONE
from topologies.engine.batch.plan import Context, FireItem
from topologies.engine.fire.deciding import LetIn, let_in
from topologies.engine.fire.edges import concerned, expired, match_edges
from topologies.engine.fire.held_task import END_EDGES, HeldTask, OldEvents
from topologies.engine.ingest.repeats import Repeats
from topologies.engine.time.anchoring import anchored
from topologies.graph.model import WindowedNode
from windowing.time.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manager.storage.segments import Ref, SegmentWriter
    from topologies.engine.ingest.router import Router

KEYS, PANES, RELEASED = "keys", "panes", "released"
"""Names of tables in a task's state: the watermarks of its keys, the firings of its open windows, and the windows that
were already released exactly at the last limit."""


class AssignedTask(HeldTask):
    """One evaluation of such a task, in one batch."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router, context: Context) -> None:
        node = anchored(node, item.anchor)
        super().__init__(node, item.state, context.store)
        self.item, self.router, self.context = item, router, context
        self.assigners = node.assigners
        self.windowed = np.zeros(len(node.inputs), np.int64)
        self.unwindowed = np.zeros(len(node.inputs), np.int64)
        self.last_end: int | None = None
        self._substreams = self._open_substreams()
        field = node.bolt.settings.message_id_field
        repeats = None
        if field is not None:
            repeats = Repeats(node, item, context.store, lambda: self._old.live_columns(field))
        self._new: LetIn | None = let_in(item, node, router, self._old.live, self._substreams, repeats)
        self._next_end = item.state.next_end
        panes_table = item.state.tables.get(PANES)
        self._states = WindowStates.of(None if panes_table is None else context.store.read(panes_table))
        released_table = item.state.tables.get(RELEASED)
        self._released = ReleasedEnds.of(None if released_table is None else context.store.read(released_table))
        ends = item.state.tables.get(END_EDGES)
        self._waiting = None if ends is None else read_held(context.store, ends)[0]
        self._number = item.state.evaluations
        self._open_ends = item.state.open_ends

    def windows(self) -> Iterator[TupleWindow]:
        """Yield the due windows in order. Exhaust the iterator before calling ``finish``."""
        if self._new is not None and concerned(self._new, self._waiting):
            self._match_edges()
        if self._waiting is not None:
            self._waiting = expired(self.node, self.router, self._waiting, self.item.frontier)
        if not self._due():
            return
        old = self._still_needed()
        new = None if self._new is None else self._new.events
        parts = [part for part in (old, new) if part is not None]
        if not any(part.gone is None or not part.gone.all() for part in parts):
            self._next_end, self._states, self._open_ends = None, WindowStates.of(None), []
            self._released = ReleasedEnds.of(None)
            if self._substreams is not None:
                self._substreams.raise_floor(self.item.floor)
            self._finish_keys()
            return
        self._evaluated = True
        events = Held.concat(parts)
        count, before = len(events), 0 if old is None else len(old)
        self._seen = np.zeros(count, np.bool_) if events.seen is None else events.seen.copy()
        self._gone = np.zeros(count, np.bool_) if events.gone is None else events.gone.copy()
        last = LastWindows(events, self.node.streams) if self.node.remembers else None
        after: int = NONE if self.item.passed is None else self.item.passed
        for index, limit in () if self._new is None else self._new.splits:
            yield from self._evaluate(events, before + index, after, max(after, limit), last)
            after = max(after, limit)
        if self._substreams is not None:
            self._substreams.raise_floor(self.item.floor)
        yield from self._evaluate(events, count, after, self.item.frontier, last)
        self._last = None if last is None else last.flags()
        if self._substreams is not None and self.item.frontier == FOREVER and self.last_end is not None:
            self._substreams.raise_floor(self.last_end)
        self._finish_keys()

    def finish(self) -> TaskState:
        """Write the events that are still needed; return the state of the task after the batch."""
        streams = len(self.node.inputs)
        with self.context.store.writer(self.context.folder) as writer:
            refs = self._kept(writer, streams)
            tables = dict(self.state.tables)
            if self._substreams is not None:
                table = self._substreams.table()
                tables.pop(KEYS, None)
                if table is not None:
                    tables[KEYS] = writer.add(table)
            tables.pop(PANES, None)
            if len(self._states):
                tables[PANES] = writer.add(self._states.table())
            tables.pop(RELEASED, None)
            if len(self._released):
                tables[RELEASED] = writer.add(self._released.table())
            waiting = self._wait(writer, tables, streams)
        decided = self._decided(streams) if self._evaluated else self.state.decided_by_stream
        manager = self.state.manager
        if self.last_end is not None:
            manager = replace(manager, last_reference=self.last_end)
        floor = self.state.floor if self._substreams is None else self._substreams.floor
        return replace(
            self.state, manager=manager, refs=refs, tables=tables, decided_by_stream=decided, next_end=self._next_end,
            floor=floor, evaluations=self._number + 1, open_ends=self._open_ends, waiting_by_stream=waiting,
        )  # fmt: skip

    def _wait(self, writer: SegmentWriter, tables: dict[str, Ref], streams: int) -> list[int]:
        """Write the end edges that still wait for their starts; return their counts per input, empty where there are
        none."""
        tables.pop(END_EDGES, None)
        if self._waiting is None or not len(self._waiting):
            return []
        ref = tables[END_EDGES] = write_held(writer, replace(self._waiting, seen=None), streams)
        assert self._waiting.ends is not None
        first = int(self._waiting.ends.min())
        self._next_end = first if self._next_end is None else min(first, self._next_end)
        return list(ref.by_stream)

    @property
    def _arrived(self) -> Held | None:
        return None if self._new is None else self._new.events

    @property
    def counts(self) -> dict[str, NDArray[np.int64]]:
        """Per account, the counts of events by input stream."""
        return {"windowed": self.windowed, "unwindowed": self.unwindowed}

    @property
    def over(self) -> int:
        """Windows that end up to this time, in microseconds, are closed."""
        return NONE if self.item.frontier is None else self.item.frontier

    def _due(self) -> bool:
        """Whether a window may be due. If not, the events of earlier batches are not read."""
        frontier, new = self.item.frontier, self._new
        settings = self.node.bolt.settings
        if settings.panes is not None or settings.idle_timeout is not None:
            return True
        if frontier is None and self._substreams is None:
            self._bound(new)
            return False
        if self._substreams is not None or frontier == FOREVER or (new is not None and new.splits):
            return True
        assert frontier is not None
        if self._next_end is not None and self._next_end <= frontier:
            return True
        if new is not None and int(new.events.times.min()) <= frontier:
            return True
        self._bound(new)
        return False

    def _bound(self, new: LetIn | None) -> None:
        """Lower the time of the next window end to the earliest new event: no window of new events ends before it."""
        if new is not None:
            first = int(new.events.times.min())
            self._next_end = first if self._next_end is None else min(first, self._next_end)

    def _still_needed(self) -> Held | None:
        return self._old.kept() if self.node.remembers else self._old.live()

    def _evaluate(
        self, events: Held, upper: int, after: int, upto: int | None, last: LastWindows | None
    ) -> Iterator[TupleWindow]:
        chosen = np.flatnonzero(~self._gone[:upper])
        whole = len(chosen) == len(events)
        held = events if whole else events.take(chosen)
        held = replace(held, seen=self._seen[chosen])
        windows = AssignedWindows(
            self.assigners, held, self.node.streams, key=self.node.bolt.settings.key, task=self.item.task,
            released=self._released, last=None if last is None else (last, chosen),
        )  # fmt: skip
        span = self._span(windows, held, after, upto)
        decisions = self._pane_decisions(upto)
        firings = windows.windows(span) if decisions is None else windows.panes(span, decisions)
        for window in firings:
            self.last_end = max(window.end_timestamp, NONE if self.last_end is None else self.last_end)
            yield window
        flags = windows.flags()
        self._seen[chosen] = (flags & SEEN) != 0
        self._gone[chosen] = (flags & GONE) != 0
        self.windowed += windows.accounts.by_stream("windowed")
        self.unwindowed += windows.accounts.by_stream("unwindowed")
        self._next_end = windows.next_end(span)
        if decisions is not None:
            self._states = decisions.states()
        if self.node.bolt.settings.idle_timeout is not None:
            self._open_ends = windows.open_ends(span)

    def _pane_decisions(self, upto: int | None) -> PaneDecisions | None:
        """The pane decisions of this evaluation; None where windows fire only once."""
        panes = self.node.bolt.settings.panes
        if panes is None:
            return None
        mark = NONE if self.item.now is None else self.item.now
        limit = NONE if upto is None else upto
        reached = FOREVER if limit == FOREVER else max(limit, self._reached(mark))
        return PaneDecisions(panes, self._states, Moment(self._number, self.item.clock, mark, reached, limit))

    def _reached(self, mark: int) -> int:
        """The time up to which windows have ended, although late events may still be admitted to them."""
        if not self.node.event_time or mark == NONE:
            return NONE
        return mark - self.node.past_the_end

    def _span(self, windows: AssignedWindows, held: Held, after: int, upto: int | None) -> Span:
        if upto is None and self._substreams is None:
            return Span(after, NONE)
        if self._substreams is None or upto == FOREVER:
            assert upto is not None
            if self._substreams is not None:
                assert held.keys is not None
                return windows.span_of(self._over(self._substreams.limits(held.keys)[0]), FOREVER)
            return Span(after, upto)
        assert held.keys is not None
        passed, marks = self._substreams.limits(held.keys)
        return windows.span_of(self._over(passed), self._over(marks))

    def _over(self, marks: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.node.over(marks)

    def _open_substreams(self) -> Substreams | None:
        settings = self.node.bolt.settings
        if not (settings.watermark_per_key and self.node.event_time):
            return None
        kept = self.state.tables.get(KEYS)
        table = None if kept is None else self.context.store.read(kept)
        return Substreams(table, settings.delay, NONE if self.state.floor is None else self.state.floor)

    def _finish_keys(self) -> None:
        if self._substreams is not None:
            self._substreams.evaluated()

    def _match_edges(self) -> None:
        """Match start edges with the end edges that have arrived. All events are then written again."""
        assert self._new is not None
        matched = match_edges(self.node, self.router, self._still_needed(), self._waiting, self._new)
        self._old = OldEvents(self.context.store, ())
        self.state = replace(self.state, refs=[])
        self._new, self._waiting = LetIn(matched.events) if len(matched.events) else None, matched.waiting
