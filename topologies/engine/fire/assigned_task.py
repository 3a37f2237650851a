"""A task whose windows assigners form: restoring, evaluating, firing and saving them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.assigned_windows import AssignedWindows, EmptyWindows, Span
from manager.keyed.fired_windows import ClosedEarly, EvaluationTime, FiredAtLimit, LastFired, PaneDecisions, PaneStates
from manager.keyed.key_states import KnownKeys, Substreams
from manager.keyed.retained_events import (
    ACCOUNTED,
    FINISHED,
    IN_LAST_WINDOW,
    RetainedEvents,
    read_retained,
    write_retained,
)
from manager.keyed.run_sums import FiredSums, RunSums
from manager.storage.segments import Ref, SegmentStore, SegmentWriter
from manager.storage.task_state import AssignedState
from policies.assigners import GridWindows
from policies.watermarks import NONE
from topologies.engine.admission import AdmissionContext, Marks
from topologies.engine.failures import bolt_failure
from topologies.engine.fire.task_windows import Admitted, Firing, StillOpen, TaskEvents, TaskSnapshot, no_events
from topologies.engine.ingest import Router
from topologies.engine.plain_bolts import refuse_end_edges
from topologies.engine.task_data import BatchEnd, FireItem
from topologies.graph.graph import WindowedNode
from topologies.graph.groupings import KeyCodes, ListedRows, comparable, key_rows, value_codes
from windowing.columns import take_rows
from windowing.durations import Duration
from windowing.schema import value_type
from windowing.settings.panes import Panes
from windowing.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.aligned import Limit

# Versions are events that last until the next version of their key begins.


def end_versions(old: RetainedEvents | None, new: RetainedEvents, versions: int, codes: KeyCodes) -> RetainedEvents:
    """Returns the events of a task; each version ends at the latest when the next version of its key begins.

    If versions have the same start, the last to arrive counts. The result does not depend on where batches end: no
    admitted event is before the watermark, and versions have met their partners up to the watermark.
    """
    events = new if old is None else RetainedEvents.concat([old, new])
    assert events.streams is not None
    key_codes = codes.apply(events).keys
    assert key_codes is not None
    assert events.ends is not None
    rows = np.flatnonzero(events.streams == versions)
    rows = rows[np.lexsort((events.times[rows], key_codes[rows]))]
    keys, following = key_codes[rows], np.full(len(rows), FOREVER)
    following[:-1] = np.where(keys[1:] == keys[:-1], events.times[rows[1:]], FOREVER)
    ends = events.ends.copy()
    ends[rows] = np.minimum(ends[rows], following)
    return replace(events, ends=ends)


# Matching of edges: a second event, the end edge, announces the end of an event (SI-3). An end edge waits if its start
# has not arrived (SI-19).


@dataclass(frozen=True)
class WrittenEdges:
    """Stored end edges that wait for their starts."""

    ref: Ref
    earliest_end: int
    """The earliest of their ends, in microseconds."""


class WaitingEdges:
    """Matches the end edges of a task with their starts, and keeps end edges whose starts have not arrived."""

    def __init__(self, node: WindowedNode, router: Router, stored: Ref | None) -> None:
        self._node, self._router = node, router
        self._waiting = None if stored is None else read_retained(router.context.store, stored)[0]

    def may_match(self, new: Admitted) -> bool:
        """True if an admitted event may match, so that all live events must be examined: an end edge arrived, or a
        start for which an end edge waits."""
        if new.end_edges is not None and new.end_edges.any():
            return True
        waiting = self._waiting
        if waiting is None or waiting.edges is None or new.events.edges is None:
            return False
        if not np.isin(new.events.edges, waiting.edges).any():
            return False
        edges = self._edges(RetainedEvents.concat([waiting, new.events]))
        return bool(np.isin(edges[len(waiting) :], edges[: len(waiting)]).any())

    def match(self, live: RetainedEvents | None, new: Admitted) -> RetainedEvents:
        """Matches start edges with arrived end edges, in either order of arrival (SI-19). Returns the live and the
        admitted events without end edges.

        An end edge ends the oldest open start edge with its start time and key, and is itself in no window. An end edge
        whose start has not arrived waits for it (see ``expire``).
        """
        assert new.end_edges is not None
        waiting = self._waiting
        events = RetainedEvents.concat([held for held in (live, waiting, new.events) if held is not None])
        assert events.ends is not None
        first_new = len(events) - len(new.events)
        is_end_edge = np.zeros(len(events), np.bool_)
        is_end_edge[first_new:] = new.end_edges
        if waiting is not None:
            is_end_edge[first_new - len(waiting) : first_new] = True
        closed_until = np.full(len(events), NONE) if events.closed_until is None else events.closed_until
        ends = events.ends.copy()
        matched = np.zeros(len(events), np.bool_)
        edges = self._edges(events)
        open_starts: dict[int, deque[int]] = defaultdict(deque)
        early_ends: dict[int, deque[int]] = defaultdict(deque)
        for row in np.flatnonzero(np.isin(edges, edges[is_end_edge])).tolist():
            edge = int(edges[row])
            if is_end_edge[row]:
                if open_starts[edge]:
                    ends[open_starts[edge].popleft()] = events.ends[row]
                    matched[row] = True
                else:
                    early_ends[edge].append(row)
            elif ends[row] == FOREVER:
                # An end edge that had expired when this start came does not match, wherever batches end.
                if early_ends[edge] and events.ends[early_ends[edge][0]] >= closed_until[row]:
                    end = early_ends[edge].popleft()
                    ends[row] = events.ends[end]
                    matched[end] = True
                else:
                    open_starts[edge].append(row)
        # A start that was moved to its end or beyond leaves no event, in whichever order the two came (SI-13).
        is_empty = ~is_end_edge & (ends <= events.times)
        unaccounted = is_empty if events.accounted is None else is_empty & ~events.accounted
        self._router.ledger.count_chosen(self._node, "unwindowed", _input_of_each_event(events), matched | unaccounted)
        self._waiting = events.take(np.flatnonzero(is_end_edge & ~matched))
        return replace(events, ends=ends).take(np.flatnonzero(~is_end_edge & ~is_empty))

    def expire(self, frontier: int | None) -> None:
        """Rejects end edges that can match no start any more, because they end before the frontier (microseconds). One
        that ends at the frontier may match a late start that is moved to it, so that nothing is left of both."""
        waiting, router = self._waiting, self._router
        if waiting is None:
            return
        assert waiting.ends is not None
        ended = waiting.ends < (NONE if frontier is None else frontier)
        if ended.any():
            indices = np.flatnonzero(ended)
            unmatched, inputs = take_rows(waiting.payload, indices), _input_of_each_event(waiting)[indices]
            refuse_end_edges(self._node, unmatched, inputs, router.context.clock, router.ledger, router.emit)
        self._waiting = waiting.take(np.flatnonzero(~ended))

    def write(self, writer: SegmentWriter) -> WrittenEdges | None:
        """Writes the waiting end edges; returns None if there are none."""
        edges = self._waiting
        if edges is None or not len(edges):
            return None
        assert edges.ends is not None
        ref = write_retained(writer, replace(edges, accounted=None), len(self._node.inputs))
        return WrittenEdges(ref, int(edges.ends.min()))

    def _edges(self, events: RetainedEvents) -> NDArray[np.int64]:
        """Returns a number for each event. A start edge and its end edge have the same number, because they have the
        same start time, input and key."""
        assert events.edges is not None
        lifetime = self._node.bolt.settings.lifetime
        assert lifetime is not None
        numbers = [pa.array(events.edges), pa.array(_input_of_each_event(events))]
        return value_codes([*numbers, *(comparable(events.payload.column(name)) for name in lifetime.edge_key)])[0]


def _input_of_each_event(events: RetainedEvents) -> NDArray[np.int8]:
    return np.zeros(len(events), np.int8) if events.streams is None else events.streams


# The watermarks of a task's keys, if each key has its own (AZ-15).


@dataclass(frozen=True)
class KeyWatermarks:
    """Advances the watermarks of keys, and tells up to which time the windows of each key are due."""

    node: WindowedNode
    substreams: Substreams

    @staticmethod
    def restore(node: WindowedNode, state: AssignedState, store: SegmentStore) -> KeyWatermarks | None:
        """Returns the watermarks of keys from a task's state; None if the bolt has one watermark for all keys."""
        settings = node.bolt.settings
        if not (settings.watermark_per_key and node.event_time):
            return None
        table = None if state.keys is None else store.read(state.keys)
        return KeyWatermarks(node, Substreams(table, settings.delay, NONE if state.floor is None else state.floor))

    @property
    def floor(self) -> int:
        """Lower bound on the watermarks of all keys, in microseconds."""
        return self.substreams.floor

    def advance(
        self, keys: NDArray[np.int64], times: NDArray[np.int64], advancing: NDArray[np.bool_], values: pa.Table
    ) -> Marks:
        """Called as ``KeyMarks`` is: once, with the events of a batch in order of arrival."""
        marks, marks_after = self.substreams.advance(keys, times, advancing, values)
        marks = np.maximum(marks, self.substreams.floor)
        return Marks(marks, marks, marks_after)

    def span(self, keys: NDArray[np.int64], upto: int | None) -> tuple[Limit, Limit]:
        """Returns the range of window ends to evaluate for each event, by the code of its key: after the first time,
        and up to the second. ``upto``: the current frontier."""
        previous, current = self.substreams.limits(keys)
        closed_until_at = self.node.closed_until_at
        return closed_until_at(previous), FOREVER if upto == FOREVER else closed_until_at(current)

    def write(self, writer: SegmentWriter) -> Ref | None:
        """Writes the watermarks; returns None if there are none."""
        table = self.substreams.table()
        return None if table is None else writer.add(table)


