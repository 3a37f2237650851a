"""The window manager: applies an eviction and a trigger policy to the event queue of one bolt task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np

from manager.accounts import Accounts
from manager.event_queue import EventQueue, SettledEvents
from manager.storage.task_state import QueueState
from policies.protocol import EvictionPolicy, TriggerPolicy, is_custom
from policies.storm import ColumnarEvictionPolicy, ColumnarTriggerPolicy, DueWindows, QueueView
from windowing.errors import ConfigError
from windowing.events import Events
from windowing.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


class WindowManager:
    """Holds the events of one bolt task and yields its windows, in order, as time advances.

    The eviction policy chooses the events of a window, the trigger policy fires the window. ``advance`` takes the time
    of a ``WaterMarkEventGenerator`` or of the clock; ``FOREVER`` ends the streams. Iterate over all windows before you
    add further events. Callers leave out late events, and count events as received.

    ``streams``: the names of the input streams; the stream codes of events are indices into it. ``task``: the index of
    the task among the bolt's tasks. ``state``: the state of an earlier manager of the task, from ``snapshot``, which is
    copied; None: there is no earlier state.
    """

    def __init__(
        self,
        eviction: EvictionPolicy,
        trigger: TriggerPolicy,
        streams: Sequence[str] = ("default",),
        *,
        task: int = 0,
        state: QueueState | None = None,
    ) -> None:
        if is_custom(eviction) or is_custom(trigger):
            raise ConfigError(
                f"a WindowManager with {eviction!r} and {trigger!r}",
                why="it holds a queue in order of time, and decides on arrays as the built-in policies do",
                do="use PolicyWindows of manager.policy_windows, or give the policies to a bolt",
            )
        assert isinstance(eviction, ColumnarEvictionPolicy)
        assert isinstance(trigger, ColumnarTriggerPolicy)
        self.eviction, self.trigger, self.task = eviction, trigger, task
        self.accounts = Accounts(streams)
        self.queue = EventQueue(streams)
        self.state = QueueState() if state is None else deepcopy(state)
        self.queue.base = self.state.base
        self.dropped = (0, 0)
        """The number of events that the last evaluation dropped, and the time of the last dropped event in
        microseconds."""

    def restore(self, parts: Sequence[Events]) -> None:
        """Add the events of the earlier manager, in order of arrival; ``state`` is the state of that manager."""
        self.queue.restore(parts)

    def resettle(self) -> None:
        """Settle the restored events that were settled in the earlier manager, without evaluating windows."""
        if self.state.settled_count:
            self.queue.settle_first(self.state.settled_count)

    def add(self, events: Events) -> None:
        """Add events, which arrived after all earlier ones; the caller has left out late events."""
        self.queue.add(events)

    def advance(self, frontier: int | None, latest: int = -FOREVER) -> Iterator[TupleWindow]:
        """Yields, in order, the windows that are due when no further event can come up to the frontier (microseconds);
        nothing for None or for a frontier before the last one.

        ``latest``: at the end of the streams, the latest time that any task of the bolt has reached. Events that no
        window after this time can hold are counted as unwindowed.
        """
        state = self.state
        if frontier is None or (state.previous_frontier is not None and frontier < state.previous_frontier):
            return
        self.queue.settle(frontier)
        # Settled events stay before events of equal time that arrive later.
        settled = self.queue.settled_view()
        view = self._view(settled, frontier, latest)
        for firings in self.trigger.firings(view, self.eviction.reach):
            yield from self._fire(view, settled, firings)
        self._retire(view, settled)
        state.settled_count = self.queue.settled_count
        state.previous_frontier = frontier if frontier != FOREVER else self._frontier_after_close(view)

    @property
    def pending(self) -> list[int]:
        """For each stream, the number of events that have been in no window and may still be in one."""
        count = len(self.queue.stream_names)
        waiting = sum((events.by_stream(count) for events in self.queue.waiting_events), np.zeros(count, np.int64))
        return [int(n) for n in waiting + self._unaccounted(self.queue.settled_view(), self.queue.settled_count)]

    def pending_events(self) -> list[Events]:
        """Returns the pending events: settled events in order, then the others in order of arrival."""
        settled = self.queue.settled_view()
        return [*settled.pieces(self.state.accounted, len(settled.times)), *self.queue.waiting_events]

    def live_events(self) -> list[Events]:
        """Returns the events that a window may still hold."""
        state, settled = self.state, self.queue.settled_view()
        start = 0
        if state.previous_frontier is not None:
            start = self._count_expired(self._view(settled, state.previous_frontier))
        return [*settled.pieces(start, len(settled.times)), *self.queue.waiting_events]

    def settled_events(self, start: int) -> Events | None:
        """Returns the settled events in the queue from position ``start`` on, in order; None if there are none.

        Events are stored in this order, so that they are sorted only once.
        """
        pieces = self.queue.settled_view().pieces(start, self.queue.settled_count)
        return Events.concat(pieces) if pieces else None

    def snapshot(self) -> QueueState:
        """Returns the state to store, with the events of the queue, for a later manager."""
        self.state.base = self.queue.base
        return self.state

    def _view(self, settled: SettledEvents, frontier: int, latest: int = -FOREVER) -> QueueView:
        """Returns the settled events at a frontier (microseconds) in the form that policies take."""
        state = self.state
        return QueueView(
            timestamps=settled.times,
            base=self.queue.base,
            already_settled=state.settled_count,
            accounted=state.accounted,
            previous_frontier=state.previous_frontier,
            frontier=frontier,
            latest=latest,
        )

    def _fire(self, view: QueueView, settled: SettledEvents, firings: DueWindows) -> Iterator[TupleWindow]:
        starts = self.eviction.starts(view.timestamps, firings.ends, firings.stops)
        for reference, start, stop in zip(firings.ends.tolist(), starts.tolist(), firings.stops.tolist(), strict=True):
            if start < stop:
                yield self._window(settled, reference, start, stop)

    def _window(self, settled: SettledEvents, reference: int, start: int, stop: int) -> TupleWindow:
        state = self.state
        previous_start, previous_stop = state.previous or (start, start)
        state.previous, state.last_reference = [start, stop], reference
        self._account(settled, start, stop)
        members = range(start, stop)
        new = range(min(max(start, previous_stop), stop), stop)
        expired = range(previous_start, max(previous_start, min(previous_stop, start)))
        window_start = self.eviction.window_start(reference)
        return TupleWindow(
            settled, members, new, expired, start_timestamp=window_start, end_timestamp=reference, task=self.task
        )

    def _account(self, settled: SettledEvents, start: int, stop: int) -> None:
        """Count events after a window from ``start`` to ``stop`` has fired: its events are windowed, and earlier
        events that have been in no window are unwindowed."""
        accounted = self.state.accounted
        if start > accounted:
            self.accounts.add("unwindowed", self._count(settled, accounted, start))
        if stop > max(start, accounted):
            self.accounts.add("windowed", self._count(settled, max(start, accounted), stop))
        self.state.accounted = max(accounted, stop)

    def _retire(self, view: QueueView, settled: SettledEvents) -> None:
        """Count events that no later window can hold, and drop events that are no longer needed."""
        state = self.state
        expired = self._count_expired(view)
        if expired > state.accounted:
            self.accounts.add("unwindowed", self._count(settled, state.accounted, expired))
            state.accounted = expired
        dropped = expired if state.previous is None else min(expired, state.previous[0])
        self.drop(dropped)

    def _count_expired(self, view: QueueView) -> int:
        """Returns the number of events at the head of the queue that no later window can hold."""
        reference, stop = self.trigger.next_firing(view)
        needed_from = self.eviction.starts(view.timestamps, np.array([reference]), np.array([stop]))
        return min(int(needed_from[0]), len(view.timestamps))

    def drop(self, count: int) -> None:
        """Drop the first ``count`` events of the queue."""
        self.dropped = (count, int(self.queue.timestamps[count - 1]) if count else 0)
        if not count:
            return
        self.queue.drop(count)
        self.state.accounted = max(self.state.accounted - count, 0)
        if self.state.previous is not None:
            self.state.previous = [position - count for position in self.state.previous]

    def _unaccounted(self, settled: SettledEvents, count: int) -> NDArray[np.int64]:
        return self._count(settled, self.state.accounted, count)

    def _count(self, settled: SettledEvents, start: int, stop: int) -> NDArray[np.int64]:
        count = len(self.queue.stream_names)
        if count == 1 and not settled.weighted:
            return np.array([stop - start])
        total = np.zeros(count, np.int64)
        for piece in settled.pieces(start, stop):
            total += piece.by_stream(count)
        return total

    def _frontier_after_close(self, view: QueueView) -> int | None:
        """Returns the frontier from which a later run continues after the end of the streams, in microseconds; None if
        there has been no event."""
        fired = None if self.state.last_reference is None else self.trigger.due_at(self.state.last_reference)
        moments = [view.previous_frontier, fired, int(view.timestamps[-1]) if len(view.timestamps) else None]
        return max((moment for moment in moments if moment is not None), default=None)
