"""The window manager: combines an eviction and a trigger policy over the queue of one bolt task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.accounts import Accounts
from manager.queue.event_queue import EventQueue, Settled
from manager.queue.event_windows import EventByEvent
from manager.queue.manager_state import ManagerState
from policies.eviction import ColumnarEvictionPolicy, EvictionPolicy, decides_on_columns
from policies.queue_view import Firings, QueueView
from policies.trigger import ColumnarTriggerPolicy, TriggerPolicy, fires_on_columns, next_firing
from windowing.events import Events
from windowing.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


class WindowManager:
    """Holds the events of one bolt task and yields its windows, in order, as time moves on.

    Usable on its own: ``add`` events, then iterate over ``advance(frontier)``; every event up to the frontier is
    final. The iterator must be used up before anything else is added.

    ``streams`` names the input streams; stream codes of events are places in it.
    """

    def __init__(
        self,
        eviction: EvictionPolicy,
        trigger: TriggerPolicy,
        streams: Sequence[str] = ("default",),
        *,
        task: int = 0,
        state: ManagerState | None = None,
    ) -> None:
        self.eviction, self.trigger, self.task = eviction, trigger, task
        self.accounts = Accounts(streams)
        self.queue = EventQueue(streams)
        self.state = state or ManagerState()
        self.queue.base = self.state.base
        self.dropped = (0, 0)
        """How many events the last evaluation dropped, and the time of the last of them in microseconds."""
        self._by_event = None
        if not (isinstance(eviction, ColumnarEvictionPolicy) and decides_on_columns(eviction, "starts", "evict")):
            self._by_event = EventByEvent(eviction, trigger, self.state, self.queue, self.accounts, task)
        self._trigger_by_event = not fires_on_columns(trigger)

    def add(
        self,
        events: Events | pa.RecordBatch | pa.Table,
        timestamps: NDArray[np.int64] | None = None,
        stream: str | None = None,
    ) -> None:
        """Take in events that are not late: ``Events``, or a payload with its times (int64 microseconds)."""
        if not isinstance(events, Events):
            events = self._as_events(events, timestamps, stream)
        self.accounts.add("received", events.by_stream(len(self.queue.stream_names)))
        self.queue.add(events)

    def restore(self, parts: Sequence[Events]) -> None:
        """Take back events that an earlier manager of this task held when ``state`` was taken, in order of arrival."""
        self.queue.restore(parts)

    def resume(self) -> None:
        """Put restored events back in the place that they had, without evaluating anything."""
        if self.state.settled:
            self.queue.settle_first(self.state.settled)

    def advance_watermark(self, watermark: int) -> Iterator[TupleWindow]:
        """The windows that are due at a watermark (microseconds); for triggers that follow event time."""
        return self.advance(self.trigger.frontier(watermark, watermark))

    def advance_clock(self, clock: int) -> Iterator[TupleWindow]:
        """The windows that are due now, at this clock (microseconds); for triggers that follow the clock."""
        return self.advance(self.trigger.frontier(clock, None))

    def close(self) -> Iterator[TupleWindow]:
        """The windows that are still open, at the end of the streams; an incomplete count fires nothing."""
        return self.advance(FOREVER)

    def advance(self, frontier: int | None) -> Iterator[TupleWindow]:
        """The windows that are due when every event up to the frontier (microseconds) is final, in order."""
        state = self.state
        if frontier is None or (state.passed is not None and frontier < state.passed):
            return
        self.queue.settle(frontier)
        # Events of an equal time that came after the last evaluation sort behind those that it had settled.
        look = self.queue.look()
        view = QueueView(look.times, self.queue.base, state.settled, state.decided, state.passed, frontier, look.row)
        for firings in self._firings(view):
            yield from self._fire(view, look, firings)
        self._retire(view, look)
        state.settled = self.queue.settled
        state.passed = frontier if frontier != FOREVER else self._end_of_time(view)

    @property
    def pending(self) -> list[int]:
        """Per stream, the events that are in no window yet and may still be in one."""
        count = len(self.queue.stream_names)
        waiting = sum((part.by_stream(count) for part in self.queue.waiting_events), np.zeros(count, np.int64))
        return [int(n) for n in waiting + self._undecided(self.queue.look(), self.queue.settled)]

    def pending_events(self) -> list[Events]:
        """The pending events themselves: the settled ones in order, then the others by arrival."""
        look = self.queue.look()
        if self._by_event:
            settled = Events.concat(look.pieces(0, len(look.times))) if len(look.times) else None
            undecided = self._by_event.undecided(len(look.times))
            return [*([settled.take(undecided)] if settled else []), *self.queue.waiting_events]
        return [*look.pieces(self.state.decided, len(look.times)), *self.queue.waiting_events]

    def needed_events(self) -> list[Events]:
        """The events that a window may still need: without those that only tell what has expired."""
        state, look = self.state, self.queue.look()
        start = 0
        if state.passed is not None:
            start = self._dead(
                QueueView(
                    look.times, self.queue.base, state.settled, state.decided, state.passed, state.passed, look.row
                )
            )
        return [*look.pieces(start, len(look.times)), *self.queue.waiting_events]

    def settled_events(self, start: int) -> Events | None:
        """The settled events that are still needed, in order, without so many of the first; None where there are none.

        Whoever keeps the events keeps them like this, so that they are put in order once and not in each evaluation.
        """
        pieces = self.queue.look().pieces(start, self.queue.settled)
        return Events.concat(pieces) if pieces else None

    def snapshot(self) -> ManagerState:
        """What must be kept, with the queue's events, to go on later."""
        self.state.base = self.queue.base
        if self._by_event:
            self.state.marks = self._by_event.marks()
        return self.state

    def _firings(self, view: QueueView) -> Iterator[Firings]:
        trigger = self.trigger
        if not self._trigger_by_event:
            assert isinstance(trigger, ColumnarTriggerPolicy)
            yield from trigger.firings(view, self.eviction.reach)
            return
        for position in range(view.settled, len(view.timestamps)):
            if trigger.track(view.event(position), self.state.trigger):
                yield Firings(view.timestamps[position : position + 1], np.array([position + 1]))

    def _fire(self, view: QueueView, look: Settled, firings: Firings) -> Iterator[TupleWindow]:
        if self._by_event:
            for reference, stop in zip(firings.references.tolist(), firings.stops.tolist(), strict=True):
                yield from self._by_event.fire(view, look, reference, stop)
            return
        assert isinstance(self.eviction, ColumnarEvictionPolicy)
        starts = self.eviction.starts(view.timestamps, firings.references, firings.stops)
        for reference, start, stop in zip(
            firings.references.tolist(), starts.tolist(), firings.stops.tolist(), strict=True
        ):
            if start < stop:
                yield self._window(look, reference, start, stop)

    def _window(self, look: Settled, reference: int, start: int, stop: int) -> TupleWindow:
        state = self.state
        before, after = state.previous or (start, start)
        state.previous, state.last_reference = [start, stop], reference
        self._decide(look, start, stop)
        return TupleWindow(
            look,
            range(start, stop),
            range(min(max(start, after), stop), stop),
            range(before, max(before, min(after, start))),
            self.eviction.window_start(reference),
            reference,
            self.task,
        )

    def _decide(self, look: Settled, start: int, stop: int) -> None:
        """A window from start to stop has fired: what lies before it and was in none will be in none."""
        decided = self.state.decided
        if start > decided:
            self.accounts.add("unwindowed", self._count(look, decided, start))
        if stop > max(start, decided):
            self.accounts.add("windowed", self._count(look, max(start, decided), stop))
        self.state.decided = max(decided, stop)

    def _retire(self, view: QueueView, look: Settled) -> None:
        """Account for what no later window can hold, and drop what nobody will ask for again."""
        state = self.state
        if self._by_event:
            gone = self._by_event.retire()
            self.drop(gone)
            self._by_event.drop(gone)
            return
        dead = self._dead(view)
        if dead > state.decided:
            self.accounts.add("unwindowed", self._count(look, state.decided, dead))
            state.decided = dead
        keep = dead if state.previous is None else min(dead, state.previous[0])
        self.drop(keep)

    def _dead(self, view: QueueView) -> int:
        """So many events, the first in order, can be in no later window."""
        reference, stop = next_firing(self.trigger, view)
        assert isinstance(self.eviction, ColumnarEvictionPolicy)
        needed = self.eviction.starts(view.timestamps, np.array([reference]), np.array([stop]))
        return min(int(needed[0]), len(view.timestamps))

    def drop(self, count: int) -> None:
        """Forget the first events of the queue."""
        self.dropped = (count, int(self.queue.timestamps[count - 1]) if count else 0)
        if not count:
            return
        self.queue.drop(count)
        self.state.decided = max(self.state.decided - count, 0)
        if self.state.previous is not None:
            self.state.previous = [position - count for position in self.state.previous]

    def _undecided(self, look: Settled, settled: int) -> NDArray[np.int64]:
        if self._by_event:
            codes = look.streams(range(settled))[self._by_event.undecided(settled)]
            return np.bincount(codes, minlength=len(self.queue.stream_names))
        return self._count(look, self.state.decided, settled)

    def _count(self, look: Settled, start: int, stop: int) -> NDArray[np.int64]:
        count = len(self.queue.stream_names)
        if count == 1 and not look.weighted:
            return np.array([stop - start])
        total = np.zeros(count, np.int64)
        for piece in look.pieces(start, stop):
            total += piece.by_stream(count)
        return total

    def _end_of_time(self, view: QueueView) -> int | None:
        """After the end of the streams: as far as time has come, so that a later run can go on from there."""
        fired = None if self.state.last_reference is None else self.trigger.over_at(self.state.last_reference)
        known = [view.passed, fired, int(view.timestamps[-1]) if len(view.timestamps) else None]
        return max((moment for moment in known if moment is not None), default=None)

    def _as_events(
        self, payload: pa.RecordBatch | pa.Table, timestamps: NDArray[np.int64] | None, stream: str | None
    ) -> Events:
        if isinstance(payload, pa.Table):
            batches = payload.combine_chunks().to_batches()
            payload = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=payload.schema)
        if timestamps is None:
            raise TypeError("add(payload, timestamps): the times of the events are missing, int64 microseconds")
        code = 0 if stream is None else self.queue.stream_names.index(stream)
        streams = None if len(self.queue.stream_names) == 1 else np.full(len(timestamps), code, np.int8)
        return Events(np.asarray(timestamps, np.int64), payload, streams)