# The keys of a task whose windows fire even without events (decision 46).


class TaskKnownKeys:
    """The known keys of a task, and the time up to which their windows without events are due."""

    def __init__(
        self,
        until: Duration,
        node: WindowedNode,
        before: AssignedState,
        item: FireItem,
        store: SegmentStore,
        codes: KeyCodes,
    ) -> None:
        """``until``: the time for which a key is known after its last window with events."""
        self._until, self._node, self._end, self._stored = until, node, item.end, before.known
        self._known = (
            KnownKeys.empty(_key_schema(node)) if before.known is None else KnownKeys(store.read(before.known))
        )
        self._listed: NDArray[np.int64] | None = None
        if node.listed is not None:
            self._add_listed(node.listed[item.task], codes)

    def _add_listed(self, rows: ListedRows, codes: KeyCodes) -> None:
        """Adds listed keys that are not known yet; each is known from its listed time."""
        self._listed = codes.codes_of_rows(rows.table, rows.hashes, [self.table])
        new = self._known.indices_of_new(self._listed)
        self._known.add(self._listed[new], rows.table.take(pa.array(new)), rows.since)

    @property
    def table(self) -> pa.Table:
        """The known keys, with their codes."""
        return self._known.table()

    def __len__(self) -> int:
        """Returns the number of known keys."""
        return len(self._known)

    def empty_windows(self, upto: int | None) -> EmptyWindows:
        """Returns the windows without events of one evaluation; they end up to this frontier (microseconds)."""
        (grid,) = self._node.assigners
        assert isinstance(grid, GridWindows)
        limit = self._due_at_the_end(grid) if upto == FOREVER else NONE if upto is None else upto
        return EmptyWindows(grid, self._until.micros, self._known, limit, self._listed)

    def write(self, writer: SegmentWriter, *, evaluated: bool) -> Ref | None:
        """Writes the keys, unless they are unchanged."""
        if not evaluated:
            return self._stored
        return writer.add(self._known.table()) if len(self._known) else None

    def _due_at_the_end(self, grid: GridWindows) -> int:
        """Returns the time in microseconds up to which windows without events are due at the end of the streams: the
        time up to which the watermark has closed windows, or the end of the last window that may hold the bolt's latest
        event."""
        if self._end.latest == NONE:
            return self._end.closed_until
        assert grid.last_end is not None
        return max(self._end.closed_until, int(grid.last_end(np.array([self._end.latest]), None)[0]))


