"""Windows of an eviction policy that decides event by event: arbitrary sets of events, not runs of the queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from policies.eviction_actions import EvictionAction, EvictionContext
from policies.trigger import TimeTriggerPolicy, fires_on_columns
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manager.accounts import Accounts
    from manager.queue.event_queue import EventQueue, SettledEvents
    from manager.queue.queue_state import QueueState
    from policies.eviction import EvictionPolicy
    from policies.queue_view import QueueView
    from policies.trigger import TriggerPolicy


class EventByEvent:
    """Asks the policy about every event at every firing, and remembers its decisions. Slow but general."""

    def __init__(
        self,
        eviction: EvictionPolicy,
        trigger: TriggerPolicy,
        state: QueueState,
        queue: EventQueue,
        accounts: Accounts,
        task: int,
    ) -> None:
        """``state``, ``queue`` and ``accounts`` are those of the manager that owns these windows. The state and the
        accounts are updated in place, the queue is only read."""
        self.eviction, self.state, self.queue, self.accounts, self.task = eviction, state, queue, accounts, task
        self._at_ends = isinstance(trigger, TimeTriggerPolicy) and fires_on_columns(trigger)
        self._seen = set(state.flags.get("seen", ()))  # positions that have been in a window
        self._gone = set(state.flags.get("gone", ()))  # positions that the policy has expired

    def fire(self, view: QueueView, settled: SettledEvents, reference: int, stop: int) -> Iterator[TupleWindow]:
        """Yield the window at a reference (microseconds) if it holds an event, and a new one where that is required."""
        members = self._members(view, settled, reference, stop)
        asks_for_news = self._at_ends and self.eviction.reach is None
        if not members or (asks_for_news and self._seen.issuperset(members)):
            return
        fresh = [position for position in members if position not in self._seen]
        self._account(settled, "windowed", fresh)
        self._seen.update(fresh)
        previous = self.state.previous or []
        self.state.previous = members
        self.state.last_reference = reference
        yield TupleWindow(
            settled,
            members=np.array(members),
            new=np.setdiff1d(members, previous).astype(np.int64),
            expired=np.setdiff1d(previous, members).astype(np.int64),
            start_timestamp=self.eviction.window_start(reference),
            end_timestamp=reference,
            task=self.task,
        )

    def retire(self) -> int:
        """Number of expired events at the head of the queue that nothing needs any more."""
        wanted = set(self.state.previous or ())
        count = 0
        while count in self._gone and count not in wanted:
            count += 1
        return count

    def drop(self, count: int) -> None:
        """Called after the first ``count`` events have left the queue."""
        self._seen = {position - count for position in self._seen if position >= count}
        self._gone = {position - count for position in self._gone if position >= count}
        unaccounted = self.unaccounted(self.queue.settled_count)
        self.state.accounted = int(unaccounted[0]) if len(unaccounted) else self.queue.settled_count

    def unaccounted(self, settled: int) -> NDArray[np.int64]:
        """The positions of settled events that have been in no window and may still be in one."""
        return np.array([p for p in range(settled) if p not in self._seen and p not in self._gone], np.int64)

    def flags(self) -> dict[str, list[int]]:
        """The flags to store in the state, as lists of positions."""
        return {"seen": sorted(self._seen), "gone": sorted(self._gone)}

    def _members(self, view: QueueView, settled: SettledEvents, reference: int, stop: int) -> list[int]:
        alive = [position for position in range(len(view.timestamps)) if position not in self._gone]
        context = EvictionContext(reference, sum(position < stop for position in alive))
        members: list[int] = []
        expired: list[int] = []
        for index, position in enumerate(alive):
            match self.eviction.evict(view.event(position, index), context):
                case EvictionAction.PROCESS:
                    members.append(position)
                case EvictionAction.EXPIRE:
                    expired.append(position)
                case EvictionAction.STOP:
                    break
                case EvictionAction.KEEP:
                    pass
        self._account(settled, "unwindowed", [p for p in expired if p not in self._seen])
        self._gone.update(expired)
        return members

    def _account(self, settled: SettledEvents, account: str, positions: list[int]) -> None:
        if positions:
            codes = settled.streams(np.array(positions))
            self.accounts.add(account, np.bincount(codes, minlength=len(self.queue.stream_names)))
