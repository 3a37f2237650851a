"""Windows that assigners form, in one task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.assigned import AssignedWindows, Span
from manager.keyed.empty_windows import EmptyWindows
from manager.keyed.held import GONE, SEEN, Held
from manager.keyed.held_segments import read_held, write_held
from manager.keyed.known_keys import KnownKeys
from manager.keyed.last_windows import LastWindows
from manager.keyed.panes import EvaluationTime, PaneDecisions, PaneStates
from manager.keyed.released import ReleasedEnds
from manager.storage.ref import Ref
from manager.storage.segments import SegmentWriter
from manager.storage.task_state import AssignedState
from manager.watermarks.substreams import Substreams
from policies.assigners import GridWindows
from policies.marks import NONE
from topologies.engine.admission.deciding import AdmissionContext, Marks
from topologies.engine.fire.admitting import Admitted
from topologies.engine.fire.edges import concerned, expired, match_edges
from topologies.engine.fire.held_task import HeldTask, OldEvents
from topologies.engine.fire.task_windows import Firing, TaskSnapshot
from topologies.engine.ingest.router import Router
from topologies.engine.work.items import FireItem
from topologies.graph.model import WindowedNode
from windowing.data.schema import value_type
from windowing.time.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


class AssignedTask(HeldTask):
    """The live events of a task and the windows that assigners form of them."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        super().__init__(item, node, router)
        assert isinstance(item.state.windows, AssignedState)
        before = self._before = item.state.windows
        self.windowed = np.zeros(len(node.inputs), np.int64)
        self.unwindowed = np.zeros(len(node.inputs), np.int64)
        self._substreams = self._open_substreams()
        self._admitted: Admitted | None = None
        self._next_end, self._open_ends = before.next_end, list(before.open_ends)
        self._last_end: int | None = None
        """The end of the last window that fired in this batch."""
        self._states = PaneStates.of(self._table(before.panes))
        self._released = ReleasedEnds.of(self._table(before.released))
        self._known = self._known_keys()
        self._waiting = None if before.end_edges is None else read_held(self.context.store, before.end_edges)[0]

    @property
    def admission_context(self) -> AdmissionContext:
        """The live events, for sessions and message ids, and the watermarks of the keys."""
        return AdmissionContext(self._old.live, None if self._substreams is None else self._key_marks)

    def accept(self, admitted: Admitted) -> None:
        """Take the admitted events of the batch."""
        self._admitted, self._new = admitted, admitted.events

    def advance(self) -> Iterator[Firing]:
        """Yield the due windows in order."""
        if self._admitted is not None and concerned(self._admitted, self._waiting):
            self._match_edges()
        if self._waiting is not None:
            self._waiting = expired(self.node, self.router, self._waiting, self.item.frontiers.current)
        if not self._due():
            return
        old = self._still_needed()
        parts = [part for part in (old, self._new) if part is not None]
        if self._known is not None and len(self._known):
            parts = parts or [self._no_events()]
        elif not any(part.gone is None or not part.gone.all() for part in parts):
            self._next_end, self._states, self._open_ends = None, PaneStates.of(None), []
            self._released = ReleasedEnds.of(None)
            if self._substreams is not None:
                self._substreams.raise_floor(self.item.end.floor)
            self._finish_keys()
            return
        self._evaluated = True
        events = Held.concat(parts)
        count, before = len(events), 0 if old is None else len(old)
        self._been_in_window = np.zeros(count, np.bool_) if events.seen is None else events.seen.copy()
        self._unneeded = np.zeros(count, np.bool_) if events.gone is None else events.gone.copy()
        last = LastWindows(events, self.node.streams) if self.node.remembers else None
        after: int = NONE if self.item.frontiers.previous is None else self.item.frontiers.previous
        for index, limit in self._splits:
            yield from self._evaluate(events, before + index, after, max(after, limit), last)
            after = max(after, limit)
        if self._substreams is not None:
            self._substreams.raise_floor(self.item.end.floor)
        yield from self._evaluate(events, count, after, self.item.frontiers.current, last)
        self._in_last_window = None if last is None else last.flags()
        if self._substreams is not None and self.item.frontiers.current == FOREVER and self._last_end is not None:
            self._substreams.raise_floor(self._last_end)
        self._finish_keys()

    def snapshot(self, writer: SegmentWriter) -> TaskSnapshot:
        """The live events, and what is known of their keys and windows."""
        streams, before = len(self.node.inputs), self._before
        refs = self._write_needed(writer, streams)
        substreams = self._substreams
        keys = None if substreams is None else substreams.table()
        waiting, next_end = self._write_waiting(writer, streams), self._next_end
        if waiting is not None:
            next_end = waiting.earliest_end if next_end is None else min(waiting.earliest_end, next_end)
        windows = AssignedState(
            next_end=next_end,
            last_end=before.last_end if self._last_end is None else self._last_end,
            evaluations=before.evaluations + 1,
            floor=before.floor if substreams is None else substreams.floor,
            open_ends=tuple(self._open_ends),
            waiting_by_stream=() if waiting is None else waiting.ref.by_stream,
            keys=None if keys is None else writer.add(keys),
            known=self._write_known(writer),
            panes=writer.add(self._states.table()) if len(self._states) else None,
            released=writer.add(self._released.table()) if len(self._released) else None,
            end_edges=None if waiting is None else waiting.ref,
        )
        counts = {"windowed": self.windowed, "unwindowed": self.unwindowed}
        closed_until = NONE if self.item.frontiers.current is None else self.item.frontiers.current
        return TaskSnapshot(windows, refs, self._accounted(streams), counts, closed_until=closed_until)

    def _key_marks(self, keys: NDArray[np.int64], times: NDArray[np.int64], counts: NDArray[np.bool_]) -> Marks:
        assert self._substreams is not None
        own, after = self._substreams.advance(keys, times, counts)
        own = np.maximum(own, self._substreams.floor)
        return Marks(own, own, after)

    def _due(self) -> bool:
        """Whether a window may be due. If not, the events of earlier batches are not read."""
        frontier, new = self.item.frontiers.current, self._new
        settings = self.node.bolt.settings
        if settings.panes is not None or settings.idle_timeout is not None:
            return True
        if frontier is None and self._substreams is None:
            self._bound(new)
            return False
        if self._substreams is not None or frontier == FOREVER or self._splits:
            return True
        assert frontier is not None
        if self._next_end is not None and self._next_end <= frontier:
            return True
        if new is not None and int(new.times.min()) <= frontier:
            return True
        self._bound(new)
        return False

    def _bound(self, new: Held | None) -> None:
        """Lower the time of the next window end to the earliest new event: no window of new events ends before it."""
        if new is not None:
            first = int(new.times.min())
            self._next_end = first if self._next_end is None else min(first, self._next_end)

    def _still_needed(self) -> Held | None:
        return self._old.needed() if self.node.remembers else self._old.live()

    def _evaluate(
        self, events: Held, upper: int, after: int, upto: int | None, last: LastWindows | None
    ) -> Iterator[TupleWindow]:
        chosen = np.flatnonzero(~self._unneeded[:upper])
        whole = len(chosen) == len(events)
        held = events if whole else events.take(chosen)
        held = replace(held, seen=self._been_in_window[chosen])
        windows = AssignedWindows(
            self.node.assigners, held, self.node.streams, keys=self.node.keys, task=self.item.task,
            released=self._released, last=None if last is None else (last, chosen),
        )  # fmt: skip
        span = self._span(windows, held, after, upto)
        decisions = self._pane_decisions(upto)
        empty = self._empty_windows(upto)
        if empty is not None:
            firings = windows.windows_and_empty(span, empty)
        else:
            firings = windows.windows(span) if decisions is None else windows.panes(span, decisions)
        for window in firings:
            self._last_end = max(window.end_timestamp, NONE if self._last_end is None else self._last_end)
            yield window
        flags = windows.flags()
        self._been_in_window[chosen] = (flags & SEEN) != 0
        self._unneeded[chosen] = (flags & GONE) != 0
        self.windowed += windows.accounts.by_stream("windowed")
        self.unwindowed += windows.accounts.by_stream("unwindowed")
        self._next_end = windows.next_end(span)
        if empty is not None:
            ends = [end for end in (self._next_end, empty.next_end()) if end is not None]
            self._next_end = min(ends, default=None)
        if decisions is not None:
            self._states = decisions.states()
        if self.node.bolt.settings.idle_timeout is not None:
            self._open_ends = windows.open_ends(span)

    def _known_keys(self) -> KnownKeys | None:
        """The keys whose windows fire without events too; None where no such window fires."""
        if self.node.bolt.settings.empty_windows_until is None:
            return None
        table = self._table(self._before.known)
        if table is not None:
            return KnownKeys(table)
        key = [self.node.schema.field(name) for name in self.node.bolt.settings.key]
        return KnownKeys.none(pa.schema([(column.name, value_type(column.type)) for column in key]))

    def _empty_windows(self, upto: int | None) -> EmptyWindows | None:
        """The windows without events that are due; None where none fires."""
        until = self.node.bolt.settings.empty_windows_until
        if until is None:
            return None
        (grid,) = self.node.assigners
        assert isinstance(grid, GridWindows)
        assert self._known is not None
        limit = self._empty_windows_until(grid) if upto == FOREVER else NONE if upto is None else upto
        return EmptyWindows(grid, until.micros, self._known, limit)

    def _empty_windows_until(self, grid: GridWindows) -> int:
        """Up to where windows without events are due at the end of the streams, in microseconds: what the watermark has
        passed, and those in which the latest event of the bolt may be."""
        end, until = self.item.end, NONE
        if self.node.event_time and end.watermark is not None:
            until = int(self.node.closed_until(np.array([end.watermark]))[0])
        if end.latest == NONE:
            return until
        assert grid.last_end is not None
        return max(until, int(grid.last_end(np.array([end.latest]), None)[0]))

    def _no_events(self) -> Held:
        """No events, with the columns of the bolt."""
        none = np.zeros(0, np.int64)
        streams = np.zeros(0, np.int8) if len(self.node.inputs) > 1 else None
        keys = none if self.node.bolt.settings.key else None
        return Held(times=none, payload=self.node.schema.empty_table(), streams=streams, keys=keys)

    def _pane_decisions(self, upto: int | None) -> PaneDecisions | None:
        """The pane decisions of this evaluation; None where windows fire only once."""
        panes = self.node.bolt.settings.panes
        if panes is None:
            return None
        mark = NONE if self.item.end.watermark is None else self.item.end.watermark
        limit = NONE if upto is None else upto
        ended_until = FOREVER if limit == FOREVER else max(limit, self._ended_until(mark))
        return PaneDecisions(
            panes, self._states, EvaluationTime(self._before.evaluations, self.item.end.clock, mark, ended_until, limit)
        )

    def _ended_until(self, mark: int) -> int:
        """The time up to which windows have ended, although late events may still be admitted to them."""
        if not self.node.event_time or mark == NONE:
            return NONE
        return mark - self.node.closes_after_end

    def _span(self, windows: AssignedWindows, held: Held, after: int, upto: int | None) -> Span:
        if upto is None and self._substreams is None:
            return Span(after, NONE)
        if self._substreams is None or upto == FOREVER:
            assert upto is not None
            if self._substreams is not None:
                assert held.keys is not None
                return windows.span_of(self._closed_until(self._substreams.limits(held.keys)[0]), FOREVER)
            return Span(after, upto)
        assert held.keys is not None
        previous, marks = self._substreams.limits(held.keys)
        return windows.span_of(self._closed_until(previous), self._closed_until(marks))

    def _closed_until(self, marks: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.node.closed_until(marks)

    def _open_substreams(self) -> Substreams | None:
        settings = self.node.bolt.settings
        if not (settings.watermark_per_key and self.node.event_time):
            return None
        before = self._before
        return Substreams(self._table(before.keys), settings.delay, NONE if before.floor is None else before.floor)

    def _table(self, ref: Ref | None) -> pa.Table | None:
        return None if ref is None else self.context.store.read(ref)

    def _finish_keys(self) -> None:
        if self._substreams is not None:
            self._substreams.evaluated()

    @property
    def _splits(self) -> tuple[tuple[int, int], ...]:
        return () if self._admitted is None else self._admitted.splits

    def _match_edges(self) -> None:
        """Match start edges with the end edges that have arrived. All events are then written again."""
        assert self._admitted is not None
        matched = match_edges(self.node, self.router, self._still_needed(), self._waiting, self._admitted)
        self._old = OldEvents(self.context.store, ())
        self._admitted, self._waiting = Admitted(matched.events) if len(matched.events) else None, matched.waiting
        self._new = None if self._admitted is None else self._admitted.events

    def _write_known(self, writer: SegmentWriter) -> Ref | None:
        """Write the keys whose windows fire without events too; those that have not changed stay where they are."""
        if not self._evaluated:
            return self._before.known if self._known is not None else None
        return writer.add(self._known.table()) if self._known is not None and len(self._known) else None

    def _write_waiting(self, writer: SegmentWriter, streams: int) -> _Waiting | None:
        """Write the end edges that still wait for their starts; None where there are none."""
        waiting = self._waiting
        if waiting is None or not len(waiting):
            return None
        assert waiting.ends is not None
        return _Waiting(write_held(writer, replace(waiting, seen=None), streams), int(waiting.ends.min()))


@dataclass(frozen=True)
class _Waiting:
    """End edges that wait for their starts, as they are stored."""

    ref: Ref
    earliest_end: int