def _key_schema(node: WindowedNode) -> pa.Schema:
    columns = [node.schema.field(name) for name in node.bolt.settings.key]
    return pa.schema([(column.name, value_type(column.type)) for column in columns])


# The panes of a task's open windows, if windows fire more than once.


class TaskPanes:
    """The states of a task's open windows, and decisions about their firings."""

    def __init__(
        self, panes: Panes, node: WindowedNode, before: AssignedState, end: BatchEnd, store: SegmentStore
    ) -> None:
        self._panes, self._node, self._end = panes, node, end
        self._evaluations = before.evaluations
        self._states = PaneStates.of(None if before.panes is None else store.read(before.panes))

    @property
    def closed_early(self) -> ClosedEarly | None:
        """The windows that a firing has closed before their end; None without such windows."""
        return ClosedEarly(self._states, self._node.assigners) if self._panes.closes else None

    @property
    def states(self) -> PaneStates:
        """The states of the open windows."""
        return self._states

    def decisions(self, upto: int | None, *, within_batch: bool) -> PaneDecisions:
        """Returns the decisions of one evaluation, which closes windows that end up to this frontier (microseconds).
        ``within_batch``: True before further events of the batch are added."""
        watermark = NONE if self._end.watermark is None else self._end.watermark
        closed_until = NONE if upto is None else upto
        # Windows have ended, but late events may still be admitted to them.
        ended_until = closed_until if within_batch else max(closed_until, watermark - self._node.closes_after_end)
        time = EvaluationTime(
            self._evaluations, self._end.clock, watermark, ended_until, closed_until, self._lateness(), within_batch
        )
        return PaneDecisions(self._panes, self._states, time)

    def update(self, decisions: PaneDecisions) -> None:
        """Takes over the states of the windows after an evaluation."""
        self._states = decisions.states()

    def forget(self) -> None:
        """Called when no window is open."""
        self._states = PaneStates.of(None)

    def write(self, writer: SegmentWriter) -> Ref | None:
        """Writes the states; returns None if no window is open."""
        return writer.add(self._states.table()) if len(self._states) else None

    def _lateness(self) -> int | None:
        """Returns how long windows accept late events, in microseconds; None if more than the watermark closes them."""
        settings = self._node.bolt.settings
        alone = self._node.event_time and settings.idle_timeout is None
        return settings.allowed_lateness.micros if alone else None


# Evaluations of a task's windows: from live events to windows, and the state of windows afterwards.


@dataclass(frozen=True)
class EvaluationScope:
    """The events of an evaluation, and the range of its window ends in microseconds."""

    events: RetainedEvents
    count: int
    """Number of evaluated events, counted from the first."""
    after: int
    upto: int | None
    last: LastFired | None
    """The last window of each key; None if the bolt does not use expired events."""

    @property
    def within_batch(self) -> bool:
        """True if further events of the batch will be added."""
        return self.count < len(self.events)


class Evaluations:
    """Evaluates the windows of a task, and keeps their state between evaluations."""

    def __init__(
        self,
        item: FireItem,
        node: WindowedNode,
        before: AssignedState,
        store: SegmentStore,
        keys: KeyWatermarks | None,
        codes: KeyCodes,
        sums: RunSums | None = None,
        traced: bool = False,
    ) -> None:
        """``sums`` and ``traced``: as for ``AssignedWindows``."""
        settings = node.bolt.settings
        self._node, self._task, self._keys = node, item.task, keys
        self._sums, self._traced = sums, traced
        self._latest = max(item.end.latest, item.end.closed_until - 1)
        self._panes = None if settings.panes is None else TaskPanes(settings.panes, node, before, item.end, store)
        until = settings.empty_windows_until
        self._known = None if until is None else TaskKnownKeys(until, node, before, item, store, codes)
        self._fired_at_limit = FiredAtLimit.of(
            None if before.fired_at_limit is None else store.read(before.fired_at_limit)
        )
        self.next_end = before.next_end
        """A time in microseconds before which no open window ends; None if no window is open."""
        self.open_ends: tuple[int, ...] = tuple(before.open_ends)
        """The ends of windows with events, if an idle timeout may close them."""
        self.last_end: int | None = None
        """The end of the last window that fired in this batch."""
        self.counts = {name: np.zeros(len(node.inputs), np.int64) for name in ("windowed", "unwindowed")}
        """For each account, the number of events that entered it in this batch, by input."""

    @property
    def closed_early(self) -> ClosedEarly | None:
        """The windows that a firing has closed before their end; None without such windows."""
        return None if self._panes is None else self._panes.closed_early

    @property
    def open_panes(self) -> PaneStates | None:
        """The open windows and their states after an evaluation; None if windows fire only once."""
        return None if self._panes is None else self._panes.states

    @property
    def known_keys(self) -> pa.Table | None:
        """The keys whose windows fire without events; None without such keys."""
        return None if self._known is None else self._known.table

    @property
    def needs_no_events(self) -> bool:
        """True if windows may fire without live events."""
        return self._known is not None and len(self._known) > 0

    def run(
        self, scope: EvaluationScope, flags: NDArray[np.uint8]
    ) -> Generator[TupleWindow | FiredSums, None, NDArray[np.uint8]]:
        """Yields the due windows. Takes the flags of all events before the evaluation, and returns their flags
        afterwards (ACCOUNTED, FINISHED)."""
        chosen = np.flatnonzero((flags[: scope.count] & FINISHED) == 0)
        all_chosen = len(chosen) == len(scope.events)
        events = replace(
            scope.events if all_chosen else scope.events.take(chosen), accounted=(flags[chosen] & ACCOUNTED) != 0
        )
        windows = AssignedWindows(
            self._node.assigners, events, self._node.streams, keys=self._node.keys,
            task=self._task, fired_at_limit=self._fired_at_limit,
            last_fired=None if scope.last is None else (scope.last, chosen),
            sums=self._sums, traced=self._traced, latest=self._latest,
        )  # fmt: skip
        span = self._span(windows, events, scope)
        for window in self._due_windows(windows, span, scope):
            end = int(window.windows.ends.max(initial=NONE)) if isinstance(window, FiredSums) else window.end_timestamp
            self.last_end = max(end, NONE if self.last_end is None else self.last_end)
            yield window
        for name in self.counts:
            self.counts[name] += windows.accounts.by_stream(name)
        after = flags.copy()
        after[chosen] = windows.flags()
        return after

    def forget(self) -> None:
        """Called instead of an evaluation if there are no live events, so that no window is open."""
        self.next_end, self.open_ends, self._fired_at_limit = None, (), FiredAtLimit.of(None)
        if self._panes is not None:
            self._panes.forget()

    def note_earliest(self, earliest: int) -> None:
        """Records an event that no evaluation has seen yet, by its time in microseconds: its windows end later."""
        self.next_end = earliest if self.next_end is None else min(earliest, self.next_end)

    def write_panes(self, writer: SegmentWriter) -> Ref | None:
        """Writes the states of open windows; returns None if no window is open."""
        return None if self._panes is None else self._panes.write(writer)

    def write_known(self, writer: SegmentWriter, *, evaluated: bool) -> Ref | None:
        """Writes the known keys; returns None if there are none."""
        return None if self._known is None else self._known.write(writer, evaluated=evaluated)

    def write_fired_at_limit(self, writer: SegmentWriter) -> Ref | None:
        """Writes the windows that fired exactly at the last limit; returns None if there are none."""
        return writer.add(self._fired_at_limit.table()) if len(self._fired_at_limit) else None

    def _span(self, windows: AssignedWindows, events: RetainedEvents, scope: EvaluationScope) -> Span:
        if self._keys is None:
            return Span(scope.after, NONE if scope.upto is None else scope.upto)
        assert events.keys is not None
        return windows.span_of(*self._keys.span(events.keys, scope.upto))

    def _due_windows(
        self, windows: AssignedWindows, span: Span, scope: EvaluationScope
    ) -> Iterator[TupleWindow | FiredSums]:
        """Yields the due windows, then records when the next ones are due."""
        empty = None if self._known is None else self._known.empty_windows(scope.upto)
        decisions: PaneDecisions | None = None
        if empty is not None:
            yield from windows.windows_and_empty(span, empty)
        elif self._panes is not None:
            decisions = self._panes.decisions(scope.upto, within_batch=scope.within_batch)
            yield from windows.panes(span, decisions)
            self._panes.update(decisions)
        elif self._sums is not None:
            yield from windows.fired_sums(span, self._sums)
        else:
            yield from windows.windows(span)
        ends = (windows.next_end(span), None if empty is None else empty.next_end())
        self.next_end = min((end for end in ends if end is not None), default=None)
        if self._node.bolt.settings.idle_timeout is not None:
            self.open_ends = tuple(windows.open_ends(span))


# A task whose windows assigners form: restoring, firing and saving them.


class AssignedTask:
    """The live events of a task, and the windows that assigners form of them."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        before, store = item.state.windows_as(AssignedState), router.context.store
        self._item, self._node, self._before = item, node, before
        self._events = TaskEvents(store, item.state, len(node.inputs))
        self._evaluate_before: tuple[tuple[int, int], ...] = ()
        """See ``Admitted.evaluate_before``."""
        self._edges = WaitingEdges(node, router, before.end_edges)
        self._keys = KeyWatermarks.restore(node, before, store)
        self._codes = KeyCodes.restore(node.keys, store, before.codes)
        self._batch, traced = router.context.batch, router.context.tracing
        self._sums = node.run_sums(traced)
        self._evaluations = Evaluations(
            item, node, before, store, self._keys, self._codes, sums=self._sums, traced=traced
        )
        self._flags: NDArray[np.uint8] | None = None
        """The flags of each event after the evaluation, old events first; None without events."""
        self._coded: NDArray[np.int64] | None = None
        """The codes of the keys of these events; None if events have no key."""
        self._listed = before.listed

    @property
    def admission_context(self) -> AdmissionContext:
        """Returns the live events, for sessions and message ids, the watermarks of the keys, and the windows that
        firings have closed."""
        key_marks = None if self._keys is None else self._keys.advance
        codes = self._code if any(self._node.keys) else None
        return AdmissionContext(self._live, key_marks, codes, closed_early=self._evaluations.closed_early)

    def accept(self, admitted: Admitted) -> None:
        """Takes the admitted events of the batch."""
        versions, new = self._node.versions_input, admitted.events
        if versions is not None and new.streams is not None and (new.streams == versions).any():
            self._events.replace_all(end_versions(self._needed_old_events(), new, versions, self._codes))
        elif self._edges.may_match(admitted):  # all events are then written again
            events = self._edges.match(self._needed_old_events(), admitted)
            self._events.replace_all(events if len(events) else None)
        elif self._sums is not None:
            self._events.new, self._evaluate_before = self._fold(self._sums, admitted)
        else:
            self._events.new, self._evaluate_before = admitted.events, admitted.evaluate_before

    def _fold(self, sums: RunSums, admitted: Admitted) -> tuple[RetainedEvents, tuple[tuple[int, int], ...]]:
        """Returns the admitted events, folded to rows with partial results, and the indices before which windows must
        be evaluated.

        If windows are evaluated between two events, these need not be live at the same time, so each part is folded by
        itself.
        """
        events, old = admitted.events, self._events.old.live() if sums.depends_on_counts else None
        assert old is None or not admitted.evaluate_before  # only lateness by window sets these
        codes, before = self._key_codes(events, old)
        rows, limits, start = list[RetainedEvents](), list[tuple[int, int]](), 0
        stops: list[tuple[int, int | None]] = [*admitted.evaluate_before, (len(events), None)]
        with bolt_failure(self._node.name, self._batch, "in adding up events"):
            for stop, limit in stops:
                if start < stop:
                    is_all = stop - start == len(events)
                    part = events if is_all else events.take(np.arange(start, stop))
                    rows.append(sums.fold(part, codes if codes is None or is_all else codes[start:stop], before))
                    start = stop
                if limit is not None:
                    limits.append((sum(map(len, rows)), limit))
        return RetainedEvents.concat(rows), tuple(limits)

    def _key_codes(
        self, events: RetainedEvents, old: RetainedEvents | None
    ) -> tuple[NDArray[np.int64] | None, RetainedEvents | None]:
        """Returns the codes of the keys of events, and the old rows with their codes. The codes only distinguish
        keys."""
        coder = KeyCodes(self._node.keys)
        if old is None:
            return coder.apply(events).keys, None
        codes = coder.apply(RetainedEvents.concat([_with_keys_only(each, self._node) for each in (old, events)])).keys
        assert codes is not None
        return codes[len(old) :], replace(old, keys=codes[: len(old)])

    def advance(self) -> Iterator[Firing]:
        """Yields the due windows in order."""
        self._edges.expire(self._item.frontiers.current)
        if not self._may_be_due():
            if self._events.new is not None:
                self._evaluations.note_earliest(int(self._events.new.times.min()))
            return
        self._listed = self._node.list_of_keys
        old = self._needed_old_events()
        parts = [part for part in (old, self._events.new) if part is not None]
        if self._evaluations.needs_no_events or any(part.has_live for part in parts):
            events = self._codes.apply(RetainedEvents.concat(parts or [no_events(self._node)]), self._key_tables())
            self._flags = yield from self._evaluate(events, 0 if old is None else len(old))
        else:
            self._evaluations.forget()
            yield from self._still_open()
            self._raise_floor(self._item.end.floor)
        if self._keys is not None:
            self._keys.substreams.mark_evaluated()

    def snapshot(self, writer: SegmentWriter) -> TaskSnapshot:
        """Writes the live events, and the state of their keys and windows."""
        before, evaluations = self._before, self._evaluations
        refs = self._events.write(writer, self._flags)
        keys = None if self._keys is None else self._keys.write(writer)
        edges = self._edges.write(writer)
        ends = (evaluations.next_end, None if edges is None else edges.earliest_end)
        windows = AssignedState(
            next_end=min((end for end in ends if end is not None), default=None),
            last_end=max((end for end in (before.last_end, evaluations.last_end) if end is not None), default=None),
            evaluations=before.evaluations + 1,
            floor=before.floor if self._keys is None else self._keys.floor,
            open_ends=evaluations.open_ends,
            keys=keys,
            known=evaluations.write_known(writer, evaluated=self._flags is not None),
            listed=self._listed,
            panes=evaluations.write_panes(writer),
            fired_at_limit=evaluations.write_fired_at_limit(writer),
            end_edges=None if edges is None else edges.ref,
            codes=self._codes.write(writer, self._coded, self._flags, self._key_tables() if len(self._codes) else []),
        )
        accounted = self._events.accounted_by_stream(self._flags)
        return TaskSnapshot(windows, refs, accounted, evaluations.counts)

    def _code(self, arriving: RetainedEvents) -> NDArray[np.int64]:
        """Returns the code of each arriving event's key, the same as in stored events and windows."""
        old = self._events.old.live(*self._key_column_names)
        parts = [arriving] if old is None else [_with_keys_only(old, self._node), _with_keys_only(arriving, self._node)]
        keys = self._codes.apply(RetainedEvents.concat(parts), self._key_tables()).keys
        assert keys is not None
        return keys[len(keys) - len(arriving) :]

    def _live(self, *columns: str) -> RetainedEvents | None:
        """Returns the live events of earlier batches, with the codes of their keys."""
        old = self._events.old.live(*dict.fromkeys([*columns, *self._key_column_names]) if columns else ())
        return None if old is None else self._codes.apply(old, self._key_tables())

    @property
    def _key_column_names(self) -> list[str]:
        return list(dict.fromkeys(name for names in self._node.keys for name in names))

    def _key_tables(self) -> list[pa.Table]:
        """Returns tables of keys that may have no events: their codes and values."""
        marks = None if self._keys is None else self._keys.substreams.complete_table()
        return [table for table in (marks, self._evaluations.known_keys) if table is not None]

    def _may_be_due(self) -> bool:
        """True if a window may be due. If False, events of earlier batches need not be read."""
        frontier, new, settings = self._item.frontiers.current, self._events.new, self._node.bolt.settings
        if settings.panes is not None or settings.idle_timeout is not None or self._keys is not None:
            return True
        if frontier is None:
            return False
        if frontier == FOREVER or self._evaluate_before or self._listed != self._node.list_of_keys:
            return True
        next_end = self._evaluations.next_end
        return (next_end is not None and next_end <= frontier) or (new is not None and int(new.times.min()) <= frontier)

    def _needed_old_events(self) -> RetainedEvents | None:
        return self._events.old.needed() if self._node.keeps_last_window else self._events.old.live()

    def _evaluate(self, events: RetainedEvents, old_count: int) -> Generator[Firing, None, NDArray[np.uint8]]:
        """Yields the due windows of these events, and returns their flags. The first ``old_count`` events are from
        earlier batches."""
        frontiers, run = self._item.frontiers, self._evaluations.run
        self._coded = events.keys
        flags = events.flags() & np.uint8(ACCOUNTED | FINISHED)
        last = LastFired(events, self._node.streams) if self._node.keeps_last_window else None
        after: int = NONE if frontiers.previous is None else frontiers.previous
        for index, limit in self._evaluate_before:
            upto = max(after, limit)
            flags = yield from run(EvaluationScope(events, old_count + index, after, upto, last), flags)
            yield from self._still_open()
            after = upto
        self._raise_floor(self._item.end.floor)
        flags = yield from run(EvaluationScope(events, len(events), after, frontiers.current, last), flags)
        yield from self._still_open()
        if frontiers.current == FOREVER and self._evaluations.last_end is not None:
            self._raise_floor(self._evaluations.last_end)
        return flags if last is None else flags | (last.flags() * np.uint8(IN_LAST_WINDOW))

    def _still_open(self) -> Iterator[StillOpen]:
        """Yields the windows that are still open, if their rows may be retracted."""
        if self._node.retracts and self._evaluations.open_panes is not None:
            yield StillOpen(self._evaluations.open_panes)

    def _raise_floor(self, floor: int) -> None:
        if self._keys is not None:
            self._keys.substreams.raise_floor(floor)


def _with_keys_only(events: RetainedEvents, node: WindowedNode) -> RetainedEvents:
    """Returns the events with only their keys as payload."""
    values = key_rows(events.payload, events.streams, node.keys)
    return RetainedEvents(times=events.times, payload=values, keys=events.keys)
